//! A WebDAV share as a folder (FUSE).
//!
//! Programs that work in a mounted folder wait for the server at every step, unless the mount knows when it need not ask.
//! These decisions are state machines without I/O, which can be tested without a server, a kernel or a clock: which names are
//! believed and for how long (`tree`), which bytes of a file are here and which the server lacks (`file_state`, `ranges`), how
//! much to fetch ahead of a reader (`read_ahead`, `pacing`, [`dav::siblings`]), which folders to list ahead of a walk (`walk`), and
//! what of the journal to upload when ([`writeback::Entries`]). `share` carries them out with [`dav::Dav`]. `filesystem` answers the
//! kernel, and `calls` decides when it answers a call that waits for a server.
//!
//! # Writing
//! close(2) returns when the server has the whole file, and its error is the upload's. A file that a program creates reaches
//! the server when it is closed, by a single PUT; until then it is only here. Every upload has the precondition that the
//! server still has the version that the program opened. Otherwise both versions are kept.
//!
//! With [`Write::Back`], close(2) returns when the journal has the file, and uploads follow (`share::write_back`,
//! `share::upload_queue`). What can be stored nowhere else is kept in a folder for people (`unsaved`).
//!
//! # Cache
//! Contents are kept in sparse files below [`Options::cache`], in a folder that only the user may enter, and are used as long
//! as the server lists the same entity tag and length. They outlive the mount (`content_cache`).

mod cached_file;
mod calls;
mod content_cache;
mod disk;
mod errno;
mod failures;
mod file_state;
mod filesystem;
mod handles;
mod journal;
mod late_changes;
mod pacing;
mod panics;
mod ranges;
mod read_ahead;
mod replies;
mod share;
mod signals;
#[cfg(test)]
mod simulation;
mod tree;
mod unsaved;
mod walk;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use dav::{Dav, LockPolicy, RemotePath};
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use nix::{
    errno::Errno,
    mount::{MntFlags, umount2},
};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::{self, JoinHandle},
};

pub use crate::{
    content_cache::CONTENTS,
    journal::{JournalError, Pending, Report},
    share::JOURNAL_ATTRIBUTE,
};
use crate::{filesystem::Filesystem, share::Share};

/// How a share is mounted.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Options {
    /// What the list of mounts calls it, as a rule the URL.
    pub source: String,
    /// Tells one user's credentials from others'. Contents outlive a mount, and only mounts of the same source with the same
    /// identity use them; without one, they go with the mount.
    pub identity: Option<u64>,
    /// Whose credentials are used, as far as is known. Each account has a journal of its own.
    pub account: String,
    /// What close(2) waits for.
    pub write: Write,
    /// How long a listing is believed before the server is asked again.
    pub fresh: Duration,
    /// The folder for cached contents. It is created if it is missing.
    pub cache: PathBuf,
    /// The size above which cached contents of closed files are dropped, in bytes.
    pub cache_size: u64,
    /// Whether nothing may be changed.
    pub read_only: bool,
    /// Whether files have extended attributes. Without them the kernel asks only once, and answers programs that ask for
    /// several of each file, as Samba does.
    pub attributes: bool,
    /// Whether dead properties are listed among a file's extended attributes.
    pub properties: bool,
    /// Whether other users may use the mount.
    pub allow_other: bool,
    /// The owner of all files.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// The permission bits that all files lack.
    pub umask: u32,
    /// Which files to lock on the server while programs change them.
    pub lock: LockPolicy,
    /// What others see as the owner of these locks.
    pub lock_owner: String,
}

/// What close(2) waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// The server has the whole file.
    Through,
    /// The file is safe in the journal; its upload follows.
    Back {
        /// The largest size of what the server does not have yet, in bytes. Writers wait for room.
        journal_size: u64,
    },
}

