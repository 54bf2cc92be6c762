//! The journal of a mount (`writeback`): what programs have closed and the server does not have yet.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
pub(crate) use writeback::{Failed, Failure, Id};
pub use writeback::{JournalError, Pending, Report};

use crate::tree::Ino;

/// What a mount knows of an entry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Details {
    /// Its node, once it has one in this mount.
    #[serde(skip)]
    pub(crate) ino: Option<Ino>,
}

pub(crate) type Entries = writeback::Entries<Details>;
pub(crate) type Entry = writeback::Entry<Details>;
pub(crate) type Journal = writeback::Journal<Details>;

/// The folder of a share's journal.
pub(crate) fn place(cache: &Path, source: &str, account: &str) -> PathBuf {
    Journal::place(cache, source, crc32c::crc32c(format!("{source}\n{account}").as_bytes()))
}

/// Opens the journal of a share.
pub(crate) fn open(place: PathBuf, source: &str) -> Result<Journal, JournalError> {
    let advice = "is mounted with a journal already; unmount it there, or give this mount a --cache-dir of its own";
    Journal::open(place, source, advice)
}

#[cfg(test)]
mod tests;
