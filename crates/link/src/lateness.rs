//! How late events were: a histogram in microseconds.
//!
//! Up to 2 ms a bucket is 1 µs wide, and above that at most 0.1 % of its value, as in an HDR histogram. So a quantile is
//! as exact for a relay that was late by a second as for one that was late by a millisecond, and the buckets of an hour
//! take less memory than a packet capture of a second.

use std::{fmt, time::Duration};

/// Buckets between a power of two and the next one, from [`EXACT`] on.
const PER_OCTAVE: u64 = 1 << 10;

/// Below this, a bucket is 1 µs wide.
const EXACT: u64 = 2 * PER_OCTAVE;

/// The latest lateness that is told apart: some nineteen hours.
const LATEST: u64 = (1 << 36) - 1;

/// A histogram of lateness, exact to 1 µs below 2 ms and to 0.1 % above.
#[derive(Clone, Default)]
pub struct Lateness {
    /// Events by bucket; grows up to the latest event.
    buckets: Vec<u64>,
    count: u64,
    sum: Duration,
    max: Duration,
}

/// The bucket of a number of microseconds.
fn bucket(us: u64) -> usize {
    let us = us.min(LATEST);
    let index = if us < EXACT {
        us
    } else {
        let octaves = u64::from(us.ilog2() - EXACT.ilog2()) + 1;
        octaves * PER_OCTAVE + (us >> octaves)
    };
    index as usize
}

/// The least number of microseconds in a bucket.
fn lower_edge(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let octaves = bucket / PER_OCTAVE - 1;
    (PER_OCTAVE + bucket % PER_OCTAVE) << octaves
}

impl Lateness {
    /// Adds an event that was late by `late`.
    pub fn record(&mut self, late: Duration) {
        let bucket = bucket(u64::try_from(late.as_micros()).unwrap_or(LATEST));
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum += late;
        self.max = self.max.max(late);
    }

    /// The number of events.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The `q`-quantile, to 1 µs below 2 ms and to 0.1 % above.
    pub fn quantile(&self, q: f64) -> Duration {
        let rank = ((self.count as f64 * q).ceil() as u64).max(1);
        if rank >= self.count {
            return self.max;
        }
        let mut seen = 0;
        for (bucket, events) in self.buckets.iter().enumerate() {
            seen += events;
            if seen >= rank {
                return Duration::from_micros(lower_edge(bucket)).min(self.max);
            }
        }
        self.max
    }

    /// The mean; zero without events.
    pub fn mean(&self) -> Duration {
        self.sum.checked_div(u32::try_from(self.count).unwrap_or(u32::MAX)).unwrap_or_default()
    }

    /// The maximum.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Adds the events of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (ours, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *ours += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// The events since `earlier`, a state of this histogram. Its maximum is exact to a bucket, unless it is that of all
    /// events.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.buckets.iter().chain(std::iter::repeat(&0));
        let buckets: Vec<u64> = self.buckets.iter().zip(before).map(|(now, then)| now.saturating_sub(*then)).collect();
        let latest = buckets.iter().rposition(|events| *events > 0);
        let max = latest.map_or(Duration::ZERO, |latest| match lower_edge(latest) {
            _ if self.max > earlier.max => self.max,
            edge => Duration::from_micros(edge),
        });
        let (count, sum) = (self.count.saturating_sub(earlier.count), self.sum.saturating_sub(earlier.sum));
        Self { buckets, count, sum, max }
    }
}

impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p50, p99) = (self.quantile(0.5), self.quantile(0.99));
        write!(f, "{} events, p50 {p50:?}, p99 {p99:?}, max {:?}", self.count, self.max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn quantiles_are_those_of_the_events() {
        let mut lateness = Lateness::default();
        for n in 1..=100 {
            lateness.record(us(n));
        }
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| lateness.quantile(q)), [us(1), us(50), us(99), us(100)]);
        assert_eq!(lateness.mean(), Duration::from_nanos(50_500));
        lateness.record(Duration::from_secs(1));
        assert_eq!([lateness.max(), lateness.quantile(1.0)], [Duration::from_secs(1); 2]);
    }

    #[test]
    fn quantiles_of_late_events_are_not_their_maximum() {
        let mut lateness = Lateness::default();
        for ms in 1..=100 {
            lateness.record(Duration::from_millis(20 * ms));
        }
        for (q, ms) in [(0.5, 1000.0), (0.99, 1980.0), (1.0, 2000.0)] {
            let found = lateness.quantile(q).as_secs_f64() * 1e3;
            assert!((found / ms - 1.0).abs() < 0.001, "{q}: {found} ms, not {ms} ms");
        }
    }

    #[test]
    fn lateness_since_a_state_is_that_of_the_later_events() {
        let mut lateness = Lateness::default();
        lateness.record(Duration::from_secs(9));
        lateness.record(us(3));
        let before = lateness.clone();
        assert_eq!((before.since(&before).count(), before.since(&before).max()), (0, Duration::ZERO));
        for n in [10, 20, 30] {
            lateness.record(us(n));
        }
        let since = lateness.since(&before);
        assert_eq!((since.count(), since.mean(), since.quantile(0.5), since.max()), (3, us(20), us(20), us(30)));
    }

    proptest! {
        #[test]
        fn buckets_are_ordered_and_narrow(value in 0..LATEST) {
            let edge = lower_edge(bucket(value));
            prop_assert!(edge <= value && (value - edge) as f64 <= value as f64 / PER_OCTAVE as f64);
            prop_assert!(lower_edge(bucket(value) + 1) > value);
            prop_assert_eq!(bucket(edge), bucket(value));
        }
    }
}
