//! What is late in the end: parts of a large file, and small files.
//!
//! When the last of them has been asked for, connections run out of work one by one. Whichever has lost many packets
//! then mends them alone, perhaps a few in each round trip or after a retransmission timer (200 ms at least with
//! Linux), and all wait for it though the link lies idle. What is missing by then is asked for once more: it goes to
//! connections that have nothing else to do, and whichever answer is there first is taken.
//!
//! A server that computes what it sends leaves the link idle too, again and again. So no pause counts that is not
//! longer than those which ended by themselves.

use std::{convert::Infallible, time::Duration};

use tokio::{
    sync::{Semaphore, watch},
    time::{MissedTickBehavior, interval},
};

/// A round trip that brought less than an eighth of what the best one did was an idle one.
const IDLE: u64 = 8;
/// After so many in a row something is late, or after one more than there were before, up to a bound.
const PATIENCE: u32 = 2;
const MOST_PATIENCE: u32 = 16;
/// What is shorter than this says nothing: a server takes as long to read a file.
const SHORTEST: Duration = Duration::from_millis(10);

/// Whether the rest is late.
pub(super) struct Hedge {
    told: watch::Sender<bool>,
    /// So much is asked for once more at a time.
    turns: Semaphore,
}

/// Round trips, one after another.
#[derive(Debug, Default)]
struct Trips {
    best: u64,
    idle: u32,
    /// The longest pause that ended by itself.
    usual: u32,
}

impl Hedge {
    pub(super) fn new(turns: usize) -> Self {
        Self { told: watch::Sender::new(false), turns: Semaphore::new(turns) }
    }

    /// Looks once in a round trip whether what is asked for still comes, by how much has moved so far, of whatever.
    pub(super) async fn look(
        &self,
        round_trip: Duration,
        moved: impl Fn() -> u64,
        all_asked: impl Fn() -> bool,
    ) -> Infallible {
        let mut clock = interval(round_trip.max(SHORTEST));
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut trips, mut before) = (Trips::default(), moved());
        loop {
            clock.tick().await;
            let now = moved();
            self.told.send_replace(trips.are_late(now - before, all_asked()));
            before = now;
        }
    }

    /// What comes of a first request, or of a second one, once it is late. A second that fails is as good as none.
    pub(super) async fn either<T, E, S: Future<Output = Result<T, E>>>(
        &self,
        first: impl Future<Output = Result<T, E>>,
        second: impl FnOnce() -> S,
    ) -> Result<T, E> {
        let second = async {
            let mut told = self.told.subscribe();
            loop {
                told.wait_for(|late| *late).await.ok()?;
                let _turn = self.turns.acquire().await.ok()?;
                // The link may have found its pace again while others had the turn.
                if *told.borrow() {
                    // In a box, since it is rare, and there are very many of these.
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

impl Trips {
    /// Another one is over, in which so much came: whether what is missing is late.
    fn are_late(&mut self, moved: u64, all_asked: bool) -> bool {
        self.best = self.best.max(moved);
        if all_asked && moved < self.best / IDLE {
            self.idle += 1;
        } else {
            self.usual = self.usual.max(std::mem::take(&mut self.idle));
        }
        self.idle >= PATIENCE.max(self.usual + 1).min(MOST_PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[test]
    fn a_link_is_idle_when_little_comes_of_what_was_asked_for() {
        let mut trips = Trips::default();
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
            assert_eq!(trips.are_late(moved, all_asked), late, "{moved}");
        }
        trips.usual = 1_000;
        assert_eq!((0..100).take_while(|_| !trips.are_late(0, true)).count() as u32, MOST_PATIENCE - 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_is_asked_for_when_it_is_late_and_whichever_is_first_is_taken() {
        let (late, rtt) = (Hedge::new(1), Duration::from_millis(100));
        let soon = |answer: Result<u8, ()>| async move {
            tokio::time::sleep(rtt).await;
            answer
        };
        // Nothing is late yet.
        assert_eq!(late.either(soon(Ok(1)), || ready(Ok(2))).await, Ok(1));
        // A megabyte comes in the first round trip, and nothing after it.
        let start = tokio::time::Instant::now();
        let look = late.look(rtt, || if start.elapsed() > rtt / 2 { 1_000_000 } else { 0 }, || true);
        let parts = async {
            let stuck = || late.either(pending(), || soon(Ok(2)));
            assert_eq!(tokio::join!(stuck(), stuck()), (Ok(2), Ok(2)));
            assert_eq!(late.either(soon(Ok(1)), || ready(Err(()))).await, Ok(1), "a second that fails is none");
            assert_eq!(late.either(soon(Err(())), pending).await, Err(()));
        };
        tokio::select! {
            never = look => match never {},
            () = parts => {}
        }
    }
}
