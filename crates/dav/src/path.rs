//! Paths on a server, and their names on the local side.
//!
//! A server's hrefs become names of local files, so a hostile or broken server could try to write outside the target. A
//! [`RemotePath`] proves that it cannot: it consists of whole segments, none of which is `.`, `..` or empty or contains `/` or
//! NUL, and an href is accepted only below the requested folder. An unusable name is rejected alone; the rest of the listing
//! remains valid.
//!
//! Everything else that a URL can carry is kept byte for byte: Latin-1 names of old servers, line feeds, escape sequences.
//! They are harmless on a disk, and `Display` escapes them for a terminal.
//!
//! Two deviations are tolerated. Empty segments are dropped (`/dav//a`), because many servers join paths carelessly. And the
//! requested folder matches in any case of its letters, because servers on case-insensitive file systems answer with their own
//! spelling. Neither can lead outside.

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use unicode_normalization::UnicodeNormalization;

use crate::terminal::terminal_safe;

/// Characters written as `%XX` in a request target: all that RFC 3986 §3.3 does not allow in a segment; `;` and `+`,
/// which some servers read as a parameter and a space; and `*`, which is a wildcard in the URLs that people write.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b',')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// An absolute, decoded path on a server, and whether it is a folder's.
///
/// Paths of a file and of a folder differ; [`RemotePath::same_place`] ignores that. Paths are ordered by their decoded
/// bytes, so a folder precedes its contents.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemotePath {
    /// Each segment with a preceding `/`; empty for the root.
    bytes: Vec<u8>,
    folder: bool,
}

/// A path that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the path `{}` {why}", path.escape_debug())]
pub struct PathError {
    /// The path as given, truncated if it is long.
    pub path: String,
    /// The problem.
    pub why: PathProblem,
}

/// A problem of a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathProblem {
    /// The path is empty.
    #[error("is empty; the answer names no resource")]
    Empty,
    /// A URL with another scheme.
    #[error("does not belong to an http or https URL")]
    Scheme,
    /// An unencoded `?` or `#`.
    #[error("contains a query or fragment; a `?` or `#` in a name must be encoded")]
    Query,
    /// A segment `.` or `..`, in any spelling.
    #[error("contains a segment `.` or `..`, which could lead outside the target folder; skipped")]
    Dots,
    /// A `/` within a name.
    #[error("contains a `/` within a name (`%2F`), which no local file can have; skipped")]
    Slash,
    /// A NUL within a name.
    #[error("contains a NUL byte, which no file name can have; skipped")]
    Nul,
    /// A wildcard that is not understood.
    #[error("contains {0}")]
    Wildcard(&'static str),
    /// A path that was not requested.
    #[error("is not below {0}, which was requested; skipped (does a proxy rewrite paths?)")]
    Elsewhere(RemotePath),
    /// A path further below, where only direct members were requested.
    #[error("is not directly below {0}, whose listing contains it; skipped")]
    TooDeep(RemotePath),
    /// The path is too long for a URL.
    #[error("is too long for a URL")]
    Long,
    /// A local path that is absolute or leads upwards.
    #[error("is not a relative path within the folder")]
    NotBelow,
}

impl PathError {
    pub(crate) fn new(path: &str, why: PathProblem) -> Self {
        Self { path: path.chars().take(300).collect(), why }
    }
}

impl RemotePath {
    /// The root of the server.
    pub fn root() -> Self {
        Self { bytes: Vec::new(), folder: true }
    }

