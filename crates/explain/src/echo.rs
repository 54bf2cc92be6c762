//! Timestamps and their echoes (RFC 7323 §4.1): how long each end takes to answer, seen from the capture point.

use std::collections::VecDeque;

/// Measures how long a timestamp takes to be echoed (RFC 7323 §4.1), seen from the capture point.
///
/// One timestamp is measured at a time, from its first appearance: a timestamp clock ticks slower than packets pass, so
/// that a later packet with the same value would seem to be echoed too soon.
#[derive(Debug, Clone, Default)]
pub(crate) struct Echo {
    latest: Option<u32>,
    /// The value that was sent to this side, and when.
    sent: Option<(u32, u64)>,
    /// How many packets with data were sent to this side since then, with the first.
    more: u32,
    /// When there were enough of them for an acknowledgement without delay.
    due: u64,
    /// When this side last sent data.
    last_data: u64,
    /// The shortest time, in nanoseconds.
    pub(crate) min: Option<u64>,
    /// The values that were sent to this side and may still be echoed, and when they passed last.
    passed: VecDeque<(u32, u64)>,
}

/// The maximum number of timestamps that wait for their echo: more than any path holds at a tick of a millisecond.
const MAX_ECHOES: usize = 4096;

/// How many times shorter than its answer's time the silence before a packet of a stream is, at least.
const STREAM: u64 = 4;

/// The number of segments whose acknowledgement no receiver delays: most wait for a second segment, of any size or full.
const UNDELAYED: u32 = 4;

impl Echo {
    /// A packet to this side carries a timestamp.
    pub(crate) fn send(&mut self, value: u32, now: u64, has_data: bool) {
        if self.sent.is_none() && self.latest != Some(value) {
            (self.sent, self.more) = (Some((value, now)), 0);
        }
        self.more += u32::from(has_data);
        if has_data && self.more == UNDELAYED {
            self.due = now;
        }
        self.latest = Some(value);
        match self.passed.back_mut() {
            Some(last) if last.0 == value => last.1 = now,
            _ => {
                if self.passed.len() == MAX_ECHOES {
                    self.passed.pop_front();
                }
                self.passed.push_back((value, now));
            }
        }
    }

    /// How long ago the packet passed whose timestamp is echoed.
    pub(crate) fn age(&mut self, value: u32, now: u64) -> Option<u64> {
        while self.passed.front().is_some_and(|(sent, _)| value.wrapping_sub(*sent) as i32 > 0) {
            self.passed.pop_front();
        }
        self.passed.front().filter(|(sent, _)| *sent == value).map(|(_, at)| now - at)
    }

    /// A packet from this side echoes one: how long it took, and the part of it that neither a program nor a delayed
    /// acknowledgement can have taken, if that is known.
    pub(crate) fn receive(&mut self, value: u32, now: u64, has_data: bool) -> Option<(u64, Option<u64>)> {
        let last_data = if has_data { std::mem::replace(&mut self.last_data, now) } else { 0 };
        let (sent, at) = self.sent?;
        let ahead = value.wrapping_sub(sent) as i32;
        if ahead < 0 {
            return None;
        }
        self.sent = None;
        let took = now - at;
        if ahead > 0 {
            return None;
        }
        self.min = Some(self.min.map_or(took, |min| min.min(took)));
        let prompt = if has_data {
            // In a stream of data, each packet follows the one before. After a silence, it may have waited for a program.
            (now - last_data <= took / STREAM).then_some(took)
        } else {
            // A delayed acknowledgement echoes the first segment that it covers (RFC 7323 §4.3), however long ago that was.
            (self.more >= UNDELAYED).then_some(now - self.due)
        };
        Some((took, prompt))
    }
}
