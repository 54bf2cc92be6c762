//! Requests and responses of HTTP/1.1 (RFC 9112), as far as our client sends them.

use std::fmt::Write;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The most headers of a request.
const HEADERS: usize = 64;

/// A request as the server has received it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its path, as it was encoded, without a slash at the end.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its whole body.
    pub body: Bytes,
}

/// The answer to one.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Headers, without those of the framing.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

/// A path without its slash at the end.
pub(crate) fn plain(path: &str) -> &str {
    path.trim_end_matches('/')
}

/// The path of a URL, or of what is a path already.
pub(crate) fn path_of(url: &str) -> &str {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    plain(path)
}

impl Request {
    /// The text of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether it changes something.
    pub fn is_change(&self) -> bool {
        matches!(&*self.method, "PUT" | "DELETE" | "MOVE" | "COPY" | "MKCOL" | "LOCK" | "UNLOCK" | "PROPPATCH")
    }

    /// Reads one, all of it; none at the end of the connection.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin), buffer: &mut BytesMut) -> Option<Self> {
        let (mut request, length) = loop {
            if let Some((request, head, length)) = Self::parse(buffer) {
                let _ = buffer.split_to(head);
                break (request, length);
            }
            if stream.read_buf(buffer).await.ok()? == 0 {
                return None;
            }
        };
        while buffer.len() < length {
            if stream.read_buf(buffer).await.ok()? == 0 {
                return None;
            }
        }
        request.body = buffer.split_to(length).freeze();
        Some(request)
    }

    /// The head of a request, its length, and that of the body.
    fn parse(buffer: &[u8]) -> Option<(Self, usize, usize)> {
        let mut slots = [httparse::EMPTY_HEADER; HEADERS];
        let mut parsed = httparse::Request::new(&mut slots);
        let httparse::Status::Complete(head) = parsed.parse(buffer).expect("our client speaks HTTP/1.1") else {
            return None;
        };
        let headers: HeaderMap = parsed.headers.iter().filter_map(header).collect();
        assert!(!headers.contains_key("transfer-encoding"), "the model reads no chunks");
        let length = headers.get("content-length").map_or(0, |length| {
            length.to_str().ok().and_then(|length| length.parse().ok()).expect("our client sends a number")
        });
        let (method, path) = (parsed.method?.to_owned(), plain(parsed.path?).to_owned());
        Some((Self { method, path, headers, body: Bytes::new() }, head, length))
    }
}

fn header(header: &httparse::Header<'_>) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::from_bytes(header.name.as_bytes()).ok()?, HeaderValue::from_bytes(header.value).ok()?))
}

impl Response {
    /// Only a status.
    pub fn of(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// With a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// With a body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// As it is sent. That to HEAD has no body.
    pub(crate) fn message(&self, to: &str) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Simulated\r\n", self.status);
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if self.status != 204 {
            let _ = write!(head, "content-length: {}\r\n", self.body.len());
        }
        head += "\r\n";
        let body = if to == "HEAD" { &[][..] } else { &self.body };
        [head.as_bytes(), body].concat()
    }
}
