//! When to lock, for how long, and what a lock that is gone means.
//!
//! A lock costs two round trips per file, LOCK before the PUT and UNLOCK after it, and it is not what keeps
//! versions from being lost: a PUT that names the entity tag it replaces does that alone ([`crate::Precondition`]), where
//! the server minds it. A lock keeps others from *beginning* to edit. Hence the policies:
//!
//! | policy | a file that is not there yet | a file that is there |
//! |---|---|---|
//! | never | PUT if absent | PUT if unchanged |
//! | on edit | PUT if absent | LOCK, PUT if unchanged, UNLOCK |
//! | always | LOCK, PUT, UNLOCK | LOCK, PUT if unchanged, UNLOCK |
//!
//! "On edit" is davfs2's with one difference: davfs2 locks new files too, though nobody else can be editing what
//! is not there. As with davfs2, a file that is open for writing holds its lock from then until its last change is
//! on the server, so an edit with twenty saves has one LOCK and one UNLOCK. A LOCK on a name with nothing behind it
//! makes an empty file (RFC 4918 §7.3), which is why "always" cannot ask for absence; the answer, 201 instead of 200,
//! says that there was none, and a writer that then fails has an empty file to delete.
//!
//! A lock lasts as long as the server says, not as long as was asked for, and is refreshed at half of that. If a
//! refresh gets no answer, it is tried again at half of what is left. If the server says 412, the lock is lost: it
//! ended, or an administrator broke it, and somebody may have written since. Then nothing more is written under it;
//! whoever held it acquires it anew and compares entity tags, as it would for any file seen for the first time.
//!
//! This machine does no I/O. It is asked before a write and told of answers; it says which requests to send.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{lock_token::LockToken, path::RemotePath};

/// Which files are locked before they are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LockPolicy {
    /// None.
    #[default]
    Never,
    /// Those that are there already.
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
    /// Send LOCK, and tell [`Locks::granted`] or [`Locks::refused`] of its answer.
    Ask,
    /// Somebody else's request about this file is under way: wait for what it leads to, and look again with
    /// [`Locks::permit`].
    Wait,
}

/// A request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockAction {
    /// LOCK, as [`LockPermit::Ask`] asks for it.
    Lock(RemotePath),
    /// LOCK to refresh; tell [`Locks::refreshed`], [`Locks::lost`] (412) or [`Locks::unanswered`].
    Refresh(RemotePath, LockToken),
    /// UNLOCK; tell [`Locks::unlocked`], whatever the answer is.
    Unlock(RemotePath, LockToken),
}

/// The locks of one client on one server. A file that is locked has one lock, however many write it here.
#[derive(Debug)]
pub struct Locks {
    policy: LockPolicy,
    held: BTreeMap<RemotePath, Hold>,
}

#[derive(Debug)]
struct Hold {
    /// How many are writing.
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
    /// When to refresh, and when it ends; none for a lock that does not end.
    term: Option<(Instant, Instant)>,
}

/// The shortest time between refreshes, whatever a server grants.
const SHORTEST: Duration = Duration::from_secs(1);

impl Grant {
    /// To be refreshed half-way from `now` to its end.
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

    /// A writer begins. To each that did not get [`LockPermit::Unlocked`] belongs one [`Locks::release`].
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

    /// What a waiting writer may do by now. `None` if its lock was refused or lost.
    pub fn permit(&self, path: &RemotePath) -> Option<LockPermit> {
        self.held.get(path).filter(|hold| !matches!(hold.state, State::Lost)).map(Hold::permit)
    }

    /// The server granted the lock for so long (`None`: without end), by an answer to a request sent at `sent`.
    pub fn granted(
        &mut self,
        path: &RemotePath,
        token: LockToken,
        lasts: Option<Duration>,
        sent: Instant,
    ) -> Option<LockAction> {
        let hold = self.held.entry(path.clone()).or_insert(Hold { writers: 0, state: State::Asked });
        hold.state = State::Held(Grant::until(token, lasts.map(|lasts| sent + lasts), sent));
        // All who wanted it may have given up meanwhile.
        hold.end_if_unused(path)
    }

    /// The server refused the lock, or did not answer: who waits for it gets none.
    pub fn refused(&mut self, path: &RemotePath) {
        self.held.remove(path);
    }

    /// A writer is done, or gives up.
    pub fn release(&mut self, path: &RemotePath) -> Option<LockAction> {
        let hold = self.held.get_mut(path)?;
        hold.writers = hold.writers.saturating_sub(1);
        let action = hold.end_if_unused(path);
        if hold.writers == 0 && matches!(hold.state, State::Lost) {
            self.held.remove(path);
        }
        action
    }

    /// The UNLOCK was answered, or given up: then the lock ends by itself in time. Asks anew if somebody wants the
    /// lock again by now.
    pub fn unlocked(&mut self, path: &RemotePath) -> Option<LockAction> {
        let hold = self.held.get_mut(path).filter(|hold| matches!(hold.state, State::Releasing))?;
        if hold.writers == 0 {
            self.held.remove(path);
            return None;
        }
        hold.state = State::Asked;
        Some(LockAction::Lock(path.clone()))
    }

    /// The refreshes that are due.
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

    /// When the next refresh is due.
    pub fn wake(&self) -> Option<Instant> {
        let times = self.held.values().filter_map(|hold| match &hold.state {
            State::Held(grant) => grant.term.map(|(refresh, _)| refresh),
            _ => None,
        });
        times.min()
    }

    /// The server refreshed the lock for so long, by an answer to a request sent at `sent`.
    pub fn refreshed(&mut self, path: &RemotePath, lasts: Option<Duration>, sent: Instant) {
        self.refresh_ended(path, |grant| Grant::until(grant.token, lasts.map(|lasts| sent + lasts), sent));
    }

    /// A refresh got no answer that says anything: it is tried again while there is time. After the lock's end
    /// too, since only the server knows whether it is gone.
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

    /// The server does not know the lock any more (412 to a refresh, or to a write that named it). Whether somebody
    /// was writing under it, and is to be told.
    pub fn lost(&mut self, path: &RemotePath, token: &LockToken) -> bool {
        let Some(hold) = self.held.get_mut(path) else { return false };
        let current = matches!(&hold.state, State::Held(grant) | State::Refreshing(grant) if grant.token == *token);
        if current {
            hold.state = State::Lost;
        }
        current
    }

    /// The end of the program: gives all locks back, whoever still holds them. Those asked for are given back when
    /// they are granted.
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
