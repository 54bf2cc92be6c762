//! The state of a connection: which requests are in flight, and which of them wait for the client.
//!
//! Three parts use it: the idle timeout, the check that clients read their responses, and `admission`, which evicts the
//! connection with the lowest rank.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

use crate::budget::Budget;

/// A rate is averaged over one to two windows.
const WINDOW: Duration = Duration::from_secs(10);

/// Age below which a request has no meaningful rate.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

/// A request with a head of more than this counts for several.
const HEAD: usize = 16 * 1024;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Mutex<State>,
    pub(crate) budget: Budget,
}

#[derive(Debug)]
struct State {
    requests: usize,
    /// Requests whose body the server is waiting for.
    receiving: usize,
    /// Requests whose response the client has yet to read.
    sending: usize,
    /// Start of the current busy or idle period.
    since: Instant,
    /// Whether there has been a request.
    asked: bool,
    recent: RateMeter,
}

/// Order of eviction: the lowest rank first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvictionRank {
    /// No request in flight since then.
    Idle(Instant),
    /// Waiting for the client, which transfers this many bytes per second.
    Slow(u64, Instant),
    /// Waiting for the client, for too short a time to know its rate.
    Young(Instant),
    /// The server is working on a request.
    Working,
}

impl PartialOrd for EvictionRank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EvictionRank {
    /// Among equals, the oldest ranks lowest.
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |eviction_rank: &Self| match *eviction_rank {
            EvictionRank::Idle(since) => (0, 0, Some(since)),
            EvictionRank::Slow(rate, since) => (1, rate, Some(since)),
            EvictionRank::Young(since) => (2, 0, Some(since)),
            EvictionRank::Working => (3, 0, None),
        };
        key(self).cmp(&key(other))
    }
}

impl Activity {
    /// Of a new connection.
    pub(crate) fn new(budget: Budget) -> Arc<Self> {
        let since = Instant::now();
        let recent = RateMeter { began: since, now: 0, before: 0 };
        let state = State { requests: 0, receiving: 0, sending: 0, since, asked: false, recent };
        Arc::new(Activity { state: Mutex::new(state), budget })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The start of the idle period, and whether there has been a request; `None` while a request is in flight.
    pub(crate) fn idle(&self) -> Option<(Instant, bool)> {
        let state = self.state();
        (state.requests == 0).then_some((state.since, state.asked))
    }

    /// Whether the client has a response to read.
    pub(crate) fn is_sending(&self) -> bool {
        self.state().sending > 0
    }

    /// The client has sent or received `bytes`.
    pub(crate) fn moved(&self, bytes: usize) {
        self.state().recent.add(bytes as u64, Instant::now());
    }

    /// The connection's rank for eviction.
    pub(crate) fn eviction_rank(&self) -> EvictionRank {
        let (mut state, now) = (self.state(), Instant::now());
        let since = state.since;
        match (state.requests, state.receiving + state.sending) {
            (0, _) => EvictionRank::Idle(since),
            (requests, waiting) if waiting < requests => EvictionRank::Working,
            _ if now - since < GRACE_PERIOD => EvictionRank::Young(since),
            _ => EvictionRank::Slow(state.recent.rate(since, now), since),
        }
    }
}

/// Bytes transferred in the current and the previous window.
#[derive(Debug)]
struct RateMeter {
    began: Instant,
    now: u64,
    before: u64,
}

impl RateMeter {
    fn roll(&mut self, now: Instant) {
        if now - self.began >= 2 * WINDOW {
            *self = RateMeter { began: now, now: 0, before: 0 };
        } else if now - self.began >= WINDOW {
            *self = RateMeter { began: self.began + WINDOW, now: 0, before: self.now };
        }
    }

    fn add(&mut self, bytes: u64, now: Instant) {
        self.roll(now);
        self.now += bytes;
    }

