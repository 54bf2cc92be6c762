//! The fetches of a file that have failed. No I/O.

use std::{collections::VecDeque, ops::Range, time::Duration};

use nix::errno::Errno;
use tokio::time::Instant;

/// How many are remembered: more than are in flight.
const REMEMBERED: usize = 64;
/// How long a read need not try what has just failed.
const MOMENT: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct Failures {
    pub(crate) count: u64,
    /// The last ones with their numbers, the oldest first.
    last: VecDeque<(u64, Range<u64>, Errno)>,
    /// When one last failed because there was no answer.
    silent: Option<(Instant, Errno)>,
}

impl Failures {
    pub(crate) fn add(&mut self, range: Range<u64>, errno: Errno, now: Instant) {
        self.count += 1;
        self.last.push_back((self.count, range, errno));
        if self.last.len() > REMEMBERED {
            self.last.pop_front();
        }
        // A refused connection costs no time.
        if errno == Errno::ETIMEDOUT {
            self.silent = Some((now, errno));
        }
    }

    /// Why bytes in `wanted` could not be fetched, if that was after the first `before` failures.
    pub(crate) fn since(&self, before: u64, wanted: &Range<u64>) -> Option<Errno> {
        let concerns = |(number, range, _): &&(u64, Range<u64>, Errno)| {
            *number > before && range.start < wanted.end && wanted.start < range.end
        };
        self.last.iter().find(concerns).map(|(_, _, errno)| *errno)
    }

    /// Why a fetch failed a moment ago, if there was no answer.
    pub(crate) fn silence(&self, now: Instant) -> Option<Errno> {
        self.silent.filter(|(at, _)| now.duration_since(*at) < MOMENT).map(|(_, errno)| errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_fails_only_for_its_own_bytes() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        failures.add(0..10, Errno::EIO, now);
        let before = failures.count;
        failures.add(100..200, Errno::ETIMEDOUT, now);
        assert_eq!(failures.since(before, &(0..100)), None);
        assert_eq!(failures.since(before, &(150..160)), Some(Errno::ETIMEDOUT));
        assert_eq!(failures.since(0, &(0..u64::MAX)), Some(Errno::EIO));
    }

    #[test]
    fn silence_is_remembered_for_a_moment() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        failures.add(0..10, Errno::EIO, now);
        assert_eq!(failures.silence(now), None);
        failures.add(0..10, Errno::ETIMEDOUT, now);
        assert_eq!(failures.silence(now), Some(Errno::ETIMEDOUT));
        assert_eq!(failures.silence(now + MOMENT), None);
    }
}
