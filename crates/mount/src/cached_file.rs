//! A file's content in the cache: a sparse local file, and the state of its parts.

use std::{
    fs::{self, File},
    io, mem,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::SystemTime,
};

use dav::RemotePath;
use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, fallocate},
};
use tokio::sync::Notify;

use crate::file_state::FileState;

/// The content of one file, of one version and what was written over it. The local file goes with it.
#[derive(Debug)]
pub(crate) struct CachedFile {
    path: PathBuf,
    file: File,
    state: Mutex<Shared>,
    /// Bytes have arrived, or a fetch has ended.
    pub(crate) progress: Notify,
    /// One upload at a time.
    pub(crate) upload: tokio::sync::Mutex<()>,
    /// The number of handles that are open for writing.
    writers: AtomicU64,
    /// Whether it outlives the mount already.
    is_kept: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    file: FileState,
    /// The number of failed fetches, and why the last one failed.
    failures: (u64, Option<Errno>),
    /// The modification time that a program has set.
    modified: Option<SystemTime>,
    /// Whether a program has opened it, so that what the kernel has cached of the file is this content.
    is_shown: bool,
    /// The path under which it is locked on the server.
    locked_as: Option<RemotePath>,
}

impl CachedFile {
    pub(crate) fn create(path: PathBuf, state: FileState) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        file.set_len(state.length())?;
        let state =
            Mutex::new(Shared { file: state, failures: (0, None), modified: None, is_shown: false, locked_as: None });
        Ok(Self {
            path,
            file,
            state,
            progress: Notify::new(),
            upload: tokio::sync::Mutex::default(),
            writers: AtomicU64::new(0),
            is_kept: AtomicBool::new(false),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the state.
    pub(crate) fn state<T>(&self, with: impl FnOnce(&mut FileState) -> T) -> T {
        with(&mut self.lock().file)
    }

    /// A program opens it. Returns whether one has before.
    pub(crate) fn show(&self) -> bool {
        mem::replace(&mut self.lock().is_shown, true)
    }

    /// How many fetches have failed.
    pub(crate) fn failures(&self) -> u64 {
        self.lock().failures.0
    }

    /// Why the last fetch failed, if any has since `before`.
    pub(crate) fn failure_since(&self, before: u64) -> Option<Errno> {
        let (count, why) = self.lock().failures;
        why.filter(|_| count > before)
    }

    pub(crate) fn fetch_ended(&self, range: Range<u64>, failure: Option<Errno>) {
        let mut shared = self.lock();
        shared.file.fetch_ended(range);
        if failure.is_some() {
            shared.failures = (shared.failures.0 + 1, failure);
        }
        drop(shared);
        self.progress.notify_waiters();
    }

    /// Stores bytes of the server, but for those that were written over.
    pub(crate) fn store(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let range = at..at + bytes.len() as u64;
        let mut shared = self.lock();
        for part in shared.file.missing(range.clone()) {
            let part_bytes = &bytes[(part.start - at) as usize..(part.end - at) as usize];
            self.file.write_all_at(part_bytes, part.start)?;
        }
        shared.file.arrived(range);
        drop(shared);
        self.progress.notify_waiters();
        Ok(())
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<u64> {
        let mut shared = self.lock();
        self.file.write_all_at(bytes, at)?;
        shared.file.write(at..at + bytes.len() as u64);
        shared.modified = None;
        Ok(shared.file.length())
    }

    pub(crate) fn truncate(&self, length: u64) -> io::Result<()> {
        let mut shared = self.lock();
        self.file.set_len(length)?;
        shared.file.truncate(length);
        shared.modified = None;
        Ok(())
    }

    pub(crate) fn set_modified(&self, modified: SystemTime) {
        self.lock().modified = Some(modified);
    }

    pub(crate) fn modified(&self) -> Option<SystemTime> {
        self.lock().modified
    }

    pub(crate) fn locked_as(&self) -> Option<RemotePath> {
        self.lock().locked_as.clone()
    }

    /// Sets the path under which it is locked, and returns the former one.
    pub(crate) fn set_locked_as(&self, path: Option<RemotePath>) -> Option<RemotePath> {
        std::mem::replace(&mut self.lock().locked_as, path)
    }

    /// A program opens it for writing.
    pub(crate) fn writer_opens(&self) {
        self.writers.fetch_add(1, Ordering::SeqCst);
    }

    /// A program has closed it. Returns whether it was the last writer.
    pub(crate) fn writer_closes(&self) -> bool {
        self.writers.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Whether a program has it open for writing.
    pub(crate) fn is_written(&self) -> bool {
        self.writers.load(Ordering::SeqCst) > 0
    }

    /// Reads a range, if all of it is here.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Option<Vec<u8>>> {
        // Under the lock, or what is here might be evicted before it is read.
        let shared = self.lock();
        if !shared.file.missing(range.clone()).is_empty() {
            return Ok(None);
        }
        let end = range.end.min(shared.file.length());
        let mut bytes = vec![0; end.saturating_sub(range.start) as usize];
        self.file.read_exact_at(&mut bytes, range.start)?;
        Ok(Some(bytes))
    }

    /// Gives the disk back what is not in `kept` if there is more than `limit`, as far as the server has it.
    pub(crate) fn trim(&self, limit: u64, kept: Range<u64>) {
        let mut shared = self.lock();
        if shared.file.stored() <= limit {
            return;
        }
        let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        for range in shared.file.evictable(kept) {
            // A file system without holes keeps it all.
            if fallocate(&self.file, punch, range.start as i64, (range.end - range.start) as i64).is_ok() {
                shared.file.evicted(range);
            }
        }
    }

    /// Whether it is to be kept; it is, once.
    pub(crate) fn begin_to_keep(&self) -> bool {
        !self.is_kept.swap(true, Ordering::SeqCst)
    }

    /// Moves the content to a path where it outlives the mount.
    pub(crate) fn keep(&self, target: &Path) -> io::Result<()> {
        fs::hard_link(&self.path, target).or_else(|_| fs::copy(&self.path, target).map(drop))?;
        self.file.sync_all()
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        // Nobody has the name; what is left goes with the cache folder.
        let _ = fs::remove_file(&self.path);
    }
}
