//! The first line of a saved file: whose it is, and where it goes.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// The longest line.
const LONGEST: u64 = 64 * 1024;

/// What is known of a saved file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The user's name, of Basic credentials.
    pub(crate) user: String,
    /// The path at the server, percent-encoded.
    pub(crate) path: String,
    /// The token of the lock under which it was saved, in its angle brackets.
    pub(crate) token: String,
    /// The entity tag of the version that it replaces, if there was one and it is known.
    pub(crate) base: Option<String>,
    /// `Content-Type`.
    pub(crate) kind: Option<String>,
    /// Of the content, in bytes.
    pub(crate) length: u64,
    /// When it was saved, in seconds since 1970.
    pub(crate) at: u64,
}

impl Record {
    pub(crate) fn now() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
    }

    /// In place of one that cannot be read.
    pub(super) fn unknown(place: &Path) -> Self {
        let (user, path, token) = ("an unknown user".to_owned(), place.display().to_string(), String::new());
        let metadata = place.metadata().ok();
        let modified = metadata.as_ref().and_then(|metadata| metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        let (length, at) = (metadata.map_or(0, |metadata| metadata.len()), modified.map_or(0, |time| time.as_secs()));
        Self { user, path, token, base: None, kind: None, length, at }
    }

    /// In seconds.
    pub(crate) fn age(&self) -> u64 {
        Self::now().saturating_sub(self.at)
    }
}

pub(super) fn head(record: &Record) -> io::Result<Vec<u8>> {
    let mut head = serde_json::to_vec(record)?;
    head.push(b'\n');
    if head.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the names are too long"));
    }
    Ok(head)
}

/// The number of a saved file; none if it is another kind of file.
pub(super) fn number(place: &Path) -> Option<u64> {
    place.file_name()?.to_str()?.parse().ok()
}

/// The record of a file, and where its content begins.
pub(super) fn read(place: &Path) -> io::Result<(Record, u64)> {
    let damaged = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    let file = File::open(place)?;
    let length = file.metadata()?.len();
    let mut head = Vec::new();
    BufReader::new(file.take(LONGEST)).read_until(b'\n', &mut head)?;
    let line = head.strip_suffix(b"\n").ok_or_else(|| damaged("its first line has no end"))?;
    let record: Record = serde_json::from_slice(line).map_err(|_| damaged("its first line is no record"))?;
    let start = head.len() as u64;
    if length.checked_sub(start) != Some(record.length) {
        return Err(damaged("its length is not the recorded one"));
    }
    Ok((record, start))
}
