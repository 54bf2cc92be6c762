//! Trees of files, here and there.
//!
//! `walk` sees what is here, and `walk_remote` what is on a server that is copied from. `plan` decides what of an upload
//! is to be done and in which order, `upload` does it, under the locks of `held_locks`. `download` needs no plan: what a
//! listing has found can be fetched.

mod already_copied;
mod download;
mod filter;
mod held_locks;
mod last_seen;
mod name_folding;
mod plan;
mod relayed;
mod source_file;
mod spared;
mod state_file;
mod stream;
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
pub use filter::{BadPattern, Filter, Rule};
pub use relayed::body_of;
pub use spared::{Spare, Spared};
pub use stream::upload_stream;
pub use temporary_files::is_temporary;
use temporary_files::{marked, part_name, temporary_name};
pub use tree::{Leaf, Tree, place_in};
pub use upload::{relay, upload};

use crate::{Error, RemotePath, Wanted, locks::LockPolicy};

/// Uploads up to this size follow each other on a connection without waiting. A larger one gets one of its own.
const SHARED: u64 = 4 * 1024 * 1024;
/// So many files are asked for one by one, rather than with all that is in their folder.
const FEW: usize = 8;

/// How files are moved.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is chosen by itself, as on a command line")]
pub struct Options {
    /// Folders with all that is in them; otherwise a folder is an error.
    pub recursive: bool,
    /// What is in the one source folder goes into the target itself, as for a mirror, and not into a folder of the
    /// source's name there.
    pub contents: bool,
    /// Which files are locked before they are written.
    pub lock: LockPolicy,
    /// What is compared after a file has been moved.
    pub verify: Verify,
    /// What is left alone because it is there already.
    pub skip: Skip,
    /// A large transfer that is interrupted leaves what has come, and goes on from there the next time: a download
    /// (`.….part`) if the server still has the same version of the file, by a strong entity tag; an upload if the file
    /// here is the same, and the server takes parts (Apache, in `.….part` there) or chunks (Nextcloud, outside of the
    /// files).
    pub resume: bool,
    /// Uploads go to a temporary name first, and are renamed when they are whole.
    pub temporary: bool,
    /// What is there and not here is deleted (a mirror).
    pub delete: bool,
    /// What becomes of symbolic links below a source.
    pub links: Links,
    /// What is copied; what is not is not deleted either.
    pub filter: Filter,
    /// What the filter leaves out is deleted as well.
    pub delete_excluded: bool,
    /// Nothing is deleted if more than so many files and folders were to be.
    pub max_delete: Option<u64>,
    /// What is to be deleted is deleted although something else has failed.
    pub ignore_errors: bool,
    /// What would be replaced or deleted is kept.
    pub backup: Option<Backup>,
    /// Which files at the target are left alone, whatever their source is.
    pub spare: Spare,
    /// What an earlier try has copied, and is left alone.
    pub settled: AlreadyCopied,
    /// Nothing is changed; what would be is told.
    pub dry_run: bool,
    /// Where the listing of a folder that is mirrored here is kept, if the server tells what has changed since
    /// (RFC 6578), so that the next run asks for that alone. A file of this folder's own, for one user.
    pub remembers: Option<PathBuf>,
    /// Where it is kept what was last seen of each file of a mirror, so that a file that is as it was on both sides is
    /// known to be the same. A file of these two folders' own, for one user.
    pub last_seen: Option<PathBuf>,
    /// Times that differ by no more than this are taken for equal.
    pub modify_window: Duration,
    /// Connections at a time.
    pub connections: usize,
    /// Who is named as a lock's owner.
    pub owner: String,
}

impl Options {
    /// Whether what is a file is fetched whatever is here, as it comes.
    fn fetches_at_once(&self) -> bool {
        let anew = self.skip == Skip::Nothing && self.spare == Spare::default() && !self.resume && !self.dry_run;
        anew && !self.recursive && self.verify != Verify::Digest
    }

