//! The handles that programs have open.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use fuser::FileHandle;
use nix::errno::Errno;

use crate::{
    cached_file::CachedFile,
    read_ahead::ReadAhead,
    share::{FolderEntry, Result, Share},
    tree::Ino,
};

/// An open file.
pub(crate) struct OpenFile {
    pub(crate) ino: Ino,
    pub(crate) content: Arc<CachedFile>,
    reads: Mutex<ReadAhead>,
    is_writer: bool,
    /// The conflicts that the program knows of, or that were before it opened the file.
    conflicts: AtomicU64,
}

impl OpenFile {
    /// With a cache of this size.
    pub(crate) fn new(ino: Ino, content: Arc<CachedFile>, is_writer: bool, cache_size: u64) -> Self {
        if is_writer {
            content.writer_opens();
        }
        let conflicts = AtomicU64::new(content.conflicts());
        Self { ino, content, reads: Mutex::new(ReadAhead::new(cache_size)), is_writer, conflicts }
    }

    /// What a program is told when its changes were uploaded. That the file has got another name, each of several programs that
    /// write to it must learn: what they save is not where they believe.
    pub(crate) fn uploaded(&self, outcome: Result<()>) -> Result<()> {
        let now = self.content.conflicts();
        let is_news = self.conflicts.swap(now, Ordering::SeqCst) != now;
        if self.is_writer && is_news { outcome.and(Err(Errno::ESTALE)) } else { outcome }
    }

    /// A program reads `wanted`. Requests it, and what it will probably read next.
    pub(crate) fn request(&self, share: &Arc<Share>, wanted: &Range<u64>) {
        // Held until it is requested: another read must not take it for lost.
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let is_coming = self.content.state(|state| state.is_coming(wanted.clone()));
        let ahead = reads.read(wanted.clone(), is_coming);
        share.request_ahead(self.ino, &self.content, ahead);
    }

    /// A program has closed its handle, and what it wrote is uploaded or kept.
    pub(crate) fn close(&self, share: &Arc<Share>) {
        share.release(self.ino, &self.content);
        if self.is_writer {
            share.writer_closes(self.ino, &self.content);
        }
    }
}

/// An open folder.
pub(crate) struct OpenFolder {
    ino: Ino,
    entries: Mutex<Option<Arc<Vec<FolderEntry>>>>,
}

impl OpenFolder {
    /// The listing of the folder is fresh.
    pub(crate) fn new(ino: Ino) -> Self {
        Self { ino, entries: Mutex::default() }
    }

    /// What a program sees that reads on at `offset`. It stays the same until the program rewinds (rewinddir(3)), or positions
    /// would change their meaning.
    pub(crate) async fn entries(&self, share: &Arc<Share>, offset: u64) -> Result<Arc<Vec<FolderEntry>>> {
        let entries = || self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = entries().clone();
        match seen {
            Some(seen) if offset > 0 => return Ok(seen),
            Some(_) => share.begin_to_read(self.ino).await?,
            None => {}
        }
        let present = Arc::new(share.folder_entries(self.ino));
        *entries() = Some(present.clone());
        Ok(present)
    }
}

/// Open handles.
pub(crate) struct Table<T> {
    handles: Mutex<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self { handles: Mutex::default(), next: AtomicU64::new(1) }
    }

    pub(crate) fn add(&self, value: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(value));
        FileHandle(number)
    }

    pub(crate) fn get(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).get(&handle.0).cloned()
    }

    pub(crate) fn remove(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.0)
    }
}
