//! Locks on the server while programs edit files.
//!
//! A file is locked at the first change and not when it is opened, because many programs open for writing what they only
//! read. If somebody else has locked it, that change fails, before anything is lost. The lock is released when the last
//! writer has closed the file, and the server has its last version; close(2) does not wait for it, but unmounting does. It
//! belongs to the node, whether its content is still here or not. A lock that the server has ended means
//! that somebody else may have written since: what is uploaded then goes beside the file, as after a conflict.
//!
//! A mount that is killed leaves its locks on the server. The next one of the same share finds them in a log, and releases
//! them, or goes on with those that its programs need.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use dav::{
    Dav, Error, If, RemotePath,
    transfer::{HeldLocks, LockLog},
};
use nix::errno::Errno;

use super::{Result, Share};
use crate::{Options, cached_file::CachedFile, content_cache::ContentCache, errno, tree::Ino};

/// How often to check for locks that need a refresh.
const REFRESH: Duration = Duration::from_millis(500);
/// How often to retry what a lost connection has left locked, in refreshes.
const TIDY: u64 = 20;

/// A file's upload lock, if its content is here, unless the caller holds it already.
async fn turn_unless<'a>(
    turned: &[Arc<CachedFile>],
    file: Option<&'a Arc<CachedFile>>,
) -> Option<tokio::sync::MutexGuard<'a, ()>> {
    let file = file.filter(|file| !turned.iter().any(|turned| Arc::ptr_eq(turned, file)))?;
    Some(file.upload.lock().await)
}

/// The locks of a mount, and those that an earlier one has left.
pub(super) fn held_locks(dav: &Dav, options: &Options, cache: &ContentCache) -> HeldLocks {
    let (dav, policy, owner) = (dav.clone(), options.lock, &options.lock_owner);
    match cache.lock_log().filter(|_| !options.read_only).map(|path| LockLog::open(&path)) {
        Some(Ok(log)) => HeldLocks::with_log(dav, policy, owner, log),
        Some(Err(error)) => {
            tracing::warn!("if this mount is killed, its locks stay on the server until they expire: {error}");
            HeldLocks::new(dav, policy, owner)
        }
        None => HeldLocks::new(dav, policy, owner),
    }
}

impl Share {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<Ino, RemotePath>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file may be changed without asking the server first.
    pub(crate) fn may_change(&self, ino: Ino, file: &CachedFile) -> bool {
        let is_new = file.state(|state| state.is_new());
        !self.is_locking.load(Ordering::Relaxed)
            || !self.options.lock.locks(!is_new)
            || self.locked().contains_key(&ino)
    }

    /// Locks a file before its first change, if the policy says so.
    pub(crate) async fn lock_for_change(&self, ino: Ino, file: &CachedFile) -> Result<()> {
        if self.may_change(ino, file) {
            return Ok(());
        }
        let _turn = file.upload.lock().await;
        self.lock_now(ino, file).await
    }

    /// The same while the caller holds the file's upload lock.
    async fn lock_now(&self, ino: Ino, file: &CachedFile) -> Result<()> {
        // A deleted file has no name to lock.
        let Some(path) = self.path_if_known(ino).filter(|_| !self.may_change(ino, file)) else { return Ok(()) };
        let is_new = file.state(|state| state.is_new());
        let locked = {
            let _turn = self.locks.turn(!is_new).await;
            let locked = self.locks.acquire(&path, !is_new).await;
            if is_new && locked.is_ok() {
                self.locks.learn_created(&path).await;
            }
            locked
        };
        self.lock_taken.notify_one();
        match locked {
            Ok(claims) if claims == If::default() => Ok(()),
            Ok(_) => {
                self.locked().insert(ino, path);
                Ok(())
            }
            // RFC 4918 §18.2: a server need not support locks, everywhere.
            Err(error) if error.is(405) || error.is(501) || (is_new && error.is(404)) => {
                tracing::warn!("{path} is edited without a lock: {error}");
                Ok(())
            }
            Err(Error::Differs { path, why }) => {
                tracing::warn!("cannot lock {path}: {why}");
                self.expire_parent(ino);
                Err(Errno::ESTALE)
            }
            Err(error) => Err(errno::of(&path, "lock", &error)),
        }
    }

    /// A program has closed a handle for writing, and what it wrote is uploaded, in the journal, or kept.
    pub(crate) fn writer_closes(self: &Arc<Self>, ino: Ino, file: &CachedFile) {
        if file.writer_closes() && self.locked().contains_key(&ino) {
            let share = self.clone();
            tokio::spawn(async move {
                let _busy = share.closing().await;
                share.unlock(ino).await;
            });
        }
    }

