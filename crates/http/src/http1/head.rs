//! Headers of HTTP/1.1 messages: writing requests, reading responses (RFC 9112 §2 to §6).
//!
//! `httparse` finds the lines; this module decides what they mean for the connection. Where RFC 9112 lets a client
//! guess the meaning of a broken header, this one rejects it: on a pipeline a wrong guess gives one request another's
//! response.

use std::{mem::MaybeUninit, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING},
};
use transport::content_length;

use crate::{Origin, connection_messages::KeepAlive};

/// The maximum size of a response header. Browsers accept 256 KiB, curl 300 KiB; WebDAV servers send a few hundred
/// bytes.
pub(crate) const MAX_HEADER_SIZE: usize = 64 * 1024;
const MAX_HEADERS: usize = 128;

/// How a body ends (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// After this number of bytes.
    Length(u64),
    /// Chunked.
    Chunked,
    /// With the connection.
    Close,
}

/// A response header, and what it means for the connection.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) response: Response<()>,
    pub(crate) framing: Framing,
    /// Whether the connection persists after this message (RFC 9112 §9.3).
    pub(crate) persists: bool,
}

/// Writes a request header. The request's own headers about framing and connection are replaced.
pub(crate) fn write<B>(out: &mut BytesMut, request: &Request<B>, length: Option<u64>) {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let target = if target.starts_with('?') { &format!("/{target}") } else { target };
    out.reserve(256 + target.len());
    for part in [request.method().as_str(), " ", target, " HTTP/1.1\r\n"] {
        out.put_slice(part.as_bytes());
    }
    // First, as RFC 9110 §7.2 asks.
    if let Some(host) = request.headers().get(HOST) {
        put_line(out, "host", host.as_bytes());
    } else if let Ok(origin) = Origin::of(request.uri()) {
        put_line(out, "host", origin.authority().as_bytes());
    }
    for (name, value) in request.headers() {
        if ![HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(name) {
            put_line(out, name.as_str(), value.as_bytes());
        }
    }
    // Persistence is the default, but Apache sends its limit of requests only to clients that ask.
    put_line(out, "connection", b"keep-alive");
    match length {
        // Methods that expect a body send a length even for an empty one (RFC 9110 §8.6).
        Some(0) if !matches!(*request.method(), Method::PUT | Method::POST | Method::PATCH) => {}
        Some(length) => put_line(out, "content-length", length.to_string().as_bytes()),
        None => put_line(out, "transfer-encoding", b"chunked"),
    }
    out.put_slice(b"\r\n");
}

fn put_line(out: &mut BytesMut, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.put_slice(part);
    }
}

/// Takes the header of a response to `method` from `buffer`; `None` if it is incomplete.
pub(crate) fn read(buffer: &mut BytesMut, method: &Method) -> Result<Option<Head>, String> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let used = match parser().parse_response_with_uninit_headers(&mut parsed, buffer, &mut slots) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) if buffer.len() < MAX_HEADER_SIZE => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(format!("the response header exceeds {MAX_HEADER_SIZE} bytes")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(format!("the response has more than {MAX_HEADERS} header fields"));
        }
        Err(error) => return Err(format!("the response is not HTTP/1.1 ({error}): it begins {}", beginning(buffer))),
    };
    let version = if parsed.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("the response has no status")?;
    // One copy for all values.
    let copy = Bytes::copy_from_slice(&buffer[..used]);
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let start = header.value.as_ptr().addr().wrapping_sub(buffer.as_ptr().addr());
        let is_empty = header.value.is_empty();
        let mut value = if is_empty { Bytes::new() } else { copy.slice(start..start + header.value.len()) };
        if value.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            // Unfolds folded lines (RFC 9112 §5.2).
            let space = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
            value = value.iter().map(space).collect();
        }
        let value = HeaderValue::from_maybe_shared(value);
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(format!("the response's header field {} cannot be parsed", header.name));
        };
        headers.append(name, value);
    }
    let framing = framing(method, status, version, &headers)?;
    let persists = framing != Framing::Close && persists(version, &headers);
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.version_mut() = version;
    *response.headers_mut() = headers;
    let _ = buffer.split_to(used);
    Ok(Some(Head { response, framing, persists }))
}

/// Takes the trailers after the last chunk, likewise.
pub(crate) fn read_trailers(buffer: &mut BytesMut) -> Result<Option<HeaderMap>, String> {
    let mut slots = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let (used, lines) = match httparse::parse_headers(buffer, &mut slots) {
        Ok(httparse::Status::Complete(found)) => found,
        Ok(httparse::Status::Partial) if buffer.len() < MAX_HEADER_SIZE => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(format!("the response's trailers exceed {MAX_HEADER_SIZE} bytes")),
        Err(error) => return Err(format!("the response's trailers cannot be parsed ({error})")),
    };
    let read = lines.iter().map(|line| {
        let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(line.value).ok()?))
    });
    let trailers = read.collect::<Option<HeaderMap>>().ok_or("the response's trailers cannot be parsed")?;
    let _ = buffer.split_to(used);
    Ok(Some(trailers))
}

fn parser() -> httparse::ParserConfig {
    let mut parser = httparse::ParserConfig::default();
    parser.allow_obsolete_multiline_headers_in_responses(true);
    parser
}

