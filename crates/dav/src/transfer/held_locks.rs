//! Locks around writes: carries out what [`Locks`] decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
    sync::Mutex,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::lock;
use crate::{
    Dav, Error, Family, If, LockAction, LockPermit, LockToken, Locked, Locks, Precondition, PropertySet, RemotePath,
    client::confirmation::is_undecided, locks::LockPolicy,
};

/// The requested timeout of a lock; the server decides.
const LASTING: Duration = Duration::from_mins(10);
/// How often to check for locks that need a refresh.
const LOOK: Duration = Duration::from_millis(500);
/// Time limit for releasing all locks at the end.
const FAREWELL: Duration = Duration::from_secs(10);
/// Number of attempts to clean up: what a server refuses now it may accept a moment later.
pub(crate) const ROUNDS: usize = 4;
/// The pause between two attempts; an upload may still appear this long after its connection has ended.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);

/// The locks of a transfer, which writes each file once.
///
/// LOCK must not be repeated blindly, and it creates an empty file if none exists. So what it may have left on the
/// server is recorded before it is sent and until it is undone, even if its answer is lost or the program is
/// interrupted.
pub(crate) struct HeldLocks<'a> {
    dav: &'a Dav,
    /// The owner with a random number, which identifies a lock of ours whose token never arrived.
    owner: String,
    locks: Mutex<Locks>,
    traces: Mutex<BTreeMap<RemotePath, Trace>>,
    /// Files that a lock of ours has created. An upload that is repeated finds such a file empty.
    created: Mutex<BTreeSet<RemotePath>>,
    policy: LockPolicy,
    /// Serialises writes under a lock.
    turn: tokio::sync::Mutex<()>,
}

/// What a LOCK may have left on the server.
#[derive(Debug, Clone)]
struct Trace {
    token: Option<LockToken>,
    /// Whether only the lock has created the file.
    hollow: bool,
}

