//! Matching responses to requests: what an HTTP/1.1 response shows of its request.
//!
//! HTTP/1.1 messages carry no identifiers, so a response belongs to the oldest request without one (RFC 9112 §9.3.2). A
//! server that processes pipelined requests concurrently, or a middlebox that drops one, gives one request's response
//! to another. If the two look alike, nobody notices: a hundred files of equal length once arrived with eighty contents
//! swapped, and without an error.
//!
//! So the engine does not rely on the order alone. For each request it knows the marks of its response: the entity tag,
//! length and time from a listing (`Expected`), the requested range, and for a listing the status 207, whose entries
//! name their paths. The scheduler puts two requests on one connection at a time only if their marks differ, and
//! `http1::exchange` accepts a response only if it *shows* a mark that none of its neighbours has. Requests that cannot
//! be distinguished get a connection of their own.
//!
//! Responses to requests that change something have no marks: one `201` equals another. Their callers allow pipelining
//! (`Options::pipeline`) and verify the outcome themselves.
//!
//! Testing the server first was rejected: a server that breaks the order one time in ten would pass.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::SystemTime,
};

use http::{
    HeaderMap, Method, Request, StatusCode,
    header::{CONTENT_RANGE, ETAG, LAST_MODIFIED, RANGE},
};

use crate::{
    Expected, Options,
    method::{is_multi_status, is_safe},
};

/// The marks of a request's response. Texts are hashed: different hashes mean different texts, and a collision only
/// costs a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marks {
    kind: Kind,
    /// The target: the path, and for a file the range.
    target: u64,
    etag: Option<u64>,
    length: Option<u64>,
    modified: Option<u64>,
    /// The first byte of the range, if it names one.
    start: Option<u64>,
}

/// Responses of different kinds differ by their status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A GET: 200 or 206.
    File,
    /// 207: the entries name their paths, and the caller checks them.
    MultiStatus,
    /// A method that changes something.
    Change,
    Other,
}

/// The marks that a response shows, or that a server's responses are believed to show.
#[expect(clippy::struct_excessive_bools, reason = "each is a mark by itself")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) etag: bool,
    pub(crate) length: bool,
    pub(crate) modified: bool,
    pub(crate) range: bool,
}

impl Shown {
    /// What a server is believed to show until it does not.
    pub(crate) const ALL: Self = Self { etag: true, length: true, modified: true, range: true };

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            etag: self.etag && other.etag,
            length: self.length && other.length,
            modified: self.modified && other.modified,
            range: self.range && other.range,
        }
    }
}

impl Marks {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let range = request.headers().get(RANGE).and_then(|range| range.to_str().ok());
        let kind = match request.method() {
            &Method::GET => Kind::File,
            method if is_multi_status(method) => Kind::MultiStatus,
            method if is_safe(method) => Kind::Other,
            _ => Kind::Change,
        };
        let uri = request.uri();
        let target = match kind {
            Kind::File => hash((uri.path(), uri.query(), range)),
            // A trailing slash makes no difference for a folder's listing.
            _ => hash((uri.path().trim_end_matches('/'), uri.query())),
        };
        let unknown = Expected::default();
        let expected = request.extensions().get::<Options>().map_or(&unknown, |options| &options.expected);
        Self {
            kind,
            target,
            etag: expected.etag.as_deref().map(|etag| hash(opaque(etag))),
            length: expected.length.filter(|_| range.is_none()),
            modified: expected.modified.and_then(seconds),
            start: range.and_then(first_byte),
        }
    }

    /// Those of a follow-up right behind it, about the same path.
    pub(crate) fn of_follow_up(self) -> Self {
        Self { kind: Kind::MultiStatus, ..self }
    }

    /// Whether a response to this request that shows such marks cannot be the other's.
    pub(crate) fn differ(&self, other: &Self, by: Shown) -> bool {
        let differs = |a: Option<u64>, b: Option<u64>| a.zip(b).is_some_and(|(a, b)| a != b);
        match (self.kind, other.kind) {
            // The same file: either response will do.
            (Kind::File, Kind::File) if self.target == other.target => true,
            (Kind::File, Kind::File) => {
                by.etag && differs(self.etag, other.etag)
                    || by.length && differs(self.length, other.length)
                    || by.modified && differs(self.modified, other.modified)
                    || by.range && differs(self.start, other.start)
            }
            (Kind::MultiStatus, Kind::MultiStatus) => self.target != other.target,
            (Kind::MultiStatus, _) | (_, Kind::MultiStatus) | (Kind::Change, Kind::Change) => true,
            _ => false,
        }
    }

    pub(crate) fn is_of_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Whether the status of a successful response fits this request.
    pub(crate) fn fits(&self, status: StatusCode) -> bool {
        match self.kind {
            Kind::MultiStatus => status == StatusCode::MULTI_STATUS,
            Kind::File | Kind::Other => status != StatusCode::MULTI_STATUS,
            Kind::Change => true,
        }
    }

    /// The marks that a response shows.
    pub(crate) fn shown_by(&self, headers: &HeaderMap, length: Option<u64>) -> Shown {
        let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let etag = || Some(hash(opaque(text(ETAG)?)));
        let modified = || httpdate::parse_http_date(text(LAST_MODIFIED)?).ok().and_then(seconds);
        let range = || first_byte(text(CONTENT_RANGE)?.trim().strip_prefix("bytes ")?);
        let is = |mark: Option<u64>, shown: &dyn Fn() -> Option<u64>| mark.is_some() && mark == shown();
        Shown {
            etag: is(self.etag, &etag),
            length: is(self.length, &|| length),
            modified: is(self.modified, &modified),
            range: is(self.start, &range),
        }
    }

    /// The marks that the server is believed to show after a response with such a header. A changed entity tag or
    /// length still counts as shown; a time that differs may always differ.
    pub(crate) fn believed_after(&self, headers: &HeaderMap, length: Option<u64>) -> Shown {
        let shown = self.shown_by(headers, length);
        Shown {
            etag: self.etag.is_none() || headers.contains_key(ETAG),
            length: self.length.is_none() || length.is_some(),
            modified: self.modified.is_none() || shown.modified,
            range: true,
        }
    }
}

