//! Reading large files: from disk, if the server confirms that they have not changed.
//!
//! The server is asked each time, with the client's credential: it decides who may read, and `304` costs one round trip
//! (RFC 9110 §13.1.2).

use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use dav::{ETag, siblings::LARGEST};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
        DATE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, ORIGIN,
        RANGE, TRANSFER_ENCODING,
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
    credential::Identity,
    large_contents::{LargeContents, Stored},
    passing::{IF, Passing},
};

/// Conditions of a client's own, which knows a version; and the origin of a page, on which answers may depend.
const CONDITIONS: [HeaderName; 7] =
    [IF, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE, ORIGIN];
/// Fields that a confirmation does not change.
const OF_CONTENT: [HeaderName; 6] =
    [CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, TRANSFER_ENCODING];
/// How old a version must be to be told from the next one by its tag.
const SETTLED: Duration = Duration::from_secs(2);

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
    /// The large contents, and whose are to be used.
    pub(super) fn large_contents(&self) -> Option<(&Arc<LargeContents>, Identity)> {
        self.large_contents.as_ref().zip(self.identity)
    }

    /// What a request reads, if it may be answered from disk.
    pub(super) fn reads_large(&self, request: &Passing) -> Option<Part> {
        let has = |name: &HeaderName| request.headers.contains_key(name);
        let is_read = self.large_contents().is_some()
            && request.method == Method::GET
            && request.is_ordinary()
            && request.whole().is_some_and(Bytes::is_empty)
            && !CONDITIONS.iter().any(has)
            && !forbids_storing(&request.headers);
        if is_read { Part::of(&request.headers) } else { None }
    }

    /// Reads a file, or a part of it.
    pub(super) async fn read_large(
        self: &Arc<Self>,
        request: Passing,
        part: Part,
    ) -> Result<Response<AnswerBody>, haul_http::Error> {
        let Some((contents, owner)) = self.large_contents() else { return self.pass(request).await };
        let path = request.path.clone();
        let mut answer = None;
        if let Some(stored) = contents.find(owner, &path)
            && let Some(condition) = if_changed(&request, &stored)
        {
            let asked = self.exchange(condition).await?;
            match asked.status() {
                StatusCode::NOT_MODIFIED if stored.is_confirmed_by(asked.headers()) => {
                    self.metrics.large.add();
                    return Ok(from_disk(&stored, part, asked.headers()));
                }
                // It says nothing about the file, or forbids it now.
                status if status.is_server_error() || matches!(status.as_u16(), 401 | 403 | 429) => {}
                _ => contents.remove(owner, &path, &stored),
            }
            // The client has set no condition, and gets no answer to one.
            let is_answer = !matches!(asked.status(), StatusCode::NOT_MODIFIED | StatusCode::PRECONDITION_FAILED);
            answer = Some(asked).filter(|_| is_answer);
        }
        let answer = match answer {
            Some(answer) => answer,
            None => self.exchange(request).await?,
        };
        let (parts, body) = answer.into_parts();
        if parts.status == StatusCode::UNAUTHORIZED {
            contents.forget(owner, None);
        }
        let may_be_kept = parts.status == StatusCode::OK && may_be_kept(&parts.headers) && is_settled(&parts.headers);
        let length = body.size_hint().exact().filter(|length| may_be_kept && *length > LARGEST);
        let arriving = length.and_then(|length| contents.expect(owner, &path, kept(parts.headers.clone()), length));
        let body = answers::streamed(body);
        let body = match arriving {
            Some(arriving) => arriving.copy_of(body),
            None => body,
        };
        Ok(Response::from_parts(parts, body))
    }
}

fn forbids_storing(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| value.to_ascii_lowercase().contains("no-store"))
}

/// The same request, if the file has changed.
fn if_changed(request: &Passing, stored: &Stored) -> Option<Passing> {
    let mut asked = request.again()?;
    asked.headers.insert(IF_NONE_MATCH, HeaderValue::from_str(&stored.etag.to_string()).ok()?);
    asked.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Some(asked)
}

/// Whether the file was not changed in the moments before the answer. Entity tags of some servers have the resolution of a
/// second, and two versions of it the same tag (RFC 9110 §8.8.1).
fn is_settled(headers: &HeaderMap) -> bool {
    let time = |name| httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok();
    match (time(LAST_MODIFIED), time(DATE)) {
        (None, _) => true,
        (Some(modified), Some(now)) => now.duration_since(modified).is_ok_and(|age| age >= SETTLED),
        (Some(_), None) => false,
    }
}

impl Stored {
    /// Whether a 304 is about this version (RFC 9111 §4.3.4).
    fn is_confirmed_by(&self, confirmed: &HeaderMap) -> bool {
        let tag = confirmed.get(ETAG).map(ETag::from_header);
        let is_same_tag = tag.is_none_or(|tag| tag.is_some_and(|tag| tag.is(&self.etag)));
        let modified = confirmed.get(LAST_MODIFIED);
        is_same_tag && modified.is_none_or(|time| self.headers.get(LAST_MODIFIED) == Some(time))
    }
}

/// The content, with the fields of the server's confirmation in place of older ones (RFC 9111 §3.2).
fn from_disk(stored: &Arc<Stored>, part: Part, confirmed: &HeaderMap) -> Response<AnswerBody> {
    let mut headers = stored.headers.clone();
    for name in confirmed.keys().filter(|name| !OF_CONTENT.contains(name)) {
        headers.remove(name);
        for value in confirmed.get_all(name) {
            headers.append(name, value.clone());
        }
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
        for of_whole in ["content-md5", "content-digest"] {
            headers.remove(of_whole);
        }
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
