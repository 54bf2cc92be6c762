//! A minimum transfer rate, enforced with a time credit.
//!
//! An idle timeout alone lets a client send one byte at a time, forever. A timeout on the whole transfer would abort
//! large uploads over slow links. So waiting for a client spends credit, and every byte earns some: a client that keeps
//! [`MIN_RATE`] never times out, and one that stalls times out when its credit is spent. Apache's mod_reqtimeout
//! (`body=20,MinRate=500`) works the same way. Only time spent waiting for the client counts, not disk time. The credit
//! is capped, so that a fast start does not earn hours.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes per second.
pub(crate) const MIN_RATE: u64 = 500;

/// One client's credit.
#[derive(Debug)]
pub(crate) struct MinRateTimer {
    credit: Duration,
    max: Duration,
    /// Time waited beyond the credit, to be earned back first.
    debt: Duration,
    waiting_since: Option<Instant>,
}

impl MinRateTimer {
    /// Starts with `credit`, which never exceeds `max`.
    pub(crate) fn new(credit: Duration, max: Duration) -> Self {
        MinRateTimer { credit, max, debt: Duration::ZERO, waiting_since: None }
    }

    /// The server waits for the client from now on, unless it already does. Returns when the credit will be spent.
    pub(crate) fn wait(&mut self, now: Instant) -> Instant {
        *self.waiting_since.get_or_insert(now) + self.credit
    }

    /// The client has transferred `bytes`, which ends the wait.
    pub(crate) fn moved(&mut self, bytes: u64, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            let waited = now - since;
            self.debt += waited.saturating_sub(self.credit);
            self.credit = self.credit.saturating_sub(waited);
        }
        let earned = Duration::from_micros(bytes.saturating_mul(1_000_000 / MIN_RATE));
        let left = earned.saturating_sub(self.debt);
        self.debt = self.debt.saturating_sub(earned);
        self.credit = self.credit.saturating_add(left).min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Seconds until a client with this rate, in bytes per second, times out; at most an hour.
    fn seconds_until_timeout(bytes: u64) -> u64 {
        let (mut now, mut timer) = (Instant::now(), MinRateTimer::new(20 * SECOND, 60 * SECOND));
        for second in 0..3600 {
            if timer.wait(now) <= now {
                return second;
            }
            now += SECOND;
            timer.moved(bytes, now);
        }
        3600
    }

    #[test]
    fn client_times_out_below_min_rate_and_not_at_it() {
        assert_eq!(seconds_until_timeout(0), 20);
        assert_eq!(seconds_until_timeout(1), 21);
        assert!((30..60).contains(&seconds_until_timeout(MIN_RATE / 2)));
        assert_eq!(seconds_until_timeout(MIN_RATE), 3600);
    }

    #[test]
    fn fast_start_earns_no_more_than_the_cap() {
        let (now, mut timer) = (Instant::now(), MinRateTimer::new(20 * SECOND, 60 * SECOND));
        timer.moved(1 << 40, now);
        assert_eq!(timer.wait(now), now + 60 * SECOND);
    }

    #[test]
    fn time_spent_by_the_server_costs_no_credit() {
        let (now, mut timer) = (Instant::now(), MinRateTimer::new(20 * SECOND, 60 * SECOND));
        timer.wait(now);
        timer.moved(0, now + 5 * SECOND);
        let later = now + 1000 * SECOND;
        assert_eq!(timer.wait(later), later + 15 * SECOND);
    }
}
