//! Conditional requests (RFC 9110, section 13): a client that has a response already gets a 304.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

use crate::cache::{date, not_modified};

/// The 304 in place of a response.
#[derive(Debug)]
pub(super) struct NotModified {
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
    pub(super) response: Response<Bytes>,
}

impl NotModified {
    /// Of a response to a request with this method; none if it has no validator.
    pub(super) fn of(method: &Method, response: &Response<Bytes>) -> Option<Self> {
        let validator = |name: HeaderName| response.headers().get(name).cloned();
        let (etag, last_modified) = (validator(header::ETAG), validator(header::LAST_MODIFIED));
        let is_safe = *method == Method::GET || *method == Method::HEAD;
        if !is_safe || response.status() != StatusCode::OK || (etag.is_none() && last_modified.is_none()) {
            return None;
        }
        let mut unchanged = Response::new(Bytes::new());
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        *unchanged.headers_mut() = not_modified(response.headers());
        *unchanged.extensions_mut() = response.extensions().clone();
        Some(Self { etag, last_modified, response: unchanged })
    }

    /// Whether a request with these fields gets it.
    pub(super) fn fits<'a>(&self, field: impl Fn(&HeaderName) -> Option<&'a [u8]>) -> bool {
        if let Some(tags) = field(&header::IF_NONE_MATCH) {
            let weak = |tag: &[u8]| tag.trim_ascii().strip_prefix(b"W/").unwrap_or(tag.trim_ascii()).to_owned();
            let ours = self.etag.as_ref().map(|tag| weak(tag.as_bytes()));
            return ours.is_some_and(|ours| tags.split(|byte| *byte == b',').any(|tag| weak(tag) == ours));
        }
        let since = field(&header::IF_MODIFIED_SINCE);
        since.is_some() && since == self.last_modified.as_ref().map(HeaderValue::as_bytes)
    }
}

/// Moves a response's dates from the recording to now, so that it is as fresh as it was.
pub(super) fn renew(fields: &mut HeaderMap, now: chrono::DateTime<chrono::Utc>) {
    let written = |date: chrono::DateTime<chrono::Utc>| {
        HeaderValue::from_str(&date.format("%a, %d %b %Y %H:%M:%S GMT").to_string()).ok()
    };
    let lifetime =
        date(fields, &header::EXPIRES).zip(date(fields, &header::DATE)).map(|(expires, date)| expires - date);
    if let Some(expires) = lifetime.and_then(|lifetime| now.checked_add_signed(lifetime)).and_then(written) {
        fields.insert(header::EXPIRES, expires);
    }
    if let Some(now) = written(now) {
        fields.insert(header::DATE, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(fields: &[(&'static str, &str)]) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from_static(b"body"));
        for (name, value) in fields {
            response.headers_mut().append(*name, value.parse().unwrap());
        }
        response
    }

    #[test]
    fn request_with_the_validator_is_answered_with_304() {
        let fields = [("etag", "W/\"a,b\""), ("last-modified", "then"), ("content-type", "text/html")];
        let found = NotModified::of(&Method::GET, &response(&[("etag", "\"a\""), fields[1], fields[2]])).unwrap();
        for (name, value, expected) in [
            (header::IF_NONE_MATCH, "\"a\"", true),
            (header::IF_NONE_MATCH, "\"b\", W/\"a\"", true),
            (header::IF_NONE_MATCH, "\"b\"", false),
            (header::IF_MODIFIED_SINCE, "then", true),
            (header::IF_MODIFIED_SINCE, "later", false),
            (header::IF_RANGE, "\"a\"", false),
        ] {
            let fits = found.fits(|asked| (*asked == name).then_some(value.as_bytes()));
            assert_eq!(fits, expected, "{name}: {value}");
        }
        assert_eq!(found.response.status(), 304);
        assert_eq!(found.response.headers().len(), 2, "no content-type: {:?}", found.response.headers());
        assert!(NotModified::of(&Method::POST, &response(&fields)).is_none());
        assert!(NotModified::of(&Method::GET, &response(&fields[2..])).is_none());
    }

    #[test]
    fn dates_are_moved_to_now() {
        let now = "2026-11-25T10:00:00Z".parse().unwrap();
        for (fields, expires) in [
            (
                &[("date", "Mon, 18 Feb 2013 12:00:00 GMT"), ("expires", "Mon, 18 Feb 2013 13:00:00 GMT")][..],
                Some("Wed, 25 Nov 2026 11:00:00 GMT"),
            ),
            (&[("date", "Mon, 18 Feb 2013 12:00:00 GMT"), ("expires", "0")], Some("0")),
            (&[], None),
        ] {
            let mut fields = response(fields).headers().clone();
            renew(&mut fields, now);
            assert_eq!(fields[header::DATE], "Wed, 25 Nov 2026 10:00:00 GMT");
            assert_eq!(fields.get(header::EXPIRES).map(|value| value.to_str().unwrap()), expires);
        }
    }
}
