//! The journal: what clients have saved and the server does not have yet, on disk.
//!
//! ```text
//! journal/<server>/
//!     upstream   the URL of the server's folder
//!     lock       locked by the gateway that uploads from here
//!     <n>        a saved file: one line of JSON that says whose it is and where it goes, then its content
//!     <n>.new    one that is arriving, or that a crash has cut; deleted at the next start
//!     <n>.why    why its upload failed the last time
//!     <n>.aside  it goes beside another version: its user has changed what is at its path since
//! ```
//!
//! A file is synchronised under the name `<n>.new`, renamed, and acknowledged once its folder is synchronised, too. It is
//! deleted when the server has its content. There is no credential in it: what a gateway finds at its start waits for its
//! user, known by name, to sign in again.

mod record;
mod report;

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use dav::RemotePath;
use futures_util::StreamExt;
use haul_http::Body;
use nix::fcntl::{Flock, FlockArg};
use tokio::{
    io::AsyncWriteExt,
    sync::{Semaphore, SemaphorePermit, watch},
    task,
};

pub(crate) use self::record::Record;
pub use self::report::{Pending, pending};
use crate::{later::Later, passing::Received};

/// The largest number of uploads at a time.
const UPLOADS: usize = 32;
/// What is left free on the disk, in bytes.
const SPARED: u64 = 64 * 1024 * 1024;
/// How often to try to lock a journal: a gateway that has just been stopped may still have it.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// A file that a client has saved.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) number: u64,
    pub(crate) record: Record,
    /// Where its content begins in its file.
    start: u64,
    place: PathBuf,
}

/// What goes on with a saved file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is being uploaded, or will be.
    Sending,
    /// It waits for its user.
    SignedOut,
    /// The server has refused it. It is tried again later.
    Refused,
}

struct Entry {
    saved: Arc<Saved>,
    state: State,
    /// It goes beside another version.
    is_aside: bool,
}

#[derive(Default)]
struct Entries {
    all: BTreeMap<u64, Entry>,
    /// Of all files, and of those that are arriving.
    bytes: u64,
    /// Of those that are arriving.
    arriving: u64,
    next: u64,
}

/// An open journal.
pub(crate) struct Journal {
    folder: PathBuf,
    size: u64,
    entries: Mutex<Entries>,
    /// The uploads of each user who has an account.
    users: Mutex<HashMap<String, Weak<Later>>>,
    uploads: Semaphore,
    ending: watch::Sender<bool>,
    lock: Mutex<Option<Flock<File>>>,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another gateway uses it.
    #[error("another gateway for {upstream} uses the journal {}; stop it, or give this one a --state of its own", path.display())]
    InUse {
        /// The server's folder.
        upstream: String,
        /// The journal's folder.
        path: PathBuf,
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

/// Room in the journal for a file that is arriving.
pub(crate) struct Room {
    journal: Arc<Journal>,
    length: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut entries = self.journal.entries();
        entries.bytes -= self.length;
        entries.arriving -= self.length;
    }
}

/// What a journal has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// Files that wait for their user to sign in.
    pub(crate) signed_out: usize,
    /// Files that the server has refused.
    pub(crate) refused: usize,
    /// The age of the oldest, in seconds.
    pub(crate) oldest: u64,
}

impl Saved {
    /// Its content, as often as it is needed.
    pub(crate) fn content(&self) -> Body {
        Body::file(self.place.clone(), self.start, self.record.length)
    }
}

impl Journal {
    /// The folder of a server's journal.
    fn place(state: &Path, upstream: &str) -> PathBuf {
        let readable = |it: char| if it.is_ascii_alphanumeric() || it == '.' { it } else { '-' };
        let name: String = upstream.chars().map(readable).take(80).collect();
        let digest = ring::digest::digest(&ring::digest::SHA256, upstream.as_bytes());
        let number = digest.as_ref().iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        state.join("journal").join(format!("{name}-{number:08x}"))
    }

