//! Names that differ on one side and are equal on the other.
//!
//! Some file systems ignore case, or treat the composed and decomposed form of a letter as equal (NFC and NFD), or drop
//! trailing dots and spaces. On such a target one of two files would silently overwrite the other. Names are grouped by
//! [`key`], which folds all of this and more. Only if two names are in one group, a test on the target shows whether
//! they collide there; most transfers need no test.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

use unicode_normalization::UnicodeNormalization;

use super::{part_name, random};

/// A key that is equal for all names that some target may treat as equal.
pub fn key(name: &[u8]) -> Vec<u8> {
    let (stem, _) = split_end(name);
    match str::from_utf8(stem) {
        Ok(text) if !text.is_ascii() => {
            let upper: String = text.nfkd().flat_map(char::to_uppercase).collect();
            upper.chars().flat_map(char::to_lowercase).nfkd().collect::<String>().into_bytes()
        }
        _ => stem.to_ascii_lowercase(),
    }
}

/// Splits off trailing dots and spaces.
pub(crate) fn split_end(name: &[u8]) -> (&[u8], &[u8]) {
    name.split_at(name.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(name.len(), |last| last + 1))
}

/// The common form (NFC) of all canonically equivalent names; none for ASCII, which has only one form.
pub(crate) fn canonical(name: &[u8]) -> Option<String> {
    str::from_utf8(name).ok().filter(|text| !text.is_ascii()).map(|text| text.nfc().collect())
}

/// The names in use in a folder.
#[derive(Debug, Default)]
pub(crate) struct TakenNames(HashMap<Vec<u8>, Vec<Box<[u8]>>>);

impl TakenNames {
    /// Adds a name; fails with the name that it collides with, according to `is_one`.
    pub(crate) fn take(&mut self, name: &[u8], is_one: impl Fn(&[u8], &[u8]) -> bool) -> Result<(), Box<[u8]>> {
        let group = self.0.entry(key(name)).or_default();
        if let Some(other) = group.iter().find(|other| &***other != name && is_one(other, name)) {
            return Err(other.clone());
        }
        group.push(name.into());
        Ok(())
    }
}

/// Whether two names collide in a local folder. Tried in a temporary folder within it, or within its nearest existing
/// parent.
pub(crate) fn are_one_here(folder: &Path, one: &[u8], other: &[u8]) -> bool {
    let Some(folder) = folder.ancestors().find(|folder| folder.is_dir()) else { return false };
    let trial = folder.join(OsStr::from_bytes(&part_name(b"names", random(folder))));
    if fs::create_dir(&trial).is_err() {
        return false;
    }
    let [one, other] = [one, other].map(|name| trial.join(OsStr::from_bytes(name)));
    let are_one = fs::File::create_new(one).is_ok() && fs::symlink_metadata(other).is_ok();
    let _ = fs::remove_dir_all(trial);
    are_one
}

/// Whether two local names refer to one file.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    let of = |path| fs::symlink_metadata(path).ok().map(|it| (it.dev(), it.ino()));
    of(one).is_some_and(|it| of(other) == Some(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_collide_have_the_same_key() {
        for (one, other) in [
            ("README", "readme"),
            ("\u{e9}", "e\u{301}"),
            ("\u{c9}t\u{e9}", "e\u{301}t\u{e9}"),
            ("a", "a. ."),
            ("stra\u{df}e", "STRASSE"),
            ("\u{3c3}", "\u{3c2}"),
            ("\u{fb01}", "fi"),
        ] {
            assert_eq!(key(one.as_bytes()), key(other.as_bytes()), "{one} {other}");
        }
        for (one, other) in [("a", "b"), ("a.", ".a"), ("e", "\u{e9}"), (".", "")] {
            assert_ne!(key(one.as_bytes()), key(other.as_bytes()), "{one} {other}");
        }
        assert_eq!(key(b"\xffA"), b"\xffa");
    }

    #[test]
    fn second_name_is_refused_only_if_both_collide() {
        let folds = |one: &[u8], other: &[u8]| one.eq_ignore_ascii_case(other);
        let mut taken = TakenNames::default();
        assert_eq!(taken.take(b"Read", folds), Ok(()));
        assert_eq!(taken.take(b"read", folds), Err(b"Read"[..].into()));
        assert_eq!(taken.take(b"read.", folds), Ok(()), "dots are kept here");
        let mut taken = TakenNames::default();
        for name in [&b"Read"[..], b"read", b"READ", b"read. "] {
            assert_eq!(taken.take(name, |_, _| false), Ok(()));
        }
    }

    #[test]
    fn collision_test_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!are_one_here(&folder.path().join("not/yet"), b"a", b"b"));
        fs::write(folder.path().join("a"), "").unwrap();
        fs::hard_link(folder.path().join("a"), folder.path().join("b")).unwrap();
        assert!(is_same_file(&folder.path().join("a"), &folder.path().join("b")));
        assert!(!is_same_file(&folder.path().join("a"), &folder.path().join("c")));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
