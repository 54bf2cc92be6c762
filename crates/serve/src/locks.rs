//! Locks that expire.
//!
//! `dav-server` keeps locks in memory and never lets them expire: a client that dies with a lock would block its file
//! until the server restarts. This wrapper records each lock's timeout (RFC 4918 §6.6) and removes expired locks before
//! every lock operation.
//!
//! It also takes any lock token in an `If` header for valid if the resource is not locked. So a client whose lock is gone
//! would overwrite what somebody else has written since; here a token is one of a lock that is there (RFC 4918 §10.4.4).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use dav_server::davpath::DavPath;
use dav_server::ls::{DavLock, DavLockSystem, LsFuture};
use dav_server::memls::MemLs;
use futures_util::FutureExt;
use xmltree::Element;

/// Maximum and default timeout of a lock.
const MAX_LOCK_TIMEOUT: Duration = Duration::from_hours(1);

/// The locks of one server.
#[derive(Debug, Clone)]
pub(crate) struct Locks {
    memory: MemLs,
    ends: Arc<Mutex<Vec<End>>>,
}

#[derive(Debug)]
struct End {
    at: SystemTime,
    path: DavPath,
    token: String,
    principal: Option<String>,
}

impl Locks {
    pub(crate) fn new() -> Self {
        Locks { memory: *MemLs::new(), ends: Arc::default() }
    }

    /// The locks, without those that have expired by `now`.
    fn current(&self, now: SystemTime) -> &MemLs {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.retain(|end| {
            let lasts = end.at > now;
            if !lasts {
                // An error means that it is unlocked already; the future is ready at once.
                let _ = self.memory.unlock(&end.path, &end.token).now_or_never();
            }
            lasts
        });
        &self.memory
    }

    /// Whether a lock, named by its token, is another user's (RFC 4918 §9.11.1). `dav-server` does not ask at UNLOCK.
    pub(crate) fn is_of_another(&self, token: &str, user: &str) -> bool {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.iter().any(|end| end.token == token && end.principal.as_deref().is_some_and(|holder| holder != user))
    }

    fn remember(&self, lock: &DavLock) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.retain(|end| end.token != lock.token);
        if let Some(at) = lock.timeout_at {
            let (path, principal) = ((*lock.path).clone(), lock.principal.clone());
            ends.push(End { at, path, token: lock.token.clone(), principal });
        }
    }
}

fn bounded(timeout: Option<Duration>) -> Duration {
    timeout.map_or(MAX_LOCK_TIMEOUT, |t| t.min(MAX_LOCK_TIMEOUT))
}

impl DavLockSystem for Locks {
    fn lock(
        &self,
        path: &DavPath,
        principal: Option<&str>,
        owner: Option<&Element>,
        timeout: Option<Duration>,
        shared: bool,
        deep: bool,
    ) -> LsFuture<'_, Result<DavLock, DavLock>> {
        let locked = self.current(SystemTime::now()).lock(path, principal, owner, Some(bounded(timeout)), shared, deep);
        locked.inspect(|lock| lock.iter().for_each(|lock| self.remember(lock))).boxed()
    }

    fn unlock(&self, path: &DavPath, token: &str) -> LsFuture<'_, Result<(), ()>> {
        self.current(SystemTime::now()).unlock(path, token)
    }

    fn refresh(&self, path: &DavPath, token: &str, timeout: Option<Duration>) -> LsFuture<'_, Result<DavLock, ()>> {
        let refreshed = self.current(SystemTime::now()).refresh(path, token, Some(bounded(timeout)));
        refreshed.inspect(|lock| lock.iter().for_each(|lock| self.remember(lock))).boxed()
    }

    fn check(
        &self,
        path: &DavPath,
        principal: Option<&str>,
        ignore_principal: bool,
        deep: bool,
        tokens: &[String],
    ) -> LsFuture<'_, Result<(), DavLock>> {
        let memory = self.current(SystemTime::now());
        // So `dav-server` asks whether a condition holds, and only then.
        if let (true, [token]) = (ignore_principal, tokens) {
            let held = memory.discover(path);
            let (path, token) = (path.clone(), token.clone());
            let holds = move |held: Vec<DavLock>| {
                held.iter().any(|lock| lock.token == token).then_some(()).ok_or_else(|| no_lock(path, token))
            };
            return held.map(holds).boxed();
        }
        memory.check(path, principal, ignore_principal, deep, tokens)
    }

    fn discover(&self, path: &DavPath) -> LsFuture<'_, Vec<DavLock>> {
        self.current(SystemTime::now()).discover(path)
    }

    fn delete(&self, path: &DavPath) -> LsFuture<'_, Result<(), ()>> {
        self.current(SystemTime::now()).delete(path)
    }
}

/// In place of a lock that is not there: `dav-server` asks for the one that is in the way.
fn no_lock(path: DavPath, token: String) -> DavLock {
    let (principal, owner, timeout_at, timeout) = (None, None, None, None);
    DavLock { token, path: Box::new(path), principal, owner, timeout_at, timeout, shared: false, deep: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(locks: &Locks, path: &DavPath, timeout: Option<Duration>) -> Option<DavLock> {
        locks.lock(path, None, None, timeout, false, false).now_or_never().unwrap().ok()
    }

    #[test]
    fn lock_expires_and_refresh_extends_it() {
        let (locks, path) = (Locks::new(), DavPath::new("/a").unwrap());
        let lock = take(&locks, &path, Some(Duration::from_secs(10))).unwrap();
        assert!(take(&locks, &path, None).is_none(), "the lock is held");
        let later = SystemTime::now() + Duration::from_secs(11);
        locks.refresh(&path, &lock.token, Some(Duration::from_secs(100))).now_or_never().unwrap().unwrap();
        locks.current(later);
        assert!(take(&locks, &path, None).is_none(), "the refreshed lock outlives its first end");
        locks.current(later + Duration::from_secs(100));
        assert!(take(&locks, &path, None).is_some());
    }

    #[test]
    fn token_of_a_lock_that_is_gone_holds_nothing() {
        let (locks, path) = (Locks::new(), DavPath::new("/a").unwrap());
        let lock = take(&locks, &path, None).unwrap();
        let holds =
            |token: &str| locks.check(&path, None, true, false, &[token.into()]).now_or_never().unwrap().is_ok();
        assert!(holds(&lock.token) && !holds("urn:uuid:guess"));
        locks.unlock(&path, &lock.token).now_or_never().unwrap().unwrap();
        assert!(!holds(&lock.token));
    }

    #[test]
    fn token_names_its_holder() {
        let (locks, path) = (Locks::new(), DavPath::new("/a").unwrap());
        let lock = locks.lock(&path, Some("ann"), None, None, false, false).now_or_never().unwrap().unwrap();
        assert!(locks.is_of_another(&lock.token, "bob") && locks.is_of_another(&lock.token, ""));
        assert!(!locks.is_of_another(&lock.token, "ann") && !locks.is_of_another("urn:uuid:guess", "bob"));
    }

    #[test]
    fn lock_without_timeout_expires() {
        let (locks, path) = (Locks::new(), DavPath::new("/a").unwrap());
        assert_eq!(take(&locks, &path, None).unwrap().timeout, Some(MAX_LOCK_TIMEOUT));
    }
}
