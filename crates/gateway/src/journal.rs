//! The journal of a gateway (`writeback`): what clients have saved and the server does not have yet.
//!
//! There is no credential in it: what a gateway finds at its start waits for its user, known by name, to sign in again.

mod earlier;

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use dav::{ETag, RemotePath};
use futures_util::{StreamExt, stream};
use haul_http::Body;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use tokio::{
    io::AsyncWriteExt,
    sync::{Semaphore, SemaphorePermit, watch},
    task,
    time::Instant,
};
use writeback::{Base, Facts, Failed, Failure, Id};
pub use writeback::{JournalError, Pending, Report};

use crate::{later::Later, passing::Received};

/// The largest number of uploads at a time.
const UPLOADS: usize = 32;
/// What is left free on the disk, in bytes.
const SPARED: u64 = 64 * 1024 * 1024;

/// What a gateway knows of a saved file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Details {
    /// The user's name, of Basic credentials.
    pub(crate) user: String,
    /// The token of the lock under which it was saved, in its angle brackets.
    pub(crate) token: String,
    /// `Content-Type`.
    pub(crate) kind: Option<String>,
    /// It goes beside another version: its user has changed what is at its path since.
    #[serde(default)]
    pub(crate) is_aside: bool,
    #[serde(skip)]
    state: State,
}

/// What goes on with a saved file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// It is being uploaded, or will be.
    Sending,
    /// It waits for its user.
    #[default]
    SignedOut,
    /// The server has refused it. It is tried again later.
    Refused,
}

pub(crate) type Entry = writeback::Entry<Details>;
type Entries = writeback::Entries<Details>;

/// A file that a client has saved.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) entry: Entry,
    place: PathBuf,
}

/// An open journal.
pub(crate) struct Journal {
    log: Arc<writeback::Journal<Details>>,
    size: u64,
    /// The bytes of files that are arriving.
    arriving: Mutex<u64>,
    /// The uploads of each user who has an account.
    users: Mutex<HashMap<String, Weak<Later>>>,
    uploads: Semaphore,
    ending: watch::Sender<bool>,
}

/// Room in the journal for a file that is arriving.
pub(crate) struct Room {
    journal: Arc<Journal>,
    length: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        *self.journal.arriving() -= self.length;
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
        Body::file(self.place.clone(), 0, self.entry.length)
    }
}

/// A file that a client saves now over the version `base`, if there is one and it is known.
pub(crate) fn entry(path: RemotePath, base: Option<ETag>, length: u64, details: Details) -> Entry {
    let mut entry = Entry::new(Id(0), path, base.map_or(Base::New, version), length, None);
    entry.details = details;
    entry
}

fn version(etag: ETag) -> Base {
    Base::Version(Facts { etag: Some(etag), ..Facts::default() })
}

impl Details {
    pub(crate) fn new(user: String, token: String, kind: Option<String>) -> Self {
        Self { user, token, kind, is_aside: false, state: State::Sending }
    }
}

impl Journal {
    /// The folder of a server's journal.
    fn place(state: &Path, upstream: &str) -> PathBuf {
        let digest = ring::digest::digest(&ring::digest::SHA256, upstream.as_bytes());
        let number = digest.as_ref().iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        writeback::Journal::<Details>::place(state, upstream, number)
    }

    /// Opens the journal of a server's folder, and creates it if it is missing.
    pub(crate) fn open(state: &Path, upstream: &str, size: u64) -> Result<Self, JournalError> {
        let advice = "has another gateway with the same journal; stop it, or give this one a --state of its own";
        let folder = Self::place(state, upstream);
        let log = writeback::Journal::open(folder.clone(), upstream, advice)?;
        earlier::adopt(&log).map_err(|source| JournalError::Io { path: folder, source })?;
        Ok(Self {
            log: Arc::new(log),
            size,
            arriving: Mutex::default(),
            users: Mutex::default(),
            uploads: Semaphore::new(UPLOADS),
            ending: watch::Sender::new(false),
        })
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.log.entries()
    }

