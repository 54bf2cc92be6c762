//! Contents of large files, of all credentials, on disk.
//!
//! A content is found only with the credential that has fetched it, and used only when the server has just confirmed to that
//! credential that the file still has its strong entity tag. The files have no names: nobody else can open them, and they end
//! with the gateway. What was not used for longest goes first.
//!
//! A slow disk holds nobody back: an answer that passes is copied as long as [`WAITING`] bytes suffice for what waits to be
//! written, and at most [`WORKERS`] threads work for all of it.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use dav::{ETag, RemotePath};
use futures_util::stream;
use http::{HeaderMap, header::ETAG};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serve::AnswerBody;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task,
    time::timeout,
};

use crate::{Error, credential::Identity};

/// The largest number of files; each is open.
const FILES: usize = 512;
/// The largest part of the size that one file may have.
const LARGEST_PART: u64 = 4;
/// What is left free on the disk, in bytes: the journal may be on it.
const SPARED: u64 = 256 << 20;
/// How much is written or read at once.
const STEP: usize = 128 * 1024;
/// How many bytes of all answers may wait for the disk. Beyond, an answer is not kept.
const WAITING: usize = 32 << 20;
/// How many threads the disk may hold up.
const WORKERS: usize = 32;
/// How long a client waits for the disk.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where large contents are kept.
#[derive(Debug, Clone)]
pub struct DiskCache {
    /// The folder, in which they have no names.
    pub folder: PathBuf,
    /// The largest size of all contents, in bytes.
    pub size: u64,
}

/// The contents.
#[derive(Debug)]
pub(crate) struct LargeContents {
    place: DiskCache,
    used: Arc<Used>,
    index: Mutex<Index>,
    waiting: Arc<Semaphore>,
    workers: Arc<Semaphore>,
    has_warned: AtomicBool,
}

/// What all files take, also those that arrive, and those that are only being read.
#[derive(Debug, Default)]
struct Used {
    bytes: AtomicU64,
    files: AtomicUsize,
}

/// A credential, and a path.
type Key = (Identity, RemotePath);

#[derive(Debug, Default)]
struct Index {
    files: HashMap<Key, (u64, Arc<Stored>)>,
    /// By their last use.
    order: BTreeMap<u64, Key>,
    clock: u64,
}

/// A content.
#[derive(Debug)]
pub(crate) struct Stored {
    file: File,
    space: Space,
    workers: Arc<Semaphore>,
    /// Whether the disk has failed to return it.
    is_broken: AtomicBool,
    pub(crate) etag: ETag,
    /// Of the server's answer.
    pub(crate) headers: HeaderMap,
}

/// The room that a file takes, until it is closed.
#[derive(Debug)]
struct Space {
    bytes: u64,
    used: Arc<Used>,
}

impl Drop for Space {
    fn drop(&mut self) {
        self.used.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.used.files.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A content that arrives.
#[derive(Debug)]
pub(crate) struct Arriving {
    all: Arc<LargeContents>,
    key: Key,
    space: Space,
    etag: ETag,
    headers: HeaderMap,
}

/// Bytes that wait for the disk.
type Piece = (Bytes, OwnedSemaphorePermit);

/// Closes files, which frees their blocks, where nobody waits for it.
fn close<T: Send + 'static>(files: T) {
    task::spawn_blocking(move || drop(files));
}

impl Index {
    fn use_now(&mut self, key: Key, stored: Arc<Stored>) -> Option<Arc<Stored>> {
        self.clock += 1;
        let before = self.files.insert(key.clone(), (self.clock, stored));
        self.order.insert(self.clock, key);
        let (number, stored) = before?;
        self.order.remove(&number);
        Some(stored)
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<Stored>> {
        let (number, stored) = self.files.remove(key)?;
        self.order.remove(&number);
        Some(stored)
    }
}

impl LargeContents {
    /// An error if the folder cannot be used.
    pub(crate) fn open(place: DiskCache) -> Result<Arc<Self>, Error> {
        match tempfile::tempfile_in(&place.folder) {
            Ok(_) => Ok(Arc::new(Self {
                place,
                used: Arc::default(),
                index: Mutex::default(),
                waiting: Arc::new(Semaphore::new(WAITING)),
                workers: Arc::new(Semaphore::new(WORKERS)),
                has_warned: AtomicBool::new(false),
            })),
            Err(source) => Err(Error::Cache { folder: place.folder, source }),
        }
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.used.bytes.load(Ordering::Relaxed)
    }

