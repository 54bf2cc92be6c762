//! A file's content in the cache: a sparse local file, and the state of its parts.

use std::{
    fs::{self, File},
    io::{self, Read},
    mem,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::SystemTime,
};

use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, fallocate},
};
use tokio::{sync::Notify, time::Instant};

use crate::{
    content_cache::{ContentCache, Found},
    failures::Failures,
    file_state::{Base, FileState, Snapshot},
    journal::Id,
    pacing::Pace,
    tree::Facts,
    unsaved,
};

/// The content of one file, of one version and what was written over it. The local file goes with it.
#[derive(Debug)]
pub(crate) struct CachedFile {
    path: PathBuf,
    state: Mutex<Shared>,
    /// Bytes have arrived, or a fetch has ended.
    pub(crate) progress: Notify,
    /// A reader has read on, or nobody reads any more.
    pub(crate) demand: Notify,
    /// One upload at a time.
    pub(crate) upload: tokio::sync::Mutex<()>,
    /// The number of handles that are open for writing.
    writers: AtomicU64,
    /// How often it got another name, because somebody else had changed the file.
    conflicts: AtomicU64,
    /// Whether it outlives the mount already.
    is_kept: AtomicBool,
}

/// What the journal was given.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(crate) snapshot: Snapshot,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) local: File,
}

#[derive(Debug)]
struct Shared {
    file: FileState,
    local: File,
    /// The entry of the journal whose content is the same local file, and the number of changes in it. The next change is
    /// made to a copy.
    journaled: Option<(Id, Snapshot)>,
    failures: Failures,
    /// The modification time that a program has set.
    modified: Option<SystemTime>,
    /// Whether a program has opened it, so that what the kernel has cached of the file is this content.
    is_shown: bool,
    /// Says which bytes are here of which version, so that they outlive the mount.
    record: Option<Recorded>,
    /// Whether another mount may use it.
    is_over: bool,
    /// What is being fetched ahead of readers.
    stretches: Vec<Weak<Mutex<Pace>>>,
}

#[derive(Debug)]
struct Recorded {
    record: PathBuf,
    /// The file's path on the server, and how much of it is here.
    of: (String, u64),
}

impl Shared {
    /// The content is about to change.
    fn forget_record(&mut self) -> io::Result<()> {
        if let Some(recorded) = &self.record {
            fs::remove_file(&recorded.record)?;
            self.record = None;
        }
        Ok(())
    }
}

impl CachedFile {
    pub(crate) fn create(path: PathBuf, state: FileState) -> io::Result<Self> {
        let local = File::options().read(true).write(true).create_new(true).open(&path)?;
        local.set_len(state.length())?;
        Ok(Self::new(path, local, state, None, None))
    }

    /// A content of an earlier mount, of which `path` names the file.
    pub(crate) fn adopt(found: Found, facts: Facts, path: String) -> io::Result<Self> {
        let local = File::options().read(true).write(true).open(&found.content)?;
        let recorded = Recorded { record: found.record, of: (path, found.present.total()) };
        Ok(Self::new(found.content, local, FileState::with(facts, found.present), Some(recorded), None))
    }

    /// A content of the journal.
    pub(crate) fn of_entry(path: PathBuf, id: Id, content: &Path, state: FileState) -> io::Result<Self> {
        fs::hard_link(content, &path)?;
        let local = File::options().read(true).write(true).open(&path)?;
        let journaled = state.snapshot().map(|snapshot| (id, snapshot));
        Ok(Self::new(path, local, state, None, journaled))
    }

    fn new(
        path: PathBuf,
        local: File,
        state: FileState,
        record: Option<Recorded>,
        journaled: Option<(Id, Snapshot)>,
    ) -> Self {
        let (failures, modified, stretches) = (Failures::default(), None, Vec::new());
        let shared = Shared {
            file: state,
            local,
            journaled,
            failures,
            modified,
            is_shown: false,
            record,
            is_over: false,
            stretches,
        };
        Self {
            path,
            state: Mutex::new(shared),
            progress: Notify::new(),
            demand: Notify::new(),
            upload: tokio::sync::Mutex::default(),
            writers: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            is_kept: AtomicBool::new(false),
        }
    }

    /// Records what is here of the file `path`, so that it outlives the mount; or not, if it is not a version of the server.
    pub(crate) fn record(&self, path: &str, cache: &ContentCache) {
        let mut shared = self.lock();
        let Some((facts, present)) = shared.file.version() else { return };
        let of = (path.to_owned(), present.total());
        if shared.record.as_ref().is_some_and(|recorded| recorded.of == of) {
            return;
        }
        let Some(record) = cache.record(path, facts, present, &self.path) else { return };
        // Now there are two for a moment, and both are true.
        let _ = shared.forget_record();
        shared.record = Some(Recorded { record, of });
    }

    /// Its record, if it has one.
    pub(crate) fn recorded(&self) -> Option<PathBuf> {
        self.lock().record.as_ref().map(|recorded| recorded.record.clone())
    }

