//! Requests and responses of a scripted server.

use std::fmt::Write as _;

use bytes::{Buf, BytesMut};

pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) length: usize,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: String::new(), body: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.headers, "{name}: {value}\r\n");
        self
    }

    /// The header without its framing, which the sender adds.
    pub(crate) fn start(&self) -> String {
        format!("HTTP/1.1 {} Scripted\r\n{}", self.status, self.headers)
    }

    /// The header with this `Content-Length`.
    pub(crate) fn head(&self, length: usize) -> Vec<u8> {
        format!("{}content-length: {length}\r\n\r\n", self.start()).into()
    }

    pub(crate) fn add(&mut self, headers: &str) {
        self.headers.push_str(headers);
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        [&self.head(self.body.len())[..], &self.body].concat()
    }
}

/// Takes the next request with its body from `buffer`; none if it is incomplete.
pub(crate) fn parse(buffer: &mut BytesMut) -> Option<(Request, BytesMut)> {
    let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let request = parse_head(&buffer[..end]);
    if buffer.len() < end + 4 + request.length {
        return None;
    }
    buffer.advance(end + 4);
    let body = buffer.split_to(request.length);
    Some((request, body))
}

pub(crate) fn parse_head(head: &[u8]) -> Request {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut request = Request { method, path: path.trim_end_matches('/').to_owned(), headers, length: 0 };
    request.length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    request
}