    /// Parses the absolute, percent-encoded path of a URL. A final `/` means a folder.
    pub fn from_url_path(path: &str) -> Result<Self, PathError> {
        let fail = |why| PathError::new(path, why);
        if path.is_empty() {
            return Err(fail(PathProblem::Empty));
        }
        if path.contains(['?', '#']) {
            return Err(fail(PathProblem::Query));
        }
        let mut place = Self::root();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let segment: Vec<u8> = percent_decode_str(part).collect();
            check(&segment).map_err(fail)?;
            place.push(&segment);
        }
        place.folder = path.ends_with('/');
        Ok(place)
    }

    /// Resolves an href in an answer (RFC 4918 §8.3), which must be `requested` or below. The host of an absolute URL is
    /// ignored: behind a proxy it is often wrong, and no request is ever sent there. A relative href is below `requested`.
    /// A final `.` means the folder itself (RFC 3986 §5.2.4); some servers name their root so.
    pub fn from_href(href: &str, requested: &Self) -> Result<Self, PathError> {
        let fail = |why| PathError::new(href, why);
        let href = href.strip_suffix('.').filter(|folder| folder.ends_with('/')).unwrap_or(href);
        if href.is_empty() {
            return Err(fail(PathProblem::Empty));
        }
        if href.starts_with('/') {
            return Self::from_url_path(href).and_then(|place| place.below(requested).map_err(fail));
        }
        let Some((scheme, rest)) = href.split_once("://") else {
            let mut place = requested.clone();
            let relative = Self::from_url_path(href)?;
            place.bytes.extend_from_slice(&relative.bytes);
            place.folder = relative.folder;
            return Ok(place);
        };
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(fail(PathProblem::Scheme));
        }
        let path = rest.find(['/', '?', '#']).map_or("/", |at| &rest[at..]);
        Self::from_url_path(path)?.below(requested).map_err(fail)
    }

    /// Replaces the leading part by `requested`, if they are equal or equivalent. Servers that ignore case or normalise
    /// names answer with their own spelling.
    fn below(mut self, requested: &Self) -> Result<Self, PathProblem> {
        let length = requested.bytes.len();
        let begins = self.bytes.get(..length).is_some_and(|start| start.eq_ignore_ascii_case(&requested.bytes));
        if begins && self.bytes.get(length).is_none_or(|next| *next == b'/') {
            self.bytes[..length].copy_from_slice(&requested.bytes);
            return Ok(self);
        }
        let mut own = self.segments();
        if !requested.segments().all(|name| own.next().is_some_and(|own| are_equivalent(own, name))) {
            return Err(PathProblem::Elsewhere(requested.clone()));
        }
        let mut below = requested.clone();
        own.for_each(|name| below.push(name));
        Ok(below.as_folder(self.folder))
    }

    fn push(&mut self, segment: &[u8]) {
        self.bytes.push(b'/');
        self.bytes.extend_from_slice(segment);
    }

    /// The member `name` (decoded) of this folder.
    pub fn join(&self, name: &[u8], folder: bool) -> Result<Self, PathError> {
        check(name).map_err(|why| PathError::new(&String::from_utf8_lossy(name), why))?;
        let mut place = self.clone();
        place.push(name);
        place.folder = folder;
        Ok(place)
    }

    /// Appends a relative local path.
    pub fn join_local(&self, relative: &Path, folder: bool) -> Result<Self, PathError> {
        let mut place = self.clone();
        for component in relative.components() {
            match component {
                Component::Normal(name) => place.push(name.as_bytes()),
                Component::CurDir => {}
                _ => return Err(PathError::new(&relative.to_string_lossy(), PathProblem::NotBelow)),
            }
        }
        place.folder = folder;
        Ok(place)
    }

    /// The local path for this path, if the local folder `root` corresponds to `base`. Never outside `root`.
    pub fn to_local(&self, base: &Self, root: &Path) -> Option<PathBuf> {
        Some(self.relative_to(base)?.fold(root.to_owned(), |path, name| path.join(OsStr::from_bytes(name))))
    }

    /// The names from `base` to here; empty for `base` itself, and `None` if this is not below `base`.
    pub fn relative_to(&self, base: &Self) -> Option<impl Iterator<Item = &[u8]>> {
        let rest = self.bytes.strip_prefix(base.bytes.as_slice())?;
        rest.first().is_none_or(|next| *next == b'/').then(|| segments(rest))
    }

    /// The decoded names from the root to here.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        segments(&self.bytes)
    }

    /// The last name, decoded; `None` for the root.
    pub fn name(&self) -> Option<&[u8]> {
        self.bytes.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty())
    }

    /// The parent folder; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let end = self.bytes.iter().rposition(|byte| *byte == b'/')?;
        Some(Self { bytes: self.bytes[..end].to_vec(), folder: true })
    }

    /// A name beside this file's for another version of it, of this time (in seconds since 1970): `report.txt` becomes
    /// `report (conflict 1700000000).txt`. `None` if that is too long.
    pub fn conflicting(&self, seconds: u64) -> Option<Self> {
        let name = String::from_utf8_lossy(self.name()?).into_owned();
        let name = match name.rsplit_once('.') {
            Some((stem, extension)) if !stem.is_empty() => format!("{stem} (conflict {seconds}).{extension}"),
            _ => format!("{name} (conflict {seconds})"),
        };
        self.parent()?.join(name.as_bytes(), false).ok()
    }

    /// Whether it is a folder's path, whose URL ends with `/` (RFC 4918 §5.2).
    pub fn is_folder(&self) -> bool {
        self.folder
    }

    /// The same path as a folder's or a file's.
    #[must_use]
    pub fn as_folder(mut self, folder: bool) -> Self {
        self.folder = folder || self.bytes.is_empty();
        self
    }

    /// Whether both are equal, a file's or a folder's.
    pub fn same_place(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }

    /// Decoded text for programs: nothing is escaped, and bytes that are not UTF-8 are replaced. For terminals use
    /// `Display`.
    pub fn decoded(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.bytes).into_owned();
        if self.folder {
            text.push('/');
        }
        text
    }

    /// The request target: absolute and percent-encoded.
    pub fn target(&self) -> String {
        let mut target = String::with_capacity(self.bytes.len() + 1);
        for segment in self.segments() {
            target.push('/');
            target.extend(percent_encode(segment, ENCODED));
        }
        if self.folder || target.is_empty() {
            target.push('/');
        }
        target
    }
}

