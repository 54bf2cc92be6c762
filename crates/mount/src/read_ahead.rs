//! How much of a file to fetch beyond what a program reads.
//!
//! A program that reads from front to back is given a window that grows with each fetch, up to a size that fills a long
//! link: at 100 Mbit/s and 200 ms, 2.5 MB are in flight. The next fetch begins when half of the window has been read, so that
//! the link never falls idle. A read elsewhere closes the window, because reading 4 KiB from the middle of a large file must
//! not cost megabytes; reading on from there opens it again. (The idea is that of mountpoint-s3's prefetcher.)

use std::ops::Range;

/// The smallest fetch: a round trip costs more than these bytes on any link worth mentioning.
const SMALLEST: u64 = 128 * 1024;
/// The largest window.
const LARGEST: u64 = 16 * 1024 * 1024;

/// By how much the window grows with each fetch: a program that reads 20 MiB has filled a link of 100 Mbit/s and 18 ms from
/// the third fetch on.
const GROWTH: u64 = 4;

/// The reads of one open file.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadAhead {
    /// Where the last read ended.
    next: u64,
    /// The size of the next fetch beyond the read itself; 0 after a read elsewhere.
    window: u64,
    /// The end of what has been requested ahead.
    requested: u64,
}

impl ReadAhead {
    /// A program reads `range`. Returns the range that should be requested now, which includes it.
    pub(crate) fn read(&mut self, range: Range<u64>) -> Range<u64> {
        // The kernel's own read-ahead may swap two neighbours.
        let is_sequential = range.start <= self.next + SMALLEST && range.end + SMALLEST >= self.next;
        if !is_sequential {
            *self = Self { next: range.end, window: 0, requested: range.end };
            return range;
        }
        self.next = self.next.max(range.end);
        let ahead = self.requested.saturating_sub(self.next);
        if ahead > self.window / 2 {
            return range;
        }
        self.window = (self.window * GROWTH).clamp(SMALLEST, LARGEST);
        self.requested = self.requested.max(self.next) + self.window;
        range.start..self.requested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_a_sequential_reader_grows_to_its_limit() {
        let mut ahead = ReadAhead::default();
        let (mut fetches, mut end) = (Vec::new(), 0);
        for at in (0..200_u64 << 20).step_by(128 * 1024) {
            let wanted = ahead.read(at..at + 128 * 1024);
            assert!(wanted.end >= at + 128 * 1024);
            if wanted.end > end {
                fetches.push(wanted.end - end);
                end = wanted.end;
            }
        }
        assert!(fetches.len() < 30 && *fetches.last().unwrap() == LARGEST, "{fetches:?}");
        assert!(fetches.windows(2).all(|pair| pair[0] <= pair[1]), "{fetches:?}");
    }

    #[test]
    fn a_random_read_fetches_nothing_else() {
        let mut ahead = ReadAhead::default();
        for at in [900_u64 << 20, 5 << 20, 400 << 20] {
            assert_eq!(ahead.read(at..at + 4096), at..at + 4096);
        }
        // Reading on from there is sequential again.
        assert!(ahead.read((400 << 20) + 4096..(400 << 20) + 8192).end > (400 << 20) + SMALLEST);
    }
}
