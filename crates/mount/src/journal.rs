//! The journal: what programs have closed and the server does not have yet, on disk.
//!
//! ```text
//! journal/<name of the share>/
//!     share      the URL
//!     records    one line per change; see `record`
//!     data/<n>   the content of entry n, which nobody changes any more
//!     read       the number of the last message that somebody has read
//!     lock       locked by whoever mounts the share
//!     reserve    room for the records that give room back
//! ```
//!
//! A content is synchronised before the record that names it, and a record before its close(2) returns or its content is
//! deleted. Several programs that wait for this share one fdatasync(2).

mod entries;
mod record;
mod report;

use std::{
    fs::{self, File},
    io::{self, Write},
    mem,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use nix::fcntl::{Flock, FlockArg};

pub use self::report::{Pending, Report};
pub(crate) use self::{
    entries::{Entries, Entry, Failed, Failure},
    record::{Id, Record},
};
use crate::{errno, unsaved};

/// The size of the reserve, in bytes: hundreds of records.
const RESERVE: usize = 64 * 1024;
/// How often to try to lock a journal: after umount(8), an earlier mount still sends what it has.
const LOCK_TRIES: usize = 250;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// An open journal.
pub(crate) struct Journal {
    folder: PathBuf,
    entries: Mutex<Entries>,
    /// Records that are not on disk yet.
    unwritten: Mutex<Vec<Record>>,
    log: Mutex<Log>,
    /// Contents to delete once the records that say so are on disk.
    useless: Mutex<Vec<Id>>,
    _lock: Flock<File>,
}

struct Log {
    file: File,
    /// The length of what was written without an error.
    length: u64,
}

/// A journal that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another mount uses it.
    #[error("{share} is mounted with a journal already; unmount it there, or give this mount a --cache-dir of its own")]
    InUse {
        /// The share's URL.
        share: String,
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

/// Takes the lock. Whoever asks whether the share is mounted holds it for a moment.
fn locked(mut file: File) -> Option<Flock<File>> {
    for _ in 0..LOCK_TRIES {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Some(lock),
            Err((again, _)) => file = again,
        }
        thread::sleep(LOCK_PAUSE);
    }
    None
}

/// Creates a folder and those above it, so that they survive a power cut.
fn create_lasting(folder: &Path) -> io::Result<()> {
    let missing: Vec<_> = folder.ancestors().take_while(|above| !above.exists()).collect();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let above = missing.into_iter().filter_map(Path::parent);
    // The parent of a relative path of one name is empty.
    above.filter(|above| !above.as_os_str().is_empty()).try_for_each(|above| File::open(above)?.sync_all())
}

impl Journal {
    /// The folder of a share's journal.
    pub(crate) fn place(cache: &Path, source: &str, account: &str) -> PathBuf {
        let readable: String =
            source.chars().map(|it| if it.is_ascii_alphanumeric() || it == '.' { it } else { '-' }).take(80).collect();
        let number = crc32c::crc32c(format!("{source}\n{account}").as_bytes());
        cache.join("journal").join(format!("{readable}-{number:08x}"))
    }

    /// Opens the journal of a share, and creates it if it is missing.
    pub(crate) fn open(folder: PathBuf, source: &str) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Io { path: folder.clone(), source };
        let lock = || {
            create_lasting(&folder.join("data"))?;
            File::options().append(true).create(true).mode(0o600).open(folder.join("lock"))
        };
        let lock = locked(lock().map_err(failed)?).ok_or_else(|| JournalError::InUse { share: source.into() })?;
        let (entries, log) = Self::read(&folder, source).map_err(failed)?;
        let (entries, log) = (Mutex::new(entries), Mutex::new(log));
        let (unwritten, useless) = (Mutex::default(), Mutex::default());
        let journal = Self { folder, entries, unwritten, log, useless, _lock: lock };
        journal.keep_reserve();
        Ok(journal)
    }

    /// Reads what an earlier mount has left, and shortens the records.
    fn read(folder: &Path, source: &str) -> io::Result<(Entries, Log)> {
        let share = folder.join("share");
        // It must not be lost on a full disk.
        if fs::read_to_string(&share).ok().as_deref() != Some(source) {
            fs::write(share, source)?;
        }
        let records = folder.join("records");
        let text = match fs::read(&records) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        let (parsed, damaged) = record::parse(&text);
        let mut entries = Entries::replayed(parsed);
        if let Some(read) = report::read_until(folder) {
            entries.forget_messages(read);
        }
        Self::check_contents(folder, &mut entries, damaged)?;
        let text: String = entries.records().iter().map(record::line).collect();
        let copy = folder.join("records.new");
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&copy)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&copy, &records)?;
        File::open(folder)?.sync_all()?;
        Ok((entries, Log { file: File::options().append(true).open(&records)?, length: text.len() as u64 }))
    }

    /// Says of entries without a content that they are lost. Deletes contents without an entry: their close(2) had not
    /// returned. If records were lost, such contents are kept.
    fn check_contents(folder: &Path, entries: &mut Entries, damaged: usize) -> io::Result<()> {
        let data = folder.join("data");
        let missing = |entry: &&Entry| !data.join(entry.id.0.to_string()).is_file();
        for lost in entries.iter().filter(missing).cloned().collect::<Vec<_>>() {
            entries.give_up(lost.id);
            entries.tell(format!("the content of {} is missing in the journal", lost.path));
        }
        let found = folder.join("found");
        if damaged > 0 {
            entries.tell(format!(
                "{damaged} lines of the journal were damaged; contents whose names were lost are in {}",
                found.display()
            ));
        }
        for file in fs::read_dir(&data)? {
            let file = file?;
            let number = file.file_name().to_str().and_then(|name| name.parse().ok());
            match number {
                Some(number) if entries.get(Id(number)).is_some() => {}
                _ if damaged > 0 || unsaved::is_spared(&file.path()) => {
                    fs::create_dir_all(&found)?;
                    let path = found.join(file.file_name());
                    fs::rename(file.path(), &path)?;
                    entries.tell(format!("a content without a record is in {}", path.display()));
                }
                _ => fs::remove_file(file.path())?,
            }
        }
        Ok(())
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file with an entry's content.
    pub(crate) fn data(&self, id: Id) -> PathBuf {
        self.folder.join("data").join(id.0.to_string())
    }

    /// Makes a new content survive a power cut.
    pub(crate) fn sync_data(&self, content: &File) -> io::Result<()> {
        content.sync_all()?;
        File::open(self.folder.join("data"))?.sync_all()
    }

    /// Adds records, in the order of the changes: the caller holds the entries.
    pub(crate) fn note(&self, _entries: &mut Entries, records: impl IntoIterator<Item = Record>) {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).extend(records);
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

    fn useless(&self) -> MutexGuard<'_, Vec<Id>> {
        self.useless.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all records to the disk, and deletes the contents that they, or earlier ones, make useless.
    pub(crate) fn commit(&self, useless: &[Id]) -> io::Result<()> {
        self.useless().extend(useless);
        // Their records have been noted.
        let useless = mem::take(&mut *self.useless());
        let mut written = self.write_records();
        if written.as_ref().is_err_and(errno::is_full) && fs::remove_file(self.reserve()).is_ok() {
            written = self.write_records();
        }
        match &written {
            Ok(()) if useless.is_empty() => {}
            Ok(()) => {
                for id in useless {
                    // What remains is deleted by the next mount.
                    let _ = fs::remove_file(self.data(id));
                }
                self.keep_reserve();
            }
            Err(_) => self.useless().extend(useless),
        }
        written
    }

    fn write_records(&self) -> io::Result<()> {
        let mut log = self.log();
        let records = mem::take(&mut *self.unwritten.lock().unwrap_or_else(PoisonError::into_inner));
        if records.is_empty() {
            // Somebody else has written them; the lock says that they are on the disk.
            return Ok(());
        }
        let text: String = records.iter().map(record::line).collect();
        let written = log.file.write_all(text.as_bytes()).and_then(|()| log.file.sync_data());
        if written.is_ok() {
            log.length += text.len() as u64;
        } else {
            // Half a line must not be continued by the next one.
            let _ = log.file.set_len(log.length);
            self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).splice(0..0, records);
        }
        written
    }

    /// Entries that the next mount would not know, because their records could not be written.
    pub(crate) fn unrecorded(&self) -> Vec<Entry> {
        let entries = self.entries();
        let unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let id = |record: &Record| if let Record::Closed { id, .. } = record { Some(*id) } else { None };
        unwritten.iter().filter_map(id).filter_map(|id| entries.get(id).cloned()).collect()
    }
}
