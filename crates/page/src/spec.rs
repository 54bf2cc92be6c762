//! The spec: one page load, as a file.
//!
//! TOML for people and JSON of the same shape for programs:
//!
//! ```toml
//! schema = "longhaul.page/1"
//! title = "A page with a picture"
//!
//! [[request]]
//! id = "page"
//! host = "www.example.org"
//! path = "/"
//! connection = 0
//! head = 420
//! response = { type = "text/html", head = 300, body = 12000 }
//!
//! [[request]]
//! id = "picture"
//! host = "www.example.org"
//! path = "/picture.jpg"
//! connection = 1
//! after = [{ head = "page", bytes = 4000 }]
//! compute = "5ms"
//! response = { type = "image/jpeg", body = 40000 }
//! ```
//!
//! A request is sent when everything it is `after` has come and `compute` has passed: the first bytes of a response
//! (`head`, 4000 of them unless `bytes` says otherwise, of its head and body together), or all of it (`end`). Where
//! `connection` is given, requests with the same number went over one connection, one after another, in the file's
//! order; where it is not, any connection may take it. Sizes of heads are those of HTTP/1.1. The server sends a response
//! after its `think` time.
//!
//! A body is a number of bytes (`body = 12000`, synthesised), a `text`, or a `file` beside the spec.

mod check;
mod error;
mod file;
mod write;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::{DateTime, Utc};
use http::{HeaderMap, Method, StatusCode};

use crate::body::Body;

pub(crate) use check::{host as checked_host, is_ours, path as checked_path};
pub use error::SpecError;

/// The schema.
pub const SCHEMA: &str = "longhaul.page/1";

/// The maximum number of requests of a page.
pub const MAX_REQUESTS: usize = 20_000;

/// The maximum size of a head, in bytes.
pub const MAX_HEAD: u32 = 256 << 10;

/// The maximum size of a body, in bytes.
pub const MAX_BODY: u64 = 1 << 40;

/// The maximum size of a spec's text, and of all kept bodies together, in bytes.
pub const MAX_KEPT: u64 = 1 << 30;

/// The default number of bytes in a dependency on a head, as in the manifests of 2013.
pub const HEAD_BYTES: u64 = 4000;

/// One page load. It has been checked: dependencies refer to requests of the spec, and no request waits for itself,
/// through dependencies or the order on its connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The file's name without its ending.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its source, and assumptions.
    pub source: Option<String>,
    /// When it was recorded, to the millisecond. In a browser's replay, `Date` begins at this time.
    pub recorded_at: Option<DateTime<Utc>>,
    /// The computation time between the last script or document that the `load` event waits for and the event.
    pub compute: Duration,
    /// The requests, in the order of the file.
    pub requests: Vec<Request>,
}

/// A request of a page load, with its response.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its unique id.
    pub id: String,
    /// The method.
    pub method: Method,
    /// Whether it was `https`.
    pub secure: bool,
    /// The host: a name or an address, with a port if it is not the scheme's.
    pub host: String,
    /// The path and query; begins with `/`.
    pub path: String,
    /// Its connection; none: any.
    pub connection: Option<u32>,
    /// The size of its head as HTTP/1.1 in bytes, the empty line included.
    pub head: u32,
    /// The known header fields; [`Request::fields`] adds the others.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Body,
    /// Its dependencies, all of them.
    pub after: Vec<After>,
    /// The computation time after them.
    pub compute: Duration,
    /// What holds it back, besides.
    pub hold: Option<Hold>,
    /// Whether the page's `load` event waits for it (HTML: "delay the load event"). Data that scripts request does not
    /// delay it, nor does what is requested later.
    pub delays_load: bool,
    /// The response.
    pub response: Response,
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The status; never an interim one.
    pub status: StatusCode,
    /// `content-type`, if known.
    pub content_type: Option<String>,
    /// The size of its head as HTTP/1.1 in bytes, the empty line included.
    pub head: u32,
    /// The other known header fields; [`Response::fields`] adds the rest.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Body,
    /// The server's think time: from the arrival of the request until the response is ready.
    pub think: Duration,
}

impl Response {
    /// The size of the whole message as HTTP/1.1 in bytes.
    pub fn size(&self) -> u64 {
        u64::from(self.head) + self.body.len()
    }
}

/// A request that another one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct After {
    /// Its index in [`Spec::requests`].
    pub request: usize,
    /// The part of its response.
    pub until: Until,
}