    /// The mount has ended.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
    }

    /// It is not to outlive the mount.
    pub(crate) fn forget_record(&self) {
        let _ = self.lock().forget_record();
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
        self.lock().failures.count
    }

    /// Why a fetch of bytes in `wanted` failed, if one has since `before`.
    pub(crate) fn failure_since(&self, before: u64, wanted: &Range<u64>) -> Option<Errno> {
        self.lock().failures.since(before, wanted)
    }

    /// Why a fetch failed a moment ago, if the server did not answer. The kernel tries to read again, in smaller parts,
    /// before it tells the program, and must not wait for each of them.
    pub(crate) fn silence(&self) -> Option<Errno> {
        self.lock().failures.silence(Instant::now())
    }

    /// A stretch is about to be fetched ahead of a reader.
    pub(crate) fn begin_stretch(&self, pace: Pace) -> Arc<Mutex<Pace>> {
        let pace = Arc::new(Mutex::new(pace));
        let mut shared = self.lock();
        shared.stretches.retain(|stretch| stretch.strong_count() > 0);
        shared.stretches.push(Arc::downgrade(&pace));
        pace
    }

    /// Changes how far what is being fetched may run ahead; `change` returns whether it has.
    pub(crate) fn pace(&self, change: impl Fn(&mut Pace) -> bool) {
        let stretches: Vec<_> = self.lock().stretches.iter().filter_map(Weak::upgrade).collect();
        let changed = |pace: &Arc<Mutex<Pace>>| change(&mut pace.lock().unwrap_or_else(PoisonError::into_inner));
        if stretches.iter().filter(|pace| changed(pace)).count() > 0 {
            self.demand.notify_waiters();
        }
    }

    pub(crate) fn fetch_ended(&self, range: Range<u64>, failure: Option<Errno>) {
        let mut shared = self.lock();
        shared.file.fetch_ended(range.clone());
        if let Some(failure) = failure {
            shared.failures.add(range, failure, Instant::now());
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
            shared.local.write_all_at(part_bytes, part.start)?;
        }
        shared.file.arrived(range);
        drop(shared);
        self.progress.notify_waiters();
        Ok(())
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<u64> {
        let mut shared = self.lock();
        shared.forget_record()?;
        self.separate(&mut shared, u64::MAX)?;
        if let Err(error) = shared.local.write_all_at(bytes, at) {
            // What is behind the end of the file would come to light when it is made longer.
            let _ = shared.local.set_len(shared.file.length());
            return Err(error);
        }
        shared.file.write(at..at + bytes.len() as u64);
        shared.modified = None;
        Ok(shared.file.length())
    }

    pub(crate) fn truncate(&self, length: u64) -> io::Result<()> {
        let mut shared = self.lock();
        shared.forget_record()?;
        self.separate(&mut shared, length)?;
        shared.local.set_len(length)?;
        shared.file.truncate(length);
        shared.modified = None;
        Ok(())
    }

    /// Makes the local file ours alone: the journal's must not change. The copy has the first `length` bytes.
    fn separate(&self, shared: &mut Shared, length: u64) -> io::Result<()> {
        if shared.journaled.is_none() {
            return Ok(());
        }
        let copy = self.path.with_extension("copy");
        let _ = fs::remove_file(&copy);
        let mut local = File::options().read(true).write(true).create_new(true).open(&copy)?;
        let copied = io::copy(&mut File::open(&self.path)?.take(length), &mut local);
        copied.and_then(|_| fs::rename(&copy, &self.path)).inspect_err(|_| drop(fs::remove_file(&copy)))?;
        (shared.local, shared.journaled) = (local, None);
        Ok(())
    }

    /// Gives the journal the present content as its entry `id`, in the file `target`; none if it has it, or the server has.
    pub(crate) fn link(&self, id: Id, target: &Path) -> io::Result<Option<Linked>> {
        let mut shared = self.lock();
        let Some(snapshot) = shared.file.snapshot().filter(|_| shared.file.is_unsafe()) else { return Ok(None) };
        let local = shared.local.try_clone()?;
        // Written again without a change in between, it is the same content: a second link would do as well.
        fs::hard_link(&self.path, target)?;
        shared.journaled = Some((id, snapshot.clone()));
        Ok(Some(Linked { snapshot, modified: shared.modified, local }))
    }

    /// The server has the entry `id` of the journal, as the version `facts`. Returns whether it lacks a later change.
    pub(crate) fn entry_uploaded(&self, id: Id, facts: &Facts) -> bool {
        let mut shared = self.lock();
        match shared.journaled.clone().filter(|(journaled, _)| *journaled == id) {
            Some((_, snapshot)) => shared.file.uploaded(&snapshot, facts.clone()),
            None => shared.file.rebase(Base::Version(facts.clone())),
        }
        shared.file.is_dirty()
    }

    /// The journal has no use for the entry `id` any more.
    pub(crate) fn entry_deleted(&self, id: Id) {
        self.lock().journaled.take_if(|(journaled, _)| *journaled == id);
    }

    pub(crate) fn set_modified(&self, modified: SystemTime) {
        self.lock().modified = Some(modified);
    }

    pub(crate) fn modified(&self) -> Option<SystemTime> {
        self.lock().modified
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

    /// It has got another name, because somebody else had changed the file.
    pub(crate) fn set_aside(&self) {
        self.conflicts.fetch_add(1, Ordering::SeqCst);
    }

    /// How often that has happened.
    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::SeqCst)
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
        shared.local.read_exact_at(&mut bytes, range.start)?;
        Ok(Some(bytes))
    }

    /// Gives the disk back what is not in `kept` if there is more than `limit`, as far as the server has it.
    pub(crate) fn trim(&self, limit: u64, kept: Range<u64>) {
        let mut shared = self.lock();
        if shared.file.stored() <= limit || shared.is_over || shared.forget_record().is_err() {
            return;
        }
        let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        for range in shared.file.evictable(kept) {
            // A file system without holes keeps it all.
            if fallocate(&shared.local, punch, range.start as i64, (range.end - range.start) as i64).is_ok() {
                shared.file.evicted(range);
            }
        }
    }

    /// Whether it is to be kept; it is, once.
    pub(crate) fn begin_to_keep(&self) -> bool {
        !self.is_kept.swap(true, Ordering::SeqCst)
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        // Nobody has the name; what is left goes with the cache folder.
        if self.recorded().is_none() && !unsaved::is_spared(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
