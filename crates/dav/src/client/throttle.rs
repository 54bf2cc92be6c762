//! Pauses all requests to a server that says it is busy.
//!
//! A server that answers 429 or 503 asks for less of everything, not of one request. If each request waited for itself, all
//! would come back at once and be refused again. So the first such answer pauses all requests to the server. When the pause
//! is over, a single request tests the server, and the first success releases the others.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep_until},
};

/// The first and the longest pause if the server names none; it doubles in between.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(16);

#[derive(Debug)]
pub(crate) struct Throttle {
    state: Mutex<State>,
    /// Held by the one request that tests whether the server is still busy.
    turn: Semaphore,
}

#[derive(Debug, Default)]
struct State {
    /// Nothing is sent until then; none if the server is not busy.
    closed: Option<Instant>,
    /// Number of pauses since the last success.
    times: u32,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { state: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl Throttle {
    /// Waits until a request may be sent. The request that tests the server holds the permit until it is answered.
    pub(crate) async fn wait(&self) -> Option<SemaphorePermit<'_>> {
        self.state().closed?;
        let turn = self.turn.acquire().await.ok();
        loop {
            let until = self.state().closed?;
            if until <= Instant::now() {
                return turn;
            }
            sleep_until(until).await;
        }
    }

    /// The server is busy, for `wait` if it said so.
    pub(crate) fn back_off(&self, wait: Option<Duration>) {
        let (mut state, now) = (self.state(), Instant::now());
        // Requests in flight together are refused together: that counts once.
        let known = state.closed.filter(|until| *until > now);
        let wait = match (wait, known) {
            (Some(wait), _) => wait,
            (None, Some(_)) => return,
            (None, None) => (FIRST_WAIT * 2_u32.pow(state.times.min(8))).min(LAST_WAIT),
        };
        state.times += u32::from(known.is_none());
        state.closed = known.max(Some(now + wait));
    }

    /// The server has accepted a request.
    pub(crate) fn clear(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_request_tests_the_server_and_its_success_releases_the_rest() {
        let (throttle, passed) = (Throttle::default(), AtomicUsize::new(0));
        for _ in 0..100 {
            assert!(throttle.wait().await.is_none());
        }
        (0..100).for_each(|_| throttle.back_off(None));
        let seer = async {
            let turn = throttle.wait().await;
            assert!(turn.is_some());
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(passed.load(Ordering::Relaxed), 0);
            throttle.clear();
        };
        let rest = futures_util::future::join_all((0..50).map(|_| async {
            throttle.wait().await;
            passed.fetch_add(1, Ordering::Relaxed);
        }));
        let begin = Instant::now();
        tokio::join!(seer, rest);
        assert_eq!(passed.load(Ordering::Relaxed), 50);
        assert!(begin.elapsed() < FIRST_WAIT * 2, "refused together is refused once");
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_grows_until_a_success_and_retry_after_is_kept() {
        let throttle = Throttle::default();
        let mut waits = Vec::new();
        for wait in [None, None, None, Some(Duration::from_secs(30))] {
            throttle.back_off(wait);
            let begin = Instant::now();
            drop(throttle.wait().await);
            waits.push(begin.elapsed().as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 30]);
        throttle.clear();
        throttle.back_off(None);
        let begin = Instant::now();
        drop(throttle.wait().await);
        assert_eq!(begin.elapsed().as_secs(), 1);
    }
}
