//! A full disk below the cache folder: what is cached makes room for what programs write and read.
//!
//! The limit of `--cache-size` may be more than the disk has left. So an operation for which the disk has no room drops the
//! contents that no program has open, and is tried once more. What the server does not have is never dropped.

use std::{io, sync::Arc};

use nix::errno::Errno;

use super::{Contents, Result, Share};
use crate::{cached_file::CachedFile, errno, file_state::FileState};

/// How much of a file that fills the disk alone stays here before what is being fetched, for its readers.
const KEPT_BEFORE: u64 = 4 * 1024 * 1024;

impl Share {
    /// Runs an operation that writes local files; if the disk is full, again after there is room.
    pub(super) fn with_space<T>(&self, operation: impl Fn() -> io::Result<T>) -> Result<T> {
        retried(&operation, || self.evict()).map_err(|error| self.local(&error))
    }

    /// A new local file. The caller holds the contents, so only those of earlier mounts make room.
    pub(super) fn new_file(&self, state: &FileState) -> Result<Arc<CachedFile>> {
        let create = || CachedFile::create(self.cache.new_place(), state.clone());
        retried(create, || self.cache.limit(0)).map(Arc::new).map_err(|error| self.local(&error))
    }

    /// Stores bytes of an open file that were fetched. It makes room itself if there is no other.
    pub(super) fn store_fetched(&self, file: &CachedFile, at: u64, bytes: &[u8]) -> Result<()> {
        let store = || file.store(at, bytes);
        let kept = at.saturating_sub(KEPT_BEFORE)..at + bytes.len() as u64;
        let stored = retried(|| retried(store, || self.evict()), || file.trim(0, kept));
        stored.map_err(|error| self.local(&error))
    }

    /// Drops what is cached of files that no program has open.
    fn evict(&self) {
        self.contents().evict();
        self.cache.limit(0);
    }

    fn local(&self, error: &io::Error) -> Errno {
        tracing::warn!("cannot write below the cache folder {}: {error}", self.options.cache.display());
        errno::of_io(error)
    }
}

impl Contents {
    fn evict(&mut self) {
        for ino in std::mem::take(&mut self.idle) {
            match self.files.get(&ino) {
                // The journal has it, and its upload needs it.
                Some(file) if file.state(|state| state.is_dirty()) => self.idle.push(ino),
                Some(file) => {
                    file.forget_record();
                    self.files.remove(&ino);
                }
                None => {}
            }
        }
    }
}

/// Runs an operation; if the disk is full, `make_room` comes before a second time.
fn retried<T>(operation: impl Fn() -> io::Result<T>, make_room: impl FnOnce()) -> io::Result<T> {
    operation().or_else(|error| {
        if !output::is_full(&error) {
            return Err(error);
        }
        make_room();
        operation()
    })
}
