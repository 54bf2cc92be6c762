//! Wildcards in the paths of URLs, as in a shell: `*` and `[abc]` match within a name, and a `*` at its beginning matches
//! no leading dot.
//!
//! Only unencoded characters are wildcards. So every name can be written: `%2A` is a star and `%5B` a bracket. Braces and
//! `?` are no wildcards, because GUIDs have braces, and a `?` ends the path of a URL.
//!
//! One listing answers for one folder, whatever the pattern; the folders that a pattern reaches are listed together. So a
//! pattern takes as many round trips as it has segments with wildcards.

use std::{collections::BTreeMap, ffi::OsStr, os::unix::ffi::OsStrExt};

use futures_util::{StreamExt, stream};
use globset::{GlobBuilder, GlobMatcher};
use percent_encoding::percent_decode_str;

use crate::{Dav, Depth, Entry, Error, PathError, PathProblem, PropertySet, RemotePath};

/// Requests in flight at a time.
const AT_ONCE: usize = 64;

/// The path of a URL with wildcards.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As the user wrote it.
    text: String,
    /// The folder in front of the first wildcard.
    base: RemotePath,
    /// What follows: at least one name with wildcards.
    names: Vec<Name>,
    /// Whether it ends with `/`, and matches only folders.
    folders: bool,
}

#[derive(Debug, Clone)]
enum Name {
    Literal(Vec<u8>),
    Glob(GlobMatcher),
}

/// What a pattern matches.
#[derive(Debug, Default)]
pub struct Matches {
    /// The files and folders, in the order of their paths.
    pub entries: Vec<Entry>,
    /// Names that the listings contain and that cannot be used.
    pub unusable: Vec<PathError>,
}

impl Pattern {
    /// The pattern in the percent-encoded path of a URL; none if it has no wildcard.
    pub fn from_url_path(path: &str) -> Result<Option<Self>, PathError> {
        let fail = |why| PathError::new(path, why);
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let Some(first) = parts.iter().position(|part| part.contains(['*', '['])) else { return Ok(None) };
        let base = RemotePath::from_url_path(&format!("/{}/", parts[..first].join("/")))?;
        let mut names = Vec::new();
        for part in &parts[first..] {
            names.push(if part.contains(['*', '[']) {
                Name::Glob(glob(part).map_err(fail)?)
            } else {
                let name: Vec<u8> = percent_decode_str(part).collect();
                base.join(&name, true)?;
                Name::Literal(name)
            });
        }
        Ok(Some(Self { text: path.to_owned(), base, names, folders: path.ends_with('/') }))
    }

    /// The folder in front of the first wildcard.
    pub fn base(&self) -> &RemotePath {
        &self.base
    }