    /// What was fetched of a file with a credential.
    pub(crate) fn find(&self, owner: Identity, path: &RemotePath) -> Option<Arc<Stored>> {
        let (mut index, key) = (self.index(), (owner, path.clone()));
        let (_, stored) = index.files.get(&key)?;
        let stored = stored.clone();
        if stored.is_broken.load(Ordering::Relaxed) {
            close(index.remove(&key));
            return None;
        }
        index.use_now(key, stored.clone());
        Some(stored)
    }

    /// Drops a content that is not the file's any more.
    pub(crate) fn remove(&self, owner: Identity, path: &RemotePath, stored: &Arc<Stored>) {
        let (mut index, key) = (self.index(), (owner, path.clone()));
        if index.files.get(&key).is_some_and(|(_, there)| Arc::ptr_eq(there, stored)) {
            close(index.remove(&key));
        }
    }

    /// Drops what was fetched with a credential, at a path and below it if there is one.
    pub(crate) fn forget(&self, owner: Identity, below: Option<&RemotePath>) {
        let mut index = self.index();
        let is_there = |path: &RemotePath| {
            below.is_none_or(|below| {
                path.same_place(below) || path.relative_to(&below.clone().as_folder(true)).is_some()
            })
        };
        let keys: Vec<_> = index.files.keys().filter(|(of, path)| *of == owner && is_there(path)).cloned().collect();
        let removed: Vec<_> = keys.iter().filter_map(|key| index.remove(key)).collect();
        if !removed.is_empty() {
            close(removed);
        }
    }

    /// Makes room for an answer that arrives. None if it has no strong entity tag, or no room.
    pub(crate) fn expect(
        self: &Arc<Self>,
        owner: Identity,
        path: &RemotePath,
        headers: HeaderMap,
        length: u64,
    ) -> Option<Arriving> {
        let etag = headers.get(ETAG).and_then(ETag::from_header).filter(|etag| !etag.is_weak())?;
        let space = self.take(length)?;
        Some(Arriving { all: self.clone(), key: (owner, path.clone()), space, etag, headers })
    }

    fn take(&self, bytes: u64) -> Option<Space> {
        let disk = rustix::fs::statvfs(&self.place.folder).ok()?;
        let is_disk_full = disk.f_bavail.saturating_mul(disk.f_frsize) < bytes.checked_add(SPARED)?;
        if is_disk_full || bytes > self.place.size / LARGEST_PART {
            return None;
        }
        let mut index = self.index();
        // Both grow only here, under the lock.
        let mut too_many = (self.bytes() + bytes).saturating_sub(self.place.size);
        let mut too_many_files = (self.used.files.load(Ordering::Relaxed) + 1).saturating_sub(FILES);
        let mut victims = Vec::new();
        for key in index.order.values() {
            if too_many == 0 && too_many_files == 0 {
                break;
            }
            // What is being read would keep its room.
            if let Some((_, stored)) = index.files.get(key).filter(|(_, stored)| Arc::strong_count(stored) == 1) {
                too_many = too_many.saturating_sub(stored.length());
                too_many_files = too_many_files.saturating_sub(1);
                victims.push(key.clone());
            }
        }
        if too_many > 0 || too_many_files > 0 {
            return None;
        }
        let removed = victims.iter().filter_map(|key| Arc::into_inner(index.remove(key)?));
        // Their room is free at once.
        let files: Vec<_> = removed.map(|stored| stored.file).collect();
        if !files.is_empty() {
            close(files);
        }
        self.used.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.used.files.fetch_add(1, Ordering::Relaxed);
        Some(Space { bytes, used: self.used.clone() })
    }

    /// Does something with the disk, on a thread of those for it.
    async fn work<T: Send + 'static>(
        workers: &Arc<Semaphore>,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let worker = workers.clone().acquire_owned().await.map_err(io::Error::other)?;
        let done = task::spawn_blocking(move || {
            let _worker = worker;
            work()
        });
        done.await.map_err(io::Error::other)?
    }

    fn cannot_keep(&self, error: &io::Error) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("cannot keep large files in {}: {error}", self.place.folder.display());
        }
    }
}

