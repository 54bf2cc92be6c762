//! What a journal says to people, whether its program runs or not.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use output::durable;
use serde::{Deserialize, Serialize};

use crate::{
    entries::{Entries, Entry, Message},
    journal,
};

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
    /// What somebody has to know.
    pub messages: Vec<Message>,
}

/// A file whose last closed version the server does not have.
pub type Pending = Entry<Owner>;

/// Whose a file is, where a journal has files of several users.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Owner {
    /// Their name.
    pub user: Option<String>,
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
        let parsed = journal::read::<Owner>(&folder);
        let parsed = parsed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let mut entries = Entries::replayed(parsed.records);
        if let Some(read) = read_until(&folder) {
            entries.forget_messages(read);
        }
        Ok(Self { pending: entries.iter().cloned().collect(), messages: entries.messages().to_vec(), folder, share })
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
        let Some(last) = self.messages.iter().map(|message| message.number).max() else { return Ok(()) };
        durable::replace(&self.folder.join("read"), 0o600, format!("{last}\n").as_bytes())
    }
}

/// The number of the last message that somebody has read.
pub(crate) fn read_until(folder: &Path) -> Option<u64> {
    fs::read_to_string(folder.join("read")).ok()?.trim().parse().ok()
}
