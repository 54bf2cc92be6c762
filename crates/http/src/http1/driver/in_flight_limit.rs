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
    /// The start of the count, its duration once looked up, and the bytes so far.
    counting: Option<(Instant, Option<Duration>, u64)>,
    /// The recent maximum per round trip, and the current target.
    max_per_rtt: u64,
    target: u64,
}

impl InFlightLimit {
    /// Counts bytes.
    pub(super) fn count(&mut self, bytes: u64, io: &dyn Io) {
        let round_trip = || io.tcp_info().map(|tcp| tcp.min_rtt.unwrap_or(tcp.rtt));
        self.count_at(bytes, Instant::now(), round_trip);
    }

    /// Counts bytes. Looks up the RTT only with the second bytes of a count: most exchanges have no more than one piece.
    fn count_at(&mut self, bytes: u64, now: Instant, round_trip: impl FnOnce() -> Option<Duration>) {
        let known = |(since, lasts, so_far): (Instant, Option<Duration>, u64)| {
            Some((since, lasts.or_else(round_trip).filter(|lasts| !lasts.is_zero())?, so_far))
        };
        if let Some((since, lasts, so_far)) = self.counting.and_then(known) {
            let so_far = so_far + bytes;
            if now - since < lasts {
                self.counting = Some((since, Some(lasts), so_far));
                return;
            }
            let per_rtt = (so_far as f64 * lasts.div_duration_f64(now - since)) as u64;
            // More than twice as much has waited behind a lost packet.
            let per_rtt = if self.max_per_rtt == 0 { per_rtt } else { per_rtt.min(2 * self.max_per_rtt.max(BURST)) };
            let grows = per_rtt * 4 >= self.max_per_rtt * 5;
            // Cross traffic may have grown, or a window shrunk.
            self.max_per_rtt = per_rtt.max(self.max_per_rtt - self.max_per_rtt / 32);
            self.target = self.max_per_rtt * if grows { 4 } else { 2 };
        }
        self.counting = Some((now, None, 0));
    }

    /// The connection becomes idle.
    pub(super) fn pause(&mut self) {
        self.counting = None;
    }

    /// The target of bytes in flight; 0 if unknown.
    pub(super) fn target(&self) -> u64 {
        self.target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(200);

    #[test]
    fn target_is_four_times_the_rate_while_it_grows_and_twice_otherwise() {
        let start = Instant::now();
        let mut limit = InFlightLimit::default();
        let moves = |limit: &mut InFlightLimit, bytes, trips: f64| {
            limit.count_at(bytes, start + ROUND_TRIP.mul_f64(trips), || Some(ROUND_TRIP));
            limit.target()
        };
        moves(&mut limit, 900_000, 1.0);
        assert_eq!(moves(&mut limit, 50_000, 1.1), 0, "not in a tenth of an RTT");
        assert_eq!(moves(&mut limit, 50_000, 2.0), 400_000, "the first bytes start the count and are not in it");
        moves(&mut limit, 100_000, 2.5);
        assert_eq!(moves(&mut limit, 100_000, 3.25), 640_000, "200 kB in 1.25 RTT");

        assert_eq!(
            moves(&mut limit, 9_000_000, 4.25),
            1_280_000,
            "a burst behind a lost packet counts only twice the maximum"
        );
        assert_eq!(moves(&mut limit, 320_000, 5.25), 640_000, "no growth");
        assert_eq!(moves(&mut limit, 80_000, 6.25), 620_000, "the maximum decays");

        limit.pause();
        assert_eq!(moves(&mut limit, 50_000, 90.0), 620_000, "a pause is not counted");
        assert_eq!(moves(&mut limit, 400_000, 91.0), 1_600_000, "the window grows again");
    }

    #[test]
    fn target_is_unknown_without_an_rtt() {
        let mut limit = InFlightLimit::default();
        for _ in 0..3 {
            limit.count_at(1000, Instant::now(), || None);
        }
        assert_eq!(limit.target(), 0);
    }
}
