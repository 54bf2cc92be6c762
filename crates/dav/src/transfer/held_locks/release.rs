//! The end of locks: they are released, and the files that only they have created are deleted.
//!
//! So is what a LOCK or UNLOCK without an answer has left, when nobody uses it.

use std::time::Duration;

use futures_util::future::join_all;
use scopeguard::{ScopeGuard, defer, guard};
use tokio::time::{sleep, timeout};

use super::{HeldLocks, Trace, lock, now};
use crate::{ETag, Error, If, LockAction, LockToken, Precondition, PropertySet, RemotePath};

/// Time limit for releasing all locks at the end.
const FAREWELL: Duration = Duration::from_secs(10);
/// Number of attempts to clean up: what a server refuses now it may accept a moment later.
pub(crate) const ROUNDS: usize = 4;
/// The pause between two attempts; an upload may still appear this long after its connection has ended.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);

/// What became of the DELETE of an empty file.
#[derive(Debug, PartialEq, Eq)]
enum Removal {
    Done,
    /// The server would refuse it again.
    Refused,
    /// To be tried again.
    Failed,
}

/// Which attempt to end a lock it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    First,
    /// One of many.
    Another,
    Last,
}

impl HeldLocks {
    /// Releases a file's lock, if there is one. Deletes the file that the lock created, unless it was `written`.
    pub async fn release(&self, path: &RemotePath, written: bool) {
        // Also if the lock is lost.
        if written {
            lock(&self.traces).change(path, |trace| trace.hollow = false);
        }
        let action = lock(&self.locks).release(path);
        if let Some(LockAction::Unlock(path, token)) = action {
            self.end(&path, &token).await;
        }
    }

    /// Ends a lock that has no writers any more.
    pub(super) async fn end(&self, path: &RemotePath, token: &LockToken) {
        // Also if this is not polled to its end: another writer would wait for it.
        defer! { lock(&self.locks).unlocked(path); }
        let hollow = self.has_created(path);
        if self.take_away(path, token, hollow, Attempt::First).await {
            self.forget(path);
        }
    }

    /// Deletes what a lock created, and releases it. Returns whether it is released. The file is deleted first: without the
    /// lock, this could delete somebody else's file. If that fails, the lock is kept for another attempt.
    async fn take_away(&self, path: &RemotePath, token: &LockToken, hollow: bool, attempt: Attempt) -> bool {
        // A MOVE may have put another file in its place, or a PUT without an answer its content.
        let found = if hollow { Some(self.dav.stat(path, PropertySet::LISTING).await) } else { None };
        let (hollow, removal) = match found {
            Some(Ok(Some(found))) if found.properties.length == Some(0) => {
                let tag = found.properties.etag.as_ref();
                let removal = self.delete(path, token, tag).await;
                (true, if removal == Removal::Done { removal } else { self.delete(path, token, tag).await })
            }
            None | Some(Ok(Some(_))) => (false, Removal::Refused),
            Some(Ok(None)) => (true, Removal::Done),
            Some(Err(_)) => (true, Removal::Failed),
        };
        let away = removal == Removal::Done;
        // An error may mean that the lock is gone already (RFC 4918 §9.11.1); another attempt at the end makes sure.
        // DELETE removes the lock too (RFC 4918 §9.6), and then UNLOCK fails.
        let gives_up = match attempt {
            Attempt::First => false,
            Attempt::Another => removal == Removal::Refused,
            Attempt::Last => true,
        };
        (away || !hollow || gives_up)
            && self.dav.unlock(path, token).await.map_or_else(|error| away && error.refusal().is_some(), |_| true)
    }

    /// Deletes the file that a lock created, and thereby the lock (RFC 4918 §9.6). A 404 may be wrong, so a lookup shows
    /// whether the file is gone.
    async fn delete(&self, path: &RemotePath, token: &LockToken, version: Option<&ETag>) -> Removal {
        let claims = If::default().locked(path, token.clone());
        let claims = version.map_or_else(|| claims.clone(), |tag| self.dav.claim_unchanged(&claims, path, tag));
        match self.dav.delete(path, &Precondition::None, &claims).await {
            Ok(_) => Removal::Done,
            Err(error) if error.is(404) && matches!(self.dav.stat(path, PropertySet::LISTING).await, Ok(None)) => {
                Removal::Done
            }
            Err(error) if error.refusal().is_some_and(|refusal| !refusal.is_passing()) => Removal::Refused,
            Err(_) => Removal::Failed,
        }
    }

    /// Whether nobody else can have written the file since its lock created it: our lock is still there, or no content.
    /// Not every server checks the token of a lock that has ended.
    async fn is_untouched(&self, path: &RemotePath, token: &LockToken) -> Result<bool, Error> {
        if self.find(path).await?.is_some_and(|(held, _)| held == *token) {
            return Ok(true);
        }
        let found = self.dav.stat(path, PropertySet::LISTING).await?;
        Ok(found.is_none_or(|found| found.properties.length == Some(0)))
    }

