//! Where something lies on a server, and what it may be called here.
//!
//! A server's hrefs become names of local files, so they are the way by which a hostile or broken server would
//! write where it should not. A [`RemotePath`] is the proof that it cannot: it is made of whole segments, none of
//! which is `.`, `..` or empty or has a `/` or NUL in it, and an href is accepted only below the folder that was
//! asked for. What cannot be kept so is refused by name, alone, and the rest of a listing stands.
//!
//! Everything else a URL can carry is kept as it is, byte for byte: Latin-1 names of old servers, line feeds,
//! escape sequences. They are harmless on a disk, and printing a path makes them harmless on a terminal.
//!
//! Two liberties are taken with what servers send. Empty segments are dropped (`/dav//a`), since many servers join
//! paths carelessly; and the asked folder is found again whatever the case of its letters, because servers on
//! file systems without case answer with their own spelling of it. Neither can lead outside.

use std::{
    ffi::OsStr,
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use unicode_normalization::UnicodeNormalization;

/// What is written as `%XX` in a request's target: all that RFC 3986 §3.3 does not allow in a segment, and `;` and
/// `+`, which some servers take for a parameter and a space.
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
    .remove(b'*')
    .remove(b',')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// An absolute path on a server, decoded, and whether it is a folder's.
///
/// Two paths are equal if they name the same place in the same role; [`RemotePath::same_place`] leaves the role out.
/// The order is that of the decoded bytes: a folder comes before what is in it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemotePath {
    /// Each segment with a `/` before it; nothing for the root.
    bytes: Vec<u8>,
    folder: bool,
}

/// Why a path cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the path `{}` {why}", path.escape_debug())]
pub struct PathError {
    /// The path as it was given, shortened if it is long.
    pub path: String,
    /// What is wrong with it.
    pub why: PathProblem,
}

/// What can be wrong with a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathProblem {
    /// There is none.
    #[error("is empty: the server did not say what it speaks of")]
    Empty,
    /// A URL of another scheme.
    #[error("is not that of an http or https URL")]
    Scheme,
    /// A `?` or `#` that is not encoded: no file's path has a query.
    #[error("has a query or fragment: the server should have encoded its `?` or `#`")]
    Query,
    /// A segment `.` or `..`, in any spelling.
    #[error("has a segment `.` or `..`, by which a server could write outside of the target folder: left out")]
    Dots,
    /// A `/` within a name.
    #[error("has a `/` inside a name (`%2F`), which no file here can have: left out")]
    Slash,
    /// A NUL within a name.
    #[error("has a NUL byte in it, which no file can have: left out")]
    Nul,
    /// A place that was not asked for.
    #[error("is not below {0}, which was asked for: left out (is there a proxy that changes paths?)")]
    Elsewhere(RemotePath),
    /// A place further down, where only what is right below a folder was asked for.
    #[error("is not right below {0}, whose listing has it: left out")]
    TooDeep(RemotePath),
    /// No URL is that long.
    #[error("is too long for a URL")]
    Long,
    /// A local path that is not relative, or leads upwards.
    #[error("is not a relative path below a folder")]
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

    /// The path of a URL, percent-encoded and absolute, as a user or a header gives it. A final `/` makes it a
    /// folder's.
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

    /// The place that an href in an answer means (RFC 4918 §8.3), if it is `asked` or below it. An absolute URL's
    /// host is left out: behind a proxy it is often another, and no request is ever sent there. A relative one is
    /// below `asked`. A final `.` is the folder itself (RFC 3986 §5.2.4), which some servers call their root by.
    pub fn from_href(href: &str, asked: &Self) -> Result<Self, PathError> {
        let fail = |why| PathError::new(href, why);
        let href = href.strip_suffix('.').filter(|folder| folder.ends_with('/')).unwrap_or(href);
        if href.is_empty() {
            return Err(fail(PathProblem::Empty));
        }
        if href.starts_with('/') {
            return Self::from_url_path(href).and_then(|place| place.below(asked).map_err(fail));
        }
        let Some((scheme, rest)) = href.split_once("://") else {
            let mut place = asked.clone();
            let relative = Self::from_url_path(href)?;
            place.bytes.extend_from_slice(&relative.bytes);
            place.folder = relative.folder;
            return Ok(place);
        };
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(fail(PathProblem::Scheme));
        }
        let path = rest.find(['/', '?', '#']).map_or("/", |at| &rest[at..]);
        Self::from_url_path(path)?.below(asked).map_err(fail)
    }

    /// Itself in `asked`'s spelling, if it is `asked` or below it. Servers that fold case, or normalise names, answer
    /// with the spelling that they keep.
    fn below(mut self, asked: &Self) -> Result<Self, PathProblem> {
        let length = asked.bytes.len();
        let begins = self.bytes.get(..length).is_some_and(|start| start.eq_ignore_ascii_case(&asked.bytes));
        if begins && self.bytes.get(length).is_none_or(|next| *next == b'/') {
            self.bytes[..length].copy_from_slice(&asked.bytes);
            return Ok(self);
        }
        let mut own = self.segments();
        if !asked.segments().all(|name| own.next().is_some_and(|own| are_equivalent(own, name))) {
            return Err(PathProblem::Elsewhere(asked.clone()));
        }
        let mut below = asked.clone();
        own.for_each(|name| below.push(name));
        Ok(below.as_folder(self.folder))
    }

    fn push(&mut self, segment: &[u8]) {
        self.bytes.push(b'/');
        self.bytes.extend_from_slice(segment);
    }

    /// What is called `name`, decoded, in this folder.
    pub fn join(&self, name: &[u8], folder: bool) -> Result<Self, PathError> {
        check(name).map_err(|why| PathError::new(&String::from_utf8_lossy(name), why))?;
        let mut place = self.clone();
        place.push(name);
        place.folder = folder;
        Ok(place)
    }

    /// What a local path, relative to a folder that corresponds to this one, is called on the server.
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

    /// Where this belongs in the local folder `root` that corresponds to `base`: always in it, or nowhere.
    pub fn to_local(&self, base: &Self, root: &Path) -> Option<PathBuf> {
        Some(self.relative_to(base)?.fold(root.to_owned(), |path, name| path.join(OsStr::from_bytes(name))))
    }

    /// The names from `base` to here; none for `base` itself.
    pub fn relative_to(&self, base: &Self) -> Option<impl Iterator<Item = &[u8]>> {
        let rest = self.bytes.strip_prefix(base.bytes.as_slice())?;
        rest.first().is_none_or(|next| *next == b'/').then(|| segments(rest))
    }

    /// The decoded names from the root to here.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        segments(&self.bytes)
    }

    /// The last name, decoded; none for the root.
    pub fn name(&self) -> Option<&[u8]> {
        self.bytes.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty())
    }

    /// The folder this is in; none for the root.
    pub fn parent(&self) -> Option<Self> {
        let end = self.bytes.iter().rposition(|byte| *byte == b'/')?;
        Some(Self { bytes: self.bytes[..end].to_vec(), folder: true })
    }

    /// Whether it is a folder's, so that its URL ends with `/` (RFC 4918 §5.2).
    pub fn is_folder(&self) -> bool {
        self.folder
    }

    /// The same place as a folder, or as a file.
    #[must_use]
    pub fn as_folder(mut self, folder: bool) -> Self {
        self.folder = folder || self.bytes.is_empty();
        self
    }

    /// Whether both name one place, whatever they take it for.
    pub fn same_place(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }

    /// Decoded, as programs want it: nothing is escaped, and what is not UTF-8 is replaced. For people, and terminals,
    /// there is the path's `Display`.
    pub fn decoded(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.bytes).into_owned();
        if self.folder {
            text.push('/');
        }
        text
    }

    /// The target of a request for it: absolute and percent-encoded.
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

