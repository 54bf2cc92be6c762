//! Reading large files: from disk, if the server confirms that they have not changed.
//!
//! The server is asked each time, with the client's credential: it decides who may read, and `304` costs one round trip
//! (RFC 9110 §13.1.2).

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use dav::siblings::LARGEST;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, DATE, IF_MATCH,
        IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
    },
};
use http_body::Body as _;
use serve::AnswerBody;

use super::{
    Account,
    reading::{kept, may_be_kept},
};
use crate::{
    answers,
    large_contents::Stored,
    passing::{IF, Passing},
};

/// Conditions of a client's own. It knows a version, and the server's answer is short.
const CONDITIONS: [HeaderName; 6] = [IF, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE];

/// What a client wants to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    /// From this byte to that one, if there is an end.
    From(u64, Option<u64>),
    /// So many of the last bytes.
    Last(u64),
}

impl Part {
    /// None if it is not one range of bytes (RFC 9110 §14.1.2).
    fn of(headers: &HeaderMap) -> Option<Self> {
        let mut ranges = headers.get_all(RANGE).iter();
        let Some(range) = ranges.next() else { return Some(Self::Whole) };
        let range = range.to_str().ok().filter(|_| ranges.next().is_none())?;
        let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
        let number = |text: &str| -> Option<u64> {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().ok()).flatten()
        };
        match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => Some(Self::From(from, Some(to))),
            (Some(from), None) if to.is_empty() => Some(Self::From(from, None)),
            (None, Some(last)) if from.is_empty() => Some(Self::Last(last)),
            _ => None,
        }
    }

    /// Its bytes of so many. None if there are none.
    fn of_length(self, length: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::Whole => return Some(0..length),
            Self::From(from, to) => from..to.map_or(length, |to| to.saturating_add(1).min(length)),
            Self::Last(last) => length.saturating_sub(last)..length,
        };
        (range.start < range.end).then_some(range)
    }
}

impl Account {
    /// What a request reads, if it may be answered from disk.
    pub(super) fn reads_large(&self, request: &Passing) -> Option<Part> {
        let has = |name: &HeaderName| request.headers.contains_key(name);
        let is_stored_nowhere =
            request.text(&CACHE_CONTROL).is_some_and(|value| value.to_ascii_lowercase().contains("no-store"));
        let is_read = self.large_contents.is_some()
            && request.method == Method::GET
            && request.is_ordinary()
            && request.whole().is_some_and(Bytes::is_empty)
            && !CONDITIONS.iter().any(has)
            && !is_stored_nowhere;
        if is_read { Part::of(&request.headers) } else { None }
    }

    /// Reads a file, or a part of it.
    pub(super) async fn read_large(
        self: &Arc<Self>,
        mut request: Passing,
        part: Part,
    ) -> Result<Response<AnswerBody>, haul_http::Error> {
        let Some(contents) = &self.large_contents else { return self.pass(request).await };
        let path = request.path.clone();
        let stored = contents.find(self.number, &path);
        if let Some(stored) = &stored
            && let Ok(tag) = HeaderValue::from_str(&stored.etag.to_string())
        {
            request.headers.insert(IF_NONE_MATCH, tag);
            request.headers.remove(ACCEPT_ENCODING);
        }
        let (parts, body) = self.exchange(request).await?.into_parts();
        if let Some(stored) = stored.filter(|_| parts.status == StatusCode::NOT_MODIFIED) {
            self.metrics.large.add();
            return Ok(from_disk(&stored, part, &parts.headers));
        }
        if parts.status == StatusCode::UNAUTHORIZED {
            contents.forget(self.number);
        }
        let length = body.size_hint().exact().filter(|length| *length > LARGEST);
        let is_whole = parts.status == StatusCode::OK && may_be_kept(&parts.headers);
        let arriving = length
            .filter(|_| is_whole)
            .and_then(|length| contents.expect(self.number, &path, kept(parts.headers.clone()), length));
        let body = answers::streamed(body);
        Ok(Response::from_parts(
            parts,
            match arriving {
                Some(arriving) => arriving.copy_of(body),
                None => body,
            },
        ))
    }
}

fn from_disk(stored: &Arc<Stored>, part: Part, confirmed: &HeaderMap) -> Response<AnswerBody> {
    let mut headers = stored.headers.clone();
    if let Some(date) = confirmed.get(DATE) {
        headers.insert(DATE, date.clone());
    }
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let all = stored.length();
    let Some(range) = part.of_length(all) else {
        let mut response = answers::without_body(StatusCode::RANGE_NOT_SATISFIABLE);
        if let Ok(size) = HeaderValue::from_str(&format!("bytes */{all}")) {
            response.headers_mut().insert(CONTENT_RANGE, size);
        }
        return response;
    };
    headers.insert(CONTENT_LENGTH, (range.end - range.start).into());
    if part != Part::Whole
        && let Ok(place) = HeaderValue::from_str(&format!("bytes {}-{}/{all}", range.start, range.end - 1))
    {
        headers.insert(CONTENT_RANGE, place);
    }
    let mut response = Response::new(stored.body(range));
    *response.status_mut() = if part == Part::Whole { StatusCode::OK } else { StatusCode::PARTIAL_CONTENT };
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(range: &str) -> Option<Part> {
        Part::of(&HeaderMap::from_iter([(RANGE, HeaderValue::from_str(range).unwrap())]))
    }

    #[test]
    fn one_range_of_bytes_is_understood() {
        assert_eq!(Part::of(&HeaderMap::new()), Some(Part::Whole));
        assert_eq!(part("bytes=2-5"), Some(Part::From(2, Some(5))));
        assert_eq!(part("bytes=2-"), Some(Part::From(2, None)));
        assert_eq!(part("bytes=-5"), Some(Part::Last(5)));
        for odd in ["bytes=5-2", "bytes=0-1,3-4", "bytes=-", "bytes=+1-2", "lines=1-2", "bytes=a-b", "bytes=1"] {
            assert_eq!(part(odd), None, "{odd}");
        }
        let twice = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=0-1"))]);
        let mut twice = twice;
        twice.append(RANGE, HeaderValue::from_static("bytes=2-3"));
        assert_eq!(Part::of(&twice), None);
    }

    #[test]
    fn a_range_ends_with_the_file() {
        assert_eq!(Part::From(2, Some(5)).of_length(10), Some(2..6));
        assert_eq!(Part::From(2, Some(u64::MAX)).of_length(10), Some(2..10));
        assert_eq!(Part::From(10, None).of_length(10), None);
        assert_eq!(Part::Last(3).of_length(10), Some(7..10));
        assert_eq!(Part::Last(30).of_length(10), Some(0..10));
        assert_eq!(Part::Last(0).of_length(10), None);
    }
}
