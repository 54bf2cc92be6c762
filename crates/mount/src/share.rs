//! A mounted share: the operations of the file system, without FUSE.
//!
//! Each operation locks the tree or a file's state for a moment and holds no lock while it waits for the server, with two
//! exceptions: a folder is listed by one request at a time, and a file is uploaded by one at a time.

pub(crate) mod attributes;
mod disk_space;
mod ending;
mod late_requests;
mod late_uploads;
mod listing;
mod lock_files;
mod locking;
mod names;
mod quota;
mod reading;
mod repository;
mod storing;
mod upload_queue;
mod write_back;
mod writing;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use dav::{Dav, Entry, Failure, LockPolicy, RemotePath, transfer::HeldLocks};
use nix::errno::Errno;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    time::Instant,
};

use crate::{
    Options, Write,
    cached_file::CachedFile,
    content_cache::ContentCache,
    journal::{self, JournalError, Report},
    late_changes::LateChanges,
    share::write_back::WriteBack,
    tree::{Facts, Ino, Lookup, Tree},
    unsaved::{self, Unsaved},
};

pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// Contents of files that no program has open are kept up to this number.
const IDLE_FILES: usize = 512;

/// The longest name, in bytes, as on the usual file systems of servers.
pub(crate) const MAX_NAME: usize = 255;

/// The extended attribute with a file's entity tag.
pub(crate) const ETAG_ATTRIBUTE: &str = "user.dav.etag";

/// The extended attribute of the mount point with the folder of the journal, for [`Report::read`].
pub const JOURNAL_ATTRIBUTE: &str = "user.haul.journal";

/// A share of a server.
pub(crate) struct Share {
    pub(crate) dav: Dav,
    pub(crate) options: Options,
    tree: Mutex<Tree>,
    contents: Mutex<Contents>,
    /// The folders that are being listed.
    listings: Mutex<HashMap<Ino, Arc<tokio::sync::Mutex<()>>>>,
    /// Holds the cached files.
    cache: ContentCache,
    unsaved: Unsaved,
    locks: HeldLocks,
    /// The paths under which files are locked on the server.
    locked: Mutex<BTreeMap<Ino, RemotePath>>,
    /// Whether the server supports locks, and they are wanted.
    is_locking: AtomicBool,
    lock_taken: tokio::sync::Notify,
    late_changes: Mutex<LateChanges>,
    /// Whether the server may report what has changed in a folder.
    reports_changes: AtomicBool,
    /// Whether the server's last answer to a request for a range was one.
    sends_ranges: AtomicBool,
    quota: tokio::sync::Mutex<Option<quota::Quota>>,
    /// None if close(2) waits for the server.
    write_back: Option<WriteBack>,
    /// Held for reading by what goes on after a program's close(2).
    closing: Arc<tokio::sync::RwLock<()>>,
}

/// Attributes of a file or folder.
#[derive(Debug, Clone)]
pub(crate) struct Attributes {
    pub(crate) ino: Ino,
    pub(crate) is_folder: bool,
    /// Whether it has lost its name.
    pub(crate) is_removed: bool,
    pub(crate) length: u64,
    pub(crate) modified: SystemTime,
    /// How long the kernel may keep them.
    pub(crate) valid: Duration,
}

/// What a folder has.
pub(crate) struct FolderEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) ino: Ino,
    pub(crate) is_folder: bool,
}

/// The cached contents of files.
#[derive(Default)]
struct Contents {
    files: HashMap<Ino, Arc<CachedFile>>,
    /// Those that no program has open, the longest closed first.
    idle: Vec<Ino>,
}