/// The first byte of a range as in `bytes=5-9` or `5-9/10`; a suffix (`-5`) names none.
pub(crate) fn first_byte(range: &str) -> Option<u64> {
    range.trim_start_matches("bytes=").split(['-', ',']).next()?.trim().parse().ok()
}

/// An entity tag without `W/`: servers that compress a response weaken its tag (RFC 9110 §8.8.3.2).
pub(crate) fn opaque(etag: &str) -> &str {
    etag.trim().trim_start_matches("W/")
}

fn seconds(time: SystemTime) -> Option<u64> {
    Some(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn marks(method: &str, path: &str, expected: Expected) -> Marks {
        let options = Options { expected, ..Options::default() };
        let request = Request::builder().method(method).uri(format!("http://model{path}")).extension(options);
        Marks::of(&request.body(()).unwrap())
    }

    fn file(path: &str, etag: Option<&str>, length: Option<u64>, modified: Option<u64>) -> Marks {
        let modified = modified.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        marks("GET", path, Expected { etag: etag.map(str::to_owned), length, modified })
    }

    fn part(path: &str, range: &str) -> Marks {
        let request = Request::get(format!("http://model{path}")).header("range", range);
        Marks::of(&request.body(()).unwrap())
    }

    #[test]
    fn files_differ_by_any_mark_known_of_both_and_shown_by_the_server() {
        let a = file("/a", Some("\"1\""), Some(5), Some(7));
        let alike = file("/b", Some("W/\"1\""), Some(5), Some(7));
        assert!(!a.differ(&alike, Shown::ALL));
        let only = |etag, length, modified| Shown { etag, length, modified, range: false };
        let cases = [
            (file("/b", Some("\"2\""), Some(5), Some(7)), only(true, false, false)),
            (file("/b", Some("\"1\""), Some(6), Some(7)), only(false, true, false)),
            (file("/b", Some("\"1\""), Some(5), Some(8)), only(false, false, true)),
        ];
        for (b, by) in cases {
            assert!(a.differ(&b, by) && b.differ(&a, by));
            let hidden = only(!by.etag, !by.length, !by.modified);
            assert!(!a.differ(&b, hidden), "a mark that the server does not show does not count");
        }
        assert!(!a.differ(&file("/b", None, None, None), Shown::ALL), "the other has no marks");
    }

    #[test]
    fn same_file_may_be_requested_twice() {
        let unmarked = || file("/a", None, None, None);
        assert!(unmarked().differ(&unmarked(), Shown::ALL));
    }

    #[test]
    fn ranges_differ_by_their_first_byte() {
        let by = Shown { etag: false, length: false, modified: false, range: true };
        assert!(part("/a", "bytes=0-4").differ(&part("/a", "bytes=5-9"), by));
        assert!(!part("/a", "bytes=0-4").differ(&part("/b", "bytes=0-4"), by));
        assert!(!part("/a", "bytes=-5").differ(&part("/b", "bytes=-6"), by), "a suffix range has no first byte");
    }

    #[test]
    fn listings_differ_by_path_and_from_files_by_status() {
        let listing = |path| marks("PROPFIND", path, Expected::default());
        assert!(listing("/a").differ(&listing("/b"), Shown::ALL));
        assert!(!listing("/a").differ(&listing("/a/"), Shown::ALL), "another depth of the same folder");
        assert!(listing("/a").differ(&file("/a", None, None, None), Shown::ALL));
        let options = marks("OPTIONS", "/", Expected::default());
        assert!(options.differ(&listing("/"), Shown::ALL) && !options.differ(&options, Shown::ALL));
        assert!(!options.fits(StatusCode::MULTI_STATUS) && !listing("/").fits(StatusCode::OK));
    }

    #[test]
    fn marks_are_read_from_the_response_header() {
        let asked = file("/a", Some("\"1\""), Some(5), Some(784_111_777));
        let headers = |pairs: &[(http::HeaderName, &'static str)]| -> HeaderMap {
            pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
        };
        let all = headers(&[(ETAG, "W/\"1\""), (LAST_MODIFIED, "Sun, 06 Nov 1994 08:49:37 GMT")]);
        let range = false;
        assert_eq!(asked.shown_by(&all, Some(5)), Shown { range, ..Shown::ALL });
        let other = headers(&[(ETAG, "\"2\""), (LAST_MODIFIED, "Sun, 06 Nov 1994 08:49:38 GMT")]);
        let none = Shown { etag: false, length: false, modified: false, range };
        assert_eq!(asked.shown_by(&other, Some(6)), none);
        assert_eq!(asked.shown_by(&HeaderMap::new(), None), none);
        assert_eq!(asked.believed_after(&HeaderMap::new(), None), Shown { range: true, ..none });
        assert_eq!(
            asked.believed_after(&other, Some(6)),
            Shown { modified: false, ..Shown::ALL },
            "changed values count as shown, but not times"
        );
        let unmarked = file("/a", None, None, None);
        assert_eq!(unmarked.believed_after(&HeaderMap::new(), None), Shown::ALL, "no marks were expected");
        let ranged = part("/a", "bytes=5-9").shown_by(&headers(&[(CONTENT_RANGE, "bytes 5-9/10")]), Some(5));
        assert!(ranged.range && !ranged.length);
    }
}