    /// Releases the lock of a file, if it has one, unless a program has it open for writing, or the journal has a version for
    /// the server. Whichever ends last calls this.
    pub(super) async fn unlock(&self, ino: Ino) {
        // The turn may take long: a version that waits for room in the journal has it.
        if !self.locked().contains_key(&ino) {
            return;
        }
        let file = self.content_of(ino);
        let _turn = turn_unless(&[], file.as_ref()).await;
        let path = {
            let mut locked = self.locked();
            let is_queued = |path: &RemotePath| self.in_journal(path).is_some();
            if self.is_written(ino) || locked.get(&ino).is_some_and(is_queued) {
                return;
            }
            locked.remove(&ino)
        };
        self.release_lock(ino, path).await;
    }

    /// The same after a version of this path was uploaded. Another node that had the name, and has lost it to what the server
    /// showed, has left its lock to this version, too.
    pub(super) async fn unlock_uploaded(&self, ino: Ino, path: &RemotePath) {
        let others: Vec<_> = self.locked().iter().filter(|(_, held)| *held == path).map(|(other, _)| *other).collect();
        for ino in others.into_iter().filter(|other| *other != ino).chain([ino]) {
            self.unlock(ino).await;
        }
    }

    fn is_written(&self, ino: Ino) -> bool {
        self.content_of(ino).is_some_and(|file| file.is_written())
    }

    /// Files that were locked have other names. What programs still edit stays locked, or somebody else could edit it before
    /// their next change. The caller holds the upload locks of `turned`.
    pub(super) async fn lock_again(&self, unlocked: Vec<Ino>, turned: &[Arc<CachedFile>]) {
        for ino in unlocked {
            let Some(file) = self.content_of(ino).filter(|file| file.is_written()) else { continue };
            let _turn = turn_unless(turned, Some(&file)).await;
            // It is renamed in any case, and the next change fails for the same reason.
            let _ = self.lock_now(ino, &file).await;
        }
    }

    /// Releases the lock of a file whatever else is to be done with it: it is not under the path of its lock any more.
    pub(super) async fn unlock_now(&self, ino: Ino) {
        let path = self.locked().remove(&ino);
        self.release_lock(ino, path).await;
    }

    async fn release_lock(&self, ino: Ino, path: Option<RemotePath>) {
        let Some(path) = path else { return };
        let is_stored = self.content_of(ino).is_some_and(|file| !file.state(|state| state.is_new()));
        let _turn = self.locks.turn(true).await;
        self.locks.release(&path, is_stored).await;
    }

    /// Whether the server has ended the lock under which a file was changed. `refusal` is what it said to the upload.
    pub(super) async fn has_lost_lock(&self, ino: Option<Ino>, refusal: Option<&Error>) -> bool {
        let locked = ino.and_then(|ino| self.locked().get(&ino).map(|path| (ino, path.clone())));
        let Some((ino, path)) = locked else { return false };
        let is_lost = match refusal {
            Some(error) if error.is(412) || error.is(423) => self.locks.check(&path).await.unwrap_or(false),
            _ => self.locks.is_lost(&path),
        };
        if is_lost {
            tracing::error!("{path}: the server has ended the lock under which it was edited");
            self.locked().remove(&ino);
            self.locks.release(&path, true).await;
        }
        is_lost
    }

    /// Files at a path, or below it, have been renamed or deleted: a MOVE leaves the lock behind (RFC 4918 §7.6).
    /// Returns those that were locked. The caller holds the upload locks of `turned`.
    pub(super) async fn unlock_all_at(&self, path: &RemotePath, turned: &[Arc<CachedFile>]) -> Vec<Ino> {
        let is_there =
            |held: &RemotePath| if path.is_folder() { held.relative_to(path).is_some() } else { held == path };
        let inos: Vec<_> = self.locked().iter().filter(|(_, held)| is_there(held)).map(|(ino, _)| *ino).collect();
        for ino in &inos {
            let file = self.content_of(*ino);
            let _turn = turn_unless(turned, file.as_ref()).await;
            self.unlock_now(*ino).await;
        }
        inos
    }

    /// Keeps locks alive, for as long as it is polled. First releases what an earlier mount has left.
    pub(crate) async fn keep_locks(self: Arc<Self>) {
        self.locks.tidy().await;
        loop {
            if !self.locks.is_held() {
                self.lock_taken.notified().await;
            }
            for round in 1..=TIDY {
                tokio::time::sleep(REFRESH).await;
                self.locks.refresh_due().await;
                if round == TIDY {
                    self.locks.tidy().await;
                }
            }
        }
    }
}