impl Share {
    pub(crate) fn new(dav: Dav, base: RemotePath, options: Options) -> std::result::Result<Self, crate::Error> {
        let cache = ContentCache::new(&options.cache, &options.source, options.identity);
        let cache = cache.map_err(|source| crate::Error::Cache { path: options.cache.clone(), source })?;
        let write_back = open_journal(&options)?;
        let locks = locking::held_locks(&dav, &options, &cache);
        Ok(Self {
            dav,
            tree: Mutex::new(Tree::new(base, options.fresh)),
            unsaved: Unsaved::new(&options.cache),
            options,
            contents: Mutex::default(),
            listings: Mutex::default(),
            cache,
            locks,
            locked: Mutex::default(),
            is_locking: AtomicBool::new(false),
            lock_taken: tokio::sync::Notify::new(),
            late_changes: Mutex::default(),
            reports_changes: AtomicBool::new(true),
            sends_ranges: AtomicBool::new(false),
            quota: tokio::sync::Mutex::default(),
            write_back,
            closing: Arc::default(),
        })
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn late_changes(&self) -> MutexGuard<'_, LateChanges> {
        self.late_changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The content of a file, if it is here.
    fn content_of(&self, ino: Ino) -> Option<Arc<CachedFile>> {
        self.contents().files.get(&ino).cloned()
    }

    /// The path of a file; none if it was deleted, even if the kernel has forgotten it.
    fn path_if_known(&self, ino: Ino) -> Option<RemotePath> {
        let tree = self.tree();
        tree.contains(ino).then(|| tree.path(ino)).flatten()
    }

    /// Checks that the server can be reached, and that the share is a folder; learns what the server supports.
    pub(crate) async fn check(&self) -> std::result::Result<(), dav::Error> {
        let (path, mark) = {
            let tree = self.tree();
            (tree.path(Tree::ROOT).unwrap_or_else(RemotePath::root), tree.mark(Instant::now()))
        };
        let (entries, server) = tokio::join!(self.request_listing(&path), self.dav.learn(&path));
        let (entries, own) = entries?;
        // Without an answer it would stay unknown whether files can be locked, and what protects an upload.
        let server = match server {
            Err(error) if error.refusal().is_none_or(Failure::is_passing) => return Err(error),
            server => server.ok(),
        };
        let is_locking = server.is_some_and(|server| server.locks) && self.options.lock != LockPolicy::Never;
        self.is_locking.store(is_locking, Ordering::Relaxed);
        let mut tree = self.tree();
        tree.folder_is(Tree::ROOT, mark, own);
        tree.listed(Tree::ROOT, mark, entries, Instant::now());
        Ok(())
    }

    fn attributes(tree: &Tree, ino: Ino) -> Attributes {
        let facts = tree.facts(ino);
        // What is being written changes without the kernel's knowledge, when it is stored.
        let valid = match tree.parent(ino) {
            Some(parent) if !tree.is_dirty(ino) => tree.believed_for(parent, Instant::now()),
            _ => Duration::ZERO,
        };
        Attributes {
            ino,
            is_folder: tree.is_folder(ino),
            is_removed: tree.is_removed(ino),
            length: facts.length,
            modified: facts.modified.unwrap_or(SystemTime::UNIX_EPOCH),
            valid,
        }
    }

    /// Looks a name up for the kernel, which has to forget it again. `Err` with a time: it does not exist, for so long.
    pub(crate) async fn lookup(
        self: &Arc<Self>,
        parent: Ino,
        name: &[u8],
    ) -> Result<std::result::Result<Attributes, Duration>> {
        // Every operation looks the name up first.
        if name.len() > MAX_NAME {
            return Err(Errno::ENAMETOOLONG);
        }
        for _ in 0..2 {
            let supposed = {
                let mut tree = self.tree();
                let now = Instant::now();
                match tree.lookup(parent, name, now) {
                    Lookup::Found(ino) => {
                        tree.looked_up(ino);
                        if name == repository::NAME && tree.is_folder(ino) {
                            self.foresee_repository(&tree, ino);
                        }
                        // A folder may be a step to another one.
                        let ahead = if tree.is_folder(ino) { Vec::new() } else { tree.visits(parent, now) };
                        self.list_ahead(ahead);
                        return Ok(Ok(Self::attributes(&tree, ino)));
                    }
                    Lookup::Absent => {
                        self.list_ahead(tree.visits(parent, now));
                        return Ok(Err(tree.believed_for(parent, now)));
                    }
                    Lookup::Unlisted if name == repository::NAME => self.suppose_repository(&mut tree, parent, now),
                    Lookup::Unlisted => None,
                }
            };
            if let Some(git) = supposed {
                self.list_supposed(git);
            }
            self.list(parent).await?;
        }
        // The listing took longer than it is believed.
        let mut tree = self.tree();
        let Some(ino) = tree.member(parent, name) else { return Ok(Err(Duration::ZERO)) };
        tree.looked_up(ino);
        Ok(Ok(Self::attributes(&tree, ino)))
    }

    pub(crate) fn forget(&self, ino: Ino, lookups: u64) {
        let mut tree = self.tree();
        tree.forget(ino, lookups);
        if !tree.contains(ino) {
            self.contents().drop_idle(ino);
        }
    }

    pub(crate) async fn getattr(&self, ino: Ino) -> Result<Attributes> {
        let stale = {
            let tree = self.tree();
            let is_stale = |parent: &Ino| !tree.is_dirty(ino) && !tree.is_listed(*parent, Instant::now());
            // Nothing can have changed of the root but its time.
            tree.parent(ino).filter(|_| ino != Tree::ROOT).filter(is_stale)
        };
        if let Some(parent) = stale {
            self.list(parent).await?;
        }
        let tree = self.tree();
        Ok(Self::attributes(&tree, ino))
    }

    /// The attributes as they are known.
    pub(crate) fn attributes_of(&self, ino: Ino) -> Attributes {
        Self::attributes(&self.tree(), ino)
    }

    /// The value of an extended attribute, if the file has it.
    pub(crate) fn attribute_value(&self, ino: Ino, name: &[u8]) -> Option<String> {
        if ino == Tree::ROOT && name == JOURNAL_ATTRIBUTE.as_bytes() {
            return self.journal_folder().map(|folder| folder.display().to_string());
        }
        let tree = self.tree();
        let tag = tree.facts(ino).etag.as_ref().filter(|_| name == ETAG_ATTRIBUTE.as_bytes() && !tree.is_dirty(ino));
        tag.map(ToString::to_string)
    }

    /// Makes the listing of a folder fresh for a program that begins to read it.
    pub(crate) async fn begin_to_read(self: &Arc<Self>, folder: Ino) -> Result<()> {
        if !self.tree().is_listed(folder, Instant::now()) {
            self.visits(folder);
            self.list(folder).await?;
        }
        self.visits(folder);
        Ok(())
    }

    /// What is in a folder, as far as is known: `.`, `..` and the members.
    pub(crate) fn folder_entries(&self, folder: Ino) -> Vec<FolderEntry> {
        let tree = self.tree();
        let above = tree.parent(folder).unwrap_or(Tree::ROOT);
        let dots = [(b".".to_vec(), folder), (b"..".to_vec(), above)];
        let entries = dots.into_iter().chain(tree.members(folder));
        entries.map(|(name, ino)| FolderEntry { name, ino, is_folder: tree.is_folder(ino) }).collect()
    }

    /// What now has a name that readdirplus shows the kernel, which has to forget it again.
    pub(crate) fn member(&self, folder: Ino, name: &[u8]) -> Option<Attributes> {
        let mut tree = self.tree();
        let ino = tree.member(folder, name)?;
        tree.looked_up(ino);
        Some(Self::attributes(&tree, ino))
    }

    /// What was written to a file cannot be stored on the server, and its last program has gone: it is kept here, and said.
    fn keep_unsaved(&self, file: &CachedFile, path: Option<&RemotePath>) {
        if !file.begin_to_keep() {
            return;
        }
        let name = path.and_then(RemotePath::name).unwrap_or(b"deleted file");
        let what = path.map_or_else(|| "a deleted file".to_owned(), ToString::to_string);
        // It waits for the disk, and other calls must not wait for that.
        match aside(|| self.unsaved.keep(file.path(), name)) {
            Ok(target) if file.state(|state| state.missing(0..state.length()).is_empty()) => {
                tracing::error!("{what} is not on the server; its content is in {}", target.display());
            }
            Ok(target) => tracing::error!(
                "{what} is not on the server; what was written to it is in {}, with zeros where it was not changed, because \
                 these parts could not be fetched any more",
                target.display()
            ),
            Err(error) => {
                unsaved::spare(file.path());
                tracing::error!(
                    "{what} is not on the server, and cannot be kept in {}: {error}; its content stays in {}, until the next \
                     mount with this cache folder",
                    self.unsaved,
                    file.path().display()
                );
            }
        }
    }
}

impl Contents {
    /// A file that no program has open by this inode has the content of another one.
    fn share(&mut self, ino: Ino, file: Arc<CachedFile>) {
        if self.files.insert(ino, file).is_none() {
            self.idle.push(ino);
        }
    }