    /// As the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Lists what it matches. An error means that more may match.
    pub async fn matches(&self, dav: &Dav, properties: PropertySet) -> Result<Matches, Error> {
        let (mut found, mut folders) = (Matches::default(), BTreeMap::from([(self.base.clone(), None)]));
        for (number, name) in self.names.iter().enumerate() {
            let is_last = number + 1 == self.names.len();
            let wants_folder = !is_last || self.folders;
            let next = folders.into_keys().map(|folder| async move {
                match name {
                    Name::Literal(name) => exact(dav, folder.join(name, wants_folder)?, is_last, properties).await,
                    Name::Glob(glob) => members(dav, folder, glob, number == 0, properties).await,
                }
            });
            let mut next = stream::iter(next).buffered(AT_ONCE);
            folders = BTreeMap::new();
            while let Some(listed) = next.next().await {
                let (entries, unusable) = listed?;
                let fitting = entries.into_iter().filter(|(path, _)| path.is_folder() || !wants_folder);
                folders.extend(fitting);
                found.unusable.extend(unusable);
            }
        }
        found.entries.extend(folders.into_values().flatten());
        Ok(found)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

/// Paths with their entries, if those are known, and unusable names.
type Listed = (Vec<(RemotePath, Option<Entry>)>, Vec<PathError>);

/// A path without wildcards; looked up only at the end, since a listing shows whether a folder exists.
async fn exact(dav: &Dav, path: RemotePath, is_last: bool, properties: PropertySet) -> Result<Listed, Error> {
    if !is_last {
        return Ok((vec![(path, None)], Vec::new()));
    }
    let found = dav.stat(&path, properties).await?;
    Ok((found.map(|entry| (entry.path.clone(), Some(entry))).into_iter().collect(), Vec::new()))
}

/// The members of a folder that match. If the user did not name the folder, it may be missing, or a file.
async fn members(
    dav: &Dav,
    folder: RemotePath,
    glob: &GlobMatcher,
    is_named: bool,
    properties: PropertySet,
) -> Result<Listed, Error> {
    let (mut entries, mut unusable) = (Vec::new(), Vec::new());
    let listed = dav.list(&folder, Depth::One, properties, |entry| match entry {
        Ok(entry) if !entry.path.same_place(&folder) && entry.path.name().is_some_and(|name| fits(glob, name)) => {
            entries.push((entry.path.clone(), Some(entry)));
        }
        Ok(_) => {}
        Err(why) => unusable.push(why),
    });
    match listed.await {
        Err(error) if !is_named && error.is(404) => Ok(Listed::default()),
        listed => listed.map(|()| (entries, unusable)),
    }
}

fn fits(glob: &GlobMatcher, name: &[u8]) -> bool {
    glob.is_match(OsStr::from_bytes(name)) && (!name.starts_with(b".") || glob.glob().glob().starts_with('.'))
}

/// Compiles a segment of a path: what is percent-encoded in it is literal.
fn glob(part: &str) -> Result<GlobMatcher, PathProblem> {
    let literal = |text: &str| match percent_decode_str(text).decode_utf8() {
        Ok(text) if text.contains(['/', '\0']) => Err(PathProblem::Slash),
        Ok(text) => Ok(globset::escape(&text)),
        Err(_) => Err(PathProblem::Wildcard("a wildcard beside a `%XX` that is not UTF-8")),
    };
    let (mut text, mut rest) = (String::new(), part);
    while let Some(at) = rest.find(['*', '[']) {
        text += &literal(&rest[..at])?;
        let wildcard = &rest[at..];
        let end = if wildcard.starts_with('*') {
            1
        } else {
            // A bracket behind `[` or `[!` is a member.
            let first = if wildcard[1..].starts_with(['!', '^']) { 3 } else { 2 };
            let end = wildcard.char_indices().find(|(at, char)| *at >= first && *char == ']').map(|(at, _)| at + 1);
            end.ok_or(PathProblem::Wildcard("a `[` without a `]`; write %5B for a `[` in a name"))?
        };
        if wildcard.starts_with("**") {
            return Err(PathProblem::Wildcard(
                "`**`, which does not match folders of any depth here; copy a tree with `cp -r --include`",
            ));
        }
        text += &percent_decode_str(&wildcard[..end]).decode_utf8_lossy();
        rest = &wildcard[end..];
    }
    text += &literal(rest)?;
    let built = GlobBuilder::new(&text).literal_separator(true).backslash_escape(false).build();
    let invalid = PathProblem::Wildcard("an invalid range in `[…]`; write %5B for a `[` in a name");
    built.map(|glob| glob.compile_matcher()).map_err(|_| invalid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_match(pattern: &str, name: &str) -> bool {
        fits(&glob(pattern).unwrap(), name.as_bytes())
    }

    #[test]
    fn wildcards_match_as_in_a_shell() {
        for (pattern, name) in [
            ("*.jpg", "a.jpg"),
            ("*", "a b"),
            ("img[0-9].jpg", "img7.jpg"),
            ("[!a]*", "b"),
            ("[]a]", "]"),
            ("{a,b}*", "{a,b}c"),
            ("%2A*", "*x"),
            ("a%5B1%5D*", "a[1].pdf"),
            (".h*", ".htaccess"),
            ("%C3%A4*", "ä.txt"),
            ("ä*", "ä"),
            ("a\\*", "a\\b"),
        ] {
            assert!(is_match(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*.jpg", "a.jpg.txt"),
            ("*", ".hidden"),
            ("[.]*", ".hidden"),
            ("%2A*", "ax"),
            ("[!a]*", "a"),
            ("*.JPG", "a.jpg"),
        ] {
            assert!(!is_match(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn unusable_pattern_is_explained() {
        for (path, said) in [
            ("/a/[b", "without a `]`"),
            ("/a/**/b", "`**`"),
            ("/a/[z-a]", "invalid range"),
            ("/a*/../b", "`..`"),
            ("/../a*", "`..`"),
            ("/a*%2Fb", "%2F"),
            ("/a*%ff", "UTF-8"),
        ] {
            let why = Pattern::from_url_path(path).unwrap_err().to_string();
            assert!(why.contains(said) && !why.contains('\n'), "{path}: {why}");
        }
        assert!(Pattern::from_url_path("/a%2A/b%5B/{c}").unwrap().is_none());
        let pattern = Pattern::from_url_path("/a%20b/c/*/d/").unwrap().unwrap();
        assert_eq!((pattern.base().target().as_str(), pattern.names.len()), ("/a%20b/c/", 2));
    }

    proptest! {
        /// Whatever its name is, a file can be named: the URL that `haul` prints for it is no pattern.
        #[test]
        fn printed_url_is_never_a_pattern(name in prop::collection::vec(any::<u8>(), 1..12)) {
            if let Ok(path) = RemotePath::root().join(&name, false) {
                prop_assert_eq!(Pattern::from_url_path(&path.target()).unwrap(), None);
            }
        }

        #[test]
        fn pattern_of_an_encoded_prefix_matches_it(name in "[^/\0]{1,8}", rest in "[^/\0]{0,4}") {
            if let Ok(path) = RemotePath::root().join(name.as_bytes(), false) {
                let pattern = format!("{}*", path.target().trim_start_matches('/'));
                prop_assert!(is_match(&pattern, &(name + &rest)), "{}", pattern);
            }
        }
    }
}
