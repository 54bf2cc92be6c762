//! Losses before the capture point that leave no gap in the data: the retransmission looks like new data that came late.

use std::ops::Range;

use super::Walk;
use crate::{causes::Timer, segment::SegmentRecord, side::Side};

/// The share of the expected time, as a divisor, by which a retransmission timer may be late: the expectation is rough.
const TIMER_SLACK: u64 = 2;

impl Walk<'_> {
    /// Whether packets may be lost between a side and the capture point.
    pub(super) fn may_lose_before_capture(&self, side: Side) -> bool {
        self.vantage.rtt_to[side] * 4 >= self.vantage.rtt()
    }

    /// Whether a late end of a message is a retransmission whose original was lost before the capture point: everything
    /// else is acknowledged, it is at most a segment, and the sender waited longer than the minimum RTO.
    pub(super) fn is_tail_retransmission(&self, side: Side, range: &Range<u64>, now: u64) -> bool {
        let state = &self.sides[side];
        let is_tail = state
            .messages
            .get(state.current)
            .is_some_and(|message| range.start > message.start && message.end <= range.end && message.end != u64::MAX);
        self.may_lose_before_capture(side) && is_tail && now - self.cursor >= Timer::MIN_RTO
    }

    /// How long the sender's timer took, if new data repeats packets that were lost before the capture point: the sender
    /// had numbered them, and none of its data is missing ([`crate::send_order`]). The rest of the wait was its program's.
    pub(super) fn unseen_timer(&self, side: Side, follows: bool, segment: &SegmentRecord) -> Option<u64> {
        let (rtt, lost) = (self.vantage.rtt(), segment.missing());
        let waited = segment.time - self.cursor.min(segment.time);
        // Behind earlier data, a tail loss probe may fire after a round trip or two. A lone packet's timer takes a round trip
        // and the least timeout; clocks tick, so it may seem to fire a little early.
        let continues = self.sides[side].last_sent > self.sides[!side].last_sent;
        let travel = if self.at == Some(!side) { self.vantage.rtt_to[side] } else { 0 };
        let least = if continues { rtt } else { travel + rtt + Timer::MIN_RTO / 10 * 9 };
        let is_repeat = follows && lost > 0 && self.connection.counts_packets(side) && waited >= least;
        if !is_repeat || !self.may_lose_before_capture(side) {
            return None;
        }
        // The timer starts at the RTT and its minimum, at three RTTs after the first sample, and doubles (RFC 6298 §2, §5).
        let expected = (rtt + Timer::MIN_RTO).max(3 * rtt) * ((1 << lost) - 1);
        Some(if waited <= expected + expected / TIMER_SLACK { waited } else { expected })
    }
}
