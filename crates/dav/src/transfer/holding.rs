//! Locks around writes: carries out what `Locks` decides.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::time::{sleep, timeout};

use crate::{Action, Dav, Error, If, LockToken, Locks, Permit, RemotePath, locks::Policy};

/// What is asked for; the server decides.
const LASTING: Duration = Duration::from_mins(10);
/// How often it is seen whether a lock is to be refreshed.
const LOOK: Duration = Duration::from_millis(500);
/// How long giving the locks back may take in the end.
const FAREWELL: Duration = Duration::from_secs(10);

/// The locks of a transfer, which writes each file once.
pub(crate) struct Holding<'a> {
    dav: &'a Dav,
    owner: &'a str,
    locks: Mutex<Locks>,
}

impl<'a> Holding<'a> {
    pub(crate) fn new(dav: &'a Dav, policy: Policy, owner: &'a str) -> Self {
        Self { dav, owner, locks: Locks::new(policy).into() }
    }

    /// Locks a file, if the policy wants it: what is to be claimed when it is written. It is to be released, whatever
    /// comes of that.
    pub(crate) async fn acquire(&self, path: &RemotePath, exists: bool) -> Result<If, Error> {
        let permit = self.locks().acquire(path, exists);
        let token = match permit {
            Permit::Unlocked | Permit::Wait => return Ok(If::default()),
            Permit::Locked(token) => token,
            Permit::Ask => {
                let sent = Instant::now();
                match self.dav.lock(path, self.owner, LASTING).await {
                    Ok((token, lasts)) => {
                        self.locks().granted(path, token.clone(), lasts, sent);
                        token
                    }
                    Err(error) => {
                        self.locks().refused(path);
                        return Err(error);
                    }
                }
            }
        };
        Ok(If::default().locked(path, token))
    }

    /// Gives a file's lock back, if there is one.
    pub(crate) async fn release(&self, path: &RemotePath) {
        let action = self.locks().release(path);
        if let Some(Action::Unlock(path, token)) = action {
            self.unlock(&path, &token).await;
        }
    }

    async fn unlock(&self, path: &RemotePath, token: &LockToken) {
        // A lock that cannot be given back ends by itself.
        let _ = self.dav.unlock(path, token).await;
        self.locks().unlocked(path);
    }

    /// Keeps the locks alive for as long as it is polled.
    pub(crate) async fn refresh(&self) {
        loop {
            sleep(LOOK).await;
            let due = self.locks().due(Instant::now());
            for action in due {
                let Action::Refresh(path, token) = action else { continue };
                let sent = Instant::now();
                match self.dav.relock(&path, &token, LASTING).await {
                    Ok(lasts) => self.locks().refreshed(&path, lasts, sent),
                    Err(error) if error.is(412) => drop(self.locks().lost(&path, &token)),
                    Err(_) => self.locks().unanswered(&path, Instant::now()),
                }
            }
        }
    }

    /// Gives everything back.
    pub(crate) async fn release_all(&self) {
        let actions = self.locks().release_all();
        let unlocks = actions.into_iter().map(|action| async move {
            if let Action::Unlock(path, token) = action {
                self.unlock(&path, &token).await;
            }
        });
        let _ = timeout(FAREWELL, futures_util::future::join_all(unlocks)).await;
    }

    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
