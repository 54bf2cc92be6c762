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

/// The pages' hosts with all they answer.
#[derive(Debug)]
pub struct Site {
    answers: HashMap<Asked, Ready>,
}

/// What tells one question from another.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Asked {
    host: String,
    path: String,
    method: Method,
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
        let mut answers: HashMap<Asked, Ready> = HashMap::new();
        for (place, request) in spec.requests.iter().enumerate() {
            let asked = Asked {
                host: request.host.to_ascii_lowercase(),
                path: request.path.clone(),
                method: request.method.clone(),
            };
            let mut recorded = request.response.clone();
            // Part of the recorded head, or the server would add its own to it.
            recorded.headers.entry(header::DATE).or_insert(HeaderValue::from_static("Mon, 18 Feb 2013 12:00:00 GMT"));
            let mut response = Response::new(recorded.body.part(0, usize::MAX));
            *response.status_mut() = recorded.status;
            *response.headers_mut() = recorded.fields(&request.host);
            answers.entry(asked).or_default().answers.push((place, response));
        }
        Ok(Self { answers })
    }
}

impl serve::Answers for Site {
    fn answer(&self, request: &Parts) -> Response<Bytes> {
        // What an absolute request target says goes before Host (RFC 9112 §3.2.2); HTTP/2 and HTTP/3 have only that.
        let host = match request.uri.authority() {
            Some(authority) => authority.as_str(),
            None => request.headers.get(header::HOST).map_or("", |host| host.to_str().unwrap_or_default()),
        };
        let asked = Asked {
            host: host.to_ascii_lowercase(),
            path: request.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            method: request.method.clone(),
        };
        let ready = self.answers.get(&asked).or_else(|| {
            // A page that was recorded at a port of its own is served at another.
            let host = asked.host.rsplit_once(':')?.0.to_owned();
            self.answers.get(&Asked { host, ..asked })
        });
        let Some(ready) = ready else {
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
