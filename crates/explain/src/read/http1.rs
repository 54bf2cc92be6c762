//! HTTP/1.1 (RFC 9112): where each message begins and ends.

use std::collections::VecDeque;

use super::{MAX_HEAD, Message, request_target};
use crate::side::Side;

/// Of a request's method: what it does to the length of the response (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Head,
    Connect,
    Other,
}

/// Whether a stream that begins so is HTTP/1.1.
pub(super) fn looks_like(from: Side, bytes: &[u8]) -> bool {
    match from {
        Side::Server => bytes.starts_with(b"HTTP/1."),
        Side::Client => {
            // A method, a space and a target: `GET /`, `OPTIONS *`, `CONNECT host:443`.
            let method = bytes.iter().take(24).take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
            method >= 3 && bytes.get(method) == Some(&b' ') && bytes.get(method + 1).is_some_and(u8::is_ascii_graphic)
        }
    }
}

#[derive(Debug)]
pub(super) struct Reader {
    from: Side,
    /// The incomplete head or line, which begins at `at` in the stream.
    given: Vec<u8>,
    at: u64,
    expects: Expects,
}

#[derive(Debug, Clone, Copy)]
enum Expects {
    Head,
    /// The line with the next chunk's length, or the line break after a chunk.
    Chunk,
    /// The trailer section after the last chunk.
    Trailer,
    /// Everything up to the end of the stream is a body or a tunnel.
    Nothing,
}

impl Reader {
    pub(super) fn new(from: Side, at: u64) -> Self {
        Self { from, given: Vec::new(), at, expects: Expects::Head }
    }

    /// Reads on; returns the next byte needed, or none if the data is invalid.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        messages: &mut Vec<Message>,
        methods: &mut VecDeque<Method>,
        continues: &mut Vec<u64>,
    ) -> Option<u64> {
        let mut given = std::mem::take(&mut self.given);
        given.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            let rest = &given[used..];
            let here = self.at + used as u64;
            let step = match self.expects {
                Expects::Head => self.head(rest, here, messages, methods, continues)?,
                Expects::Chunk => chunk(rest, &mut self.expects)?,
                Expects::Trailer => {
                    let line = line(rest);
                    if line == Some(2) {
                        self.expects = Expects::Head;
                        if let Some(message) = messages.last_mut() {
                            message.end = here + 2;
                        }
                    }
                    line.map(|line| line as u64)
                }
                Expects::Nothing => return Some(u64::MAX),
            };
            let Some(step) = step else { break };
            let step = usize::try_from(step).ok()?;
            used = used.checked_add(step)?;
            if used > given.len() {
                self.at = self.at.checked_add(used as u64)?;
                return Some(self.at);
            }
        }
        given.drain(..used);
        // Most connections wait for the next head, and there may be very many: keep no empty buffer.
        self.given = if given.is_empty() { Vec::new() } else { given };
        self.at += used as u64;
        (self.given.len() <= MAX_HEAD).then_some(self.at + self.given.len() as u64)
    }

    /// Reads a head; returns the distance to the next one or to the first chunk. One function, as in RFC 9112 §6.3.
    #[allow(clippy::option_option, reason = "invalid, incomplete, complete")]
    fn head(
        &mut self,
        bytes: &[u8],
        here: u64,
        messages: &mut Vec<Message>,
        methods: &mut VecDeque<Method>,
        continues: &mut Vec<u64>,
    ) -> Option<Option<u64>> {
        // Empty lines before a request are ignored (RFC 9112 §2.2).
        let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let bytes = &bytes[blank..];
        if !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
            return Some(None);
        }
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let start = here + blank as u64;
        let (len, label, body) = match self.from {
            Side::Client => {
                let mut request = httparse::Request::new(&mut headers);
                let httparse::Status::Complete(len) = request.parse(bytes).ok()? else { return Some(None) };
                let (method, target) = (request.method?, request.path?);
                methods.push_back(match method {
                    "HEAD" => Method::Head,
                    "CONNECT" => Method::Connect,
                    _ => Method::Other,
                });
                if value(request.headers, "expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
                    continues.push(start + len as u64);
                }
                (len, format!("{method} {}", request_target::masked(target)), body(request.headers, Body::Length(0)))
            }
            Side::Server => {
                let mut response = httparse::Response::new(&mut headers);
                let httparse::Status::Complete(len) = response.parse(bytes).ok()? else { return Some(None) };
                let code = response.code?;
                if code == 100 {
                    continues.push(start);
                }
                if code / 100 == 1 && code != 101 {
                    // An interim response precedes the final one (RFC 9110 §15.2).
                    return Some(Some((blank + len) as u64));
                }
                let method = methods.pop_front().unwrap_or(Method::Other);
                let body = match (method, code) {
                    (_, 101) | (Method::Connect, 200..300) => Body::Rest,
                    (Method::Head, _) | (_, 204 | 304) => Body::Length(0),
                    _ => body(response.headers, Body::Rest),
                };
                (len, code.to_string(), body)
            }
        };
        let whole = (blank + len) as u64;
        let (end, step) = match body {
            Body::Length(length) => {
                let whole = whole.checked_add(length)?;
                (here.checked_add(whole)?, whole)
            }
            Body::Chunked => {
                self.expects = Expects::Chunk;
                (u64::MAX, whole)
            }
            Body::Rest => {
                self.expects = Expects::Nothing;
                (u64::MAX, whole)
            }
        };
        messages.push(Message { start, end, label: label.into() });
        Some(Some(step))
    }
}

/// How a body ends.
enum Body {
    Length(u64),
    Chunked,
    Rest,
}

/// How the body ends, by the headers (RFC 9112 §6.3); `otherwise` where they say nothing.
fn body(headers: &[httparse::Header], otherwise: Body) -> Body {
    if value(headers, "transfer-encoding").is_some_and(|codings| codings.to_ascii_lowercase().contains("chunked")) {
        return Body::Chunked;
    }
    value(headers, "content-length").and_then(|length| length.parse().ok()).map_or(otherwise, Body::Length)
}

/// The value of the header with this name.
fn value<'a>(headers: &[httparse::Header<'a>], name: &str) -> Option<&'a str> {
    let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(header.value).ok().map(str::trim)
}

/// Reads the line before a chunk: how far the line before the next is (RFC 9112 §7.1).
#[allow(clippy::option_option, reason = "invalid, incomplete, complete")]
fn chunk(bytes: &[u8], expects: &mut Expects) -> Option<Option<u64>> {
    let Some(len) = line(bytes) else { return Some(None) };
    let text = std::str::from_utf8(&bytes[..len - 2]).ok()?;
    let size = u64::from_str_radix(text.split(';').next()?.trim(), 16).ok()?;
    if size == 0 {
        *expects = Expects::Trailer;
        return Some(Some(len as u64));
    }
    // The chunk's own end of line is part of it.
    Some(Some(size.checked_add(len as u64 + 2)?))
}

/// The length of the first line with its end.
fn line(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|end| end == b"\r\n").map(|at| at + 2)
}
