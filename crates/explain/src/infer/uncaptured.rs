//! Data that was acknowledged and is not in the capture.
//!
//! A receiver acknowledges only what it has. If the capture lacks a part of that, the capturing machine lost it, or it
//! took another path: the network did not lose it. An acknowledgement may also be captured a little before its data, by
//! another processor; then the data follows.

use std::collections::BTreeMap;

use capture::tcp::Flags;

use crate::{
    collect::CapturedConnection,
    side::Side,
    stream_offset::{ORIGIN, StreamOffsets},
};

/// The maximum number of separate ranges that are kept. With more, a part of the data that follows late stays counted.
const MAX_RANGES: usize = 4096;

/// An acknowledgement that is further ahead than any window acknowledges nothing (RFC 7323 §2.3).
const MAX_WINDOW: u64 = 1 << 30;

/// The number of bytes of `side` that the other side acknowledged and that were not captured.
pub(crate) fn uncaptured_bytes(connection: &CapturedConnection, side: Side) -> u64 {
    let Some(offsets) = connection.offsets[side].map(StreamOffsets::rewound) else { return 0 };
    let mut stream = Stream::new(offsets, connection.syn[side].is_some());
    for segment in &connection.segments {
        if segment.from() == side {
            let syn = u32::from(segment.has(Flags::SYN));
            // A FIN takes a sequence number as well.
            let len = u64::from(segment.len) + u64::from(segment.has(Flags::FIN));
            if len > 0
                && let Some(start) = stream.offsets.of(segment.seq.wrapping_add(syn))
            {
                stream.capture(start, start + len);
            }
        } else if segment.has(Flags::ACK) && !segment.has(Flags::RST) {
            stream.acknowledge(stream.offsets.near(segment.ack));
        }
    }
    stream.uncaptured
}

/// The data of one side.
struct Stream {
    offsets: StreamOffsets,
    /// Everything before this byte was captured or acknowledged. None at the start of a capture that began in the middle
    /// of the connection, until captured data is acknowledged: before that, acknowledgements are of earlier data.
    edge: Option<u64>,
    /// The latest first byte of a captured segment.
    highest_start: u64,
    /// What was captured after that: start and end.
    ahead: BTreeMap<u64, u64>,
    /// What was acknowledged and not captured: start and end.
    missing: BTreeMap<u64, u64>,
    uncaptured: u64,
}

impl Stream {
    fn new(offsets: StreamOffsets, is_from_start: bool) -> Self {
        let edge = is_from_start.then_some(ORIGIN);
        Self { offsets, edge, highest_start: 0, ahead: BTreeMap::new(), missing: BTreeMap::new(), uncaptured: 0 }
    }

    fn capture(&mut self, start: u64, end: u64) {
        self.highest_start = self.highest_start.max(start);
        self.fill(start, end);
        let is_next = self.edge.is_some_and(|edge| start <= edge);
        if is_next {
            self.edge = self.edge.max(Some(end));
        } else if let Some((_, known)) =
            self.ahead.range_mut(..=start).next_back().filter(|(_, known)| **known >= start)
        {
            *known = end.max(*known);
        } else if self.ahead.len() < MAX_RANGES {
            self.ahead.insert(start, end);
        }
        self.join();
    }

    /// Moves the edge over what was captured behind it.
    fn join(&mut self) {
        let Some(edge) = &mut self.edge else { return };
        while let Some(first) = self.ahead.first_entry().filter(|first| first.key() <= edge) {
            *edge = first.remove().max(*edge);
        }
    }

    /// What was missing was captured late.
    fn fill(&mut self, start: u64, end: u64) {
        while let Some((from, to)) = self.missing.range(..end).next_back().map(|(from, to)| (*from, *to))
            && to > start
        {
            self.missing.remove(&from);
            self.uncaptured -= to.min(end) - from.max(start);
            let rests = [(from, start.max(from)), (end.min(to), to)];
            self.missing.extend(rests.into_iter().filter(|(from, to)| from < to));
        }
    }

