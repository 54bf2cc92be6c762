//! Request headers for HTTP/2 and HTTP/3.
//!
//! They have no connection-specific headers (RFC 9113 §8.2.2, RFC 9114 §4.2), and the host is in `:authority` (§8.3.1,
//! §4.3.1), without user and password.

use http::{
    HeaderMap, HeaderValue, Method, Request, Uri, Version,
    header::{self, HeaderName},
    uri::Authority,
};
use transport::{Origin, UrlError};

use crate::{Body, Error};

const OF_THE_CONNECTION: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The header to send for a request. The request itself stays unchanged for retries.
pub(crate) fn head(request: &Request<Body>) -> Result<Request<()>, Error> {
    let mut headers = request.headers().clone();
    strip(&mut headers);
    let authority = match headers.remove(header::HOST).map(|host| Authority::try_from(host.as_bytes())) {
        Some(Ok(host)) => host.to_string(),
        Some(Err(_)) => return Err(unusable(request.uri(), "its Host header is not a host")),
        None => Origin::of(request.uri())?.authority(),
    };
    headers.remove(header::CONTENT_LENGTH);
    if let Some(length) = told_length(request) {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }

    let mut uri = request.uri().clone().into_parts();
    uri.authority =
        Some(Authority::try_from(authority).map_err(|_| unusable(request.uri(), "its host has invalid characters"))?);
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = Uri::from_parts(uri).map_err(|_| unusable(request.uri(), "it is not an absolute URL"))?;
    *head.version_mut() = Version::HTTP_2;
    *head.headers_mut() = headers;
    Ok(head)
}

/// The `Content-Length` (RFC 9110 §8.6): the length if known, but no 0 for methods that usually have no content.
fn told_length(request: &Request<Body>) -> Option<u64> {
    let has_content = matches!(*request.method(), Method::PUT | Method::POST | Method::PATCH);
    request.body().length().filter(|length| *length > 0 || has_content)
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value: &HeaderValue| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_THE_CONNECTION) {
        headers.remove(name);
    }
}

fn unusable(url: &Uri, why: &'static str) -> Error {
    UrlError { url: url.path().to_owned(), why }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(request: http::request::Builder, body: &'static str) -> Request<()> {
        head(&request.body(body.into()).unwrap()).unwrap()
    }

    #[test]
    fn connection_specific_headers_are_removed() {
        let request = Request::put("https://me:secret@Example.org:443/a?b")
            .header("connection", "close, X-Hop")
            .header("x-hop", "1")
            .header("keep-alive", "timeout=5")
            .header("te", "trailers")
            .header("transfer-encoding", "chunked")
            .header("upgrade", "h2c")
            .header("proxy-connection", "close")
            .header("depth", "0");
        let head = sent(request, "body");
        assert_eq!(head.uri(), "https://example.org/a?b");
        let names: Vec<_> =
            head.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(names, [("depth", "0"), ("content-length", "4")]);
    }

    #[test]
    fn host_becomes_authority() {
        let head = sent(Request::get("http://127.0.0.1:8080/").header("host", "files.example"), "");
        assert_eq!(head.uri(), "http://files.example/");
        assert!(head.headers().is_empty());
    }

    #[test]
    fn empty_upload_has_a_content_length_and_get_has_none() {
        assert_eq!(sent(Request::put("http://a/"), "").headers()["content-length"], "0");
        assert!(sent(Request::get("http://a/"), "").headers().is_empty());
    }

    #[test]
    fn invalid_host_is_refused() {
        let request = Request::get("http://a/").header("host", "a b").body(Body::empty()).unwrap();
        assert!(matches!(head(&request), Err(Error::Url(_))));
    }
}