impl Arriving {
    /// Keeps a copy of an answer's body while it passes.
    pub(crate) fn copy_of(self, body: AnswerBody) -> AnswerBody {
        let (send, receive) = mpsc::unbounded_channel::<Piece>();
        let waiting = self.all.waiting.clone();
        tokio::spawn(self.receive(receive));
        let mut send = Some(send);
        let copied = body.map_frame(move |frame| {
            let is_kept = |send: &mpsc::UnboundedSender<Piece>| {
                let Some(data) = frame.data_ref().filter(|data| !data.is_empty()) else { return true };
                let permits = u32::try_from(data.len()).ok();
                let room = permits.and_then(|permits| waiting.clone().try_acquire_many_owned(permits).ok());
                room.is_some_and(|room| send.send((data.clone(), room)).is_ok())
            };
            if !send.as_ref().is_some_and(is_kept) {
                send = None;
            }
            frame
        });
        copied.boxed_unsync()
    }

    async fn receive(self, pieces: mpsc::UnboundedReceiver<Piece>) {
        let Self { all, key, space, etag, headers } = self;
        let (folder, length, workers) = (all.place.folder.clone(), space.bytes, all.workers.clone());
        match receive(&workers, folder, length, pieces).await {
            Ok(Some(file)) => {
                let stored = Stored { file, space, workers, is_broken: AtomicBool::new(false), etag, headers };
                let before = all.index().use_now(key, Arc::new(stored));
                close(before);
            }
            Ok(None) => {}
            Err(error) => all.cannot_keep(&error),
        }
    }
}

/// Writes what arrives to a file, which is on disk when this returns; none if it is not all that was announced.
async fn receive(
    workers: &Arc<Semaphore>,
    folder: PathBuf,
    length: u64,
    mut pieces: mpsc::UnboundedReceiver<Piece>,
) -> io::Result<Option<File>> {
    let (mut file, mut written, mut pending, mut size) = (None::<File>, 0, Vec::new(), 0);
    loop {
        let piece = pieces.recv().await;
        let is_last = piece.is_none();
        size += piece.as_ref().map_or(0, |(bytes, _)| bytes.len());
        pending.extend(piece);
        if size < STEP && !is_last {
            continue;
        }
        let after = written + size as u64;
        if after > length || (is_last && after < length) {
            return Ok(None);
        }
        let (given, batch, at, folder) = (file.take(), std::mem::take(&mut pending), written, folder.clone());
        let write = move || {
            let file = given.map_or_else(|| tempfile::tempfile_in(folder), Ok)?;
            let mut at = at;
            for (bytes, _) in &batch {
                file.write_all_at(bytes, at)?;
                at += bytes.len() as u64;
            }
            if is_last {
                // A later error of the disk would show only as zeros.
                file.sync_data()?;
            }
            Ok(file)
        };
        let done = LargeContents::work(workers, write).await?;
        if is_last {
            return Ok(Some(done));
        }
        (file, written, size) = (Some(done), after, 0);
    }
}

impl Stored {
    pub(crate) fn length(&self) -> u64 {
        self.space.bytes
    }

    /// A part of it.
    pub(crate) fn body(self: &Arc<Self>, range: Range<u64>) -> AnswerBody {
        let stored = self.clone();
        let pieces = stream::unfold(range, move |range| {
            let stored = stored.clone();
            async move {
                let left = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
                if left == 0 {
                    return None;
                }
                let length = left.min(STEP);
                let piece = stored.read(range.start, length).await;
                if let Err(error) = &piece {
                    tracing::error!("cannot read a large file that was kept: {error}");
                    stored.is_broken.store(true, Ordering::Relaxed);
                }
                Some((piece.map(Frame::data), range.start + length as u64..range.end))
            }
        });
        StreamBody::new(pieces).boxed_unsync()
    }

    async fn read(self: &Arc<Self>, at: u64, length: usize) -> io::Result<Bytes> {
        let stored = self.clone();
        let read = move || {
            let mut piece = vec![0; length];
            stored.file.read_exact_at(&mut piece, at)?;
            Ok(piece.into())
        };
        match timeout(PATIENCE, LargeContents::work(&self.workers, read)).await {
            Ok(read) => read,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

#[cfg(test)]
mod tests;