/// Decoded, with what a terminal would obey escaped.
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

/// Whether two names differ at most in case and in Unicode form.
fn are_equivalent(one: &[u8], other: &[u8]) -> bool {
    let fold = |text: &str| text.nfd().flat_map(char::to_lowercase).nfc().collect::<String>();
    match (str::from_utf8(one), str::from_utf8(other)) {
        (Ok(one), Ok(other)) if !one.is_ascii() || !other.is_ascii() => fold(one) == fold(other),
        _ => one.eq_ignore_ascii_case(other),
    }
}

/// A name, or any other text from a server, as a terminal may show it. Control characters (C0 and C1), and characters
/// that are invisible or change the direction of writing, are escaped: with those, one name can look like another.
pub fn terminal_safe(bytes: &[u8]) -> impl fmt::Display {
    fmt::from_fn(|f| {
        use fmt::Write;
        for char in String::from_utf8_lossy(bytes).chars() {
            let escape = char.is_control() || is_invisible(char);
            if escape { write!(f, "{}", char.escape_default())? } else { f.write_char(char)? }
        }
        Ok(())
    })
}

/// Whether a character has no shape of its own: Unicode's format characters (general category Cf) as far as they occur
/// outside of one script, its line and paragraph separators, and letters that are blank.
fn is_invisible(char: char) -> bool {
    matches!(
        char,
        '\u{ad}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{180b}'..='\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
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

    fn href(href: &str) -> Result<String, PathProblem> {
        RemotePath::from_href(href, &path("/dav/Ann%20B/")).map(|path| path.target()).map_err(|error| error.why)
    }

    #[test]
    fn the_spellings_of_servers_mean_one_place() {
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
    fn what_would_lead_elsewhere_is_refused() {
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
    fn a_terminal_is_not_spoken_to() {
        assert_eq!(path("/a%1b%5b2J%0A%E4/").to_string(), "/a\\u{1b}[2J\\n\u{fffd}/");
        let error = RemotePath::from_href("/\x1b[2J", &path("/a")).unwrap_err();
        assert!(!error.to_string().contains('\x1b'), "{error}");
    }

    #[test]
    fn characters_without_a_shape_are_escaped_and_letters_of_all_scripts_are_not() {
        // A picture's name that a terminal would show as `photo_exe.jpg`.
        assert_eq!(terminal_safe("photo_\u{202e}gpj.exe".as_bytes()).to_string(), "photo_\\u{202e}gpj.exe");
        for char in "\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200d}\u{200e}\u{2028}\u{2066}\u{2069}\u{feff}\u{e0041}".chars()
        {
            let told = terminal_safe(char.to_string().as_bytes()).to_string();
            assert_eq!(told, format!("\\u{{{:x}}}", u32::from(char)));
        }
        let kept = "é e\u{301} שלום مرحبا 日本 한 ไทย 🙂 a\u{a0}b";
        assert_eq!(terminal_safe(kept.as_bytes()).to_string(), kept);
    }

    #[test]
    fn names_parents_and_roles() {
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
        fn a_path_survives_its_url_and_its_local_name(base in place(), place in place()) {
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
        fn nothing_escapes(
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