/// Why a share was not mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot be reached, or refuses.
    #[error(transparent)]
    Dav(#[from] dav::Error),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The cache folder cannot be used.
    #[error("cannot create the cache folder {}: {source}", path.display())]
    Cache {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The kernel, or fusermount3, refuses the mount.
    #[error("cannot mount on {}: {source}{hint}", folder.display())]
    Fuse {
        /// The mount point.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
        /// What to do about it.
        hint: &'static str,
    },
}

/// A mounted share. Dropping it unmounts it; what the server does not have by then is kept in the folder `unsaved` of the
/// cache.
pub struct Mount {
    session: BackgroundSession,
    ended: oneshot::Receiver<()>,
    folder: PathBuf,
    share: Keeper,
}

/// Keeps, in the end, what the server does not have.
struct Keeper {
    share: Arc<Share>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.share.keep_all_unsaved();
    }
}

impl Mount {
    /// Mounts the folder `base` of a server on `folder`, after the server has listed it. Must be called on a multi-threaded
    /// tokio runtime, which has to run until the mount ends.
    pub async fn new(dav: Dav, base: RemotePath, folder: PathBuf, options: Options) -> Result<Self, Error> {
        let config = config(&options);
        let share = Share::new(dav, base, options)?;
        share.check().await?;
        share.adopt_journal();
        let share = Arc::new(share);
        let (end, ended) = oneshot::channel();
        let filesystem = Filesystem::new(share.clone(), Handle::current(), end);
        let place = folder.clone();
        let mounted = task::spawn_blocking(move || Session::new(filesystem, &place, &config)?.spawn()).await;
        let mounted = mounted.map_err(io::Error::other).and_then(|mounted| mounted);
        let failed = |source| Error::Fuse { folder: folder.clone(), hint: hint(&source), source };
        let session = mounted.map_err(failed)?;
        let (locks, uploads) = (share.clone(), share.clone());
        let tasks = vec![
            tokio::spawn(panics::restarted(move || locks.clone().keep_locks())),
            tokio::spawn(panics::restarted(move || uploads.clone().upload_queue())),
        ];
        Ok(Self { session, ended, folder, share: Keeper { share, tasks } })
    }

    /// The folder of the journal, for [`Report::read`], if there is one.
    pub fn journal(&self) -> Option<PathBuf> {
        self.share.share.journal_folder().map(Path::to_owned)
    }

    /// Waits until somebody unmounts it.
    pub async fn ended(&mut self) {
        let _ = (&mut self.ended).await;
    }

    /// Unmounts it, within a minute. What programs have written to open files is uploaded before, or kept in the folder
    /// `unsaved` of the cache; then the files become unusable. All locks are released.
    pub async fn unmount(self) -> io::Result<()> {
        let Self { session, mut ended, folder, share: mut keeper } = self;
        let share = &keeper.share;
        share.begin_to_end();
        share.upload_all().await;
        let unmounted = task::spawn_blocking(|| session.umount_and_join()).await.map_err(io::Error::other)?;
        let is_over = unmounted.is_ok() || has_ended(&mut ended).await;
        let unmounted = match unmounted {
            // Programs have it open: they keep their handles, and get errors from them when this program ends.
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => {
                umount2(&folder, MntFlags::MNT_DETACH).map_err(io::Error::from)
            }
            unmounted => unmounted,
        };
        share.settle().await;
        share.upload_all().await;
        share.unlock_all().await;
        // What programs still have open may change.
        if is_over {
            share.end_cache(CACHE_SYNC).await;
        }
        for task in keeper.tasks.drain(..) {
            task.abort();
            let _ = task.await;
        }
        unmounted
    }
}

/// How long the cached contents may take to reach the disk. If it is not enough, a restart of the machine discards them.
const CACHE_SYNC: Duration = Duration::from_secs(10);

/// Whether somebody else has unmounted it, as far as the kernel says so in a moment.
async fn has_ended(ended: &mut oneshot::Receiver<()>) -> bool {
    // Not to be awaited a second time.
    ended.try_recv() != Err(oneshot::error::TryRecvError::Empty)
        || tokio::time::timeout(Duration::from_millis(500), ended).await.is_ok()
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.clone()),
        MountOption::Subtype("haul".into()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    if options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(2);
    config
}

/// What to do if a mount is refused.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; is the package fuse3 installed, and does the folder exist?",
        io::ErrorKind::PermissionDenied => {
            "; an ordinary user needs the package fuse3 (fusermount3) and a folder of their own"
        }
        _ => "",
    }
}
