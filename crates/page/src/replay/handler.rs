//! The server's side of a replay: every response of the page, ready in memory, and sent after its think time.
//! [`answers`] gives the same responses to other servers.
//!
//! Equal requests may have different responses: a redirect from `http` to `https` and the page itself, or a poll. Each gets
//! the next one, the last one from then on. A request for the page begins another load, and so starts again with the
//! first ones.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts};

use super::{
    conditional::{NotModified, renew},
    nearest::Index,
};
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
    index: Index,
    /// By group of equal requests.
    groups: Vec<Group>,
    /// The groups with several responses.
    several: Vec<usize>,
}

/// The responses to equal requests, in the order of the spec.
#[derive(Debug, Default)]
struct Group {
    answers: Vec<Answer>,
    /// The number of requests in this load.
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
        let (requests, group_of) = Index::new(spec);
        let mut groups: Vec<Group> = std::iter::repeat_with(Group::default).take(requests.groups()).collect();
        for (index, (request, response)) in answers(spec).enumerate() {
            groups[group_of[index]].answers.push(Answer::new(index, &request.method, response));
        }
        let several = (0..groups.len()).filter(|group| groups[*group].answers.len() > 1).collect();
        Ok(Self { index: requests, groups, several })
    }

    /// The response to a request; the one with index `which` if there are several.
    fn find(&self, host: &str, target: &str, method: &str, which: Option<&[u8]>) -> Option<&Answer> {
        let found = self.index.find(host, target, method)?;
        let Group { answers, turn } = &self.groups[found.group];
        let meant = which.and_then(|which| str::from_utf8(which).ok()?.parse::<usize>().ok());
        if let Some(meant) = meant.and_then(|index| answers.iter().find(|answer| answer.index == index)) {
            return Some(meant);
        }
        let is_page = found.group == 0;
        let turn = match answers.len() {
            1 => 0,
            // The page itself, again from the first one.
            count if is_page => turn.fetch_add(1, Ordering::Relaxed) % count,
            count => turn.fetch_add(1, Ordering::Relaxed).min(count - 1),
        };
        if is_page && turn == 0 {
            for group in self.several.iter().filter(|group| **group != 0) {
                self.groups[*group].turn.store(0, Ordering::Relaxed);
            }
        }
        answers.get(turn)
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