/// Decoded, with control characters escaped.
impl fmt::Display for RemotePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        terminal_safe(&self.bytes).fmt(f)?;
        if self.folder { f.write_str("/") } else { Ok(()) }
    }
}

impl fmt::Debug for RemotePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemotePath({})", self.target())
    }
}

/// Whether two names differ at most in case and Unicode form.
fn are_equivalent(one: &[u8], other: &[u8]) -> bool {
    let fold = |text: &str| text.nfd().flat_map(char::to_lowercase).nfc().collect::<String>();
    match (str::from_utf8(one), str::from_utf8(other)) {
        (Ok(one), Ok(other)) if !one.is_ascii() || !other.is_ascii() => fold(one) == fold(other),
        _ => one.eq_ignore_ascii_case(other),
    }
}

fn segments(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'/').skip(1)
}

fn check(segment: &[u8]) -> Result<(), PathProblem> {
    match segment {
        b"" => Err(PathProblem::Empty),
        b"." | b".." => Err(PathProblem::Dots),
        _ if segment.contains(&b'/') => Err(PathProblem::Slash),
        _ if segment.contains(&0) => Err(PathProblem::Nul),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(url: &str) -> RemotePath {
        RemotePath::from_url_path(url).unwrap()
    }

    #[test]
    fn a_conflict_keeps_folder_and_extension() {
        for (name, other) in [
            ("/a/report.txt", "/a/report (conflict 7).txt"),
            ("/a/.bashrc", "/a/.bashrc (conflict 7)"),
            ("/README", "/README (conflict 7)"),
        ] {
            assert_eq!(path(name).conflicting(7).unwrap().decoded(), other);
        }
        assert_eq!(path("/").conflicting(7), None);
    }

    fn href(href: &str) -> Result<String, PathProblem> {
        RemotePath::from_href(href, &path("/dav/Ann%20B/")).map(|path| path.target()).map_err(|error| error.why)
    }

    #[test]
    fn different_spellings_of_an_href_are_one_path() {
        for spelling in [
            "/dav/Ann%20B/x%C3%A4.txt",
            "/dav/Ann B/xä.txt",
            "/dav//Ann%20B///x%c3%a4.txt",
            "/DAV/ann%20b/x%C3%A4.txt",
            "https://other.example:8443/dav/Ann%20B/x%C3%A4.txt",
            "HTTP://other.example/%64av/Ann%20B/x%C3%A4%2Etxt",
            "x%C3%A4.txt",
        ] {
            assert_eq!(href(spelling).unwrap(), "/dav/Ann%20B/x%C3%A4.txt", "{spelling}");
        }
        assert_eq!(href("/dav/Ann%20B").unwrap(), "/dav/Ann%20B");
        assert_eq!(href("/dav/Ann%20B/.").unwrap(), "/dav/Ann%20B/");
        assert_eq!(href("/dav/Ann%20B/100%.txt").unwrap(), "/dav/Ann%20B/100%25.txt");
        assert_eq!(href("/dav/Ann%20B/a;b+c").unwrap(), "/dav/Ann%20B/a%3Bb%2Bc");
    }

    #[test]
    fn href_outside_the_folder_is_refused() {
        let elsewhere = PathProblem::Elsewhere(path("/dav/Ann%20B/"));
        for (spelling, why) in [
            ("/dav/Ann%20B/../x", PathProblem::Dots),
            ("/dav/Ann%20B/%2e%2E/x", PathProblem::Dots),
            ("../x", PathProblem::Dots),
            ("/dav/Ann%20B/..", PathProblem::Dots),
            ("/dav/Ann%20B/./x", PathProblem::Dots),
            ("/dav/Ann%20B/a%2F..%2F..%2Fb", PathProblem::Slash),
            ("/dav/Ann%20B/%2fetc", PathProblem::Slash),
            ("/dav/Ann%20B/a%00", PathProblem::Nul),
            ("/dav/Ann%20B/a?b", PathProblem::Query),
            ("/dav/Ann%20B2/x", elsewhere.clone()),
            ("/dav/", elsewhere.clone()),
            ("//dav.example/x", elsewhere.clone()),
            ("http://dav.example", elsewhere),
            ("http://dav.example?x", PathProblem::Query),
            ("ftp://dav.example/dav/Ann%20B/x", PathProblem::Scheme),
            ("", PathProblem::Empty),
        ] {
            assert_eq!(href(spelling), Err(why), "{spelling}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(path("/a%1b%5b2J%0A%E4/").to_string(), "/a\\u{1b}[2J\\n\u{fffd}/");
        let error = RemotePath::from_href("/\x1b[2J", &path("/a")).unwrap_err();
        assert!(!error.to_string().contains('\x1b'), "{error}");
    }

    #[test]
    fn names_parents_and_folders() {
        let file = path("/a/b");
        assert_eq!((file.name(), file.parent().unwrap().target().as_str()), (Some(&b"b"[..]), "/a/"));
        assert_eq!((RemotePath::root().name(), RemotePath::root().parent()), (None, None));
        assert_eq!((RemotePath::root().target().as_str(), path("/").is_folder()), ("/", true));
        assert!(file.same_place(&path("/a/b/")) && file != path("/a/b/"));
        assert!(file.join(b"..", false).is_err() && file.join(b"x/y", false).is_err());
        assert!(file.join_local(Path::new("../x"), false).is_err() && file.join_local(Path::new("/x"), false).is_err());
        assert!(path("/ab/c").relative_to(&path("/a")).is_none());
    }

    fn segment() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 1..12).prop_filter("a name", |name| check(name).is_ok())
    }

    fn place() -> impl Strategy<Value = RemotePath> {
        (prop::collection::vec(segment(), 0..5), any::<bool>()).prop_map(|(segments, folder)| {
            segments.iter().fold(RemotePath::root(), |place, name| place.join(name, true).unwrap()).as_folder(folder)
        })
    }

    proptest! {
        #[test]
        fn path_round_trips_through_url_and_local_name(base in place(), place in place()) {
            let target = place.target();
            prop_assert!(target.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(&RemotePath::from_url_path(&target).unwrap(), &place);
            prop_assert_eq!(&RemotePath::from_href(&target, &RemotePath::root()).unwrap(), &place);

            let below = place.segments().fold(base.clone(), |below, name| below.join(name, true).unwrap());
            let below = below.as_folder(place.is_folder());
            let local = below.to_local(&base, Path::new("/target")).unwrap();
            let relative = local.strip_prefix("/target").unwrap();
            prop_assert_eq!(base.join_local(relative, below.is_folder()).unwrap().as_folder(below.is_folder()), below);
        }

        #[test]
        fn no_href_escapes_the_folder(
            base in place(),
            parts in prop::collection::vec(
                prop::sample::select(vec!["/", "//", "..", ".", "%2e", "%2F", "%00", "\\", "a", "%ff", "http://x", "~", "C:", "%"]),
                0..12,
            ),
            any in ".{0,20}",
            from_base in any::<bool>(),
        ) {
            let href = if from_base { format!("{}/{}{any}", base.target(), parts.concat()) } else { parts.concat() + &any };
            if let Ok(place) = RemotePath::from_href(&href, &base) {
                let local = place.to_local(&base, Path::new("/target")).unwrap();
                prop_assert!(local.starts_with("/target"));
                prop_assert!(local.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_))));
                prop_assert!(!local.as_os_str().as_bytes().contains(&0));
                prop_assert_eq!(RemotePath::from_url_path(&place.target()).unwrap(), place);
            }
        }
    }
}