    fn arriving(&self) -> MutexGuard<'_, u64> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn saved(&self, entry: &Entry) -> Arc<Saved> {
        Arc::new(Saved { entry: entry.clone(), place: self.log.data(entry.id) })
    }

    /// Room for a file of this length, if there is any.
    pub(crate) fn room(self: &Arc<Self>, length: u64) -> Option<Room> {
        let disk = rustix::fs::statvfs(self.log.folder()).ok()?;
        let mut arriving = self.arriving();
        let more = arriving.checked_add(length)?;
        let is_too_much = self.entries().bytes().checked_add(more)? > self.size
            || disk.f_bavail.saturating_mul(disk.f_frsize) < more.checked_add(SPARED)?;
        if is_too_much || *self.ending.borrow() {
            return None;
        }
        *arriving = more;
        drop(arriving);
        Some(Room { journal: self.clone(), length })
    }

    /// Stores a file, in place of older versions that wait, and were saved under the same lock. Once it is here, it survives a
    /// power cut.
    pub(crate) async fn store(&self, room: Room, mut entry: Entry, content: Received) -> io::Result<Arc<Saved>> {
        entry.id = self.entries().next_id();
        let place = self.log.data(entry.id);
        let stored = store(&place, content, entry.length).await;
        let (log, added) = (self.log.clone(), entry.clone());
        let recorded = async {
            let content = stored?;
            blocking(move || {
                log.sync_data(&content)?;
                log.entries().add(added);
                log.commit()
            })
            .await
        };
        if let Err(error) = recorded.await {
            // Nobody is told that it is safe.
            self.entries().give_up(entry.id);
            let _ = fs::remove_file(&place);
            return Err(error);
        }
        drop(room);
        let saved = self.saved(&entry);
        self.supersede(&saved).await;
        Ok(saved)
    }

    /// Makes a change, and writes it down.
    async fn change(&self, change: impl FnOnce(&mut Entries)) -> io::Result<()> {
        {
            let mut entries = self.entries();
            change(&mut entries);
            if entries.is_written() {
                return Ok(());
            }
        }
        let log = self.log.clone();
        blocking(move || log.commit()).await
    }

    /// Whether files of a user wait for them to sign in.
    pub(crate) fn waits_for(&self, user: &str) -> bool {
        self.entries().iter().any(|entry| entry.details.state == State::SignedOut && entry.details.user == user)
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
        let waits = |entry: &&Entry| entry.details.state == State::SignedOut && entry.details.user == user;
        let taken: Vec<_> = entries.iter().filter(waits).map(|entry| self.saved(entry)).collect();
        for saved in &taken {
            entries.set(saved.entry.id, |details| details.state = State::Sending);
        }
        taken
    }

    fn set(&self, saved: &Saved, state: State) {
        self.entries().set(saved.entry.id, |details| details.state = state);
    }

    /// The server does not know this file's user any more, or not yet.
    pub(crate) fn give_back(&self, saved: &Saved) {
        self.set(saved, State::SignedOut);
    }

    /// An upload has failed. Returns the pause before the next one.
    pub(crate) async fn failed(&self, saved: &Saved, failed: Failed) -> Duration {
        let mut pause = Duration::ZERO;
        // It is only told.
        let _ = self.change(|entries| pause = entries.failed(saved.entry.id, failed, Instant::now())).await;
        pause
    }

    /// The server has refused a file, which keeps nobody waiting until then.
    pub(crate) async fn refused(&self, saved: &Saved, failed: Failed) -> Duration {
        self.set(saved, State::Refused);
        self.failed(saved, failed).await
    }

    /// An upload begins. Returns what is known of the file by now; none if it is not wanted any more.
    pub(crate) fn begins(&self, saved: &Saved) -> Option<Arc<Saved>> {
        self.set(saved, State::Sending);
        self.entries().get(saved.entry.id).map(|entry| self.saved(entry))
    }

    /// Whether a file waits that was saved under this lock.
    pub(crate) fn waits_under(&self, token: &str) -> bool {
        self.entries().iter().any(|entry| entry.details.token == token)
    }

    /// Whether this is the version that a file replaces, as far as is known by now.
    pub(crate) fn replaces(&self, saved: &Saved, version: &ETag) -> bool {
        self.entries().get(saved.entry.id).and_then(|entry| entry.base.tag()).is_some_and(|base| version.is(base))
    }

    /// The lock under which files were saved has ended, and has left this version at their path.
    pub(crate) async fn unlocked(&self, token: &str, path: &RemotePath, left: &ETag) {
        let rebase = |entries: &mut Entries| {
            let is_other = |entry: &&Entry| entry.base.tag().is_none_or(|base| !base.resembles(left));
            let is_it = |entry: &&Entry| entry.details.token == token && entry.path == *path && is_other(entry);
            let ids: Vec<_> = entries.iter().filter(is_it).map(|entry| entry.id).collect();
            for id in ids {
                entries.rebase(id, version(left.clone()));
            }
        };
        self.change_or_log(rebase).await;
    }

    /// The user is about to change what is at a path, or below it. Versions that wait there would replace that later: they go
    /// beside it instead, but for those of the lock that the change is made under, which it supersedes.
    pub(crate) async fn set_aside(&self, user: &str, path: &RemotePath, condition: Option<&str>) -> io::Result<()> {
        let is_meant = |entry: &Entry| !condition.is_some_and(|condition| condition.contains(&entry.details.token));
        let set_aside = |entries: &mut Entries| {
            for id in waiting_at(entries, user, path, is_meant) {
                entries.change(id, |details| details.is_aside = true);
            }
        };
        self.change(set_aside).await
    }

    /// A file was saved under the same lock as older versions that wait.
    async fn supersede(&self, newer: &Saved) {
        let Entry { id, path, details, .. } = &newer.entry;
        let is_older = |entry: &Entry| entry.id < *id && entry.details.token == details.token;
        let older = waiting_at(&self.entries(), &details.user, path, is_older);
        self.done(older).await;
    }

    /// The server has the file, or a newer one.
    pub(crate) async fn sent(&self, saved: &Saved) {
        self.done(vec![saved.entry.id]).await;
    }

    async fn done(&self, ids: Vec<Id>) {
        self.change_or_log(|entries| ids.into_iter().for_each(|id| entries.give_up(id))).await;
    }

    async fn change_or_log(&self, change: impl FnOnce(&mut Entries)) {
        if let Err(error) = self.change(change).await {
            tracing::error!("cannot write the journal {}: {error}", self.log.folder().display());
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
        self.log.close();
    }

    /// Waits for so long, or until the gateway ends. Returns whether to go on.
    pub(crate) async fn pause(&self, pause: Duration) -> bool {
        let mut ending = self.ending.subscribe();
        tokio::time::timeout(pause, ending.wait_for(|is_ending| *is_ending)).await.is_err()
    }

    pub(crate) fn totals(&self) -> Totals {
        let (arriving, entries) = (*self.arriving(), self.entries());
        let count = |state| entries.iter().filter(|entry| entry.details.state == state).count();
        Totals {
            files: entries.iter().count(),
            bytes: entries.bytes() + arriving,
            signed_out: count(State::SignedOut),
            refused: count(State::Refused),
            oldest: entries.iter().next().map_or(0, |entry| entry.closed.elapsed().map_or(0, |age| age.as_secs())),
        }
    }
}

