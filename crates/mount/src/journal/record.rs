//! The journal's records, one line each: a checksum and JSON. No I/O.
//!
//! A line whose checksum is wrong was cut by a crash, or damaged. It is left out, and those behind it count.

use std::time::{Duration, SystemTime};

use dav::{ETag, RemotePath};
use serde::{Deserialize, Serialize};

use crate::{file_state::Base, tree::Facts};

/// The number of a content in the journal, in the order in which programs closed the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Id(pub(crate) u64);

/// A change of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Record {
    /// A program has closed a file; its content is stored under this number, in place of `replaced`.
    Closed { id: Id, path: String, base: Version, length: u64, modified: Option<f64>, at: f64, replaced: Vec<Id> },
    /// The file has another path, and its upload replaces another version.
    Renamed { id: Id, path: String, base: Version, replaced: Vec<Id> },
    /// A program has set the modification time.
    Modified { id: Id, modified: f64 },
    /// The server has it, as this version.
    Uploaded { id: Id, version: Version },
    /// Programs have removed the files.
    Removed { ids: Vec<Id> },
    /// An upload has failed; it will be tried again.
    Failed { id: Id, why: String },
    /// Something that somebody has to know.
    Told { number: u64, at: f64, what: String },
}

/// A version on the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Version {
    /// Whether there is none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    new: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(default)]
    length: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    modified: Option<f64>,
}

impl From<&Base> for Version {
    fn from(base: &Base) -> Self {
        match base {
            Base::New => Self { new: true, etag: None, length: 0, modified: None },
            Base::Version(facts) => Self {
                new: false,
                etag: facts.etag.as_ref().map(ToString::to_string),
                length: facts.length,
                modified: facts.modified.map(seconds),
            },
        }
    }
}

impl From<&Version> for Base {
    fn from(version: &Version) -> Self {
        if version.new {
            return Self::New;
        }
        Self::Version(Facts {
            length: version.length,
            modified: version.modified.map(time),
            etag: version.etag.as_deref().and_then(ETag::parse),
        })
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

pub(crate) fn time(seconds: f64) -> SystemTime {
    let from_zero = Duration::try_from_secs_f64(seconds.abs()).unwrap_or_default();
    let zero = SystemTime::UNIX_EPOCH;
    let time = if seconds < 0.0 { zero.checked_sub(from_zero) } else { zero.checked_add(from_zero) };
    time.unwrap_or(zero)
}

/// A path as it is in a record.
pub(crate) fn path_text(path: &RemotePath) -> String {
    path.target()
}

pub(crate) fn path_of(text: &str) -> Option<RemotePath> {
    RemotePath::from_url_path(text).ok()
}

/// The line of a record.
pub(crate) fn line(record: &Record) -> String {
    let json = serde_json::to_string(record).expect("records have string keys and finite numbers");
    format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()))
}

/// The records of a journal, and the number of lines that are damaged. A line that a crash has cut at the end does not count.
pub(crate) fn parse(text: &[u8]) -> (Vec<Record>, usize) {
    let (mut records, mut damaged) = (Vec::new(), 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match parse_line(line) {
            Some(record) => records.push(record),
            None if line.ends_with(b"\n") => damaged += 1,
            None => {}
        }
    }
    (records, damaged)
}

fn parse_line(line: &[u8]) -> Option<Record> {
    let text = str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (checksum, json) = text.split_once(' ')?;
    let checksum = u32::from_str_radix(checksum, 16).ok()?;
    (crc32c::crc32c(json.as_bytes()) == checksum).then(|| serde_json::from_str(json).ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(number: u64) -> Record {
        Record::Failed { id: Id(number), why: "no \"route\"\nto host".into() }
    }

    proptest! {
        /// Wherever a crash cuts the journal, the records before the cut are there.
        #[test]
        fn a_cut_journal_has_all_records_before_the_cut(cut in 0..400_usize) {
            let records: Vec<_> = (0..5).map(record).collect();
            let text: String = records.iter().map(line).collect();
            let whole = text.len() / 5;
            let cut = cut.min(text.len());
            let (parsed, damaged) = parse(&text.as_bytes()[..cut]);
            prop_assert_eq!(&parsed[..], &records[..cut / whole]);
            prop_assert_eq!(damaged, 0);
        }

        /// A damaged byte costs its line, or two if it was the end of one.
        #[test]
        fn a_damaged_line_does_not_hide_the_others(at in 0..400_usize, bit in 0..8_u32) {
            let records: Vec<_> = (0..5).map(record).collect();
            let mut text: Vec<u8> = records.iter().map(line).collect::<String>().into_bytes();
            let at = at % text.len();
            text[at] ^= 1_u8 << bit;
            let (parsed, _) = parse(&text);
            prop_assert!(parsed.len() >= 3 && parsed.iter().all(|record| records.contains(record)), "{parsed:?}");
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            parse(&bytes);
        }
    }
}