    /// Bytes per second of a connection that has been busy since `since`.
    fn rate(&mut self, since: Instant, now: Instant) -> u64 {
        self.roll(now);
        let seconds = (now - since).min(now - self.began + WINDOW).as_secs().max(1);
        (self.before + self.now) / seconds
    }
}

/// A request in flight on a connection, until dropped, and how many it counts for.
pub(crate) struct RequestGuard(pub(crate) Arc<Activity>, usize);

impl RequestGuard {
    /// A request with this head.
    pub(crate) fn of(activity: &Arc<Activity>, headers: &HeaderMap) -> Self {
        let head: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        Self::weighing(activity, 1 + head / HEAD)
    }

    /// A request with a short head.
    pub(crate) fn new(activity: &Arc<Activity>) -> Self {
        Self::weighing(activity, 1)
    }

    fn weighing(activity: &Arc<Activity>, weight: usize) -> Self {
        activity.budget.begin(weight);
        let mut state = activity.state();
        if state.requests == 0 {
            state.since = Instant::now();
        }
        state.requests += 1;
        state.asked = true;
        drop(state);
        RequestGuard(Arc::clone(activity), weight)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.budget.end(self.1);
        let mut state = self.0.state();
        state.requests -= 1;
        if state.requests == 0 {
            state.since = Instant::now();
        }
    }
}

/// A request that waits for the client, until dropped.
pub(crate) struct WaitingForClient {
    activity: Arc<Activity>,
    counter: fn(&mut State) -> &mut usize,
}

impl WaitingForClient {
    /// Waits for more of the request body.
    pub(crate) fn for_body(activity: &Arc<Activity>) -> Self {
        Self::new(activity, |state| &mut state.receiving)
    }

    /// Waits for the client to read the response.
    pub(crate) fn for_reader(activity: &Arc<Activity>) -> Self {
        Self::new(activity, |state| &mut state.sending)
    }

    fn new(activity: &Arc<Activity>, counter: fn(&mut State) -> &mut usize) -> Self {
        *counter(&mut activity.state()) += 1;
        WaitingForClient { activity: Arc::clone(activity), counter }
    }
}

impl Drop for WaitingForClient {
    fn drop(&mut self) {
        *(self.counter)(&mut self.activity.state()) -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect() -> Arc<Activity> {
        Activity::new(Budget::of_tests())
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_rank_lowest_and_working_ones_highest() {
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        let (old, slow, fast, working) = (connect(), connect(), connect(), connect());
        pass(1).await;
        let idle = connect();
        let (slow_busy, _fast_busy, _working_busy) =
            (RequestGuard::new(&slow), RequestGuard::new(&fast), RequestGuard::new(&working));
        let _waits = (WaitingForClient::for_body(&slow), WaitingForClient::for_reader(&fast));
        for _ in 0..30 {
            pass(1).await;
            slow.moved(1);
            fast.moved(10_000);
        }
        let young = connect();
        let (_busy, _waits) = (RequestGuard::new(&young), WaitingForClient::for_body(&young));
        let order = [&old, &idle, &slow, &fast, &young, &working].map(|activity| activity.eviction_rank());
        assert!(order.is_sorted(), "{order:?}");
        assert!(matches!(fast.eviction_rank(), EvictionRank::Slow(9_000..=11_000, _)), "{:?}", fast.eviction_rank());
        drop(slow_busy);
        assert!(matches!(slow.eviction_rank(), EvictionRank::Idle(_)));
        assert!(!slow.is_sending() && fast.is_sending());
    }

    #[tokio::test(start_paused = true)]
    async fn rate_forgets_old_windows() {
        let activity = connect();
        let (_busy, _waits) = (RequestGuard::new(&activity), WaitingForClient::for_reader(&activity));
        activity.moved(1 << 30);
        tokio::time::advance(2 * WINDOW).await;
        assert!(matches!(activity.eviction_rank(), EvictionRank::Slow(0, _)));
    }
}
