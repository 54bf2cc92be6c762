//! Transfers of files and trees, between local folders and servers.
//!
//! `walk` reads the local tree, `plan` decides the steps of an upload and their order, and `upload` carries them out, under the
//! locks of `held_locks`. `download` needs no plan: what a listing has found can be downloaded. `upload::relay` copies from one
//! server to another.

mod already_copied;
mod download;
mod file_facts;
mod filter;
mod held_locks;
mod keep_existing;
mod late_locks;
mod lock_traces;
mod name_folding;
mod plan;
mod remote_body;
mod source_file;
mod source_removal;
mod state_file;
mod stream;
mod synced_versions;
mod temporary_files;
mod tree;
mod unchanged;
mod upload;
mod walk;
mod walk_remote;

use std::{
    hash::{BuildHasher, Hash, RandomState},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

pub use already_copied::AlreadyCopied;
pub use download::download;
pub use file_facts::FileFacts;
pub use filter::{BadPattern, Filter, Rule};
pub use held_locks::HeldLocks;
pub use keep_existing::{KeepExisting, SkipReason};
pub use late_locks::{LOCK_IN_FLIGHT, LOCK_LOOKUP};
pub use lock_traces::LockLog;
pub use name_folding::key as name_key;
pub use remote_body::{ListedFile, body_of, digests_agree};
pub use source_removal::{LocalSources, RemoteSources};
pub use stream::upload_stream;
pub use temporary_files::is_temporary;
use temporary_files::{marked, part_name, temporary_name};
pub use tree::{Tree, place_in};
pub use upload::{relay, upload};

use crate::{Error, PropertySet, RemotePath, locks::LockPolicy};

/// Uploads up to this size are pipelined. A larger one gets a connection of its own.
const SHARED: u64 = 4 * 1024 * 1024;
/// Up to this many files are looked up one by one instead of listing their folder.
const FEW: usize = 8;

/// The options of a transfer. Not grouped, because most callers set a few and take the rest from the default.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is chosen by itself, as on a command line")]
pub struct Options {
    /// Transfer folders with their contents; otherwise a folder is an error.
    pub recursive: bool,
    /// Transfer the contents of the one source folder into the target itself, as for a mirror, not into a folder of the
    /// source's name there.
    pub contents: bool,
    /// Which files to lock before writing them.
    pub lock: LockPolicy,
    /// How a transferred file is verified.
    pub verify: Verify,
    /// How to detect unchanged files, which are skipped.
    pub skip: Skip,
    /// An interrupted large transfer leaves what has arrived, and the next run resumes there: a download (`.….part`) if
    /// the server still has the same version, by a strong entity tag; an upload if the local file is the same and the
    /// server supports parts (Apache, as `.….part` there) or chunks (Nextcloud, outside the files).
    pub resume: bool,
    /// Staged uploads: to a temporary name, renamed when complete.
    pub temporary: bool,
    /// Delete what exists at the target and not in the source (a mirror).
    pub delete: bool,
    /// How to treat symbolic links below a source.
    pub links: Links,
    /// What to transfer; what the filter excludes is not deleted either.
    pub filter: Filter,
    /// Delete also what the filter excludes.
    pub delete_excluded: bool,
    /// Delete nothing if more than this many files and folders would be deleted.
    pub max_delete: Option<u64>,
    /// Delete even after errors.
    pub ignore_errors: bool,
    /// Where to keep what is replaced or deleted.
    pub backup: Option<Backup>,
    /// Which existing files at the target to keep, whatever their source is.
    pub keep_existing: KeepExisting,
    /// What an earlier attempt has copied, which is skipped.
    pub already_copied: AlreadyCopied,
    /// Change nothing, but report what would be done.
    pub dry_run: bool,
    /// The file with the snapshot of a mirrored folder, for servers that report changes (RFC 6578), so that the next
    /// run requests only these. One file per folder and user.
    pub snapshot_file: Option<PathBuf>,
    /// The file with the versions of each mirrored file when both sides were last equal, which shows whether either
    /// side has changed. One file per pair of folders and user.
    pub synced_versions: Option<PathBuf>,
    /// Times that differ by no more than this are equal.
    pub modify_window: Duration,
    /// Maximum number of connections.
    pub connections: usize,
    /// The owner of locks.
    pub owner: String,
}

impl Options {
    /// Whether files are downloaded whatever exists locally.
    fn fetches_at_once(&self) -> bool {
        let anew = self.skip == Skip::Nothing
            && self.keep_existing == KeepExisting::default()
            && !self.resume
            && !self.dry_run;
        anew && !self.recursive && self.verify != Verify::Digest
    }

    /// Whether a file may replace a folder and the reverse. Not with a filter or a limit on deletions, because the
    /// contents of the folder are unknown.
    fn replaces(&self) -> bool {
        self.delete && (self.filter.is_empty() || self.delete_excluded) && self.max_delete.is_none()
    }

    /// The properties to list, given what is compared.
    pub(crate) fn requested_properties(&self) -> PropertySet {
        if self.verify == Verify::Digest || self.skip == Skip::SameDigest {
            PropertySet::DIGESTS
        } else {
            PropertySet::LISTING
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            recursive: false,
            contents: false,
            lock: LockPolicy::Never,
            verify: Verify::Size,
            skip: Skip::Nothing,
            resume: false,
            temporary: false,
            delete: false,
            links: Links::Skip,
            filter: Filter::default(),
            delete_excluded: false,
            max_delete: None,
            ignore_errors: false,
            backup: None,
            keep_existing: KeepExisting::default(),
            already_copied: AlreadyCopied::default(),
            dry_run: false,
            snapshot_file: None,
            synced_versions: None,
            modify_window: Duration::ZERO,
            connections: 6,
            owner: "longhaul".into(),
        }
    }
}

/// Where a mirror keeps what it replaces or deletes: a folder on the side of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backup {
    /// Of a download.
    Here(PathBuf),
    /// Of an upload.
    There(RemotePath),
}