    fn drop_idle(&mut self, ino: Ino) {
        if let Some(at) = self.idle.iter().position(|idle| *idle == ino) {
            self.idle.remove(at);
            if let Some(file) = self.files.remove(&ino) {
                file.forget_record();
            }
        }
    }

    /// No program has the file open any more. The longest closed files go if there are too many bytes.
    fn closed(&mut self, ino: Ino, limit: u64, cache: &ContentCache) {
        self.idle.push(ino);
        let mut stored: u64 = self.files.values().map(|file| file.state(|state| state.stored())).sum();
        cache.limit(limit.saturating_sub(stored));
        while stored > limit || self.idle.len() > IDLE_FILES {
            if self.idle.is_empty() {
                return;
            }
            let oldest = self.idle.remove(0);
            let Some(file) = self.files.remove(&oldest) else { continue };
            let is_over = stored > limit;
            stored = stored.saturating_sub(file.state(|state| state.stored()));
            match file.recorded().filter(|_| !is_over) {
                // Nobody else has it, so nothing changes it any more.
                Some(record) if Arc::strong_count(&file) == 1 => {
                    drop(file);
                    cache.put_away(&record);
                }
                _ => file.forget_record(),
            }
        }
    }
}

/// Waits for the disk without keeping the runtime's other tasks waiting, if it has several threads.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::CurrentThread) => work(),
        _ => tokio::task::block_in_place(work),
    }
}

/// What an entry of a listing says of a file.
fn facts(entry: &Entry) -> Facts {
    let properties = &entry.properties;
    Facts { length: properties.length.unwrap_or(0), modified: properties.modified, etag: properties.etag.clone() }
}

/// The journal of a share that writes back; without that, one of an earlier mount that is not done with.
fn open_journal(options: &Options) -> std::result::Result<Option<WriteBack>, JournalError> {
    let place = journal::place(&options.cache, &options.source, &options.account);
    let (is_through, size) = match options.write {
        Write::Back { journal_size } => (false, journal_size),
        Write::Through => (true, u64::MAX),
    };
    let is_left = || Report::read(place.clone()).is_ok_and(|report| !report.pending.is_empty());
    if options.read_only || (is_through && !is_left()) {
        return Ok(None);
    }
    Ok(Some(WriteBack::new(journal::open(place, &options.source)?, size, is_through)))
}
