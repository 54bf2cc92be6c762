//! Contents of large files, of all credentials, on disk.
//!
//! A content is found only by the account that has fetched it, and used only when the server has just confirmed to that account
//! that the file still has its strong entity tag. The files have no names: nobody else can open them, and they end with the
//! gateway. What was not used for longest goes first.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::{Bytes, BytesMut};
use dav::{ETag, RemotePath};
use futures_util::stream;
use http::{HeaderMap, header::ETAG};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serve::AnswerBody;
use tokio::{sync::mpsc, task};

use crate::Error;

/// The largest number of files; each is open.
const FILES: usize = 512;
/// The largest part of the size that one file may have.
const LARGEST_PART: u64 = 4;
/// How much is written or read at once.
const STEP: usize = 128 * 1024;
/// How many pieces of an answer may wait for the disk. If it is slower, the answer does not wait for it, and is not kept.
const WAITING: usize = 64;

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
    /// The bytes of all files, also of those that are only being read.
    used: Arc<AtomicU64>,
    index: Mutex<Index>,
}

/// An account, and a path.
type Key = (u64, RemotePath);

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
    pub(crate) etag: ETag,
    /// Of the server's answer.
    pub(crate) headers: HeaderMap,
}

/// Bytes that a file may take, until it is closed.
#[derive(Debug)]
struct Space {
    bytes: u64,
    used: Arc<AtomicU64>,
}

impl Drop for Space {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A content that arrives.
#[derive(Debug)]
pub(crate) struct Arriving {
    all: Arc<LargeContents>,
    key: Key,
    stored: Stored,
    written: u64,
}

impl LargeContents {
    /// An error if the folder cannot be used.
    pub(crate) fn open(place: DiskCache) -> Result<Arc<Self>, Error> {
        match tempfile::tempfile_in(&place.folder) {
            Ok(_) => Ok(Arc::new(Self { place, used: Arc::default(), index: Mutex::default() })),
            Err(source) => Err(Error::Cache { folder: place.folder, source }),
        }
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// What an account has fetched of a file.
    pub(crate) fn find(&self, account: u64, path: &RemotePath) -> Option<Arc<Stored>> {
        let (mut index, key) = (self.index(), (account, path.clone()));
        index.clock += 1;
        let now = index.clock;
        let (number, stored) = index.files.get_mut(&key)?;
        let (before, stored) = (std::mem::replace(number, now), stored.clone());
        index.order.remove(&before);
        index.order.insert(now, key);
        Some(stored)
    }

    /// Makes room for an answer that arrives. None if it has no strong entity tag, or no room.
    pub(crate) fn expect(
        self: &Arc<Self>,
        account: u64,
        path: &RemotePath,
        headers: HeaderMap,
        length: u64,
    ) -> Option<Arriving> {
        let etag = headers.get(ETAG).and_then(ETag::from_header).filter(|etag| !etag.is_weak())?;
        let space = self.take(length)?;
        let file = tempfile::tempfile_in(&self.place.folder)
            .inspect_err(|error| tracing::warn!("cannot keep files in {}: {error}", self.place.folder.display()));
        let stored = Stored { file: file.ok()?, space, etag, headers };
        Some(Arriving { all: self.clone(), key: (account, path.clone()), stored, written: 0 })
    }

    fn take(&self, bytes: u64) -> Option<Space> {
        if bytes > self.place.size / LARGEST_PART {
            return None;
        }
        let mut index = self.index();
        // Only here it grows.
        while self.bytes() + bytes > self.place.size || index.files.len() >= FILES {
            // What is being read or written keeps its space for now.
            let (_, oldest) = index.order.pop_first()?;
            index.files.remove(&oldest);
        }
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Some(Space { bytes, used: self.used.clone() })
    }

    fn insert(&self, key: Key, stored: Stored) {
        let mut index = self.index();
        index.clock += 1;
        let now = index.clock;
        if let Some((before, _)) = index.files.insert(key.clone(), (now, Arc::new(stored))) {
            index.order.remove(&before);
        }
        index.order.insert(now, key);
    }

    /// Drops what an account has.
    pub(crate) fn forget(&self, account: u64) {
        let mut index = self.index();
        index.files.retain(|(owner, _), _| *owner != account);
        index.order.retain(|_, (owner, _)| *owner != account);
    }
}

impl Arriving {
    /// Writes the rest of what has arrived. An error if there is more than the server has announced.
    fn write(mut self, bytes: &[u8]) -> io::Result<Self> {
        let after = self.written + bytes.len() as u64;
        if after > self.stored.space.bytes {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.stored.file.write_all_at(bytes, self.written)?;
        self.written = after;
        Ok(self)
    }

    /// It is there, if it is whole.
    fn finish(self) {
        let Self { all, key, stored, written } = self;
        if written == stored.space.bytes {
            all.insert(key, stored);
        }
    }

    /// Keeps a copy of an answer's body while it passes.
    pub(crate) fn copy_of(self, body: AnswerBody) -> AnswerBody {
        let (send, receive) = mpsc::channel(WAITING);
        tokio::spawn(self.receive(receive));
        let mut send = Some(send);
        let copied = body.map_frame(move |frame| {
            let is_late =
                |send: &mpsc::Sender<Bytes>| frame.data_ref().is_some_and(|data| send.try_send(data.clone()).is_err());
            if send.as_ref().is_some_and(is_late) {
                send = None;
            }
            frame
        });
        copied.boxed_unsync()
    }

    async fn receive(self, mut pieces: mpsc::Receiver<Bytes>) {
        let (mut arriving, mut buffer) = (self, BytesMut::new());
        loop {
            let piece = pieces.recv().await;
            buffer.extend_from_slice(piece.as_deref().unwrap_or_default());
            if buffer.len() >= STEP || piece.is_none() {
                let bytes = buffer.split().freeze();
                match task::spawn_blocking(move || arriving.write(&bytes)).await {
                    Ok(Ok(written)) => arriving = written,
                    _ => return,
                }
            }
            if piece.is_none() {
                return arriving.finish();
            }
        }
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
                let mut piece = vec![0; left.min(STEP)];
                let rest = range.start + piece.len() as u64..range.end;
                let read = move || stored.file.read_exact_at(&mut piece, range.start).map(|()| Bytes::from(piece));
                let read = task::spawn_blocking(read).await.map_err(io::Error::other).flatten();
                Some((read.map(Frame::data), rest))
            }
        });
        StreamBody::new(pieces).boxed_unsync()
    }
}
