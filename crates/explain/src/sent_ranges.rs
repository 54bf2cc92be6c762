//! Which bytes of a stream have passed the capture point, and so whether a segment is new, reordered or a retransmission.
//!
//! A segment below the highest byte so far is one of three things. If its bytes have passed before, it is a
//! retransmission. If they have not, it fills a gap: either it was reordered, or it repeats a segment that was lost before
//! the capture point. No sender can know of a loss earlier than a round trip after it, so what fills a gap sooner was
//! reordered (as in Wireshark, whose limit is the RTT of the handshake, or 3 ms without one). Where its headers say which of
//! the two it is ([`crate::send_order`]), time does not matter.
//!
//! What is acknowledged was delivered, whether it was captured or not. So each byte of a message can be counted once, at the
//! receiver's end of a lossy path too, where retransmissions fill the gaps.

use crate::{infer::vantage::VantagePoint, stream_offset::ORIGIN};

/// The longest delay of a reordered segment where the RTT is unknown, in nanoseconds.
const DEFAULT_REORDERING: u64 = 3_000_000;

/// The maximum number of gaps that are remembered; the oldest are forgotten first.
const MAX_GAPS: usize = 4096;

/// How a segment passed the capture point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Its first byte follows all bytes that have passed.
    New,
    /// It was overtaken by later bytes, and passes for the first time.
    OutOfOrder,
    /// Some of its bytes have passed before, or were lost before the capture point.
    Retransmission,
}

/// Bytes of the stream that have not passed although later ones have.
#[derive(Debug, Clone, Copy)]
struct Gap {
    start: u64,
    end: u64,
    /// When a later byte passed, in nanoseconds since the epoch.
    since: u64,
}

/// The bytes of one direction that have passed.
#[derive(Debug)]
pub(crate) struct SentRanges {
    snd_nxt: u64,
    /// In order, below `snd_nxt`.
    gaps: Vec<Gap>,
    max_reordering: u64,
}

impl SentRanges {
    /// For one direction of a connection that was captured here.
    pub(crate) fn new(vantage: &VantagePoint) -> Self {
        let max_reordering = Some(vantage.rtt() * 4 / 5).filter(|limit| *limit > 0).unwrap_or(DEFAULT_REORDERING);
        Self { snd_nxt: ORIGIN, gaps: Vec::new(), max_reordering }
    }

    /// The offset after the highest byte that has passed.
    pub(crate) fn snd_nxt(&self) -> u64 {
        self.snd_nxt
    }

    /// A segment with these offsets passes; how, and how many of its bytes for the first time. `is_resent`: whether it is a
    /// retransmission, if its headers tell.
    pub(crate) fn pass(&mut self, start: u64, end: u64, now: u64, is_resent: Option<bool>) -> (Passage, u64) {
        let is_new = start >= self.snd_nxt;
        if start > self.snd_nxt {
            if self.gaps.len() == MAX_GAPS {
                self.gaps.remove(0);
            }
            self.gaps.push(Gap { start: self.snd_nxt, end: start, since: now });
        }
        let mut first_time = end.saturating_sub(start.max(self.snd_nxt));
        self.snd_nxt = self.snd_nxt.max(end);
        if is_new || start >= end {
            return (Passage::New, first_time);
        }
        let (filled, is_late) = self.fill(start, end, now);
        first_time += filled;
        let is_resent = is_resent.unwrap_or(is_late);
        let passage =
            if first_time == end - start && !is_resent { Passage::OutOfOrder } else { Passage::Retransmission };
        (passage, first_time)
    }

    /// Everything before this offset is acknowledged.
    pub(crate) fn acknowledge(&mut self, ack: u64) {
        self.fill(0, ack, 0);
        self.snd_nxt = self.snd_nxt.max(ack);
    }

    /// How many bytes between two offsets have passed or are acknowledged.
    pub(crate) fn within(&self, from: u64, to: u64) -> u64 {
        let overlap = |start: u64, end: u64| end.min(to).saturating_sub(start.max(from));
        let missing = self.gaps.iter().map(|gap| overlap(gap.start, gap.end)).sum();
        overlap(ORIGIN, self.snd_nxt).saturating_sub(missing)
    }