impl<'a> HeldLocks<'a> {
    pub(crate) fn new(dav: &'a Dav, policy: LockPolicy, owner: &str) -> Self {
        let number = RandomState::new().hash_one(owner) as u32;
        let owner = format!("{owner} ({number:08x})");
        Self {
            dav,
            owner,
            locks: Locks::new(policy).into(),
            traces: Mutex::default(),
            created: Mutex::default(),
            policy,
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Locks a file if the policy says so, and returns the `If` header for the write. The caller must release it in any
    /// case.
    ///
    /// If the file should not exist and the lock did not create it (200 instead of 201), then somebody else has created
    /// it, or the server does not distinguish: a lookup decides, and existing content is not overwritten.
    pub(crate) async fn acquire(&self, path: &RemotePath, exists: bool) -> Result<If, Error> {
        let permit = lock(&self.locks).acquire(path, exists);
        let token = match permit {
            LockPermit::Unlocked | LockPermit::Wait => return Ok(If::default()),
            LockPermit::Locked(token) => token,
            LockPermit::Ask => {
                let sent = Instant::now();
                let earlier = lock(&self.traces).insert(path.clone(), Trace { token: None, hollow: !exists });
                match self.ask(path, earlier).await {
                    Ok(Locked { token, lasts, created }) => {
                        lock(&self.locks).granted(path, token.clone(), lasts, sent);
                        let trace = Trace { token: Some(token.clone()), hollow: created && !exists };
                        lock(&self.traces).insert(path.clone(), trace);
                        if created {
                            lock(&self.created).insert(path.clone());
                        } else if !exists {
                            if let Err(error) = self.see(path).await {
                                self.release(path, false).await;
                                return Err(error);
                            }
                            let hollow = lock(&self.created).contains(path);
                            lock(&self.traces).entry(path.clone()).and_modify(|trace| trace.hollow = hollow);
                        }
                        token
                    }
                    Err(error) => {
                        lock(&self.locks).refused(path);
                        return Err(error);
                    }
                }
            }
        };
        Ok(If::default().locked(path, token))
    }

    /// Fails if the file has content. An empty file may be the lock's own, and nothing is lost with it.
    async fn see(&self, path: &RemotePath) -> Result<(), Error> {
        let found = self.dav.stat(path, PropertySet::LISTING).await?;
        if found.is_none_or(|found| found.properties.length.is_none_or(|length| length == 0)) {
            return Ok(());
        }
        let why = "somebody else has created it since the folder was listed; fetch the current version and compare";
        Err(Error::Differs { path: path.clone(), why: why.into() })
    }

    /// Serialises writes under a lock, if the server may be Apache: its mod_dav_fs loses locks when others are changed
    /// or used at the same time (seen with 2.4: 204 to an UNLOCK, and the lock stays; 200 to a LOCK, and the PUT with
    /// its token is refused).
    pub(crate) async fn turn(&self, exists: bool) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let sound = self.dav.capabilities().is_some_and(|capabilities| capabilities.family != Family::Apache);
        if sound || !self.policy.locks(exists) { None } else { Some(self.turn.lock().await) }
    }

    /// Sends LOCK. If it is refused, only the `earlier` trace is left, which may be the lock in its way.
    async fn ask(&self, path: &RemotePath, earlier: Option<Trace>) -> Result<Locked, Error> {
        match self.dav.lock(path, &self.owner, LASTING).await {
            // A lookup shows whether it took effect, but not whether it created the file.
            Err(error) if is_undecided(&error) => match self.find(path).await? {
                Some((token, lasts)) => {
                    let created = self.is_empty(path).await?;
                    Ok(Locked { token, lasts, created })
                }
                None => match self.dav.lock(path, &self.owner, LASTING).await {
                    // The first one took effect after all.
                    Err(error) if error.is(423) => {
                        let (token, lasts) = self.find(path).await?.ok_or(error)?;
                        let created = self.is_empty(path).await?;
                        Ok(Locked { token, lasts, created })
                    }
                    again => again,
                },
            },
            Err(error) if error.refusal().is_some() => {
                let mut traces = lock(&self.traces);
                traces.remove(path);
                traces.extend(earlier.map(|earlier| (path.clone(), earlier)));
                Err(error)
            }
            decided => decided,
        }
    }

    async fn is_empty(&self, path: &RemotePath) -> Result<bool, Error> {
        let found = self.dav.stat(path, PropertySet::LISTING).await?;
        Ok(found.is_some_and(|found| found.properties.length == Some(0)))
    }

    /// Our lock on a file, if there is one.
    async fn find(&self, path: &RemotePath) -> Result<Option<(LockToken, Option<Duration>)>, Error> {
        let found = self.dav.stat(path, PropertySet::LOCKS).await?;
        let locks = found.map(|entry| entry.properties.locks).unwrap_or_default();
        let ours = locks.into_iter().find(|lock| lock.owner.as_ref() == Some(&self.owner));
        Ok(ours.and_then(|lock| Some((lock.token?, lock.timeout))))
    }

    /// Finds the lock of a LOCK without an answer. The lock may have created the file only if it is empty.
    async fn recover(&self, path: &RemotePath) -> Result<Option<LockToken>, Error> {
        let Some((token, _)) = self.find(path).await? else { return Ok(None) };
        let is_empty = self.is_empty(path).await?;
        let known = |trace: &mut Trace| (trace.token, trace.hollow) = (Some(token.clone()), trace.hollow && is_empty);
        lock(&self.traces).entry(path.clone()).and_modify(known);
        Ok(Some(token))
    }

    /// Releases a file's lock, if there is one. Deletes the file that the lock created, unless it was `written`.
    pub(crate) async fn release(&self, path: &RemotePath, written: bool) {
        // Also if the lock is lost.
        if written {
            lock(&self.traces).entry(path.clone()).and_modify(|trace| trace.hollow = false);
        }
        let action = lock(&self.locks).release(path);
        let Some(LockAction::Unlock(path, token)) = action else { return };
        self.undo(&path, &token, false).await;
        lock(&self.locks).unlocked(&path);
    }

    /// Deletes what a lock created, and releases it. What the server refuses is left for the end, unless this is the
    /// `last` attempt.
    async fn undo(&self, path: &RemotePath, token: &LockToken, last: bool) {
        let hollow = lock(&self.traces).get(path).is_some_and(|trace| trace.hollow);
        if self.take_away(path, token, hollow, last).await {
            lock(&self.traces).remove(path);
        }
    }

    /// Returns whether the lock is released. The file that it created is deleted first: without the lock, this could
    /// delete somebody else's file. If that is refused, the lock is kept, unless this is the `last` attempt.
    async fn take_away(&self, path: &RemotePath, token: &LockToken, hollow: bool, last: bool) -> bool {
        let away = hollow && (self.delete(path, token).await || self.delete(path, token).await);
        // An error may mean that the lock is gone already (RFC 4918 §9.11.1); another attempt at the end makes sure.
        // DELETE removes the lock too (RFC 4918 §9.6), and then UNLOCK fails.
        (away || !hollow || last)
            && self.dav.unlock(path, token).await.map_or_else(|error| away && error.refusal().is_some(), |_| true)
    }

    /// Deletes the file that a lock created, and thereby the lock (RFC 4918 §9.6). A 404 may be wrong, so a lookup shows
    /// whether the file is gone.
    async fn delete(&self, path: &RemotePath, token: &LockToken) -> bool {
        let claims = If::default().locked(path, token.clone());
        match self.dav.delete(path, &Precondition::None, &claims).await {
            Ok(_) => true,
            Err(error) => error.is(404) && matches!(self.dav.stat(path, PropertySet::LISTING).await, Ok(None)),
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

    /// Refreshes the locks for as long as it is polled.
    pub(crate) async fn refresh(&self) {
        loop {
            sleep(LOOK).await;
            let due = lock(&self.locks).due(Instant::now());
            for action in due {
                let LockAction::Refresh(path, token) = action else { continue };
                let sent = Instant::now();
                match self.dav.relock(&path, &token, LASTING).await {
                    Ok(lasts) => lock(&self.locks).refreshed(&path, lasts, sent),
                    Err(error) if error.is(412) => drop(lock(&self.locks).lost(&path, &token)),
                    Err(_) => lock(&self.locks).unanswered(&path, Instant::now()),
                }
            }
        }
    }

    /// Whether there is something to undo.
    pub(crate) fn is_held(&self) -> bool {
        !lock(&self.traces).is_empty()
    }

    /// Undoes everything that is left, in a few rounds. A lock that cannot be released expires by itself.
    pub(crate) async fn release_all(&self) {
        lock(&self.locks).release_all();
        let farewell = async {
            for round in 1..=ROUNDS {
                let left = lock(&self.traces).clone();
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
        let token = match trace.token {
            Some(token) if trace.hollow => match self.is_untouched(&path, &token).await {
                Ok(true) => Some(token),
                Err(_) if !last => None,
                // Then only the lock is released.
                Ok(false) | Err(_) => {
                    lock(&self.traces).entry(path.clone()).and_modify(|trace| trace.hollow = false);
                    Some(token)
                }
            },
            Some(token) => Some(token),
            None => self.recover(&path).await.ok().flatten(),
        };
        if let Some(token) = token {
            self.undo(&path, &token, last).await;
        }
    }
}