    /// Opens the journal of a server's folder, and creates it if it is missing.
    pub(crate) fn open(state: &Path, upstream: &str, size: u64) -> Result<Self, JournalError> {
        let folder = Self::place(state, upstream);
        let failed = |source| JournalError::Io { path: folder.clone(), source };
        let lock = || {
            create_lasting(&folder)?;
            File::options().append(true).create(true).mode(0o600).open(folder.join("lock"))
        };
        let in_use = || JournalError::InUse { upstream: upstream.to_owned(), path: folder.clone() };
        let lock = locked(lock().map_err(failed)?).ok_or_else(in_use)?;
        let entries = Self::read(&folder, upstream).map_err(failed)?;
        let (entries, uploads) = (Mutex::new(entries), Semaphore::new(UPLOADS));
        Ok(Self {
            folder,
            size,
            entries,
            users: Mutex::default(),
            uploads,
            ending: watch::Sender::new(false),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Reads what an earlier gateway has left.
    fn read(folder: &Path, upstream: &str) -> io::Result<Entries> {
        fs::write(folder.join("upstream"), upstream)?;
        let mut entries = Entries { next: 1, ..Entries::default() };
        for file in fs::read_dir(folder)? {
            let place = file?.path();
            if place.extension().is_some_and(|extension| extension == "new") {
                fs::remove_file(&place)?;
                continue;
            }
            let Some(number) = record::number(&place) else { continue };
            entries.next = entries.next.max(number + 1);
            match record::read(&place) {
                Ok((record, start)) => {
                    entries.bytes += record.length;
                    let is_aside = aside(&place).exists();
                    let saved = Arc::new(Saved { number, record, start, place });
                    entries.all.insert(number, Entry { saved, state: State::SignedOut, is_aside });
                }
                Err(error) => tracing::error!("the saved file {} cannot be used: {error}", place.display()),
            }
        }
        File::open(folder)?.sync_all()?;
        Ok(entries)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for a file of this length, if there is any.
    pub(crate) fn room(self: &Arc<Self>, length: u64) -> Option<Room> {
        let disk = rustix::fs::statvfs(&self.folder).ok()?;
        let mut entries = self.entries();
        let (bytes, arriving) = (entries.bytes.checked_add(length)?, entries.arriving.checked_add(length)?);
        let is_too_much =
            bytes > self.size || disk.f_bavail.saturating_mul(disk.f_frsize) < arriving.checked_add(SPARED)?;
        if is_too_much || *self.ending.borrow() {
            return None;
        }
        (entries.bytes, entries.arriving) = (bytes, arriving);
        drop(entries);
        Some(Room { journal: self.clone(), length })
    }

    /// Stores a file. Once it is here, it survives a power cut.
    pub(crate) async fn store(&self, room: Room, record: Record, content: Received) -> io::Result<Arc<Saved>> {
        let number = {
            let mut entries = self.entries();
            entries.next += 1;
            entries.next - 1
        };
        let place = self.folder.join(number.to_string());
        let arriving = place.with_extension("new");
        let head = record::head(&record)?;
        let start = head.len() as u64;
        let stored = match content {
            Received::Whole(content) => store_whole(arriving.clone(), place.clone(), head, content).await,
            Received::Streamed(body) => store_stream(&arriving, &place, head, body, record.length).await,
        };
        if let Err(error) = stored {
            let _ = fs::remove_file(&arriving);
            return Err(error);
        }
        let saved = Arc::new(Saved { number, record, start, place });
        let mut entries = self.entries();
        // The room is given back when it is dropped.
        entries.bytes += saved.record.length;
        let entry = Entry { saved: saved.clone(), state: State::Sending, is_aside: false };
        entries.all.insert(number, entry);
        drop(entries);
        drop(room);
        Ok(saved)
    }

    /// Whether files of a user wait for them to sign in.
    pub(crate) fn waits_for(&self, user: &str) -> bool {
        let waits = |entry: &Entry| entry.state == State::SignedOut && entry.saved.record.user == user;
        self.entries().all.values().any(waits)
    }

    /// The uploads of a user.
    pub(crate) fn later(&self, user: &str) -> Arc<Later> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|_, later| later.strong_count() > 0);
        let known = users.get(user).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let later = Arc::new(Later::default());
            users.insert(user.to_owned(), Arc::downgrade(&later));
            later
        })
    }

