//! The least pace at which a client must go on: time as credit, which bytes buy.
//!
//! A bound on silence alone lets a client send a byte now and then, for ever. A bound on the whole transfer would end
//! large uploads over slow links. So waiting for a client spends credit, and each of its bytes buys some: who keeps
//! to [`LEAST_RATE`] can go on without end, and who stops has as long as the credit lasts. Apache's mod_reqtimeout
//! (`body=20,MinRate=500`) works alike. Only the time in which the server waits counts, not the time that its disk
//! takes. The credit has an upper limit, so that a fast start does not buy hours.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes in a second.
pub(crate) const LEAST_RATE: u64 = 500;

/// One client's credit.
#[derive(Debug)]
pub(crate) struct Pace {
    credit: Duration,
    most: Duration,
    /// Waited for beyond the credit, to be bought back first.
    debt: Duration,
    waiting_since: Option<Instant>,
}

impl Pace {
    /// Begins with some credit, which never grows beyond `most`.
    pub(crate) fn new(credit: Duration, most: Duration) -> Self {
        Pace { credit, most, debt: Duration::ZERO, waiting_since: None }
    }

    /// The server waits for the client now, if it did not before. Returns when the credit is used up.
    pub(crate) fn wait(&mut self, now: Instant) -> Instant {
        *self.waiting_since.get_or_insert(now) + self.credit
    }

    /// The client has moved so many bytes; the server does not wait any more, until [`Self::wait`].
    pub(crate) fn moved(&mut self, bytes: u64, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            let waited = now - since;
            self.debt += waited.saturating_sub(self.credit);
            self.credit = self.credit.saturating_sub(waited);
        }
        let bought = Duration::from_micros(bytes.saturating_mul(1_000_000 / LEAST_RATE));
        let left = bought.saturating_sub(self.debt);
        self.debt = self.debt.saturating_sub(bought);
        self.credit = self.credit.saturating_add(left).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Seconds until a client is given up that moves so many bytes each second; at most an hour.
    fn lasts(bytes: u64) -> u64 {
        let (mut now, mut pace) = (Instant::now(), Pace::new(20 * SECOND, 60 * SECOND));
        for second in 0..3600 {
            if pace.wait(now) <= now {
                return second;
            }
            now += SECOND;
            pace.moved(bytes, now);
        }
        3600
    }

    #[test]
    fn client_below_the_least_rate_is_given_up_and_one_at_it_is_not() {
        assert_eq!(lasts(0), 20);
        assert_eq!(lasts(1), 21);
        assert!((30..60).contains(&lasts(LEAST_RATE / 2)));
        assert_eq!(lasts(LEAST_RATE), 3600);
    }

    #[test]
    fn fast_start_buys_no_more_than_the_limit() {
        let (now, mut pace) = (Instant::now(), Pace::new(20 * SECOND, 60 * SECOND));
        pace.moved(1 << 40, now);
        assert_eq!(pace.wait(now), now + 60 * SECOND);
    }

    #[test]
    fn time_in_which_the_server_does_not_wait_costs_nothing() {
        let (now, mut pace) = (Instant::now(), Pace::new(20 * SECOND, 60 * SECOND));
        pace.wait(now);
        pace.moved(0, now + 5 * SECOND);
        let later = now + 1000 * SECOND;
        assert_eq!(pace.wait(later), later + 15 * SECOND);
    }
}
