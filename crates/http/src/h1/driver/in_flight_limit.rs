//! How many bytes to have in flight on a connection.
//!
//! A connection should always have more to do, and giving it more takes a round trip. In that time a wide window moves
//! megabytes, a narrow one a hundred kilobytes. The scheduler gives each connection what it can do until then. More
//! would keep requests from faster connections, and let the sender overrun the queue at the bottleneck while its window
//! opens.
//!
//! So this counts the bytes that move in a minimum RTT, which is without a queue. While the count grows by a quarter or
//! more, the target is four times the count: an opening window doubles (RFC 5681 §3.1), and the next count is a round
//! trip away. When it stops growing, the pipe is full, as BBR concludes too (draft-ietf-ccwg-bbr, "full pipe"), and the
//! target is twice the recent maximum: one part in flight, and as much behind it as a reserve.

use std::time::Duration;

use tokio::time::Instant;
use transport::Io;

/// The burst that may come at once without queueing.
const BURST: u64 = 64 * 1024;

/// The target of bytes in flight of one connection, in one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InFlightLimit {
    /// The start of the count, its duration, and the bytes so far.
    counted: Option<(Instant, Duration, u64)>,
    /// The recent maximum per round trip, and the current target.
    best: u64,
    ahead: u64,
}

impl InFlightLimit {
    /// Counts bytes.
    pub(super) fn moves(&mut self, bytes: u64, io: &dyn Io) {
        let round_trip = || io.tcp_info().map(|tcp| tcp.min_rtt.unwrap_or(tcp.rtt));
        self.counts(bytes, Instant::now(), round_trip);
    }

    /// Counts bytes; looks up the RTT when a count begins.
    fn counts(&mut self, bytes: u64, now: Instant, round_trip: impl FnOnce() -> Option<Duration>) {
        if let Some((since, lasts, so_far)) = self.counted {
            let so_far = so_far + bytes;
            if now - since < lasts {
                self.counted = Some((since, lasts, so_far));
                return;
            }
            let seen = (so_far as f64 * lasts.div_duration_f64(now - since)) as u64;
            // More than twice as much has waited behind a lost packet.
            let seen = if self.best == 0 { seen } else { seen.min(2 * self.best.max(BURST)) };
            let grows = seen * 4 >= self.best * 5;
            // Cross traffic may have grown, or a window shrunk.
            self.best = seen.max(self.best - self.best / 32);
            self.ahead = self.best * if grows { 4 } else { 2 };
        }
        let round_trip = round_trip().filter(|lasts| !lasts.is_zero());
        self.counted = round_trip.map(|lasts| (now, lasts, 0));
    }

    /// The connection becomes idle.
    pub(super) fn rests(&mut self) {
        self.counted = None;
    }

    /// The target of bytes in flight; 0 if unknown.
    pub(super) fn ahead(&self) -> u64 {
        self.ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(200);

    #[test]
    fn more_while_it_grows_and_less_when_it_does_not() {
        let start = Instant::now();
        let mut pace = InFlightLimit::default();
        let moves = |pace: &mut InFlightLimit, bytes, trips: f64| {
            pace.counts(bytes, start + ROUND_TRIP.mul_f64(trips), || Some(ROUND_TRIP));
            pace.ahead()
        };
        moves(&mut pace, 900_000, 1.0);
        assert_eq!(moves(&mut pace, 50_000, 1.1), 0, "a tenth of a round trip tells nothing");
        assert_eq!(moves(&mut pace, 50_000, 2.0), 400_000, "what came first has moved before");
        moves(&mut pace, 100_000, 2.5);
        assert_eq!(moves(&mut pace, 100_000, 3.25), 640_000, "two hundred in a round trip and a quarter");

        assert_eq!(moves(&mut pace, 9_000_000, 4.25), 1_280_000, "what comes at once has waited");
        assert_eq!(moves(&mut pace, 320_000, 5.25), 640_000, "it does not grow");
        assert_eq!(moves(&mut pace, 80_000, 6.25), 620_000, "the most is forgotten little by little");

        pace.rests();
        assert_eq!(moves(&mut pace, 50_000, 90.0), 620_000, "a pause does not count");
        assert_eq!(moves(&mut pace, 400_000, 91.0), 1_600_000, "it opens further");
    }

    #[test]
    fn without_a_round_trip_there_is_none() {
        let mut pace = InFlightLimit::default();
        for _ in 0..3 {
            pace.counts(1000, Instant::now(), || None);
        }
        assert_eq!(pace.ahead(), 0);
    }
}
