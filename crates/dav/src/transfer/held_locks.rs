//! Locks around writes: carries out what `Locks` decides.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    sync::Mutex,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::lock;
use crate::{
    Dav, Error, Family, If, LockAction, LockPermit, LockToken, Locked, Locks, Precondition, RemotePath, Wanted,
    client::confirmation::is_undecided, locks::LockPolicy,
};

/// What is asked for; the server decides.
const LASTING: Duration = Duration::from_mins(10);
/// How often it is seen whether a lock is to be refreshed.
const LOOK: Duration = Duration::from_millis(500);
/// How long giving the locks back may take in the end.
const FAREWELL: Duration = Duration::from_secs(10);
/// How often it is tried, as what a server refuses now it may grant a moment later.
pub(crate) const ROUNDS: usize = 4;
/// What comes between two of them; and how long after its connection's end an upload may still appear.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);

/// The locks of a transfer, which writes each file once.
///
/// LOCK may not be repeated, and makes an empty file where there was none. So what it may have left on the server is
/// kept in mind from before it is sent until it is undone: when its answer is lost, or when everything stops.
pub(crate) struct HeldLocks<'a> {
    dav: &'a Dav,
    /// With a number of our own, by which a lock is known for ours whose token never came.
    owner: String,
    locks: Mutex<Locks>,
    traces: Mutex<BTreeMap<RemotePath, Trace>>,
    /// What a pipeline says was undone.
    believed: Mutex<Vec<(RemotePath, Trace)>>,
    policy: LockPolicy,
    /// Whose turn it is to write under a lock.
    turn: tokio::sync::Mutex<()>,
}

