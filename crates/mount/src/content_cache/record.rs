//! What is known of a content on disk: which version of which file it is, and which bytes of it are here. No I/O.

use std::ops::Range;

use dav::ETag;
use serde::{Deserialize, Serialize};
use transport::stable_hash;

use crate::{ranges::Ranges, tree::Facts};

/// A record, one file each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The path as in requests.
    path: String,
    etag: String,
    length: u64,
    /// The bytes that are here: start and end of each range, in order.
    present: Vec<(u64, u64)>,
}

impl Record {
    /// None if the version cannot be told from another: without a strong entity tag.
    pub(crate) fn new(path: &str, facts: &Facts, present: &Ranges) -> Option<Self> {
        let tag = facts.etag.as_ref().filter(|tag| !tag.is_weak())?;
        let ranges = present.within(0..facts.length);
        let present: Vec<_> = ranges.into_iter().map(|range| (range.start, range.end)).collect();
        let record = Self { path: path.to_owned(), etag: tag.to_string(), length: facts.length, present };
        (!record.present.is_empty()).then_some(record)
    }

    /// The bytes that are here, if it is this version of this file.
    pub(crate) fn present(&self, path: &str, facts: &Facts) -> Option<Ranges> {
        let tag = ETag::parse(&self.etag)?;
        let is_version = facts.etag.as_ref().is_some_and(|listed| listed.is(&tag)) && facts.length == self.length;
        let mut present = Ranges::default();
        for &(start, end) in &self.present {
            present.insert(Some(start..end).filter(|Range { start, end }| start < end && *end <= self.length)?);
        }
        (is_version && self.path == path).then_some(present)
    }
}

/// What the name of a record's file says, so that no record need be opened before its file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    /// Of the path.
    pub(crate) key: u64,
    /// Records are numbered in the order of their last use.
    pub(crate) number: u64,
    /// The number that is the name of the content's file.
    pub(crate) content: u64,
    /// The number of bytes that are here.
    pub(crate) stored: u64,
}

impl Name {
    pub(crate) fn key(path: &str) -> u64 {
        stable_hash("longhaul.content/1", &[&path])
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_suffix(".record")?.split('-').map(|part| u64::from_str_radix(part, 16).ok());
        let mut next = || parts.next().flatten();
        let name = Self { key: next()?, number: next()?, content: next()?, stored: next()? };
        parts.next().is_none().then_some(name)
    }

    pub(crate) fn text(self) -> String {
        format!("{:x}-{:x}-{:x}-{:x}.record", self.key, self.number, self.content, self.stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(tag: &str, length: u64) -> Facts {
        Facts { length, modified: None, etag: ETag::parse(tag) }
    }

    #[test]
    fn only_the_same_version_of_the_same_file_is_used() {
        let mut present = Ranges::default();
        present.insert(0..10);
        present.insert(20..30);
        let record = Record::new("/a", &facts("\"1\"", 30), &present).unwrap();
        assert_eq!(record.present("/a", &facts("\"1\"", 30)), Some(present.clone()));
        for (path, tag, length) in
            [("/b", "\"1\"", 30), ("/a", "\"2\"", 30), ("/a", "\"1\"", 31), ("/a", "W/\"1\"", 30)]
        {
            assert_eq!(record.present(path, &facts(tag, length)), None, "{path} {tag} {length}");
        }
        assert_eq!(record.present("/a", &Facts { length: 30, ..Facts::default() }), None);
        assert_eq!(Record::new("/a", &facts("W/\"1\"", 30), &present), None);
        assert_eq!(Record::new("/a", &Facts { length: 30, ..Facts::default() }, &present), None);
    }

    #[test]
    fn a_record_of_impossible_bytes_is_not_used() {
        for present in [vec![(0, 31)], vec![(9, 9)], vec![(9, 8)]] {
            let record = Record { path: "/a".into(), etag: "\"1\"".into(), length: 30, present };
            assert_eq!(record.present("/a", &facts("\"1\"", 30)), None);
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        let name = Name { key: u64::MAX, number: 7, content: 0xab, stored: 0 };
        assert_eq!(Name::parse(&name.text()), Some(name));
        for text in ["1-2-3.record", "1-2-3-4-5.record", "1-2-3-4", "x-2-3-4.record", "", "12"] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }
}