/// Whether a response of this media type runs: a script, or a document, which may have scripts.
pub(crate) fn is_script(content_type: &str) -> bool {
    ["javascript", "ecmascript", "html"].iter().any(|kind| content_type.contains(kind))
}

/// What holds a request of a document back until its `<body>`: Chromium sends few unimportant requests before it gets there
/// (`ResourceLoadScheduler` in Blink), over all versions of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// How important the request is.
    pub priority: Priority,
    /// The requests of the document's `<head>` before which the `<body>` cannot begin: the scripts that stop the parser, and
    /// the style sheets for which these wait.
    pub behind: Vec<usize>,
    /// The computation time after them.
    pub compute: Duration,
}

impl Hold {
    /// How many requests may be under way without holding others back.
    pub(crate) const FREE: usize = 2;
}

/// How important a request is that is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// At most two of these are under way at a time: a document's first images, and scripts of its `<body>`.
    Medium,
    /// It is held back while two others are under way, those of the `<head>` included: other images.
    Low,
}

/// The part of a response to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// This many bytes of head and body; at most its size.
    Head(u64),
    /// The whole response.
    End,
}

impl Until {
    /// The number of body bytes to wait for, for a client that does not see the head as HTTP/1.1. Zero: the head is
    /// enough.
    pub fn body_bytes(self, response: &Response) -> u64 {
        match self {
            Self::Head(bytes) => bytes.saturating_sub(response.head.into()),
            Self::End => response.body.len(),
        }
    }
}

impl Spec {
    /// Reads a spec: JSON if the file's name ends in `.json`, else TOML.
    pub fn read(path: &Path) -> Result<Self, SpecError> {
        let text = file::text(path)?;
        Self::parse(&text, path)
    }

    /// Reads a spec from its text; `path` gives its name and the folder of its body files.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SpecError> {
        let mistake = |fault: error::Fault| fault.at(text, path);
        let file = file::File::parse(text, path).map_err(mistake)?;
        let name = path.file_stem().map_or_else(|| "page".into(), |stem| stem.to_string_lossy().into_owned());
        let beside = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        check::spec(file, name, &beside).map_err(mistake)
    }

    /// Checks a spec that was not read from a file, and enlarges heads that are too small for their fields. The error
    /// is a sentence that names the request.
    pub fn checked(self) -> Result<Self, String> {
        check::made(self)
    }

    /// Writes it as TOML. Kept bodies go into a folder beside it, of the same name without `.toml`.
    pub fn write(&self, path: &Path) -> Result<(), SpecError> {
        write::write(self, path)
    }

    /// The spec as TOML. Kept bodies are included if they are text; of others only the size.
    pub fn to_toml(&self) -> String {
        write::toml(self, |_, _| None)
    }

    /// The requests whose responses end the load: those that delay the `load` event, or all if none does.
    pub fn timed(&self) -> Vec<bool> {
        let none = self.requests.iter().all(|request| !request.delays_load);
        self.requests.iter().map(|request| none || request.delays_load).collect()
    }

    /// The time of the `load` event, by the ends of the responses.
    pub fn load_event(&self, ends: &[Duration]) -> Duration {
        let timed = self.timed();
        let ready = ends.iter().enumerate().filter(|(index, _)| timed[*index]);
        ready.map(|(index, end)| end.saturating_add(self.compute_after(index))).max().unwrap_or_default()
    }

    /// What the page computes between a response and the `load` event: nothing unless a script or document runs.
    pub(crate) fn compute_after(&self, index: usize) -> Duration {
        let content_type = self.requests[index].response.content_type.as_deref();
        if content_type.is_some_and(is_script) { self.compute } else { Duration::ZERO }
    }

    /// The number of recorded connections.
    pub fn connections(&self) -> usize {
        let mut numbers: Vec<u32> = self.requests.iter().filter_map(|request| request.connection).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    }

    /// The hosts, in the order of their first requests.
    pub fn hosts(&self) -> Vec<&str> {
        let mut hosts: Vec<&str> = Vec::new();
        for request in &self.requests {
            if !hosts.contains(&request.host.as_str()) {
                hosts.push(&request.host);
            }
        }
        hosts
    }

    /// The bytes of all responses as HTTP/1.1, heads included.
    pub fn response_bytes(&self) -> u64 {
        self.requests.iter().map(|request| request.response.size()).fold(0, u64::saturating_add)
    }

    /// The bytes of all requests as HTTP/1.1, heads included.
    pub fn request_bytes(&self) -> u64 {
        let size = |request: &Request| u64::from(request.head) + request.body.len();
        self.requests.iter().map(size).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests;