/// What a LOCK may have left on the server.
#[derive(Debug, Clone)]
struct Trace {
    token: Option<LockToken>,
    /// Whether the file is there by the lock alone.
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
            believed: Mutex::default(),
            policy,
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Locks a file, if the policy wants it: what is to be claimed when it is written. It is to be released, whatever
    /// comes of that.
    ///
    /// If a file is locked that was thought not to exist and the lock did not make it (200 instead of 201), then either
    /// somebody else has made it meanwhile, or the server does not tell: so it is looked, and content is not ours to
    /// overwrite.
    pub(crate) async fn acquire(&self, path: &RemotePath, exists: bool) -> Result<If, Error> {
        let permit = lock(&self.locks).acquire(path, exists);
        let token = match permit {
            LockPermit::Unlocked | LockPermit::Wait => return Ok(If::default()),
            LockPermit::Locked(token) => token,
            LockPermit::Ask => {
                let sent = Instant::now();
                lock(&self.traces).insert(path.clone(), Trace { token: None, hollow: !exists });
                match self.ask(path).await {
                    Ok(Locked { token, lasts, created }) => {
                        lock(&self.locks).granted(path, token.clone(), lasts, sent);
                        let trace = Trace { token: Some(token.clone()), hollow: created && !exists };
                        lock(&self.traces).insert(path.clone(), trace);
                        if !exists
                            && !created
                            && let Err(error) = self.see(path).await
                        {
                            self.release(path, false).await;
                            return Err(error);
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

    /// Refuses what has content. An empty file may be the lock's own: nothing is lost with it.
    async fn see(&self, path: &RemotePath) -> Result<(), Error> {
        let found = self.dav.stat(path, Wanted::LISTING).await?;
        if found.is_none_or(|found| found.properties.length.is_none_or(|length| length == 0)) {
            return Ok(());
        }
        let why = "somebody else has made it since the folder was listed: fetch the present version and compare";
        Err(Error::Differs { path: path.clone(), why: why.into() })
    }

    /// The turn to write under a lock, where that must be done one after another: Apache's mod_dav_fs loses locks when
    /// others are changed or used at the same time (seen with 2.4: 204 to an UNLOCK, and the lock stays; 200 to a LOCK,
    /// and the PUT that names it is refused). Where it is not known whose server it is, it may be Apache's.
    pub(crate) async fn turn(&self, exists: bool) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let sound = self.dav.capabilities().is_some_and(|capabilities| capabilities.family != Family::Apache);
        if sound || !self.policy.locks(exists) { None } else { Some(self.turn.lock().await) }
    }

    async fn ask(&self, path: &RemotePath) -> Result<Locked, Error> {
        match self.dav.lock(path, &self.owner, LASTING).await {
            // Whether it took effect can be seen; not what it made.
            Err(error) if is_undecided(&error) => match self.find(path).await? {
                Some((token, lasts)) => {
                    let created = self.is_empty(path).await?;
                    Ok(Locked { token, lasts, created })
                }
                None => match self.dav.lock(path, &self.owner, LASTING).await {
                    // The first one was late.
                    Err(error) if error.is(423) => {
                        let (token, lasts) = self.find(path).await?.ok_or(error)?;
                        let created = self.is_empty(path).await?;
                        Ok(Locked { token, lasts, created })
                    }
                    again => again,
                },
            },
            Err(error) if error.refusal().is_some() => {
                lock(&self.traces).remove(path);
                Err(error)
            }
            decided => decided,
        }
    }

    async fn is_empty(&self, path: &RemotePath) -> Result<bool, Error> {
        let found = self.dav.stat(path, Wanted::LISTING).await?;
        Ok(found.is_some_and(|found| found.properties.length == Some(0)))
    }

    /// Our lock on a file, if there is one.
    async fn find(&self, path: &RemotePath) -> Result<Option<(LockToken, Option<Duration>)>, Error> {
        let found = self.dav.stat(path, Wanted::LOCKS).await?;
        let locks = found.map(|entry| entry.properties.locks).unwrap_or_default();
        let ours = locks.into_iter().find(|lock| lock.owner.as_ref() == Some(&self.owner));
        Ok(ours.and_then(|lock| Some((lock.token?, lock.timeout))))
    }

    /// The lock on a file whose LOCK got no answer, if there is one. Only if the file is empty, the lock may have made
    /// it.
    async fn recover(&self, path: &RemotePath) -> Result<Option<LockToken>, Error> {
        let Some((token, _)) = self.find(path).await? else { return Ok(None) };
        let is_empty = self.is_empty(path).await?;
        let known = |trace: &mut Trace| (trace.token, trace.hollow) = (Some(token.clone()), trace.hollow && is_empty);
        lock(&self.traces).entry(path.clone()).and_modify(known);
        Ok(Some(token))
    }

    /// Gives a file's lock back, if there is one. What the lock has made is deleted, unless it was `written`.
    pub(crate) async fn release(&self, path: &RemotePath, written: bool) {
        let action = lock(&self.locks).release(path);
        let Some(LockAction::Unlock(path, token)) = action else { return };
        if written {
            lock(&self.traces).entry(path.clone()).and_modify(|trace| trace.hollow = false);
        }
        self.undo(&path, &token, false).await;
        lock(&self.locks).unlocked(&path);
    }

    /// Takes away what a lock has made, and gives it back. What is refused stays for the end, unless this is the `last`
    /// try.
    async fn undo(&self, path: &RemotePath, token: &LockToken, last: bool) {
        let hollow = lock(&self.traces).get(path).is_some_and(|trace| trace.hollow);
        let pipelined = self.dav.pipelines();
        if self.take_away(path, token, hollow, last).await
            && let Some(trace) = lock(&self.traces).remove(path)
            && pipelined
        {
            lock(&self.believed).push((path.clone(), trace));
        }
    }

    /// Whether a lock is given back. What it has made goes before it: without the lock it might be somebody else's file
    /// that is deleted. If that is refused the lock is kept, unless this is the `last` try.
    async fn take_away(&self, path: &RemotePath, token: &LockToken, hollow: bool, last: bool) -> bool {
        let away = hollow && (self.delete(path, token).await || self.delete(path, token).await);
        // A refusal may say that there is no such lock any more (RFC 4918 §9.11.1). Asking once more in the end is
        // sure. With the file goes its lock (RFC 4918 §9.6), and then this is refused; but a 404 may have been wrong.
        (away || !hollow || last)
            && self.dav.unlock(path, token).await.map_or_else(|error| away && error.refusal().is_some(), |_| true)
    }

    /// Deletes what a lock has made; with the file goes its lock (RFC 4918 §9.6).
    async fn delete(&self, path: &RemotePath, token: &LockToken) -> bool {
        let claims = If::default().locked(path, token.clone());
        let deleted = self.dav.delete(path, &Precondition::None, &claims).await;
        deleted.is_ok() || deleted.is_err_and(|error| error.is(404))
    }

    /// Keeps the locks alive for as long as it is polled.
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

    /// Undoes all that is left, in a few rounds. A lock that cannot be given back ends by itself.
    ///
    /// Where pipelines turned out to be bad, an answer may have been another's, and what was believed is done once
    /// more. It is refused where nothing is locked with our token any more, as it should be.
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
                let undone = left.into_iter().map(|(path, trace)| async move {
                    let token = match trace.token {
                        Some(token) => Some(token),
                        None => self.recover(&path).await.ok().flatten(),
                    };
                    if let Some(token) = token {
                        self.undo(&path, &token, round == ROUNDS).await;
                    }
                });
                join_all(undone).await;
            }
            if !self.dav.pipelines() {
                let believed = std::mem::take(&mut *lock(&self.believed));
                let once_more = believed.into_iter().map(|(path, Trace { token, hollow })| async move {
                    if let Some(token) = token {
                        self.take_away(&path, &token, hollow, true).await;
                    }
                });
                join_all(once_more).await;
            }
        };
        let _ = timeout(FAREWELL, farewell).await;
    }
}