    /// Fills gaps between two offsets: how many bytes, and whether one was open for longer than reordering takes.
    fn fill(&mut self, start: u64, end: u64, now: u64) -> (u64, bool) {
        let first = self.gaps.partition_point(|gap| gap.end <= start);
        let last = first + self.gaps[first..].partition_point(|gap| gap.start < end);
        let (mut filled, mut is_late, mut rest) = (0, false, Vec::new());
        for gap in &self.gaps[first..last] {
            filled += gap.end.min(end) - gap.start.max(start);
            is_late |= now.saturating_sub(gap.since) >= self.max_reordering;
            let parts = [(gap.start, start), (end, gap.end)].into_iter().filter(|(start, end)| start < end);
            rest.extend(parts.map(|(start, end)| Gap { start, end, ..*gap }));
        }
        self.gaps.splice(first..last, rest);
        (filled, is_late)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::{infer::vantage::Vantage, side::PerSide};

    const MS: u64 = 1_000_000;

    fn ranges() -> SentRanges {
        let rtt_to = PerSide { client: 0, server: 20 * MS };
        SentRanges::new(&VantagePoint { position: Vantage::Client, rtt_to, is_unknown: PerSide::default() })
    }

    fn pass(ranges: &mut SentRanges, start: u64, end: u64, ms: u64) -> (Passage, u64) {
        ranges.pass(ORIGIN + start, ORIGIN + end, ms * MS, None)
    }

    #[test]
    fn segment_is_retransmission_when_its_bytes_have_passed() {
        let mut ranges = ranges();
        assert_eq!(pass(&mut ranges, 0, 100, 0), (Passage::New, 100));
        assert_eq!(pass(&mut ranges, 0, 100, 1), (Passage::Retransmission, 0));
        assert_eq!(pass(&mut ranges, 50, 150, 2), (Passage::Retransmission, 50));
        assert_eq!(pass(&mut ranges, 150, 200, 3), (Passage::New, 50));
    }

    #[test]
    fn segment_is_out_of_order_when_gap_is_younger_than_a_round_trip() {
        let mut ranges = ranges();
        pass(&mut ranges, 0, 100, 0);
        assert_eq!(pass(&mut ranges, 300, 400, 1), (Passage::New, 100));
        assert_eq!(pass(&mut ranges, 200, 300, 2), (Passage::OutOfOrder, 100));
        // Longer than any reordering: its original was lost before the capture point.
        assert_eq!(pass(&mut ranges, 100, 200, 22), (Passage::Retransmission, 100));
        assert_eq!(pass(&mut ranges, 100, 400, 23), (Passage::Retransmission, 0));
        // Its headers say otherwise.
        pass(&mut ranges, 500, 700, 30);
        let mut told = |start: u64, ms: u64, is_resent| {
            ranges.pass(ORIGIN + start, ORIGIN + start + 50, ms * MS, Some(is_resent)).0
        };
        assert_eq!([told(400, 90, false), told(450, 31, true)], [Passage::OutOfOrder, Passage::Retransmission]);
    }
    proptest! {
        #[test]
        fn each_byte_counts_once_in_any_order(
            parts in prop::collection::vec((0_u64..200, 1_u64..40, prop::bool::weighted(0.1)), 1..60),
            from in 0_u64..200,
            len in 0_u64..100,
        ) {
            let (mut ranges, mut bytes) = (ranges(), BTreeSet::new());
            for (start, len, is_ack) in parts {
                if is_ack {
                    ranges.acknowledge(ORIGIN + start);
                    bytes.extend(0..start);
                } else {
                    pass(&mut ranges, start, start + len, 0);
                    bytes.extend(start..start + len);
                }
            }
            let counted = ranges.within(ORIGIN + from, ORIGIN + from + len);
            prop_assert_eq!(counted, bytes.range(from..from + len).count() as u64);
        }
    }
}