    fn acknowledge(&mut self, ack: u64) {
        let Some(edge) = self.edge else {
            if self.ahead.first_key_value().is_some_and(|(start, _)| *start < ack) {
                // A sender's capture begins with a flight that follows earlier data.
                self.edge = Some(ack.max(self.highest_start));
                self.join();
            }
            return;
        };
        if ack > edge + MAX_WINDOW {
            return;
        }
        let mut at = edge;
        while at < ack {
            let next = self.ahead.first_key_value().map_or(ack, |(start, _)| (*start).min(ack));
            self.miss(at, next);
            self.edge = Some(next.max(at));
            self.join();
            at = self.edge.unwrap_or(ack);
        }
    }

    /// These bytes were acknowledged, and are not captured so far. A single one is a FIN's, or a window probe's.
    fn miss(&mut self, from: u64, to: u64) {
        if to > from + 1 {
            self.uncaptured += to - from;
            if self.missing.len() < MAX_RANGES {
                self.missing.insert(from, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Step {
        Data(u64, u64),
        Ack(u64),
    }
    use Step::{Ack, Data};

    fn uncaptured(is_from_start: bool, steps: &[Step]) -> u64 {
        let mut stream = Stream::new(StreamOffsets::from(1), is_from_start);
        for step in steps {
            match step {
                Data(start, end) => stream.capture(ORIGIN + start, ORIGIN + end),
                Ack(ack) => stream.acknowledge(ORIGIN + ack),
            }
        }
        stream.uncaptured
    }

    #[test]
    fn acknowledged_data_without_packet_is_counted() {
        assert_eq!(uncaptured(true, &[Data(0, 100), Ack(100), Data(200, 300), Ack(300)]), 100);
        assert_eq!(uncaptured(true, &[Data(0, 100), Data(200, 300), Data(400, 500), Ack(100), Ack(450)]), 200);
        assert_eq!(uncaptured(true, &[Ack(50), Ack(100), Ack(100)]), 100);
    }

    #[test]
    fn data_in_any_order_is_captured() {
        assert_eq!(uncaptured(true, &[Data(100, 200), Data(0, 100), Ack(200)]), 0);
        assert_eq!(uncaptured(true, &[Ack(200), Data(100, 200), Data(0, 100)]), 0);
        assert_eq!(uncaptured(true, &[Ack(300), Data(50, 120), Data(110, 200)]), 150);
        // A loss before the capture point, and its repair.
        assert_eq!(uncaptured(true, &[Data(0, 100), Data(200, 300), Ack(100), Data(100, 200), Ack(300)]), 0);
    }

    #[test]
    fn data_before_the_capture_began_is_not_missing() {
        assert_eq!(uncaptured(false, &[Data(0, 100), Ack(5000), Data(5000, 6000), Ack(6000)]), 0);
        let flight = [Data(900, 1000), Ack(300), Data(1000, 1100), Ack(500), Ack(900), Ack(1000), Ack(1100)];
        assert_eq!(uncaptured(false, &flight), 0);
        let repaired = [Data(0, 100), Data(900, 1000), Data(1000, 1100), Ack(0), Ack(900), Ack(1100), Ack(1200)];
        assert_eq!(uncaptured(false, &repaired), 100);
        assert_eq!(uncaptured(false, &[Ack(0), Data(100, 200), Ack(200), Data(300, 400), Ack(400)]), 100);
    }

    #[test]
    fn lone_byte_is_a_fin_or_a_probe() {
        assert_eq!(uncaptured(true, &[Data(0, 100), Ack(101)]), 0);
    }

    #[test]
    fn absurd_acknowledgement_is_ignored() {
        assert_eq!(uncaptured(true, &[Data(0, 100), Ack(1 << 31), Ack(100)]), 0);
    }
}
