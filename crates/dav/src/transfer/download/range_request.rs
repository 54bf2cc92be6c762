//! Requests for ranges of a file, and whether an answer is the range that was requested (RFC 9110 §14).

use std::{ops::Range, time::Duration};

use haul_http::{Answer, Class, Expected};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{CONTENT_RANGE, ETAG, RANGE},
};
use transport::Facts;

use crate::{ETag, client::compare::as_stored};

/// Paths with at least this round-trip time count as long.
pub(super) const FAR: Duration = Duration::from_millis(50);

/// Whether a path is long, by the handshake of its last connection.
pub(super) fn is_far(facts: &Facts) -> bool {
    facts.tcp >= FAR
}

/// The headers that request a range.
pub(super) fn asking(range: &Range<u64>) -> HeaderMap {
    let properties = HeaderValue::from_str(&format!("bytes={}-{}", range.start, range.end - 1));
    [as_stored()].into_iter().chain(properties.map(|properties| (RANGE, properties))).collect()
}

/// The options for a range request, with the expected version if it is known.
pub(super) fn options(tag: Option<&ETag>) -> haul_http::Options {
    let expected = Expected { etag: tag.map(ToString::to_string), ..Expected::default() };
    haul_http::Options { class: Class::Part, expected, ..haul_http::Options::default() }
}

/// Whether an answer is this range of a file of `whole` bytes.
pub(super) fn is_part(answer: &Answer, range: &Range<u64>, whole: u64) -> bool {
    answer.status() == StatusCode::PARTIAL_CONTENT && is_range(told(answer), range, whole)
}

/// Whether an answer certainly belongs to this version.
pub(super) fn is_of(answer: &Answer, tag: &ETag) -> bool {
    answer.headers().get(ETAG).and_then(ETag::from_header).is_some_and(|its| its.is(tag))
}

pub(super) fn told(answer: &Answer) -> &str {
    answer.headers().get(CONTENT_RANGE).and_then(|told| told.to_str().ok()).unwrap_or("nothing")
}

/// Whether a `Content-Range` is exactly the requested one (RFC 9110 §14.4).
fn is_range(told: &str, range: &Range<u64>, whole: u64) -> bool {
    let Some((part, total)) = told.strip_prefix("bytes ").and_then(|told| told.split_once('/')) else { return false };
    let bounds =
        part.split_once('-').and_then(|(first, last)| Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?)));
    bounds.is_some_and(|(first, last)| first == range.start && last.checked_add(1) == Some(range.end))
        && (total == "*" || total.parse() == Ok(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_must_be_the_requested_range() {
        for (told, fits) in [
            ("bytes 10-19/100", true),
            ("bytes 10-19/*", true),
            ("bytes 10-18/100", false),
            ("bytes 0-9/100", false),
            ("bytes 10-19/99", false),
            ("bytes */100", false),
            ("10-19/100", false),
            ("", false),
        ] {
            assert_eq!(is_range(told, &(10..20), 100), fits, "{told}");
        }
    }
}
