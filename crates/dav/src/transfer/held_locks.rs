//! Locks around writes: carries out what [`Locks`] decides.

mod release;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
    sync::Mutex,
    time::{Duration, Instant},
};

use scopeguard::{ScopeGuard, guard};
use tokio::time::sleep;

pub(crate) use self::release::{PAUSE, ROUNDS};

use super::{
    late_locks::LateLocks,
    lock,
    lock_traces::{LockLog, Trace, Traces},
};
use crate::{
    Dav, ETag, Entry, Error, Family, If, LockAction, LockPermit, LockToken, Locked, Locks, Precondition, Properties,
    PropertySet, RemotePath, client::confirmation::is_undecided, locks::LockPolicy,
};

/// The requested timeout of a lock; the server decides.
const LASTING: Duration = Duration::from_mins(10);
/// How often to check for locks that need a refresh.
const LOOK: Duration = Duration::from_millis(500);
/// How often a writer asks whether an UNLOCK of its file has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Why a lock on a missing file is no use.
const DELETED: &str = "somebody else has deleted it since the folder was listed";
/// The time, by the clock of the timers, which a test may pause.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The locks of a transfer, which writes each file once, or of a mount, whose programs write files again and again.
///
/// LOCK must not be repeated blindly, and it creates an empty file if none exists. So what it may have left on the
/// server is recorded before it is sent and until it is undone, even if its answer is lost or the program is
/// interrupted.
pub struct HeldLocks {
    dav: Dav,
    /// The owner with a random number, which identifies a lock of ours whose token never arrived.
    owner: String,
    locks: Mutex<Locks>,
    traces: Mutex<Traces>,
    /// Files that a lock of ours has created. An upload that is repeated finds such a file empty.
    created: Mutex<BTreeMap<RemotePath, Created>>,
    /// Locks under which a change has had no answer, and names no version; and what was there when such a lock was released to
    /// be taken anew.
    doubtful: Mutex<BTreeMap<RemotePath, Option<Released>>>,
    /// LOCK requests that may still be carried out.
    late: LateLocks,
    /// The paths that [`HeldLocks::tidy`] cleans up.
    tidied: Mutex<BTreeSet<RemotePath>>,
    policy: LockPolicy,
    /// Serialises writes under a lock.
    turn: tokio::sync::Mutex<()>,
}

/// What a lock on a new name has made.
#[derive(Debug, Clone)]
enum Created {
    Unknown,
    /// An empty file (RFC 4918 §7.3).
    Version(ETag),
    /// No file: the name is reserved (RFC 2518 §7.4).
    Reserved,
}

/// What was at a path when its lock was released.
type Released = Option<Entry>;

impl HeldLocks {
    /// No locks yet. `owner` is what others see as their owner.
    pub fn new(dav: Dav, policy: LockPolicy, owner: &str) -> Self {
        let number = RandomState::new().hash_one(owner) as u32;
        Self::continued(dav, policy, owner, number, Traces::default())
    }

    /// The same; and what an earlier process with this log has left is undone by [`Self::tidy`], or used by whoever locks the
    /// same file.
    pub fn with_log(dav: Dav, policy: LockPolicy, owner: &str, log: LockLog) -> Self {
        let number = log.number();
        Self::continued(dav, policy, owner, number, Traces::with_log(log))
    }

