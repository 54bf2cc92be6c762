//! How much of a file to fetch beyond what a program reads.
//!
//! The first read says little: a program that looks at 4 KiB of each file must not cost megabytes. A second read right behind
//! the first says that more will follow; so does a first one from the beginning that asks for as much as a read can. From then on
//! one request brings a long stretch, so that one congestion window grows
//! to fill the link, and no round trip passes between two requests. How much of the stretch is fetched depends on how much has
//! been read (`pacing`): a program that stops has cost a bounded number of bytes. The next stretch is requested while
//! enough of the current one is left to hide a handshake and the growth of a new window.
//!
//! A stretch may end early: its program read too slowly, or the server broke it off. Then the next ones are no longer than
//! what is fetched without waiting for the program, so that a slow reader (a video) occupies no connection.
//!
//! A read elsewhere fetches nothing else; reading on from there opens a window again. (The idea is that of mountpoint-s3's
//! prefetcher.)

use std::ops::Range;

use crate::pacing::{LARGE_READ, allowance};

/// What a read brings along, if the program asked for little, or not from the beginning.
const SMALLEST: u64 = 256 * 1024;
/// The longest stretch.
pub(crate) const LONGEST: u64 = 64 * 1024 * 1024;
/// A new stretch is requested when this is left of the current one: at 100 Mbit/s and 50 ms, what moves during a handshake
/// and the growth of a window.
const LEFT: u64 = 8 * 1024 * 1024;

/// The reads of one open file.
#[derive(Debug, Clone)]
pub(crate) struct ReadAhead {
    /// Where the last read ended.
    next: u64,
    /// How much was read in order.
    run: u64,
    /// The size of the last fetch; 0 after a read elsewhere.
    window: u64,
    /// The end of what has been requested ahead.
    requested: u64,
    /// Whether a stretch has ended early.
    is_slow: bool,
    /// The longest stretch that the cache has room for.
    longest: u64,
}

/// What to request for a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// Includes the read itself.
    pub(crate) range: Range<u64>,
    /// How much the program has read in order.
    pub(crate) run: u64,
}

impl ReadAhead {
    /// With a cache of this size.
    pub(crate) fn new(cache_size: u64) -> Self {
        let longest = LONGEST.min(cache_size / 4).max(SMALLEST);
        Self { next: 0, run: 0, window: 0, requested: 0, is_slow: false, longest }
    }

    /// A program reads `range`; `is_coming` says whether all of it is here or on its way.
    pub(crate) fn read(&mut self, range: Range<u64>, is_coming: bool) -> Ahead {
        // The kernel's own read-ahead may swap two neighbours.
        let is_sequential = range.start <= self.next + LARGE_READ && range.end + LARGE_READ >= self.next;
        if !is_sequential {
            *self = Self { next: range.end, run: 0, window: 0, requested: range.end, ..*self };
            return Ahead { range, run: 0 };
        }
        self.run += range.end.saturating_sub(self.next);
        self.next = self.next.max(range.end);
        let run = self.run;
        if self.requested > range.end && !is_coming {
            (self.requested, self.is_slow) = (range.end, true);
        }
        let ahead = self.requested.saturating_sub(self.next);
        self.window = match self.window {
            // It was foreseen, and there may be no second read.
            0 if is_coming && run <= LARGE_READ => return Ahead { range, run },
            0 if range.start == 0 && range.end >= LARGE_READ => self.longest,
            0 => SMALLEST,
            _ if self.is_slow && ahead > self.window / 2 => return Ahead { range, run },
            _ if self.is_slow => allowance(run).min(self.longest),
            // The second read in order.
            SMALLEST => self.longest,
            _ if ahead > LEFT.min(self.longest / 2) => return Ahead { range, run },
            _ => self.longest,
        };
        self.requested = self.requested.max(self.next) + self.window;
        Ahead { range: range.start..self.requested, run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 128 * 1024;
    const CACHE: u64 = 10 << 30;

    #[test]
    fn a_sequential_reader_requests_long_stretches_before_the_last_ones_end() {
        let mut ahead = ReadAhead::new(CACHE);
        let (mut fetches, mut end) = (Vec::new(), 0);
        for at in (0..1_u64 << 30).step_by(STEP as usize) {
            assert!(at < LONGEST || end - at > LEFT / 2, "only {} are left", end - at);
            let wanted = ahead.read(at..at + STEP, at > 0).range;
            assert!(wanted.end >= at + STEP);
            if wanted.end > end {
                fetches.push(wanted.end - end);
                end = wanted.end;
            }
        }
        assert_eq!(fetches[0], LONGEST + STEP, "{fetches:?}");
        assert!(fetches.len() < 20, "{fetches:?}");
    }

    #[test]
    fn a_random_read_fetches_nothing_else() {
        let mut ahead = ReadAhead::new(CACHE);
        for at in [900_u64 << 20, 5 << 20, 400 << 20] {
            assert_eq!(ahead.read(at..at + 4096, false).range, at..at + 4096);
        }
        // Reading on from there is sequential again.
        let next = (400 << 20) + 4096;
        assert_eq!(ahead.read(next..next + 4096, false).range, next..next + 4096 + SMALLEST);
    }

    #[test]
    fn a_look_at_the_beginning_costs_little() {
        assert_eq!(ReadAhead::new(CACHE).read(0..16384, false).range, 0..16384 + SMALLEST);
        assert_eq!(ReadAhead::new(CACHE).read(0..STEP, false).range, 0..STEP + LONGEST);
    }

    #[test]
    fn a_look_at_a_beginning_that_was_foreseen_costs_nothing() {
        let mut ahead = ReadAhead::new(CACHE);
        assert_eq!(ahead.read(0..STEP, true).range, 0..STEP);
        // A reader that goes on is not kept waiting at the end of what was foreseen.
        assert_eq!(ahead.read(STEP..2 * STEP, true).range, STEP..2 * STEP + SMALLEST);
    }

    #[test]
    fn a_stretch_that_ended_early_is_requested_again_in_pieces_that_need_no_waiting() {
        let mut ahead = ReadAhead::new(CACHE);
        for at in (0..20 * STEP).step_by(STEP as usize) {
            ahead.read(at..at + STEP, true);
        }
        let lost = ahead.read(20 * STEP..21 * STEP, false);
        assert_eq!(lost.range, 20 * STEP..21 * STEP + allowance(21 * STEP));
        assert_eq!(ahead.read(21 * STEP..22 * STEP, true).range, 21 * STEP..22 * STEP);
    }

    #[test]
    fn a_small_cache_is_not_outgrown() {
        let mut ahead = ReadAhead::new(16 << 20);
        for at in (0..64_u64 << 20).step_by(STEP as usize) {
            assert!(ahead.read(at..at + STEP, true).range.end <= at + STEP + (6 << 20));
        }
    }
}