/// How to treat symbolic links below a source. Those that the user has named are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Links {
    /// Skip them, with a note.
    #[default]
    Skip,
    /// Transfer their targets.
    Follow,
}

/// How a transferred file is verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verify {
    /// Not at all: the server's status is trusted.
    None,
    /// By length: as listed after an upload, or before a download.
    #[default]
    Size,
    /// By length and a digest from the server. Without a digest, an upload is read back; a download has nothing to be
    /// compared with.
    Digest,
}

/// How to detect unchanged files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Skip {
    /// Transfer all files.
    #[default]
    Nothing,
    /// Skip files of equal length that have not changed since they were last seen, or whose times show that they are
    /// copies. In doubt, the content is compared.
    SameSizeAndTime,
    /// Skip files of equal content: by digests from the server, or by downloading them.
    SameDigest,
}

/// Progress of a transfer.
#[derive(Debug)]
pub enum Event<'a> {
    /// More files to transfer were found.
    Found {
        /// Number of files.
        files: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// Bytes were transferred; repeated if they had to be sent again.
    Moved {
        /// Number of bytes.
        bytes: u64,
    },
    /// A file is complete.
    Done {
        /// The name of its source.
        path: &'a str,
        /// Its length.
        bytes: u64,
    },
    /// A file was skipped.
    Skipped {
        /// The name of its source.
        path: &'a str,
        /// Its length.
        bytes: u64,
        /// The reason.
        why: SkipReason,
    },
    /// Something was deleted, or would be in a dry run.
    Deleted {
        /// Its path.
        path: &'a str,
    },
    /// A folder was created, or would be in a dry run.
    Made {
        /// Its path.
        path: &'a str,
    },
    /// Something failed.
    Failed {
        /// What.
        path: &'a str,
        /// The reason.
        why: &'a Error,
    },
    /// A note for the user.
    Note(&'a str),
}

/// Receives the events.
pub type Watch = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// The result of a transfer.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Transferred files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Skipped files.
    pub skipped: u64,
    /// Created folders.
    pub folders: u64,
    /// Deleted files and folders.
    pub deleted: u64,
    /// Failures by path. What was not attempted because its folder failed is listed with the folder's error.
    pub failed: Vec<(String, Error)>,
    /// How long it took.
    pub took: Duration,
}

impl Summary {
    /// Adds another attempt; only the failures of the last attempt count.
    pub fn add(&mut self, next: Self) {
        self.files += next.files;
        self.bytes += next.bytes;
        self.folders += next.folders;
        self.deleted += next.deleted;
        self.skipped = self.skipped.max(next.skipped);
        self.took += next.took;
        self.failed = next.failed;
    }
}

/// The note of a transfer that was stopped.
pub const INTERRUPTED: &str = "interrupted: transfers in flight were cancelled, completed files stay";

/// The remedy if something of another kind has the name.
const REMEDY: &str =
    "delete or rename one of them, or let `sync --delete` replace it (without filters and `--max-delete`)";

/// A time in whole seconds, as servers send it.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A random number.
fn random(of: impl Hash) -> u64 {
    RandomState::new().hash_one(of)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data under these locks is consistent at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
