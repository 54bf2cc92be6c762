//! The server's side of a page: every answer, ready.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts};

use crate::Spec;

/// The most bytes of bodies that are kept ready.
const MOST: u64 = 1 << 30;

/// Which of several answers to the same question is meant: its place in the spec. Only where there are several.
pub(super) const WHICH: HeaderName = HeaderName::from_static("x-which");

/// The page's hosts with all they answer.
#[derive(Debug)]
pub struct Site {
    /// By host, in lower case, then by path.
    hosts: HashMap<String, HashMap<String, Vec<(Method, Ready)>>>,
}

/// The answers to one question, in the order of the spec, with their places in it.
#[derive(Debug, Default)]
struct Ready {
    answers: Vec<(usize, Response<Bytes>)>,
    turn: AtomicUsize,
}

/// A page that does not fit into memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the bodies of the page {page} have {bytes} bytes together, more than the {MOST} that a replay keeps ready")]
pub struct TooLarge {
    page: String,
    bytes: u64,
}

impl Site {
    /// Makes every answer of a page.
    pub fn new(spec: &Spec) -> Result<Self, TooLarge> {
        let bytes = spec.requests.iter().map(|request| request.response.body.len()).fold(0, u64::saturating_add);
        if bytes > MOST {
            return Err(TooLarge { page: spec.name.clone(), bytes });
        }
        let mut hosts: HashMap<String, HashMap<String, Vec<(Method, Ready)>>> = HashMap::new();
        for (place, request) in spec.requests.iter().enumerate() {
            let mut recorded = request.response.clone();
            // Part of the recorded head, or the server would add its own to it.
            recorded.headers.entry(header::DATE).or_insert(HeaderValue::from_static("Mon, 18 Feb 2013 12:00:00 GMT"));
            let mut response = Response::new(recorded.body.part(0, usize::MAX));
            *response.status_mut() = recorded.status;
            *response.headers_mut() = recorded.fields(&request.host);
            let paths = hosts.entry(request.host.to_ascii_lowercase()).or_default();
            let methods = paths.entry(request.path.clone()).or_default();
            let at = methods.iter().position(|(method, _)| *method == request.method).unwrap_or_else(|| {
                methods.push((request.method.clone(), Ready::default()));
                methods.len() - 1
            });
            methods[at].1.answers.push((place, response));
        }
        Ok(Self { hosts })
    }

    fn ready(&self, host: &str, path: &str, method: &Method) -> Option<&Ready> {
        let paths = self.hosts.get(host).or_else(|| self.hosts.get(&host.to_ascii_lowercase())).or_else(|| {
            // A page that was recorded at a port of its scheme's is served at another.
            self.hosts.get(&host.rsplit_once(':')?.0.to_ascii_lowercase())
        })?;
        paths.get(path)?.iter().find(|(asked, _)| asked == method).map(|(_, ready)| ready)
    }
}

impl serve::Answers for Site {
    fn answer(&self, request: &Parts) -> Response<Bytes> {
        // What an absolute request target says goes before Host (RFC 9112 §3.2.2); HTTP/2 and HTTP/3 have only that.
        let host = match request.uri.authority() {
            Some(authority) => authority.as_str(),
            None => request.headers.get(header::HOST).map_or("", |host| host.to_str().unwrap_or_default()),
        };
        let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
        let Some(ready) = self.ready(host, path, &request.method) else {
            let mut missing = Response::new(Bytes::from_static(b"The page does not have this.\n"));
            *missing.status_mut() = StatusCode::NOT_FOUND;
            return missing;
        };
        let meant = request.headers.get(WHICH).and_then(|place| place.to_str().ok()?.parse::<usize>().ok());
        let meant = meant.and_then(|place| ready.answers.iter().find(|(at, _)| *at == place));
        let turn = || &ready.answers[ready.turn.fetch_add(1, Ordering::Relaxed) % ready.answers.len()];
        meant.unwrap_or_else(turn).1.clone()
    }
}
