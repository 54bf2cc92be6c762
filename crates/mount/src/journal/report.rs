//! What a journal says to people, whether its share is mounted or not.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use nix::fcntl::{Flock, FlockArg};

use super::{entries::Entries, record};

/// A share's journal.
#[derive(Debug, Clone)]
pub struct Report {
    /// Its folder.
    pub folder: PathBuf,
    /// The share's URL.
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
pub struct Pending {
    /// Its decoded path on the server.
    pub path: String,
    /// Its length in bytes.
    pub length: u64,
    /// When its program closed it.
    pub closed: SystemTime,
    /// Why the last upload failed, if one has.
    pub failure: Option<String>,
}

impl Report {
    /// Reads the journals below a cache folder.
    pub fn read_all(cache: &Path) -> io::Result<Vec<Self>> {
        let folders = match fs::read_dir(cache.join("journal")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            folders => folders?,
        };
        let mut paths: Vec<_> = folders.map(|folder| Ok(folder?.path())).collect::<io::Result<_>>()?;
        paths.sort();
        paths.into_iter().map(Self::read).collect()
    }

    /// Reads a journal. A mount may write to it at the same time.
    pub fn read(folder: PathBuf) -> io::Result<Self> {
        let share = fs::read_to_string(folder.join("share"))?;
        let (records, _) = record::parse(&fs::read(folder.join("records"))?);
        let mut entries = Entries::replayed(records);
        if let Some(read) = read_until(&folder) {
            entries.forget_messages(read);
        }
        let pending = entries.iter().map(|entry| Pending {
            path: entry.path.to_string(),
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

    /// Whether a mount uses the journal.
    pub fn is_mounted(&self) -> bool {
        let lock = File::open(self.folder.join("lock"));
        lock.is_ok_and(|lock| Flock::lock(lock, FlockArg::LockSharedNonblock).is_err())
    }

    /// Notes that somebody has read the messages: they are not reported again.
    pub fn acknowledge(&self) -> io::Result<()> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let copy = self.folder.join("read.new");
        fs::write(&copy, format!("{}\n", self.last))?;
        fs::rename(copy, self.folder.join("read"))
    }
}

/// The number of the last message that somebody has read.
pub(super) fn read_until(folder: &Path) -> Option<u64> {
    fs::read_to_string(folder.join("read")).ok()?.trim().parse().ok()
}
