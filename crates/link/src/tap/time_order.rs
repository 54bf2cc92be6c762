//! Puts recorded packets into the order of their times.

use std::{collections::VecDeque, ops::Range, time::Duration};

/// A packet's block in a file: the packet's time, and the block's length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) time: Duration,
    pub(super) len: usize,
}

/// Packets that wait until those before them are known.
#[derive(Debug, Default)]
pub(super) struct TimeOrder {
    /// The blocks as they were recorded, and gaps where blocks have been taken.
    bytes: Vec<u8>,
    /// The places of the blocks, sorted by time; those of the same time as they were recorded.
    waiting: VecDeque<Place>,
}

#[derive(Debug)]
struct Place {
    time: Duration,
    range: Range<usize>,
}

impl TimeOrder {
    /// The memory that it takes, in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the blocks in `bytes`.
    pub(super) fn add(&mut self, bytes: &[u8], blocks: impl Iterator<Item = Block>) {
        let mut start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        for Block { time, len } in blocks {
            // Nearly all are the latest, or nearly so.
            let later = self.waiting.iter().rev().take_while(|other| other.time > time).count();
            self.waiting.insert(self.waiting.len() - later, Place { time, range: start..start + len });
            start += len;
        }
    }

    /// Moves the blocks up to a time to the end of `output`, and returns their number.
    pub(super) fn take(&mut self, until: Duration, output: &mut Vec<u8>) -> u64 {
        let count = self.waiting.partition_point(|place| place.time <= until);
        for Place { range, .. } in self.waiting.drain(..count) {
            output.extend_from_slice(&self.bytes[range]);
        }
        let gap = self.waiting.iter().map(|place| place.range.start).min().unwrap_or(self.bytes.len());
        // Moving the rest each time would cost more than the gap takes.
        if gap * 2 >= self.bytes.len() {
            self.bytes.drain(..gap);
            for Place { range, .. } in &mut self.waiting {
                *range = range.start - gap..range.end - gap;
            }
        }
        count as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_leave_in_the_order_of_their_times() {
        let ms = Duration::from_millis;
        let block = |at, len| Block { time: ms(at), len };
        let mut order = TimeOrder::default();
        order.add(b"aabbbc", [block(1, 2), block(5, 3), block(3, 1)].into_iter());
        let mut output = Vec::new();
        assert_eq!(order.take(ms(3), &mut output), 2);
        assert_eq!(output, b"aac");
        // Two of the same time, one before all others, and one that comes too late.
        order.add(b"ddefgg", [block(5, 2), block(4, 1), block(2, 1), block(9, 2)].into_iter());
        output.clear();
        assert_eq!(order.take(ms(5), &mut output), 4);
        assert_eq!(output, b"febbbdd");
        output.clear();
        assert_eq!((order.take(Duration::MAX, &mut output), order.len()), (1, 0));
        assert_eq!(output, b"gg");
    }
}
