//! What a connection is doing, and for whom it waits.
//!
//! Three things need to know: the bound on idle connections, the bound on clients that do not take their answers, and
//! `admission`, which closes the connection that matters least when there are too many.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Over which time a rate is taken: this long, or up to twice as long.
const WINDOW: Duration = Duration::from_secs(10);

/// A request this young has no rate yet.
const YOUNG: Duration = Duration::from_secs(2);

/// What one connection is doing.
#[derive(Debug)]
pub(crate) struct Activity(Mutex<State>);

#[derive(Debug)]
struct State {
    requests: usize,
    /// Requests whose body is awaited from the client.
    receiving: usize,
    /// Requests whose answer the client has yet to take.
    sending: usize,
    /// Since when it has requests, or has none.
    since: Instant,
    /// Whether there ever was a request.
    asked: bool,
    recent: Recent,
}

/// How much a connection would be missed; the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worth {
    /// No request since then.
    Idle(Instant),
    /// Waits for the client, which moves so many bytes a second.
    Slow(u64, Instant),
    /// Waits for the client, and is too young to tell how fast that is.
    Young(Instant),
    /// The server works for it.
    Working,
}

impl PartialOrd for Worth {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Worth {
    /// Of two alike, the one that has lasted longer is worth less.
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |worth: &Self| match *worth {
            Worth::Idle(since) => (0, 0, Some(since)),
            Worth::Slow(rate, since) => (1, rate, Some(since)),
            Worth::Young(since) => (2, 0, Some(since)),
            Worth::Working => (3, 0, None),
        };
        key(self).cmp(&key(other))
    }
}

impl Activity {
    /// Of a connection that begins now.
    pub(crate) fn new() -> Arc<Self> {
        let since = Instant::now();
        let recent = Recent { began: since, now: 0, before: 0 };
        Arc::new(Activity(Mutex::new(State { requests: 0, receiving: 0, sending: 0, since, asked: false, recent })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when there is no request, and whether there ever was one; `None` while there is one.
    pub(crate) fn idle(&self) -> Option<(Instant, bool)> {
        let state = self.state();
        (state.requests == 0).then_some((state.since, state.asked))
    }

    /// Whether the client has an answer to take.
    pub(crate) fn is_sending(&self) -> bool {
        self.state().sending > 0
    }

    /// The client has moved so many bytes, one way or the other.
    pub(crate) fn moved(&self, bytes: usize) {
        self.state().recent.add(bytes as u64, Instant::now());
    }

    /// How much the connection would be missed.
    pub(crate) fn worth(&self) -> Worth {
        let (mut state, now) = (self.state(), Instant::now());
        let since = state.since;
        match (state.requests, state.receiving + state.sending) {
            (0, _) => Worth::Idle(since),
            (requests, waiting) if waiting < requests => Worth::Working,
            _ if now - since < YOUNG => Worth::Young(since),
            _ => Worth::Slow(state.recent.rate(since, now), since),
        }
    }
}

/// Bytes of the last moments.
#[derive(Debug)]
struct Recent {
    began: Instant,
    now: u64,
    before: u64,
}

impl Recent {
    fn roll(&mut self, now: Instant) {
        if now - self.began >= 2 * WINDOW {
            *self = Recent { began: now, now: 0, before: 0 };
        } else if now - self.began >= WINDOW {
            *self = Recent { began: self.began + WINDOW, now: 0, before: self.now };
        }
    }

    fn add(&mut self, bytes: u64, now: Instant) {
        self.roll(now);
        self.now += bytes;
    }

    /// Bytes a second, of a connection that is busy since then.
    fn rate(&mut self, since: Instant, now: Instant) -> u64 {
        self.roll(now);
        let seconds = (now - since).min(now - self.began + WINDOW).as_secs().max(1);
        (self.before + self.now) / seconds
    }
}

/// A request in flight on a connection, until dropped.
pub(crate) struct Busy(pub(crate) Arc<Activity>);

impl Busy {
    pub(crate) fn new(activity: &Arc<Activity>) -> Self {
        let mut state = activity.state();
        if state.requests == 0 {
            state.since = Instant::now();
        }
        state.requests += 1;
        state.asked = true;
        drop(state);
        Busy(Arc::clone(activity))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.requests -= 1;
        if state.requests == 0 {
            state.since = Instant::now();
        }
    }
}

/// A request that waits for the client, until dropped.
pub(crate) struct Waiting {
    activity: Arc<Activity>,
    counter: fn(&mut State) -> &mut usize,
}

impl Waiting {
    /// For more of its body.
    pub(crate) fn for_body(activity: &Arc<Activity>) -> Self {
        Self::new(activity, |state| &mut state.receiving)
    }

    /// To take what was sent.
    pub(crate) fn for_reader(activity: &Arc<Activity>) -> Self {
        Self::new(activity, |state| &mut state.sending)
    }

    fn new(activity: &Arc<Activity>, counter: fn(&mut State) -> &mut usize) -> Self {
        *counter(&mut activity.state()) += 1;
        Waiting { activity: Arc::clone(activity), counter }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        *(self.counter)(&mut self.activity.state()) -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_worth_least_and_working_ones_most() {
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        let (old, slow, fast, working) = (Activity::new(), Activity::new(), Activity::new(), Activity::new());
        pass(1).await;
        let idle = Activity::new();
        let (slow_busy, _fast_busy, _working_busy) = (Busy::new(&slow), Busy::new(&fast), Busy::new(&working));
        let _waits = (Waiting::for_body(&slow), Waiting::for_reader(&fast));
        for _ in 0..30 {
            pass(1).await;
            slow.moved(1);
            fast.moved(10_000);
        }
        let young = Activity::new();
        let (_busy, _waits) = (Busy::new(&young), Waiting::for_body(&young));
        let order = [&old, &idle, &slow, &fast, &young, &working].map(|activity| activity.worth());
        assert!(order.is_sorted(), "{order:?}");
        assert!(matches!(fast.worth(), Worth::Slow(9_000..=11_000, _)), "{:?}", fast.worth());
        drop(slow_busy);
        assert!(matches!(slow.worth(), Worth::Idle(_)));
        assert!(!slow.is_sending() && fast.is_sending());
    }

    #[tokio::test(start_paused = true)]
    async fn rate_forgets_what_was_long_ago() {
        let activity = Activity::new();
        let (_busy, _waits) = (Busy::new(&activity), Waiting::for_reader(&activity));
        activity.moved(1 << 30);
        tokio::time::advance(2 * WINDOW).await;
        assert!(matches!(activity.worth(), Worth::Slow(0, _)));
    }
}
