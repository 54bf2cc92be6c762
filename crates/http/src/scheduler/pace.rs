//! How much a connection brings in a round trip, as parts of something large show it.
//!
//! A request for the next part should be there when the last one has been sent, and that takes a round trip: in it a wide
//! window lets megabytes through, and a narrow one a hundred kilobytes. Each connection is asked for what it will bring
//! until then, and no more, since what is asked for on one cannot be brought by another that is quicker.

use std::time::{Duration, Instant};

/// The pace of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// When what is counted began to come, and how much of it has come.
    since: Option<Instant>,
    came: u64,
    per_round_trip: u64,
}

impl Pace {
    /// An answer begins to come.
    pub(super) fn begins(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// So many bytes of an answer have come, on a way with this round trip. It is counted over a whole one at least: what
    /// was held up behind a lost packet comes all at once.
    pub(super) fn ends(&mut self, bytes: u64, round_trip: Duration, now: Instant) {
        let Some(since) = self.since else { return };
        self.came += bytes;
        let took = now.saturating_duration_since(since);
        if took >= round_trip && !took.is_zero() {
            let mean = (self.came as f64 * round_trip.div_duration_f64(took)) as u64;
            // A window that opens doubles with each round trip, so the last one has brought half of all.
            let last = if self.per_round_trip == 0 { self.came / 2 } else { 0 };
            self.per_round_trip = mean.max(last);
            (self.since, self.came) = (Some(now), 0);
        }
    }

    /// Nothing more comes.
    pub(super) fn rests(&mut self) {
        (self.since, self.came) = (None, 0);
    }

    /// How many bytes a round trip brings; none if that is not known.
    pub(super) fn per_round_trip(&self) -> u64 {
        self.per_round_trip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(200);

    #[test]
    fn it_is_measured_over_whole_round_trips_while_something_comes() {
        let start = Instant::now();
        let at = |trips: f64| start + ROUND_TRIP.mul_f64(trips);
        let mut pace = Pace::default();
        pace.ends(1_000_000, ROUND_TRIP, at(1.0));
        assert_eq!(pace.per_round_trip(), 0, "nobody saw it begin");

        pace.begins(at(1.0));
        pace.ends(300_000, ROUND_TRIP, at(1.5));
        assert_eq!(pace.per_round_trip(), 0, "half a round trip tells nothing");
        pace.ends(300_000, ROUND_TRIP, at(7.0));
        assert_eq!(pace.per_round_trip(), 300_000, "the window has opened all the while");

        // Packets that waited for a lost one come with it.
        pace.ends(100_000, ROUND_TRIP, at(8.9));
        pace.ends(400_000, ROUND_TRIP, at(8.9));
        pace.ends(400_000, ROUND_TRIP, at(9.0));
        assert_eq!(pace.per_round_trip(), 52_631);
        pace.ends(100_000, ROUND_TRIP, at(10.0));
        assert_eq!(pace.per_round_trip(), 900_000 * 10 / 11);

        pace.rests();
        pace.begins(at(90.0));
        pace.ends(500_000, ROUND_TRIP, at(91.0));
        assert_eq!(pace.per_round_trip(), 500_000, "the pause does not count");
    }
}
