//! Hedged requests at the end: ranges of a large file, and small files (Dean and Barroso, "The tail at scale", 2013).
//!
//! When everything has been requested, connections run out of work one by one. A connection that has lost many packets then
//! repairs them alone, perhaps a few per round trip or after a retransmission timeout (at least 200 ms with Linux), and
//! everything waits for it while the link is idle. So what is still missing is requested a second time, on connections that
//! have nothing else to do, and the first answer wins.
//!
//! A server that computes its answers leaves the link idle too, again and again. So a pause only counts if it is longer than
//! those that ended by themselves.

use std::{convert::Infallible, time::Duration};

use tokio::{
    sync::{Semaphore, watch},
    time::{MissedTickBehavior, interval},
};

/// A round trip counts as idle if it brought less than 1/`IDLE` of the best one.
const IDLE: u64 = 8;
/// The link has stalled after this many idle round trips in a row, or after one more than in the longest pause so far,
/// up to a limit.
const PATIENCE: u32 = 2;
const MOST_PATIENCE: u32 = 16;
/// Shortest sampling interval: a server may need as long to read a file.
const SHORTEST: Duration = Duration::from_millis(10);

/// Detects stalls, and repeats requests during one.
pub(super) struct Hedge {
    stalled: watch::Sender<bool>,
    /// Limits the repeated requests in flight.
    slots: Semaphore,
}

/// Received bytes per round trip.
#[derive(Debug, Default)]
struct RoundTrips {
    best: u64,
    idle: u32,
    /// The longest pause that ended by itself, in round trips.
    longest_pause: u32,
}

impl Hedge {
    pub(super) fn new(slots: usize) -> Self {
        Self { stalled: watch::Sender::new(false), slots: Semaphore::new(slots) }
    }

    /// Samples the number of received bytes once per round trip, and detects stalls.
    pub(super) async fn monitor(
        &self,
        round_trip: Duration,
        moved: impl Fn() -> u64,
        all_asked: impl Fn() -> bool,
    ) -> Infallible {
        let mut clock = interval(round_trip.max(SHORTEST));
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut trips, mut before) = (RoundTrips::default(), moved());
        loop {
            clock.tick().await;
            let now = moved();
            self.stalled.send_replace(trips.is_stalled(now - before, all_asked()));
            before = now;
        }
    }

    /// Runs `first`; during a stall also `second`. The first result wins, but an error of `second` is ignored.
    pub(super) async fn race<T, E, S: Future<Output = Result<T, E>>>(
        &self,
        first: impl Future<Output = Result<T, E>>,
        second: impl FnOnce() -> S,
    ) -> Result<T, E> {
        let second = async {
            let mut stalled = self.stalled.subscribe();
            loop {
                stalled.wait_for(|late| *late).await.ok()?;
                let _slot = self.slots.acquire().await.ok()?;
                // The stall may have ended while this request waited for a slot.
                if *stalled.borrow() {
                    // Boxed, since it is rare, and there are very many of these futures.
                    return Box::pin(second()).await.ok();
                }
            }
        };
        tokio::select! {
            biased;
            came = first => came,
            Some(came) = second => Ok(came),
        }
    }
}

impl RoundTrips {
    /// Adds a round trip that brought `moved` bytes; returns whether the link has stalled.
    fn is_stalled(&mut self, moved: u64, all_asked: bool) -> bool {
        self.best = self.best.max(moved);
        if all_asked && moved < self.best / IDLE {
            self.idle += 1;
        } else {
            self.longest_pause = self.longest_pause.max(std::mem::take(&mut self.idle));
        }
        self.idle >= PATIENCE.max(self.longest_pause + 1).min(MOST_PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[test]
    fn link_is_idle_if_little_arrives_despite_requests() {
        let mut trips = RoundTrips::default();
        for (moved, all_asked, late) in [
            (0, true, false),
            (0, true, false),
            (14_600, true, false),
            (800_000, false, false),
            (0, false, false),
            (90_000, false, false),
            (90_000, true, false),
            (101_000, true, false),
            (90_000, true, false),
            (1_000, true, true),
            (0, true, true),
            (400_000, true, false),
            // Three times it was idle without need for more than patience.
            (0, true, false),
            (0, true, false),
            (0, true, false),
            (0, true, true),
            (400_000, true, false),
        ] {
            assert_eq!(trips.is_stalled(moved, all_asked), late, "{moved}");
        }
        trips.longest_pause = 1_000;
        assert_eq!((0..100).take_while(|_| !trips.is_stalled(0, true)).count() as u32, MOST_PATIENCE - 1);
    }

    #[tokio::test(start_paused = true)]
    async fn hedged_request_starts_when_late_and_the_first_response_wins() {
        let (late, rtt) = (Hedge::new(1), Duration::from_millis(100));
        let soon = |answer: Result<u8, ()>| async move {
            tokio::time::sleep(rtt).await;
            answer
        };
        // Nothing is late yet.
        assert_eq!(late.race(soon(Ok(1)), || ready(Ok(2))).await, Ok(1));
        // A megabyte comes in the first round trip, and nothing after it.
        let start = tokio::time::Instant::now();
        let look = late.monitor(rtt, || if start.elapsed() > rtt / 2 { 1_000_000 } else { 0 }, || true);
        let parts = async {
            let stuck = || late.race(pending(), || soon(Ok(2)));
            assert_eq!(tokio::join!(stuck(), stuck()), (Ok(2), Ok(2)));
            assert_eq!(late.race(soon(Ok(1)), || ready(Err(()))).await, Ok(1), "a second that fails is none");
            assert_eq!(late.race(soon(Err(())), pending).await, Err(()));
        };
        tokio::select! {
            never = look => match never {},
            () = parts => {}
        }
    }
}
