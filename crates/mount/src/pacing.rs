//! How far a long fetch may run ahead of its reader.
//!
//! A program may stop in the middle of a file, and often does after the first read. So a fetch is a little ahead of that; then
//! at most twice as far as the program has read in order, and
//! at least what fills a long link: at 100 Mbit/s and 200 ms, 2.5 MB are in flight. A fetch that has got so far waits for its
//! reader for a moment, then it ends, or it would occupy a connection.

use std::ops::Range;

/// As much as the kernel asks for at a time, unless its administrator has raised it.
pub(crate) const LARGE_READ: u64 = 128 * 1024;
/// The lead of the first read.
pub(crate) const FIRST: u64 = 1024 * 1024;
/// The shortest lead after that.
const SHORTEST: u64 = 4 * 1024 * 1024;
/// The longest lead.
const LONGEST: u64 = 64 * 1024 * 1024;

/// How far a fetch may be ahead of a program that has read `run` bytes in order.
pub(crate) fn allowance(run: u64) -> u64 {
    if run <= LARGE_READ { FIRST } else { run.saturating_mul(2).clamp(SHORTEST, LONGEST) }
}

/// A stretch of a file that is being fetched ahead of its readers.
#[derive(Debug)]
pub(crate) struct Pace {
    range: Range<u64>,
    /// How much was read in order before it.
    run: u64,
    /// The end of what was read of it.
    read: u64,
    /// None if nobody reads it any more.
    limit: Option<u64>,
}

impl Pace {
    pub(crate) fn new(range: Range<u64>, run: u64) -> Self {
        let read = range.start;
        Self { range, run, read, limit: Some(read + allowance(run)) }
    }

    /// A program reads, and waits for bytes up to `end`. Returns whether more may be fetched than before.
    pub(crate) fn read(&mut self, end: u64) -> bool {
        let is_progress = end > self.read && end <= self.range.end && self.limit.is_some_and(|limit| limit < u64::MAX);
        if is_progress {
            self.read = end;
            self.limit = Some(end + allowance(self.run + end - self.range.start));
        }
        is_progress
    }

    /// All of it is needed.
    pub(crate) fn read_all(&mut self) {
        self.limit = self.limit.map(|_| u64::MAX);
    }

    /// Nobody has the file open.
    pub(crate) fn abandon(&mut self) {
        self.limit = None;
    }

    /// Up to where it may be fetched now; none if nobody reads it any more.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_grows_with_what_was_read() {
        let mut pace = Pace::new(1 << 20..1 << 30, 1 << 20);
        assert_eq!(pace.limit(), Some((1 << 20) + SHORTEST));
        assert!(pace.read(8 << 20));
        assert_eq!(pace.limit(), Some((8 << 20) + (16 << 20)));
        assert!(!pace.read(7 << 20), "a second reader behind the first");
        assert!(!pace.read(2 << 30), "elsewhere");
        assert!(pace.read(900 << 20));
        assert_eq!(pace.limit(), Some((900 << 20) + LONGEST));
        pace.read_all();
        assert!(!pace.read(901 << 20));
        assert_eq!(pace.limit(), Some(u64::MAX));
        pace.abandon();
        pace.read_all();
        assert_eq!(pace.limit(), None);
    }
}