    /// The files of a user who has signed in, in their order. The caller uploads them.
    pub(crate) fn take(&self, user: &str) -> Vec<Arc<Saved>> {
        let mut entries = self.entries();
        let waits = |entry: &&mut Entry| entry.state == State::SignedOut && entry.saved.record.user == user;
        let taken = entries.all.values_mut().filter(waits);
        taken
            .map(|entry| {
                entry.state = State::Sending;
                entry.saved.clone()
            })
            .collect()
    }

    /// The server does not know this file's user any more, or not yet.
    pub(crate) fn give_back(&self, saved: &Saved) {
        if let Some(entry) = self.entries().all.get_mut(&saved.number) {
            entry.state = State::SignedOut;
        }
    }

    /// An upload has failed.
    pub(crate) fn failed(saved: &Saved, why: &str) {
        // It is only told.
        let _ = fs::write(saved.place.with_extension("why"), why);
    }

    /// The server has refused a file. It is tried again later.
    pub(crate) fn refused(&self, saved: &Saved, why: &str) {
        if let Some(entry) = self.entries().all.get_mut(&saved.number) {
            entry.state = State::Refused;
        }
        Self::failed(saved, why);
    }

    /// An upload begins. Returns whether the file goes beside another version; none if it is not wanted any more.
    pub(crate) fn begins(&self, saved: &Saved) -> Option<bool> {
        let mut entries = self.entries();
        let entry = entries.all.get_mut(&saved.number)?;
        entry.state = State::Sending;
        Some(entry.is_aside)
    }

    /// Files of this user that wait for something, at or below a path.
    fn waiting_at(&self, user: &str, path: &RemotePath, is_meant: impl Fn(&Entry) -> bool) -> Vec<Arc<Saved>> {
        let folder = path.clone().as_folder(true);
        let is_at = |saved: &Saved| {
            RemotePath::from_url_path(&saved.record.path).is_ok_and(|at| at.relative_to(&folder).is_some())
        };
        let entries = self.entries();
        let waits = |entry: &&Entry| {
            entry.state != State::Sending && entry.saved.record.user == user && is_meant(entry) && is_at(&entry.saved)
        };
        entries.all.values().filter(waits).map(|entry| entry.saved.clone()).collect()
    }

    /// The user is about to change what is at a path, or below it. Versions that wait there would replace that later: they go
    /// beside it instead, but for those of the lock that the change is made under, which it supersedes.
    pub(crate) async fn set_aside(&self, user: &str, path: &RemotePath, condition: Option<&str>) -> io::Result<()> {
        let is_meant = |entry: &Entry| {
            let is_of_lock = condition.is_some_and(|condition| condition.contains(&entry.saved.record.token));
            !(entry.is_aside || is_of_lock)
        };
        let old = self.waiting_at(user, path, is_meant);
        if old.is_empty() {
            return Ok(());
        }
        let (places, folder) = (old.iter().map(|saved| aside(&saved.place)).collect::<Vec<_>>(), self.folder.clone());
        let mark = move || {
            places.iter().try_for_each(|place| fs::write(place, b""))?;
            File::open(folder)?.sync_all()
        };
        task::spawn_blocking(mark).await.unwrap_or_else(|error| Err(io::Error::other(error)))?;
        let mut entries = self.entries();
        for saved in old {
            entries.all.entry(saved.number).and_modify(|entry| entry.is_aside = true);
        }
        Ok(())
    }