    /// Whether what is of another kind gives way: a file to a folder, a folder to a file. Not where a filter leaves
    /// things alone, or so many may be deleted: nobody has looked what is in the folder.
    fn replaces(&self) -> bool {
        self.delete && (self.filter.is_empty() || self.delete_excluded) && self.max_delete.is_none()
    }

    /// What is listed of files, given what is to be compared.
    pub(crate) fn wanted(&self) -> Wanted {
        if self.verify == Verify::Digest || self.skip == Skip::SameDigest { Wanted::DIGESTS } else { Wanted::LISTING }
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
            spare: Spare::default(),
            settled: AlreadyCopied::default(),
            dry_run: false,
            remembers: None,
            last_seen: None,
            modify_window: Duration::ZERO,
            connections: 6,
            owner: "longhaul".into(),
        }
    }
}

/// Where a mirror keeps what it would replace or delete: a folder on the side of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backup {
    /// Of a download.
    Here(PathBuf),
    /// Of an upload.
    There(RemotePath),
}

/// What becomes of symbolic links below a source. Those that the user has named are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Links {
    /// They are left out, which is told.
    #[default]
    Skip,
    /// What they lead to is moved.
    Follow,
}

/// What is compared after a file has been moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verify {
    /// Nothing: the server's word is taken.
    None,
    /// The length: what the server lists after an upload, and before a download.
    #[default]
    Size,
    /// The length, and a digest where the server keeps or makes one. Without one an upload is read back; a download has
    /// nothing more to be compared with.
    Digest,
}

/// Which files need not be moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Skip {
    /// All are moved.
    #[default]
    Nothing,
    /// Those of the same length that are as they were last seen, or whose times show that they are copies. Where that is
    /// in doubt, the bytes are compared.
    SameSizeAndTime,
    /// Those of the same length and the same bytes: by their digests where the server has them, or by fetching them.
    SameDigest,
}

/// What happens, as it happens.
#[derive(Debug)]
pub enum Event<'a> {
    /// So much more has been found that is to be moved.
    Found {
        /// How many files.
        files: u64,
        /// How many bytes are in them.
        bytes: u64,
    },
    /// Bytes of a file have moved; again if they had to be sent again.
    Moved {
        /// How many.
        bytes: u64,
    },
    /// A file is there, whole.
    Done {
        /// Which, by the name of its source.
        path: &'a str,
        /// Its length.
        bytes: u64,
    },
    /// A file was not moved.
    Skipped {
        /// Which, by the name of its source.
        path: &'a str,
        /// Its length.
        bytes: u64,
        /// Why not.
        why: Spared,
    },
    /// Something was deleted, or would be.
    Deleted {
        /// Where it was.
        path: &'a str,
    },
    /// A folder was made, or would be.
    Made {
        /// Where it is.
        path: &'a str,
    },
    /// Something was not done.
    Failed {
        /// What.
        path: &'a str,
        /// Why not.
        why: &'a Error,
    },
    /// Something that the user should know.
    Note(&'a str),
}

/// Hears of what happens.
pub type Watch = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// What was done in all.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Files that were moved.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were there already, or left alone.
    pub skipped: u64,
    /// Folders that were made.
    pub folders: u64,
    /// Files and folders that were deleted.
    pub deleted: u64,
    /// What failed, by path, with the reason. What was not tried because its folder failed is named with that.
    pub failed: Vec<(String, Error)>,
    /// How long it took.
    pub took: Duration,
}

impl Summary {
    /// Adds what another try has done: what failed is what failed in the last.
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

/// What to do about a thing of another kind that has the name.
const REMEDY: &str =
    "delete or rename one of them, or let `sync --delete` replace it (without filters and `--max-delete`)";

/// A time in whole seconds, which is what servers tell.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Another number each time.
fn random(of: impl Hash) -> u64 {
    RandomState::new().hash_one(of)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept under these locks is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