/// The first bytes of an invalid response, for the error.
fn beginning(buffer: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&buffer[..buffer.len().min(24)]))
}

/// RFC 9112 §6.3, with these errors: a length beside a transfer coding, and a transfer coding that does not end with
/// `chunked` or comes over HTTP/1.0 (§6.1).
fn framing(method: &Method, status: StatusCode, version: Version, headers: &HeaderMap) -> Result<Framing, String> {
    let bodiless = status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if *method == Method::HEAD || bodiless {
        return Ok(Framing::Length(0));
    }
    let codings: Vec<_> = tokens(headers, &TRANSFER_ENCODING).collect();
    let length = content_length(headers).map_err(|wrong| format!("the response {wrong}"))?;
    match (&codings[..], length) {
        ([], Some(length)) => Ok(Framing::Length(length)),
        ([], None) => Ok(Framing::Close),
        ([_, ..], Some(_)) => Err("the response has both a Content-Length and a Transfer-Encoding".into()),
        ([only], None) if only.eq_ignore_ascii_case(b"chunked") && version == Version::HTTP_11 => Ok(Framing::Chunked),
        (others, None) => {
            let codings = String::from_utf8_lossy(&others.join(&b", "[..])).to_ascii_lowercase();
            Err(format!("the response's transfer coding {codings:?} is not supported"))
        }
    }
}

/// RFC 9112 §9.3.
fn persists(version: Version, headers: &HeaderMap) -> bool {
    let says = |word: &str| tokens(headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case(word.as_bytes()));
    !says("close") && (version == Version::HTTP_11 || says("keep-alive"))
}

/// Parses `Keep-Alive`.
pub(crate) fn keep(headers: &HeaderMap) -> Option<KeepAlive> {
    let mut keep = KeepAlive::default();
    for token in tokens(headers, &HeaderName::from_static("keep-alive")) {
        let token = String::from_utf8_lossy(token).to_ascii_lowercase();
        match token.split_once('=').map(|(name, value)| (name.trim(), value.trim().parse::<u32>())) {
            Some(("timeout", Ok(seconds))) => keep.idle = Some(Duration::from_secs(seconds.into())),
            Some(("max", Ok(requests))) => keep.requests = Some(requests),
            _ => {}
        }
    }
    (keep != KeepAlive::default()).then_some(keep)
}

/// The members of a comma-separated header over all its lines.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let values = headers.get_all(name).iter();
    values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str, method: &Method) -> Result<Option<Head>, String> {
        read(&mut BytesMut::from(text), method)
    }

    fn framed(text: &str) -> Result<Framing, String> {
        head(text, &Method::GET).map(|head| head.unwrap().framing)
    }

    #[test]
    fn request_has_host_first_and_one_framing() {
        let request = Request::put("https://example.org:8443/a%20b?c").header("if-match", "\"x\"");
        let request = request.header("content-length", "999").header("connection", "close").body(()).unwrap();
        let mut out = BytesMut::new();
        write(&mut out, &request, Some(5));
        let expected = "PUT /a%20b?c HTTP/1.1\r\nhost: example.org:8443\r\nif-match: \"x\"\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\n";
        assert_eq!(&out[..], expected.as_bytes());
    }

    #[test]
    fn body_has_exactly_one_framing() {
        assert_eq!(framed("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), Ok(Framing::Length(5)));
        assert_eq!(framed("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n"), Ok(Framing::Length(5)));
        assert_eq!(framed("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"), Ok(Framing::Chunked));
        assert_eq!(framed("HTTP/1.1 200 OK\r\n\r\n"), Ok(Framing::Close));
        assert_eq!(framed("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"), Ok(Framing::Length(0)));
        for wrong in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTQ/1.1 200 OK\r\n\r\n",
        ] {
            assert!(framed(wrong).is_err(), "{wrong}");
        }
        let response_to_head = head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", &Method::HEAD).unwrap().unwrap();
        assert_eq!(response_to_head.framing, Framing::Length(0));
    }

    #[test]
    fn field_values_are_trimmed_and_unfolded() {
        let text = "HTTP/1.1 200 OK\r\nA:\r\nB:  \r\nC: one \r\n two\r\nContent-Length: 0\r\nC: \txyz \r\n\r\n";
        let headers = head(text, &Method::GET).unwrap().unwrap().response.into_parts().0.headers;
        let values: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let expected = [("a", &b""[..]), ("b", b""), ("c", b"one    two"), ("c", b"xyz"), ("content-length", b"0")];
        assert_eq!(values, expected);
    }

    #[test]
    fn connection_persists_by_default() {
        let persists = |text: &str| head(text, &Method::GET).unwrap().unwrap().persists;
        assert!(persists("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        assert!(!persists("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Foo, Close\r\n\r\n"));
        assert!(!persists("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"));
        assert!(persists("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"));
        assert!(!persists("HTTP/1.1 200 OK\r\n\r\n"));
    }

    #[test]
    fn endless_response_header_is_refused() {
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(MAX_HEADER_SIZE));
        assert!(head(&endless, &Method::GET).unwrap_err().contains("exceeds"));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(MAX_HEADERS + 1));
        assert!(head(&many, &Method::GET).unwrap_err().contains("more than"));
    }
}
