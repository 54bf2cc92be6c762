//! The journal's records, one line each: a checksum and JSON. No I/O.
//!
//! A line whose checksum is wrong was cut by a crash, or damaged. It is left out, and those behind it count.

use dav::RemotePath;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::version::Base;

/// The format, and its version.
pub(crate) const FORMAT: &str = "longhaul.journal/1";

/// What a program knows of an entry beside what all have.
pub trait Details: Clone + Default + Serialize + DeserializeOwned {}

impl<D: Clone + Default + Serialize + DeserializeOwned> Details for D {}

/// The number of a content in the journal, in the order in which programs closed the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Id(pub u64);

/// A change of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", bound(serialize = "D: Serialize", deserialize = "D: DeserializeOwned"))]
pub(crate) enum Record<D> {
    /// A program has closed a file; its content is stored under this number, in place of `replaced`. Times are in seconds
    /// since 1970.
    Closed {
        id: Id,
        path: String,
        base: Base,
        length: u64,
        modified: Option<f64>,
        at: f64,
        replaced: Vec<Id>,
        #[serde(flatten)]
        details: D,
    },
    /// The file has another path, and its upload replaces another version.
    Renamed { id: Id, path: String, base: Base, replaced: Vec<Id> },
    /// A program has set the modification time.
    Modified { id: Id, modified: f64 },
    /// What a program knows of it has changed.
    Changed {
        id: Id,
        #[serde(flatten)]
        details: D,
    },
    /// The server has it, as this version.
    Uploaded { id: Id, version: Base },
    /// They are done with: removed by programs, uploaded, or kept elsewhere.
    Removed { ids: Vec<Id> },
    /// An upload has failed; it will be tried again.
    Failed { id: Id, why: String },
    /// Something that somebody has to know.
    Told { number: u64, at: f64, what: String },
}

/// The first line of a journal.
#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
}

/// What the lines of a journal say.
#[derive(Debug)]
pub(crate) struct Parsed<D> {
    pub(crate) records: Vec<Record<D>>,
    /// The number of damaged lines. One that a crash has cut at the end does not count.
    pub(crate) damaged: usize,
}

/// A journal of an unknown format: its name.
#[derive(Debug)]
pub(crate) struct Unknown(pub(crate) String);

/// A path as it is in a record.
pub(crate) fn path_text(path: &RemotePath) -> String {
    path.target()
}

pub(crate) fn path_of(text: &str) -> Option<RemotePath> {
    RemotePath::from_url_path(text).ok()
}

fn sealed(line: &impl Serialize) -> String {
    let json = serde_json::to_string(line).expect("lines have string keys and finite numbers");
    format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()))
}

/// The first line.
pub(crate) fn header() -> String {
    sealed(&Header { format: FORMAT.to_owned() })
}

/// The line of a record.
pub(crate) fn line<D: Details>(record: &Record<D>) -> String {
    sealed(record)
}

/// What a journal says. Those of 0.1 have records of the same form and no header.
pub(crate) fn parse<D: Details>(text: &[u8]) -> Result<Parsed<D>, Unknown> {
    let (mut records, mut damaged, mut is_first) = (Vec::new(), 0, true);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let json = checked(line);
        let header = json.filter(|_| is_first).and_then(|json| serde_json::from_str::<Header>(json).ok());
        is_first = false;
        match (header, json.and_then(|json| serde_json::from_str(json).ok())) {
            (Some(Header { format }), _) if format != FORMAT => return Err(Unknown(format)),
            (Some(_), _) => {}
            (None, Some(record)) => records.push(record),
            (None, None) => damaged += usize::from(line.ends_with(b"\n")),
        }
    }
    Ok(Parsed { records, damaged })
}

/// The JSON of a line that is as it was written.
fn checked(line: &[u8]) -> Option<&str> {
    let text = str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (checksum, json) = text.split_once(' ')?;
    (u32::from_str_radix(checksum, 16).ok()? == crc32c::crc32c(json.as_bytes())).then_some(json)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    struct Nothing {}

    fn parse(text: &[u8]) -> Parsed<Nothing> {
        super::parse(text).unwrap()
    }

    fn record(number: u64) -> Record<Nothing> {
        Record::Failed { id: Id(number), why: "no \"route\"\nto host".into() }
    }

    #[test]
    fn another_version_is_not_taken_for_damage() {
        let later = super::sealed(&Header { format: "longhaul.journal/2".into() }) + "anything\n";
        assert_eq!(super::parse::<Nothing>(later.as_bytes()).unwrap_err().0, "longhaul.journal/2");
        let parsed = parse((header() + &line(&record(1))).as_bytes());
        assert_eq!((parsed.records, parsed.damaged), (vec![record(1)], 0));
    }

    proptest! {
        /// Wherever a crash cuts the journal, the records before the cut are there.
        #[test]
        fn a_cut_journal_has_all_records_before_the_cut(cut in 0..400_usize) {
            let records: Vec<_> = (0..5).map(record).collect();
            let text: String = records.iter().map(line).collect();
            let whole = text.len() / 5;
            let cut = cut.min(text.len());
            let Parsed { records: parsed, damaged } = parse(&text.as_bytes()[..cut]);
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
            let parsed = parse(&text).records;
            prop_assert!(parsed.len() >= 3 && parsed.iter().all(|record| records.contains(record)), "{parsed:?}");
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = super::parse::<Nothing>(&bytes);
        }
    }
}
