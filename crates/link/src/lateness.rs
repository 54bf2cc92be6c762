//! How late events were: a histogram in microseconds.

use std::{fmt, time::Duration};

/// Number of buckets of 1 µs, up to 10 ms; the last one holds all later events.
const BUCKETS: usize = 10_000;

/// A histogram of lateness, exact to 1 µs below 10 ms.
#[derive(Clone, Default)]
pub struct Lateness {
    buckets: Vec<u64>,
    count: u64,
    max: Duration,
}

impl Lateness {
    /// Adds an event that was late by `late`.
    pub fn record(&mut self, late: Duration) {
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS];
        }
        let bucket = usize::try_from(late.as_micros()).unwrap_or(usize::MAX).min(BUCKETS - 1);
        self.buckets[bucket] += 1;
        self.count += 1;
        self.max = self.max.max(late);
    }

    /// The number of events.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The `q`-quantile, to 1 µs; the maximum if it is 10 ms or more.
    pub fn quantile(&self, q: f64) -> Duration {
        let rank = ((self.count as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, events) in self.buckets.iter().enumerate().take(BUCKETS - 1) {
            seen += events;
            if seen >= rank {
                return Duration::from_micros(bucket as u64);
            }
        }
        self.max
    }

    /// The maximum.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Adds the events of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.buckets.is_empty() {
            *self = other.clone();
            return;
        }
        for (ours, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *ours += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
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
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_events() {
        let mut lateness = Lateness::default();
        for us in 1..=100 {
            lateness.record(Duration::from_micros(us));
        }
        let us = |n| Duration::from_micros(n);
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| lateness.quantile(q)), [us(1), us(50), us(99), us(100)]);
        lateness.record(Duration::from_secs(1));
        assert_eq!([lateness.max(), lateness.quantile(1.0)], [Duration::from_secs(1); 2]);
    }
}
