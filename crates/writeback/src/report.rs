//! What a journal says to people, whether its program runs or not.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use dav::RemotePath;
use output::durable;
use serde::{Deserialize, Serialize};

use crate::{entries::Entries, journal};

/// What a journal has.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// Its folder.
    pub folder: PathBuf,
    /// The URL of the server's folder.
    pub share: String,
    /// What the server does not have yet, the longest closed first.
    pub pending: Vec<Pending>,
    /// What somebody has to know, and when it happened.
    pub messages: Vec<(SystemTime, String)>,
    /// The number of the last message.
    last: u64,
}

/// A file whose last closed version the server does not have.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Pending {
    /// Its path on the server.
    pub path: RemotePath,
    /// Whose it is, where a journal has files of several users.
    pub user: Option<String>,
    /// Its length in bytes.
    pub length: u64,
    /// When its program closed it.
    pub closed: SystemTime,
    /// Why the last upload failed, if one has.
    pub failure: Option<String>,
}

/// What a report tells of that which only one program knows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Told {
    #[serde(default)]
    user: Option<String>,
}

impl Report {
    /// Reads the journals below a cache or state folder.
    pub fn read_all(state: &Path) -> io::Result<Vec<Self>> {
        let folders = match fs::read_dir(state.join("journal")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            folders => folders?,
        };
        let mut paths: Vec<_> = folders.map(|folder| Ok(folder?.path())).collect::<io::Result<_>>()?;
        paths.sort();
        paths.into_iter().filter(|folder| folder.join("records").exists()).map(Self::read).collect()
    }

    /// Reads a journal. Its program may write to it at the same time.
    pub fn read(folder: PathBuf) -> io::Result<Self> {
        let share = fs::read_to_string(folder.join("share"))?;
        let parsed = journal::read::<Told>(&folder);
        let parsed = parsed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let mut entries = Entries::replayed(parsed.records);
        if let Some(read) = read_until(&folder) {
            entries.forget_messages(read);
        }
        let pending = entries.iter().map(|entry| Pending {
            path: entry.path.clone(),
            user: entry.details.user.clone(),
            length: entry.length,
            closed: entry.closed,
            failure: entry.failure.as_ref().map(|(_, why)| why.clone()),
        });
        let pending = pending.collect();
        let last = entries.messages().iter().map(|message| message.number).max().unwrap_or(0);
        let messages = entries.messages().iter().map(|message| (message.at, message.what.clone())).collect();
        Ok(Self { folder, share, pending, messages, last })
    }

    /// Whether there is nothing to say.
    pub fn is_quiet(&self) -> bool {
        self.pending.is_empty() && self.messages.is_empty()
    }

    /// Whether a program uses the journal.
    pub fn is_in_use(&self) -> bool {
        let lock = File::open(self.folder.join("lock"));
        lock.is_ok_and(|lock| lock.try_lock_shared().is_err())
    }

    /// Notes that somebody has read the messages: they are not reported again.
    pub fn acknowledge(&self) -> io::Result<()> {
        if self.messages.is_empty() {
            return Ok(());
        }
        durable::replace(&self.folder.join("read"), 0o600, format!("{}\n", self.last).as_bytes())
    }
}

/// The number of the last message that somebody has read.
pub(crate) fn read_until(folder: &Path) -> Option<u64> {
    fs::read_to_string(folder.join("read")).ok()?.trim().parse().ok()
}
