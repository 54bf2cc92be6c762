//! When to lock, for how long, and what a lost lock means.
//!
//! A lock costs two round trips per file, LOCK before the PUT and UNLOCK after it, and is not what keeps versions from being
//! lost: a PUT with the entity tag that it replaces ([`crate::Precondition`]) does that alone, if the server honours it. A
//! lock keeps others from *starting* to edit. Hence the policies:
//!
//! | policy | new file | existing file |
//! |---|---|---|
//! | never | PUT if absent | PUT if unchanged |
//! | on edit | PUT if absent | LOCK, PUT if unchanged, UNLOCK |
//! | always | LOCK, PUT, UNLOCK | LOCK, PUT if unchanged, UNLOCK |
//!
//! "On edit" follows davfs2, with one difference: davfs2 also locks new files, although nobody else can be editing a file
//! that does not exist. As with davfs2, a file that is open for writing keeps its lock until its last change is on the
//! server, so an edit with twenty saves has one LOCK and one UNLOCK. A LOCK on an unused name creates an empty file
//! (RFC 4918 §7.3), so "always" cannot require absence. The status 201 instead of 200 says that the file is new, and a writer
//! that then fails must delete the empty file.
//!
//! A lock lasts as long as the server says, not as long as was requested, and is refreshed at half of that time. If a refresh
//! gets no answer, it is repeated at half of the remaining time. If the server says 412, the lock is lost: it expired, or an
//! administrator removed it, and somebody else may have written since. Then nothing more is written under it; its holder
//! acquires it anew and compares entity tags, as for any file seen for the first time.
//!
//! This state machine does no I/O. It is told about writers and answers, and says which requests to send.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{lock_token::LockToken, path::RemotePath};

/// Which files to lock before writing them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LockPolicy {
    /// None.
    #[default]
    Never,
    /// Files that exist already.
    OnEdit,
    /// All.
    Always,
}

impl LockPolicy {
    /// Whether a file is locked, given whether it is on the server already.
    pub fn locks(self, exists: bool) -> bool {
        match self {
            Self::Never => false,
            Self::OnEdit => exists,
            Self::Always => true,
        }
    }
}

/// What a writer may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockPermit {
    /// Write without a lock.
    Unlocked,
    /// Write with this lock's token.
    Locked(LockToken),
    /// Send LOCK, then call [`Locks::granted`] or [`Locks::refused`].
    Ask,
    /// Another request about this lock is in flight: wait for it, then ask [`Locks::permit`] again.
    Wait,
}

/// A request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockAction {
    /// LOCK, as for [`LockPermit::Ask`].
    Lock(RemotePath),
    /// LOCK to refresh; then call [`Locks::refreshed`], [`Locks::lost`] (412) or [`Locks::unanswered`].
    Refresh(RemotePath, LockToken),
    /// UNLOCK; then call [`Locks::unlocked`], whatever the answer is.
    Unlock(RemotePath, LockToken),
}

/// The locks of one client on one server. Several local writers of a file share one lock.
#[derive(Debug)]
pub struct Locks {
    policy: LockPolicy,
    held: BTreeMap<RemotePath, Hold>,
}

#[derive(Debug)]
struct Hold {
    /// Number of writers.
    writers: usize,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Asked,
    Held(Grant),
    Refreshing(Grant),
    Releasing,
    Lost,
}

#[derive(Debug, Clone)]
struct Grant {
    token: LockToken,
    /// When to refresh, and when it expires; none for a lock that does not expire.
    term: Option<(Instant, Instant)>,
}

/// Minimum time between refreshes, whatever timeout the server grants.
const SHORTEST: Duration = Duration::from_secs(1);

impl Grant {
    /// A lock to be refreshed half-way from `now` to its end.
    fn until(token: LockToken, end: Option<Instant>, now: Instant) -> Self {
        let half = |end: Instant| now + (end.saturating_duration_since(now) / 2).max(SHORTEST);
        Self { token, term: end.map(|end| (half(end), end)) }
    }
}

impl Locks {
    /// No locks yet.
    pub fn new(policy: LockPolicy) -> Self {
        Self { policy, held: BTreeMap::new() }
    }

    /// A writer starts. Unless it gets [`LockPermit::Unlocked`], it must call [`Locks::release`] once.
    pub fn acquire(&mut self, path: &RemotePath, exists: bool) -> LockPermit {
        if let Some(hold) = self.held.get_mut(path) {
            hold.writers += 1;
            if matches!(hold.state, State::Lost) {
                hold.state = State::Asked;
                return LockPermit::Ask;
            }
            return hold.permit();
        }
        if !self.policy.locks(exists) {
            return LockPermit::Unlocked;
        }
        self.held.insert(path.clone(), Hold { writers: 1, state: State::Asked });
        LockPermit::Ask
    }

    /// What a waiting writer may do now. `None` if its lock was refused or lost.
    pub fn permit(&self, path: &RemotePath) -> Option<LockPermit> {
        self.held.get(path).filter(|hold| !matches!(hold.state, State::Lost)).map(Hold::permit)
    }

    /// The locks that are held, with their tokens.
    pub fn tokens(&self) -> Vec<(RemotePath, LockToken)> {
        let held = self.held.iter().filter_map(|(path, hold)| match &hold.state {
            State::Held(grant) | State::Refreshing(grant) => Some((path.clone(), grant.token.clone())),
            State::Asked | State::Releasing | State::Lost => None,
        });
        held.collect()
    }

