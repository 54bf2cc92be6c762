//! The journal on disk.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use output::durable;

use crate::{
    entries::{Entries, Entry},
    record::{self, Details, FORMAT, Id, Parsed, Record, Unknown},
    report,
    spared::is_spared,
};

/// The size of the reserve, in bytes: hundreds of records.
const RESERVE: usize = 64 * 1024;
/// How long to wait for the lock: an earlier process may still send what it has, and whoever asks whether the journal is in use
/// holds it for a moment.
const PATIENCE: Duration = Duration::from_secs(5);

/// An open journal.
pub struct Journal<D> {
    folder: PathBuf,
    entries: Mutex<Entries<D>>,
    log: Mutex<Log>,
}

struct Log {
    file: File,
    /// The length of what was written without an error.
    length: u64,
    /// None once another process may have the journal.
    lock: Option<File>,
}

/// A journal that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process uses it.
    #[error("{share} {advice}")]
    InUse {
        /// The server's folder.
        share: String,
        /// Who may have it, and what to do.
        advice: &'static str,
    },
    /// Another version of this program has written it.
    #[error(
        "the journal {} has the format `{format}`, and this version of haul reads `{}`: use it with the version that wrote it, or \
         copy your files out of its folder `data` (the file `records` has their names), and then move it away",
        path.display(),
        FORMAT
    )]
    Format {
        /// The journal's folder.
        path: PathBuf,
        /// What it says of itself.
        format: String,
    },
    /// A file cannot be read or written.
    #[error("cannot use the journal {}: {source}", path.display())]
    Io {
        /// The journal's folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The records of a journal; none if there are none yet.
pub(crate) fn read<D: Details>(folder: &Path) -> Result<Parsed<D>, JournalError> {
    let text = match fs::read(folder.join("records")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        text => text.map_err(|source| JournalError::Io { path: folder.to_owned(), source })?,
    };
    record::parse(&text).map_err(|Unknown(format)| JournalError::Format { path: folder.to_owned(), format })
}

impl<D: Details> Journal<D> {
    /// The folder of a journal: `number` tells apart what has the same readable name.
    pub fn place(state: &Path, share: &str, number: u32) -> PathBuf {
        let readable = |it: char| if it.is_ascii_alphanumeric() || it == '.' { it } else { '-' };
        let name: String = share.chars().map(readable).take(80).collect();
        state.join("journal").join(format!("{name}-{number:08x}"))
    }

    /// Opens the journal of a server's folder, and creates it if it is missing. `advice` is for people who have it open
    /// already.
    pub fn open(folder: PathBuf, share: &str, advice: &'static str) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Io { path: folder.clone(), source };
        let lock = || {
            durable::create_folder(&folder.join("data"))?;
            let lock = File::options().append(true).create(true).mode(0o600).open(folder.join("lock"))?;
            Ok(output::lock(&lock, PATIENCE)?.then_some(lock))
        };
        let in_use = || JournalError::InUse { share: share.to_owned(), advice };
        let lock = lock().map_err(failed)?.ok_or_else(in_use)?;
        let Parsed { records, damaged } = read(&folder)?;
        let mut entries = Entries::replayed(records);
        let log = Self::begin(&folder, share, &mut entries, damaged, lock).map_err(failed)?;
        let (entries, log) = (Mutex::new(entries), Mutex::new(log));
        let journal = Self { folder, entries, log };
        journal.keep_reserve();
        Ok(journal)
    }

    /// Looks at what an earlier process has left, and shortens the records.
    fn begin(folder: &Path, share: &str, entries: &mut Entries<D>, damaged: usize, lock: File) -> io::Result<Log> {
        let named = folder.join("share");
        // It must not be lost on a full disk.
        if fs::read_to_string(&named).ok().as_deref() != Some(share) {
            durable::replace(&named, 0o600, share.as_bytes())?;
        }
        if let Some(read) = report::read_until(folder) {
            entries.forget_messages(read);
        }
        Self::check_contents(folder, entries, damaged)?;
        let records = folder.join("records");
        let text = record::header() + &entries.records().iter().map(record::line).collect::<String>();
        durable::replace(&records, 0o600, text.as_bytes())?;
        entries.take_changes();
        let file = File::options().append(true).open(&records)?;
        Ok(Log { file, length: text.len() as u64, lock: Some(lock) })
    }

    /// Gives up entries whose content is not whole. Deletes contents without an entry: nobody was told that they are safe. If
    /// records were lost, such contents are kept.
    fn check_contents(folder: &Path, entries: &mut Entries<D>, damaged: usize) -> io::Result<()> {
        let data = folder.join("data");
        let is_whole = |entry: &Entry<D>| {
            let content = fs::metadata(data.join(entry.id.0.to_string()));
            content.is_ok_and(|content| content.is_file() && content.len() >= entry.length)
        };
        let lost: Vec<_> = entries.iter().filter(|entry| !is_whole(entry)).cloned().collect();
        for lost in &lost {
            entries.give_up(lost.id);
            entries.tell(format!("the content of {} is missing in the journal, or cut", lost.path));
        }
        if damaged > 0 {
            entries.tell(format!(
                "{damaged} lines of the journal were damaged; contents whose names were lost are in {}",
                folder.join("found").display()
            ));
        }
        for file in fs::read_dir(&data)? {
            let path = file?.path();
            let number = path.file_name().and_then(|name| name.to_str()?.parse().ok()).map(Id);
            let is_lost = lost.iter().any(|lost| Some(lost.id) == number);
            match number {
                Some(number) if entries.get(number).is_some() => {}
                _ if damaged > 0 || is_lost || is_spared(&path) => keep(folder, &path, entries)?,
                _ => fs::remove_file(path)?,
            }
        }
        Ok(())
    }

    /// Keeps a file of which no record is known, and says so.
    pub fn keep(&self, file: &Path) -> io::Result<()> {
        keep(&self.folder, file, &mut self.entries())
    }

    /// What the server does not have yet.
    pub fn entries(&self) -> MutexGuard<'_, Entries<D>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file with an entry's content.
    pub fn data(&self, id: Id) -> PathBuf {
        self.folder.join("data").join(id.0.to_string())
    }

    /// Makes a new content survive a power cut.
    pub fn sync_data(&self, content: &File) -> io::Result<()> {
        content.sync_all()?;
        durable::sync(&self.folder.join("data"))
    }

    fn reserve(&self) -> PathBuf {
        self.folder.join("reserve")
    }

    /// Takes room for records: on a full disk, nothing could say which contents are needed no more.
    fn keep_reserve(&self) {
        let reserve = self.reserve();
        if fs::metadata(&reserve).is_ok_and(|reserve| reserve.len() == RESERVE as u64) {
            return;
        }
        if fs::write(&reserve, vec![0; RESERVE]).is_err() {
            let _ = fs::remove_file(reserve);
        }
    }

    /// Writes what has changed to the disk, and deletes the contents that are needed no more.
    pub fn commit(&self) -> io::Result<()> {
        let mut log = self.log();
        if log.lock.is_none() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let changes = self.entries().take_changes();
        let mut written = log.write(&changes.records);
        if written.as_ref().is_err_and(output::is_full) && fs::remove_file(self.reserve()).is_ok() {
            written = log.write(&changes.records);
        }
        if written.is_err() {
            self.entries().put_back(changes);
            return written;
        }
        drop(log);
        for id in &changes.useless {
            // What remains is deleted at the next start.
            let _ = fs::remove_file(self.data(*id));
        }
        if !changes.useless.is_empty() {
            self.keep_reserve();
        }
        Ok(())
    }

    /// Lets another process have the journal: nothing is written here any more.
    pub fn close(&self) {
        self.log().lock = None;
    }
}

impl Log {
    fn write<D: Details>(&mut self, records: &[Record<D>]) -> io::Result<()> {
        if records.is_empty() {
            // Somebody else may have written them; the lock says that they are on the disk.
            return Ok(());
        }
        let text: String = records.iter().map(record::line).collect();
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        if written.is_ok() {
            self.length += text.len() as u64;
        } else {
            // Half a line must not be continued by the next one.
            let _ = self.file.set_len(self.length);
        }
        written
    }
}

/// Keeps a content without a record.
fn keep<D: Details>(folder: &Path, file: &Path, entries: &mut Entries<D>) -> io::Result<()> {
    let found = folder.join("found");
    fs::create_dir_all(&found)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    // A number may have been used before.
    let mut free = (0_u64..).map(|again| found.join(format!("{name}.{again}"))).filter(|path| !path.exists());
    let path = free.next().ok_or(io::ErrorKind::AlreadyExists)?;
    fs::rename(file, &path)?;
    entries.tell(format!("a content without a record is in {}", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests;
