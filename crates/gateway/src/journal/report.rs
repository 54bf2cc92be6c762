//! What a journal has, for who asks from outside of the gateway.

use std::{cmp::Reverse, fs, io, path::Path};

use super::record::{self, Record};

/// A file that the server does not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pending {
    /// The URL of the server's folder.
    pub upstream: String,
    /// Who has saved it.
    pub user: String,
    /// Its path at the server, percent-encoded.
    pub path: String,
    /// In bytes.
    pub length: u64,
    /// How long ago it was saved, in seconds.
    pub age: u64,
    /// Why its upload has failed, if it has.
    pub why: Option<String>,
}

/// What the gateways with this state folder have acknowledged and not uploaded yet, oldest first.
pub fn pending(state: &Path) -> io::Result<Vec<Pending>> {
    let mut found = Vec::new();
    let journals = match fs::read_dir(state.join("journal")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        journals => journals?,
    };
    for journal in journals {
        let journal = journal?.path();
        let upstream = fs::read_to_string(journal.join("upstream")).unwrap_or_default();
        for file in fs::read_dir(&journal)? {
            let place = file?.path();
            if record::number(&place).is_none() {
                continue;
            }
            let (record, why) = match record::read(&place) {
                Ok((record, _)) => (record, fs::read_to_string(place.with_extension("why")).ok()),
                // It has been uploaded by now.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => (Record::unknown(&place), Some(format!("it cannot be used: {error}"))),
            };
            let (age, upstream) = (record.age(), upstream.clone());
            found.push(Pending { upstream, user: record.user, path: record.path, length: record.length, age, why });
        }
    }
    found.sort_by_key(|file| Reverse(file.age));
    Ok(found)
}