    /// Undoes what requests without an answer may have left on the server: locks that nobody uses, and the empty files
    /// that they created. What cannot be undone now is left for another call.
    pub async fn tidy(&self) {
        let left: Vec<_> = lock(&self.traces).all().map(|(path, _)| path.clone()).collect();
        for path in left {
            let Some(_turn) = self.keep_unused(&path) else { continue };
            let has_token = lock(&self.traces).get(&path).is_some_and(|trace| trace.token.is_some());
            if has_token || self.late.is_time_to_look(&path, now()) {
                self.tidy_at(&path, false).await;
            }
        }
    }

    /// A change was refused because of a lock (423). It may be ours, of a LOCK that was carried out late, or whose UNLOCK was
    /// lost: undoes it if nobody uses it. Returns whether the change may succeed now.
    pub async fn undo_unused(&self, path: &RemotePath) -> bool {
        let Some(_turn) = self.keep_unused(path) else { return false };
        if lock(&self.traces).get(path).is_none() {
            // Apache may acknowledge an UNLOCK and keep the lock.
            let Ok(Some((token, _))) = self.find(path).await else { return false };
            lock(&self.traces).insert(path, Trace { token: Some(token), hollow: false });
        }
        // The change is for the file that the lock may have created.
        self.tidy_at(path, true).await
    }

    /// Lets writers of a path wait for as long as the result lives; none if its lock is used, or being undone.
    fn keep_unused(&self, path: &RemotePath) -> Option<ScopeGuard<RemotePath, impl FnOnce(RemotePath)>> {
        let locks = lock(&self.locks);
        let is_unused = !locks.is_known(path) && lock(&self.tidied).insert(path.clone());
        is_unused.then(|| {
            guard(path.clone(), |path| {
                lock(&self.tidied).remove(&path);
            })
        })
    }

    /// Undoes what is left at a path that is kept unused, perhaps without its file. Returns whether no lock is left.
    async fn tidy_at(&self, path: &RemotePath, keeps_file: bool) -> bool {
        let is_undone = self.is_undone(path, keeps_file).await.unwrap_or(false);
        if is_undone {
            self.forget(path);
        }
        is_undone
    }

    async fn is_undone(&self, path: &RemotePath, keeps_file: bool) -> Result<bool, Error> {
        let Some(trace) = lock(&self.traces).get(path).cloned() else { return Ok(true) };
        let token = match trace.token {
            Some(token) => token,
            None => match self.recover(path).await? {
                Some(token) => token,
                None => return Ok(true),
            },
        };
        // An earlier process may have left it, long ago.
        let hollow = !keeps_file && self.has_created(path) && self.is_untouched(path, &token).await?;
        // It may be another one by now, of a LOCK that was carried out late.
        Ok(self.take_away(path, &token, hollow, Attempt::Another).await || self.recover(path).await?.is_none())
    }

    /// Finds the lock of a LOCK without an answer. The lock may have created the file only if it is empty.
    async fn recover(&self, path: &RemotePath) -> Result<Option<LockToken>, Error> {
        let Some((token, _)) = self.find(path).await? else { return Ok(None) };
        let is_empty = self.is_empty(path).await?;
        let creates = self.late.expected(path, now()).unwrap_or(false);
        let known = |trace: &mut Trace| {
            (trace.token, trace.hollow) = (Some(token.clone()), (trace.hollow || creates) && is_empty);
        };
        lock(&self.traces).change(path, known);
        Ok(Some(token))
    }

    /// Undoes everything that is left, in a few rounds. A lock that cannot be released expires by itself.
    pub async fn release_all(&self) {
        lock(&self.locks).release_all();
        let farewell = async {
            for round in 1..=ROUNDS {
                let left: Vec<_> =
                    lock(&self.traces).all().map(|(path, trace)| (path.clone(), trace.clone())).collect();
                if left.is_empty() {
                    break;
                }
                if round > 1 {
                    sleep(PAUSE).await;
                }
                join_all(left.into_iter().map(|(path, trace)| self.undo_late(path, trace, round == ROUNDS))).await;
            }
        };
        let _ = timeout(FAREWELL, farewell).await;
    }

    /// Undoes what is left of a lock that its writer does not hold any more. Somebody else may hold it by now.
    async fn undo_late(&self, path: RemotePath, trace: Trace, last: bool) {
        let (token, is_untouched) = match trace.token {
            Some(token) if trace.hollow => match self.is_untouched(&path, &token).await {
                // Without an answer, only the lock is released.
                Err(_) if last => (token, false),
                Err(_) => return,
                Ok(is_untouched) => (token, is_untouched),
            },
            Some(token) => (token, false),
            None => match self.recover(&path).await {
                Ok(Some(token)) => (token, true),
                _ => return,
            },
        };
        let hollow = is_untouched && self.has_created(&path);
        let attempt = if last { Attempt::Last } else { Attempt::First };
        if self.take_away(&path, &token, hollow, attempt).await || matches!(self.recover(&path).await, Ok(None)) {
            self.forget(&path);
        }
    }
}