/// What the gateways with this state folder have acknowledged and not uploaded yet, the oldest of each first.
pub fn pending(state: &Path) -> io::Result<Vec<Pending>> {
    Ok(Report::read_all(state)?.into_iter().flat_map(|report| report.pending).collect())
}

/// Files of this user that wait for something, at or below a path, and have their own place.
fn waiting_at(entries: &Entries, user: &str, path: &RemotePath, is_meant: impl Fn(&Entry) -> bool) -> Vec<Id> {
    let folder = path.clone().as_folder(true);
    let waits = |entry: &&Entry| {
        let Details { user: owner, is_aside, state, .. } = &entry.details;
        let is_waiting = *state != State::Sending && !is_aside && owner == user;
        is_waiting && is_meant(entry) && entry.path.relative_to(&folder).is_some()
    };
    entries.iter().filter(waits).map(|entry| entry.id).collect()
}

/// An upload that has failed.
pub(crate) fn failed(how: Failure, why: impl Into<String>, retry_after: Option<Duration>) -> Failed {
    Failed { how, errno: Errno::EIO, why: why.into(), retry_after }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Writes a content to a file. It is not on disk yet.
async fn store(place: &Path, content: Received, length: u64) -> io::Result<File> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(place)?;
    let (mut file, mut received) = (tokio::fs::File::from_std(file), 0);
    let mut chunks = match content {
        Received::Whole(content) => stream::iter([Ok(content)]).boxed(),
        Received::Streamed(mut body) => body.open()?,
    };
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        received += chunk.len() as u64;
        file.write_all(&chunk).await?;
    }
    if received != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.flush().await?;
    Ok(file.into_std().await)
}

#[cfg(test)]
mod tests;
