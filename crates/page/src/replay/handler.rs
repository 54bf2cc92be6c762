//! The server's side of a replay: every response of the page, ready in memory, and sent after its think time. [`answers`] gives the same responses to
//! other servers.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts};

use super::conditional::{NotModified, renew};
use crate::{Request, Spec};

/// The maximum number of body bytes in memory.
const MAX_READY: u64 = 1 << 30;

/// A request's header field with its index in the spec, to distinguish otherwise equal requests. Other requests do not
/// have it.
pub const WHICH: HeaderName = HeaderName::from_static("x-which");

/// All requests of a page with their responses, in the order of the spec, as if they were sent now.
pub fn answers(spec: &Spec) -> impl Iterator<Item = (&Request, Response<Bytes>)> {
    let now = chrono::DateTime::from(SystemTime::now());
    spec.requests.iter().enumerate().map(move |(index, request)| {
        let mut recorded = request.response.clone();
        // Without a date, a server would add its own.
        renew(&mut recorded.headers, now);
        let mut response = Response::new(spec.body(index));
        *response.status_mut() = recorded.status;
        *response.headers_mut() = recorded.fields(&request.host);
        if !recorded.think.is_zero() {
            response.extensions_mut().insert(serve::Delay(recorded.think));
        }
        (request, response)
    })
}

/// The responses of all hosts of a page.
#[derive(Debug)]
pub struct PageHandler {
    /// By host, in lower case, then by path.
    hosts: HashMap<String, HashMap<String, Vec<(Method, Known)>>>,
}

/// The responses to equal requests, in the order of the spec.
#[derive(Debug, Default)]
struct Known {
    answers: Vec<Answer>,
    turn: AtomicUsize,
}

/// A response, as a value and as HTTP/1.1 bytes.
#[derive(Debug)]
struct Answer {
    /// Its index in the spec.
    index: usize,
    response: Response<Bytes>,
    ready: serve::PreparedResponse,
    /// What a client gets that has it already.
    unchanged: Option<(NotModified, serve::PreparedResponse)>,
}

impl Answer {
    fn new(index: usize, method: &Method, response: Response<Bytes>) -> Self {
        let ready = written(method, &response);
        let unchanged = NotModified::of(method, &response).map(|unchanged| {
            let ready = written(method, &unchanged.response);
            (unchanged, ready)
        });
        Self { index, response, ready, unchanged }
    }

    /// The response to a request with these fields.
    fn to<'a>(&self, field: impl Fn(&HeaderName) -> Option<&'a [u8]>) -> (&Response<Bytes>, &serve::PreparedResponse) {
        match &self.unchanged {
            Some((unchanged, ready)) if unchanged.fits(field) => (&unchanged.response, ready),
            _ => (&self.response, &self.ready),
        }
    }
}

/// A page that does not fit into memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the bodies of page `{page}` have {bytes} bytes; a replay keeps at most {MAX_READY} in memory")]
pub struct TooLarge {
    page: String,
    bytes: u64,
}

impl PageHandler {
    /// Prepares all responses of a page.
    pub fn new(spec: &Spec) -> Result<Self, TooLarge> {
        let bytes = spec.requests.iter().map(|request| request.response.body.len()).fold(0, u64::saturating_add);
        if bytes > MAX_READY {
            return Err(TooLarge { page: spec.name.clone(), bytes });
        }
        let mut hosts: HashMap<String, HashMap<String, Vec<(Method, Known)>>> = HashMap::new();
        for (index, (request, response)) in answers(spec).enumerate() {
            let paths = hosts.entry(request.host.to_ascii_lowercase()).or_default();
            let methods = paths.entry(request.path.clone()).or_default();
            let at = methods.iter().position(|(method, _)| *method == request.method).unwrap_or_else(|| {
                methods.push((request.method.clone(), Known::default()));
                methods.len() - 1
            });
            methods[at].1.answers.push(Answer::new(index, &request.method, response));
        }
        Ok(Self { hosts })
    }

    /// The response to a request; the one with index `which` if there are several.
    fn find(&self, host: &str, target: &str, method: &str, which: Option<&[u8]>) -> Option<&Answer> {
        let paths = self.hosts.get(host).or_else(|| self.hosts.get(&host.to_ascii_lowercase())).or_else(|| {
            // A page recorded at its scheme's port may be served at another one.
            self.hosts.get(&host.rsplit_once(':')?.0.to_ascii_lowercase())
        })?;
        let Known { answers, turn } = &paths.get(target)?.iter().find(|(asked, _)| asked == method)?.1;
        let meant = which.and_then(|which| str::from_utf8(which).ok()?.parse::<usize>().ok());
        let meant = meant.and_then(|index| answers.iter().find(|answer| answer.index == index));
        let in_turn = || match &answers[..] {
            [only] => only,
            several => &several[turn.fetch_add(1, Ordering::Relaxed) % several.len()],
        };
        Some(meant.unwrap_or_else(in_turn))
    }
}

/// A response as HTTP/1.1 bytes.
fn written(method: &Method, response: &Response<Bytes>) -> serve::PreparedResponse {
    let status = response.status();
    let mut head =
        format!("HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or_default()).into_bytes();
    for (name, value) in response.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    // RFC 9112 §6.3: these never have a body.
    let bare = method == Method::HEAD || matches!(status.as_u16(), 204 | 304);
    let body = if bare { Bytes::new() } else { response.body().clone() };
    let delay = response.extensions().get().map_or(Duration::ZERO, |serve::Delay(time)| *time);
    serve::PreparedResponse { status, head: head.into(), body, delay }
}

impl serve::Responder for PageHandler {
    fn respond(&self, request: &Parts) -> Response<Bytes> {
        // An absolute request target overrides Host (RFC 9112 §3.2.2); HTTP/2 and HTTP/3 have only the former.
        let host = match request.uri.authority() {
            Some(authority) => authority.as_str(),
            None => request.headers.get(header::HOST).map_or("", |host| host.to_str().unwrap_or_default()),
        };
        let target = request.uri.path_and_query().map_or("/", |path| path.as_str());
        let which = request.headers.get(WHICH).map(HeaderValue::as_bytes);
        let field = |name: &HeaderName| request.headers.get(name).map(HeaderValue::as_bytes);
        self.find(host, target, request.method.as_str(), which)
            .map_or_else(missing, |answer| answer.to(field).0.clone())
    }

    fn prepared(&self, request: &serve::SimpleRequest<'_>) -> Option<serve::PreparedResponse> {
        let found = self.find(request.host, request.target, request.method, request.field(WHICH.as_str()));
        found.map(|answer| answer.to(|name| request.field(name.as_str())).1.clone())
    }
}

fn missing() -> Response<Bytes> {
    let mut missing = Response::new(Bytes::from_static(b"Not part of this page.\n"));
    *missing.status_mut() = StatusCode::NOT_FOUND;
    missing
}