    fn continued(dav: Dav, policy: LockPolicy, owner: &str, number: u32, traces: Traces) -> Self {
        let owner = format!("{owner} ({number:08x})");
        // An earlier process may have been killed while it waited for an answer, also if the log has the token of a lock before.
        let late = LateLocks::default();
        for (path, trace) in traces.all() {
            late.sent(path, trace.hollow, now());
        }
        Self {
            dav,
            owner,
            locks: Locks::new(policy).into(),
            traces: Mutex::new(traces),
            created: Mutex::default(),
            doubtful: Mutex::default(),
            late,
            tidied: Mutex::default(),
            policy,
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Locks a file if the policy says so, and returns the `If` header for the write. The caller must release it in any
    /// case.
    ///
    /// If the file should not exist and the lock did not create it (200 instead of 201), then somebody else has created
    /// it, or the server does not distinguish: a lookup decides, and existing content is not overwritten. If the file
    /// should exist and the lock has created it, somebody else has deleted it.
    pub async fn acquire(&self, path: &RemotePath, exists: bool) -> Result<If, Error> {
        let permit = loop {
            match self.permit(path, exists) {
                // Its UNLOCK, or another LOCK, is on its way.
                LockPermit::Wait => sleep(LOOK_AGAIN).await,
                permit => break permit,
            }
        };
        let token = match permit {
            LockPermit::Unlocked | LockPermit::Wait => return Ok(If::default()),
            LockPermit::Locked(token) => token,
            LockPermit::Ask => {
                // If this is not polled to its end, another writer asks.
                let asked = guard((), |()| lock(&self.locks).abandoned(path));
                let token = match self.adopt(path).await {
                    Some(token) => Ok(token),
                    None => self.request(path, exists).await,
                };
                ScopeGuard::into_inner(asked);
                token?
            }
        };
        Ok(If::default().locked(path, token))
    }

    fn permit(&self, path: &RemotePath, exists: bool) -> LockPermit {
        let mut locks = lock(&self.locks);
        if lock(&self.tidied).contains(path) {
            return LockPermit::Wait;
        }
        let permit = locks.acquire(path, exists);
        if permit == LockPermit::Wait {
            locks.release(path);
        }
        permit
    }

    /// The lock that an UNLOCK without an answer has left.
    async fn adopt(&self, path: &RemotePath) -> Option<LockToken> {
        let token = lock(&self.traces).get(path).and_then(|trace| trace.token.clone())?;
        let sent = now();
        let lasts = self.dav.relock(path, &token, LASTING).await.ok()?;
        lock(&self.locks).granted(path, token.clone(), lasts, sent);
        Some(token)
    }

    async fn request(&self, path: &RemotePath, exists: bool) -> Result<LockToken, Error> {
        let sent = now();
        let earlier = lock(&self.traces).insert(path, Trace { token: None, hollow: !exists });
        let Locked { token, lasts, created } = match self.ask(path, exists, earlier).await {
            Ok(locked) => locked,
            Err(error) => {
                lock(&self.locks).refused(path);
                return Err(error);
            }
        };
        lock(&self.locks).granted(path, token.clone(), lasts, sent);
        let hollow = created && (!exists || self.is_empty(path).await.unwrap_or(false));
        lock(&self.traces).insert(path, Trace { token: Some(token.clone()), hollow });
        let surprise = match (exists, created) {
            (true, true) if hollow => Err(Error::Differs { path: path.clone(), why: DELETED.into() }),
            (false, false) => self.see(path).await,
            _ => Ok(()),
        };
        if let Err(error) = surprise {
            self.release(path, false).await;
            return Err(error);
        }
        if !exists {
            // An upload that is repeated finds what its first lock has created.
            let mut known = lock(&self.created);
            let hollow = created || known.contains_key(path);
            if created {
                known.insert(path.clone(), Created::Unknown);
            }
            drop(known);
            lock(&self.traces).change(path, |trace| trace.hollow = hollow);
        }
        Ok(token)
    }

    /// The `If` header for a request that changes `paths`, or all below those that are folders: the locks held there, and
    /// the versions that [`Self::learn_created`] has seen.
    pub fn claims(&self, paths: &[&RemotePath]) -> If {
        let held = paths.iter().flat_map(|path| self.held_at(path));
        held.fold(If::default(), |claims, (path, token)| {
            let claims = claims.locked(&path, token);
            match lock(&self.created).get(&path) {
                Some(Created::Version(tag)) => self.dav.claim_unchanged(&claims, &path, tag),
                _ => claims,
            }
        })
    }

    /// What the first upload of a new file requires beside its lock, which keeps others out: nothing if the lock has created an
    /// empty file. One that has not may be of somebody else's file.
    pub fn precondition_of_new(&self, path: &RemotePath) -> Precondition {
        match lock(&self.created).get(path) {
            None | Some(Created::Reserved) => Precondition::Absent,
            Some(Created::Unknown | Created::Version(_)) => Precondition::None,
        }
    }

    /// Looks at what the lock on a new file has created. The first upload then names its version, so that a copy of it that the
    /// server carries out late does not undo a later one.
    pub async fn learn_created(&self, path: &RemotePath) {
        if !lock(&self.created).contains_key(path) {
            return;
        }
        let Ok(found) = self.dav.stat(path, PropertySet::LISTING).await else { return };
        let seen = match found.filter(|found| !is_reserved(found)).map(|found| found.properties) {
            None => Created::Reserved,
            Some(Properties { length: Some(0), etag: Some(tag), .. }) => Created::Version(tag),
            Some(_) => Created::Unknown,
        };
        if let Some(created) = lock(&self.created).get_mut(path) {
            *created = seen;
        }
    }

    /// A change under a lock has had no answer, and names no version ([`crate::Fence::Lock`]).
    pub fn doubt(&self, path: &RemotePath) {
        lock(&self.doubtful).entry(path.clone()).or_default();
    }

    /// Before a newer change under a lock: from now on, a late copy of a doubtful one fails, because its token is of a lock that
    /// has ended (RFC 4918 §6.5). If the file has changed before it is locked again, the lock counts as lost.
    pub async fn fence(&self, path: &RemotePath) -> Result<(), Error> {
        let Some(released) = lock(&self.doubtful).get(path).cloned() else { return Ok(()) };
        if let Some((_, token)) = self.held_at(path).next() {
            let before = match released {
                Some(before) => before,
                None => self.dav.stat(path, PropertySet::LISTING).await?,
            };
            match self.dav.unlock(path, &token).await {
                // It has ended by itself.
                Err(error) if error.refusal().is_some_and(|refusal| refusal.status.is_client_error()) => {}
                unlocked => drop(unlocked?),
            }
            lock(&self.doubtful).insert(path.clone(), Some(before.clone()));
            let sent = now();
            let again = self.ask(path, true, None).await;
            let found = self.dav.stat(path, PropertySet::LISTING).await;
            match again {
                Ok(Locked { token, lasts, .. }) => {
                    lock(&self.traces).change(path, |trace| trace.token = Some(token.clone()));
                    let unused = lock(&self.locks).granted(path, token.clone(), lasts, sent);
                    if let Some(LockAction::Unlock(path, token)) = unused {
                        // Its writers have gone meanwhile.
                        self.end(&path, &token).await;
                    } else if !found.is_ok_and(|found| is_same_version(before.as_ref(), found.as_ref())) {
                        lock(&self.locks).lost(path, &token);
                    }
                }
                // Somebody else has it now, or nobody: it is asked for again before the next change.
                Err(error) if error.is(423) || error.refusal().is_none_or(crate::Failure::is_passing) => {
                    return Err(error);
                }
                Err(_) => drop(lock(&self.locks).lost(path, &token)),
            }
        }
        lock(&self.doubtful).remove(path);
        Ok(())
    }

    /// The locks at `path`, or below it if it is a folder.
    fn held_at(&self, path: &RemotePath) -> impl Iterator<Item = (RemotePath, LockToken)> {
        let is_there =
            |held: &RemotePath| if path.is_folder() { held.relative_to(path).is_some() } else { held.same_place(path) };
        let held = lock(&self.locks).tokens();
        held.into_iter().filter(move |(held, _)| is_there(held))
    }

    /// Whether the server has ended a lock that is still in use.
    pub fn is_lost(&self, path: &RemotePath) -> bool {
        lock(&self.locks).is_lost(path)
    }

    /// A write under the lock was refused (412, 423): asks the server whether the lock is lost.
    pub async fn check(&self, path: &RemotePath) -> Result<bool, Error> {
        if self.find(path).await?.is_none() {
            let mut locks = lock(&self.locks);
            let token = locks.tokens().into_iter().find(|(held, _)| held == path);
            if let Some((_, token)) = token {
                locks.lost(path, &token);
            }
        }
        Ok(self.is_lost(path))
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
    pub async fn turn(&self, exists: bool) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let sound = self.dav.capabilities().is_some_and(|capabilities| capabilities.family != Family::Apache);
        if sound || !self.policy.locks(exists) { None } else { Some(self.turn.lock().await) }
    }

    /// Sends LOCK. If it is refused, only the `earlier` trace is left, which may be the lock in its way.
    async fn ask(&self, path: &RemotePath, exists: bool, earlier: Option<Trace>) -> Result<Locked, Error> {
        match self.sent(path, exists).await {
            // A lookup shows whether it took effect, but not whether it created the file.
            Err(error) if is_undecided(&error) => match self.find(path).await? {
                Some((token, lasts)) => {
                    let created = !exists && self.is_empty(path).await?;
                    Ok(Locked { token, lasts, created })
                }
                None => match self.sent(path, exists).await {
                    // The first one took effect after all.
                    Err(error) if error.is(423) => {
                        let (token, lasts) = self.find(path).await?.ok_or(error)?;
                        let created = !exists && self.is_empty(path).await?;
                        Ok(Locked { token, lasts, created })
                    }
                    again => again,
                },
            },
            // An earlier LOCK of ours that the server has carried out late is as good.
            Err(error)
                if error.is(423)
                    && let Ok(Some((token, lasts))) = self.find(path).await =>
            {
                Ok(Locked { token, lasts, created: !exists && self.is_empty(path).await? })
            }
            Err(error) if error.refusal().is_some() => {
                if let Some(earlier) = earlier {
                    lock(&self.traces).insert(path, earlier);
                } else {
                    self.forget(path);
                }
                Err(error)
            }
            decided => decided,
        }
    }

    /// Sends LOCK, and notes that it may be carried out later, unless it was answered.
    async fn sent(&self, path: &RemotePath, exists: bool) -> Result<Locked, Error> {
        let locked = self.dav.lock(path, &self.owner, LASTING).await;
        let is_answered = match &locked {
            Ok(_) => true,
            Err(error) => error.refusal().is_some_and(|failure| failure.times_sent <= 1) && !is_undecided(error),
        };
        if !is_answered {
            self.late.sent(path, !exists, now());
        }
        locked
    }

    /// Nothing is left at a path, unless a LOCK may still be carried out.
    fn forget(&self, path: &RemotePath) {
        match self.late.expected(path, now()) {
            Some(hollow) => drop(lock(&self.traces).insert(path, Trace { token: None, hollow })),
            None => lock(&self.traces).remove(path),
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

    /// A file has been written under its lock, which stays: whatever created it, it is not deleted with the lock.
    pub fn written(&self, path: &RemotePath) {
        lock(&self.traces).change(path, |trace| trace.hollow = false);
        lock(&self.created).remove(path);
        self.late.creates(path, false);
    }

    /// A file has been deleted or renamed: a LOCK that is carried out now creates an empty one.
    pub fn gone(&self, path: &RemotePath) {
        if self.late.creates(path, true) {
            lock(&self.traces).change(path, |trace| trace.hollow |= trace.token.is_none());
        }
    }

    /// Whether an empty file at a path was created by a lock of ours, which is not undone yet.
    pub fn has_created(&self, path: &RemotePath) -> bool {
        lock(&self.traces).get(path).is_some_and(|trace| trace.hollow)
    }

    /// Refreshes the locks for as long as it is polled.
    pub(crate) async fn refresh(&self) {
        loop {
            sleep(LOOK).await;
            self.refresh_due().await;
        }
    }

    /// Refreshes the locks that are due. To be called at least every second; must not be dropped half-way.
    pub async fn refresh_due(&self) {
        let due = lock(&self.locks).due(now());
        for action in due {
            let LockAction::Refresh(path, token) = action else { continue };
            let sent = now();
            match self.dav.relock(&path, &token, LASTING).await {
                Ok(lasts) => lock(&self.locks).refreshed(&path, lasts, sent),
                Err(error) if error.is(412) => drop(lock(&self.locks).lost(&path, &token)),
                Err(_) => lock(&self.locks).unanswered(&path, now()),
            }
        }
    }

    /// Whether there is something to undo.
    pub fn is_held(&self) -> bool {
        !lock(&self.traces).is_empty()
    }
}

/// Whether two listings show the same version. Apache's tag of a young file is weak, and becomes strong by itself.
fn is_same_version(before: Option<&Entry>, after: Option<&Entry>) -> bool {
    let [before, after] = [before, after].map(|entry| entry.filter(|entry| !is_reserved(entry)));
    let (Some(before), Some(after)) = (before, after) else { return before.is_none() && after.is_none() };
    let (before, after) = (&before.properties, &after.properties);
    let has_same_tag = match (&before.etag, &after.etag) {
        (Some(before), Some(after)) => before.resembles(after),
        (before, after) => before.is_none() && after.is_none(),
    };
    has_same_tag && before.length == after.length && before.modified == after.modified
}

/// Whether a listing shows no file, but a name that a lock reserves (RFC 2518 §7.4).
fn is_reserved(entry: &Entry) -> bool {
    let Properties { length, etag, modified, .. } = &entry.properties;
    length.is_none() && etag.is_none() && modified.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_name_is_like_none() {
        let path = RemotePath::from_url_path("/file").unwrap();
        let entry = |properties| Entry {
            path: path.clone(),
            status: None,
            properties,
            refused: Vec::new(),
            conditions: Vec::new(),
            description: None,
        };
        let reserved = entry(Properties::default());
        let empty = entry(Properties { length: Some(0), ..Properties::default() });
        assert!(is_same_version(Some(&reserved), None) && is_same_version(None, Some(&reserved)));
        assert!(!is_same_version(Some(&reserved), Some(&empty)) && !is_same_version(Some(&empty), None));
    }
}
