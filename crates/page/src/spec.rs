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
//! order; where it is not, any connection may take it. Sizes of heads are those of HTTP/1.1.
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

use http::{HeaderMap, Method, StatusCode};

use crate::body::Body;

pub(crate) use check::{host as checked_host, is_ours, path as checked_path};
pub use error::SpecError;

/// What a file of this kind says it is.
pub const SCHEMA: &str = "longhaul.page/1";

/// How many requests a page may have.
pub const MAX_REQUESTS: usize = 20_000;

/// How large a head may be, in bytes.
pub const MAX_HEAD: u32 = 256 << 10;

/// How large a body may be, in bytes.
pub const MAX_BODY: u64 = 1 << 40;

/// How large the text of a spec may be, and how large all bodies together that are kept, in bytes.
pub const MAX_KEPT: u64 = 1 << 30;

/// What "the head of a response" is, unless a spec says otherwise: the seed's 4000 bytes.
pub const HEAD_BYTES: u64 = 4000;

/// One page load. What can be had has been checked: whatever a request is after is another request of the same spec,
/// and no request waits for itself, by its dependencies or by the order on its connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The file's name without its ending.
    pub name: String,
    /// What a reader calls it.
    pub title: String,
    /// Where it comes from, and what was assumed.
    pub source: Option<String>,
    /// The requests, in the order in which they stand in the file.
    pub requests: Vec<Request>,
}

/// A request of a page load, with its response.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its name, which no other request of the spec has.
    pub id: String,
    /// The method.
    pub method: Method,
    /// Whether it was `https`.
    pub secure: bool,
    /// Whom it was sent to: a name or an address, with a port if that is not the scheme's.
    pub host: String,
    /// The path and query; begins with `/`.
    pub path: String,
    /// The connection it went over; none: any will do.
    pub connection: Option<u32>,
    /// The size of its head as HTTP/1.1 in bytes, the empty line included.
    pub head: u32,
    /// The header fields that are known; [`Request::fields`] gives all that are sent.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Body,
    /// What it waits for: all of these.
    pub after: Vec<After>,
    /// What has to pass then, before it is sent.
    pub compute: Duration,
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
    /// The other header fields that are known; [`Response::fields`] gives all that are sent.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Body,
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
    /// Its place in [`Spec::requests`].
    pub request: usize,
    /// How much of its response.
    pub until: Until,
}

/// How much of a response has to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// So many bytes of its head and body; no more than it has.
    Head(u64),
    /// All of it.
    End,
}

impl Until {
    /// How many bytes of the body have to come: what a client counts that does not see the head as HTTP/1.1. Zero:
    /// the head is enough.
    pub fn body_bytes(self, response: &Response) -> u64 {
        match self {
            Self::Head(bytes) => bytes.saturating_sub(response.head.into()),
            Self::End => response.body.len(),
        }
    }
}

impl Spec {
    /// Reads a spec, as JSON if the file is called `….json`, else as TOML.
    pub fn read(path: &Path) -> Result<Self, SpecError> {
        let text = file::text(path)?;
        Self::parse(&text, path)
    }

    /// Reads a spec from its text; `path` names it, in what is said about it too, and the files of its bodies stand
    /// beside it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SpecError> {
        let mistake = |fault: error::Fault| fault.at(text, path);
        let file = file::File::parse(text, path).map_err(mistake)?;
        let name = path.file_stem().map_or_else(|| "page".into(), |stem| stem.to_string_lossy().into_owned());
        let beside = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        check::spec(file, name, &beside).map_err(mistake)
    }

    /// Checks a spec that was made by hand as one that is read, and enlarges heads that do not hold what stands in
    /// them. The error is a sentence that names the request.
    pub fn checked(self) -> Result<Self, String> {
        check::made(self)
    }

    /// Writes it as TOML. Bodies that were kept are written beside it, into a folder of the same name without `.toml`.
    pub fn write(&self, path: &Path) -> Result<(), SpecError> {
        write::write(self, path)
    }

    /// The spec as TOML. Every body that was kept stands in it as a text where it is one, else only by its size.
    pub fn to_toml(&self) -> String {
        write::toml(self, |_, _| None)
    }

    /// How many connections were recorded.
    pub fn connections(&self) -> usize {
        let mut numbers: Vec<u32> = self.requests.iter().filter_map(|request| request.connection).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    }

    /// The hosts that are asked, in the order in which they first are.
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
