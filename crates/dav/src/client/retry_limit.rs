//! How long a server that fails is tried again.
//!
//! Each request has a few attempts of its own. A command that only looks something up sends several requests one after
//! another (does the server want a password, which files are there), and with a server that is down their pauses add up. So
//! all requests of a command share this limit: it counts from the first failure, and a success ends it. The first pause is
//! always granted, since the server may have named it (`Retry-After`).

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::Failure;

/// Hears of each pause before a request is sent again.
type Hear = Box<dyn Fn(&Failure, Duration) + Send + Sync>;

/// A limit on the retries of several requests to one server.
pub struct RetryLimit {
    limit: Duration,
    hear: Hear,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The first failure since the last success.
    since: Option<Instant>,
    /// The end of the last pause that was told.
    told: Option<Instant>,
}

impl RetryLimit {
    /// No pause begins later than this after the first failure. `hear` is told of each pause; of those at the same time,
    /// once.
    pub fn new(limit: Duration, hear: impl Fn(&Failure, Duration) + Send + Sync + 'static) -> Self {
        Self { limit, hear: Box::new(hear), state: Mutex::default() }
    }

    /// Whether a request that has failed may pause for so long and be sent again.
    pub(crate) fn allows(&self, failure: &Failure, pause: Duration) -> bool {
        let now = Instant::now();
        let mut state = self.state();
        if now.duration_since(*state.since.get_or_insert(now)) > self.limit {
            return false;
        }
        let is_news = state.told.is_none_or(|told| told <= now);
        if is_news {
            state.told = Some(now + pause);
        }
        drop(state);
        if is_news {
            (self.hear)(failure, pause);
        }
        true
    }

    /// The server works.
    pub(crate) fn clear(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RetryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLimit").field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use http::{Method, StatusCode};

    use super::*;
    use crate::RemotePath;

    #[tokio::test(start_paused = true)]
    async fn pauses_end_after_the_limit_and_a_success_begins_anew() {
        let failure = Failure::of_part(&Method::GET, &RemotePath::root(), StatusCode::BAD_GATEWAY, Vec::new());
        let told = Arc::new(AtomicUsize::new(0));
        let heard = told.clone();
        let limit = RetryLimit::new(Duration::from_secs(5), move |failure, _| {
            assert_eq!(failure.summary(), "the server failed (502)");
            heard.fetch_add(1, Ordering::Relaxed);
        });
        for _ in 0..2 {
            let mut allowed = Vec::new();
            for pause in [1, 2, 4, 8].map(Duration::from_secs) {
                // Requests in flight together fail together.
                allowed.push((limit.allows(&failure, pause), limit.allows(&failure, pause)));
                tokio::time::sleep(pause).await;
            }
            assert_eq!(allowed, [(true, true), (true, true), (true, true), (false, false)]);
            limit.clear();
        }
        assert_eq!(told.load(Ordering::Relaxed), 6, "each pause is told once");
        let long = Duration::from_mins(1);
        assert!(limit.allows(&failure, long), "the first pause is the server's");
        tokio::time::sleep(long).await;
        assert!(!limit.allows(&failure, long));
    }
}
