//! How much comes in a round trip.
//!
//! A connection should be asked for more while it brings what it was asked for, and that request takes a round trip: in it
//! a wide window lets megabytes through, and a narrow one a hundred kilobytes. The scheduler asks each for what it will
//! bring until then, and for no more, since what one was asked for no other can bring that is quicker.
//!
//! What waited for a lost packet comes all at once when that has been sent again. No window opens faster than to twice
//! its width in a round trip (RFC 5681 §3.1), so more than that is not believed.

use std::time::Duration;

use tokio::time::Instant;

/// The pace of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// When what is counted began to come, over what round trip, and how much of it has come.
    counted: Option<(Instant, Duration, u64)>,
    per_round_trip: u64,
}

impl Pace {
    /// So many bytes have come; `round_trip` is asked when a count begins.
    pub(super) fn comes(&mut self, bytes: usize, now: Instant, round_trip: impl FnOnce() -> Option<Duration>) {
        if let Some((since, lasts, so_far)) = self.counted
            && now - since < lasts
        {
            self.counted = Some((since, lasts, so_far + bytes as u64));
            return;
        }
        if let Some((since, lasts, so_far)) = self.counted {
            let seen = (so_far as f64 * lasts.div_duration_f64(now - since)) as u64;
            self.per_round_trip = if self.per_round_trip == 0 { seen } else { seen.min(2 * self.per_round_trip) };
        }
        let round_trip = round_trip().filter(|lasts| !lasts.is_zero());
        self.counted = round_trip.map(|lasts| (now, lasts, bytes as u64));
    }

    /// Nothing more is to come for now.
    pub(super) fn rests(&mut self) {
        self.counted = None;
    }

    /// How many bytes the last round trip has brought; 0 if that is not known.
    pub(super) fn per_round_trip(&self) -> u64 {
        self.per_round_trip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(200);

    #[test]
    fn it_is_counted_over_whole_round_trips_while_something_comes() {
        let start = Instant::now();
        let mut pace = Pace::default();
        let comes = |pace: &mut Pace, bytes, trips: f64| {
            pace.comes(bytes, start + ROUND_TRIP.mul_f64(trips), || Some(ROUND_TRIP));
        };
        comes(&mut pace, 10_000, 1.0);
        comes(&mut pace, 10_000, 1.1);
        assert_eq!(pace.per_round_trip(), 0, "a tenth of a round trip tells nothing");
        comes(&mut pace, 20_000, 2.0);
        assert_eq!(pace.per_round_trip(), 20_000);
        comes(&mut pace, 20_000, 2.5);
        comes(&mut pace, 1000, 3.25);
        assert_eq!(pace.per_round_trip(), 32_000, "forty in a round trip and a quarter");

        comes(&mut pace, 900_000, 4.0);
        comes(&mut pace, 1000, 4.25);
        assert_eq!(pace.per_round_trip(), 64_000, "what comes at once has waited");

        pace.rests();
        comes(&mut pace, 50_000, 90.0);
        assert_eq!(pace.per_round_trip(), 64_000, "a pause does not count");
        comes(&mut pace, 1000, 91.0);
        assert_eq!(pace.per_round_trip(), 50_000);
    }

    #[test]
    fn without_a_round_trip_there_is_none() {
        let mut pace = Pace::default();
        for _ in 0..3 {
            pace.comes(1000, Instant::now(), || None);
        }
        assert_eq!(pace.per_round_trip(), 0);
    }
}