    /// A file was saved under the same lock as older versions that wait.
    pub(crate) async fn supersede(&self, newer: &Saved) {
        let Ok(path) = RemotePath::from_url_path(&newer.record.path) else { return };
        let is_older = |entry: &Entry| {
            let saved = &entry.saved;
            saved.number < newer.number && saved.record.token == newer.record.token && !entry.is_aside
        };
        for saved in self.waiting_at(&newer.record.user, &path, is_older) {
            self.sent(&saved).await;
        }
    }

    /// The server has the file, or a newer one.
    pub(crate) async fn sent(&self, saved: &Saved) {
        let (place, folder) = (saved.place.clone(), self.folder.clone());
        let removed = task::spawn_blocking(move || {
            fs::remove_file(&place)?;
            let _ = (fs::remove_file(place.with_extension("why")), fs::remove_file(aside(&place)));
            File::open(folder)?.sync_all()
        });
        if let Ok(Err(error)) = removed.await {
            tracing::error!("cannot delete {}, which the server has: {error}", saved.place.display());
        }
        let mut entries = self.entries();
        if entries.all.remove(&saved.number).is_some() {
            entries.bytes -= saved.record.length;
        }
    }

    /// Waits for this upload's turn.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.uploads.acquire().await.ok()
    }

    /// No upload is tried again.
    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Another gateway may have the journal.
    pub(crate) fn close(&self) {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Waits for so long, or until the gateway ends. Returns whether to go on.
    pub(crate) async fn pause(&self, pause: Duration) -> bool {
        let mut ending = self.ending.subscribe();
        tokio::time::timeout(pause, ending.wait_for(|is_ending| *is_ending)).await.is_err()
    }

    pub(crate) fn totals(&self) -> Totals {
        let entries = self.entries();
        let count = |is: fn(&Entry) -> bool| entries.all.values().filter(|entry| is(entry)).count();
        Totals {
            files: entries.all.len(),
            bytes: entries.bytes,
            signed_out: count(|entry| entry.state == State::SignedOut),
            refused: count(|entry| entry.state == State::Refused),
            oldest: entries.all.values().next().map_or(0, |entry| entry.saved.record.age()),
        }
    }
}

/// Creates a folder and those above it, so that they survive a power cut.
fn create_lasting(folder: &Path) -> io::Result<()> {
    let missing: Vec<_> = folder.ancestors().take_while(|above| !above.exists()).collect();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let above = missing.into_iter().filter_map(Path::parent);
    above.filter(|above| !above.as_os_str().is_empty()).try_for_each(|above| File::open(above)?.sync_all())
}

fn locked(mut file: File) -> Option<Flock<File>> {
    for _ in 0..LOCK_TRIES {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Some(lock),
            Err((again, _)) => file = again,
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    None
}

fn aside(place: &Path) -> PathBuf {
    place.with_extension("aside")
}

fn create(arriving: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(arriving)
}

/// Gives a file its name, so that it survives a power cut. Its content is synchronised.
fn name(arriving: &Path, place: &Path) -> io::Result<()> {
    fs::rename(arriving, place)?;
    let folder = place.parent().unwrap_or_else(|| Path::new("/"));
    File::open(folder)?.sync_all().inspect_err(|_| drop(fs::remove_file(place)))
}

async fn store_whole(arriving: PathBuf, place: PathBuf, head: Vec<u8>, content: Bytes) -> io::Result<()> {
    let store = move || {
        let mut file = create(&arriving)?;
        file.write_all(&head)?;
        file.write_all(&content)?;
        file.sync_all()?;
        name(&arriving, &place)
    };
    task::spawn_blocking(store).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

async fn store_stream(arriving: &Path, place: &Path, head: Vec<u8>, mut body: Body, length: u64) -> io::Result<()> {
    let mut file = tokio::fs::File::from_std(create(arriving)?);
    file.write_all(&head).await?;
    let (mut chunks, mut received) = (body.open()?, 0);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        received += chunk.len() as u64;
        file.write_all(&chunk).await?;
    }
    if received != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.sync_all().await?;
    let (arriving, place) = (arriving.to_owned(), place.to_owned());
    let named = task::spawn_blocking(move || name(&arriving, &place));
    named.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests;
