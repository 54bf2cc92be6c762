//! LOCK requests without an answer, which the server may carry out later: it then locks a file for minutes, and creates an
//! empty one if there is none (RFC 4918 §7.3). So whoever has sent one looks for its lock from time to time.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use super::lock;
use crate::RemotePath;

/// How long a LOCK without an answer may be in flight: Linux gives up a silent connection after about 15 minutes.
pub const LOCK_IN_FLIGHT: Duration = Duration::from_mins(15);
/// How often to look for the lock of a LOCK without an answer.
pub const LOCK_LOOKUP: Duration = Duration::from_secs(30);

/// The requests, by path.
#[derive(Debug, Default)]
pub(super) struct LateLocks(Mutex<BTreeMap<RemotePath, Late>>);

#[derive(Debug, Clone, Copy)]
struct Late {
    /// When it is not to be expected any more.
    until: Instant,
    /// When to look for its lock.
    look: Instant,
    /// Whether it creates the file that it locks.
    hollow: bool,
}

impl LateLocks {
    /// A request has ended without an answer.
    pub(super) fn sent(&self, path: &RemotePath, hollow: bool, now: Instant) {
        lock(&self.0).insert(path.clone(), Late { until: now + LOCK_IN_FLIGHT, look: now, hollow });
    }

    /// Whether one may still be carried out, and then creates the file.
    pub(super) fn expected(&self, path: &RemotePath, now: Instant) -> Option<bool> {
        let mut all = lock(&self.0);
        all.retain(|_, late| now < late.until);
        all.get(path).map(|late| late.hollow)
    }

    /// The file is there, or is gone.
    pub(super) fn creates(&self, path: &RemotePath, hollow: bool) -> bool {
        let mut all = lock(&self.0);
        all.get_mut(path).map(|late| late.hollow = hollow).is_some()
    }

    /// Whether it is time to look, if one is expected.
    pub(super) fn is_time_to_look(&self, path: &RemotePath, now: Instant) -> bool {
        match lock(&self.0).get_mut(path) {
            Some(late) if now < late.look => false,
            Some(late) => {
                late.look = now + LOCK_LOOKUP;
                true
            }
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_looked_for_until_its_request_is_too_late() {
        let (late, path, sent) = (LateLocks::default(), RemotePath::from_url_path("/a").unwrap(), Instant::now());
        assert!(late.is_time_to_look(&path, sent) && !late.creates(&path, true), "none is expected");
        late.sent(&path, false, sent);
        assert!(late.is_time_to_look(&path, sent) && !late.is_time_to_look(&path, sent + LOCK_LOOKUP / 2));
        assert!(late.is_time_to_look(&path, sent + LOCK_LOOKUP));
        assert_eq!(late.expected(&path, sent + LOCK_IN_FLIGHT / 2), Some(false));
        assert!(late.creates(&path, true));
        assert_eq!(late.expected(&path, sent + LOCK_IN_FLIGHT / 2), Some(true));
        assert_eq!(late.expected(&path, sent + LOCK_IN_FLIGHT), None);
    }
}