    /// Whether a lock was lost, and a writer has not released it yet.
    pub fn is_lost(&self, path: &RemotePath) -> bool {
        self.held.get(path).is_some_and(|hold| matches!(hold.state, State::Lost))
    }

    /// Whether a file has a lock in any state.
    pub fn is_known(&self, path: &RemotePath) -> bool {
        self.held.contains_key(path)
    }

    /// The server granted the lock for the time `lasts` (`None`: unlimited), in the answer to a request sent at `sent`.
    pub fn granted(
        &mut self,
        path: &RemotePath,
        token: LockToken,
        lasts: Option<Duration>,
        sent: Instant,
    ) -> Option<LockAction> {
        let hold = self.held.entry(path.clone()).or_insert(Hold { writers: 0, state: State::Asked });
        hold.state = State::Held(Grant::until(token, lasts.map(|lasts| sent + lasts), sent));
        // All its writers may have gone in the meantime.
        hold.end_if_unused(path)
    }

    /// The server refused the lock, or did not answer; waiting writers get none.
    pub fn refused(&mut self, path: &RemotePath) {
        self.held.remove(path);
    }

    /// Whoever was to send LOCK has gone without an answer; the next writer asks.
    pub(crate) fn abandoned(&mut self, path: &RemotePath) {
        if self.held.get(path).is_some_and(|hold| matches!(hold.state, State::Asked)) {
            self.held.remove(path);
        }
    }

    /// A writer has finished or given up.
    pub fn release(&mut self, path: &RemotePath) -> Option<LockAction> {
        let hold = self.held.get_mut(path)?;
        hold.writers = hold.writers.saturating_sub(1);
        let action = hold.end_if_unused(path);
        if hold.writers == 0 && matches!(hold.state, State::Lost) {
            self.held.remove(path);
        }
        action
    }

    /// The UNLOCK was answered, or abandoned: then the lock expires by itself. Returns a new LOCK if a writer wants the
    /// lock again.
    pub fn unlocked(&mut self, path: &RemotePath) -> Option<LockAction> {
        let hold = self.held.get_mut(path).filter(|hold| matches!(hold.state, State::Releasing))?;
        if hold.writers == 0 {
            self.held.remove(path);
            return None;
        }
        hold.state = State::Asked;
        Some(LockAction::Lock(path.clone()))
    }

    /// The refreshes due at `now`.
    pub fn due(&mut self, now: Instant) -> Vec<LockAction> {
        let mut actions = Vec::new();
        for (path, hold) in &mut self.held {
            if let State::Held(grant) = &hold.state
                && grant.term.is_some_and(|(refresh, _)| refresh <= now)
            {
                actions.push(LockAction::Refresh(path.clone(), grant.token.clone()));
                hold.state = State::Refreshing(grant.clone());
            }
        }
        actions
    }

    /// The time of the next refresh.
    pub fn wake(&self) -> Option<Instant> {
        let times = self.held.values().filter_map(|hold| match &hold.state {
            State::Held(grant) => grant.term.map(|(refresh, _)| refresh),
            _ => None,
        });
        times.min()
    }

    /// The server refreshed the lock for the time `lasts`, in the answer to a request sent at `sent`.
    pub fn refreshed(&mut self, path: &RemotePath, lasts: Option<Duration>, sent: Instant) {
        self.refresh_ended(path, |grant| Grant::until(grant.token, lasts.map(|lasts| sent + lasts), sent));
    }

    /// A refresh got no usable answer: it is repeated while there is time, and also after the lock's end, since only
    /// the server knows whether it has expired.
    pub fn unanswered(&mut self, path: &RemotePath, now: Instant) {
        self.refresh_ended(path, |grant| Grant::until(grant.token, grant.term.map(|(_, end)| end), now));
    }

    fn refresh_ended(&mut self, path: &RemotePath, renew: impl FnOnce(Grant) -> Grant) {
        if let Some(hold) = self.held.get_mut(path)
            && let State::Refreshing(grant) = &hold.state
        {
            hold.state = State::Held(renew(grant.clone()));
        }
    }

    /// The server does not know the lock any more (412 to a refresh, or to a write that presented it). Returns whether
    /// the lock was in use.
    pub fn lost(&mut self, path: &RemotePath, token: &LockToken) -> bool {
        let Some(hold) = self.held.get_mut(path) else { return false };
        let current = matches!(&hold.state, State::Held(grant) | State::Refreshing(grant) if grant.token == *token);
        if current {
            hold.state = State::Lost;
        }
        current
    }

    /// Releases all locks at the end of the program. Locks that are still being requested are released when granted.
    pub fn release_all(&mut self) -> Vec<LockAction> {
        self.held.retain(|_, hold| !matches!(hold.state, State::Lost));
        let ended = self.held.iter_mut().filter_map(|(path, hold)| {
            hold.writers = 0;
            hold.end_if_unused(path)
        });
        ended.collect()
    }
}

impl Hold {
    fn permit(&self) -> LockPermit {
        match &self.state {
            State::Held(grant) | State::Refreshing(grant) => LockPermit::Locked(grant.token.clone()),
            State::Asked | State::Releasing | State::Lost => LockPermit::Wait,
        }
    }

    fn end_if_unused(&mut self, path: &RemotePath) -> Option<LockAction> {
        let (State::Held(grant) | State::Refreshing(grant)) = &self.state else { return None };
        if self.writers > 0 {
            return None;
        }
        let action = LockAction::Unlock(path.clone(), grant.token.clone());
        self.state = State::Releasing;
        Some(action)
    }
}

#[cfg(test)]
mod tests;
