//! What the walk records of each message: when its bytes were sent, lost and acknowledged, and how many arrived.

use std::ops::Range;

use super::{SideState, Walk};
use crate::{
    critical_path::timeline::Timeline,
    infer::{
        exchange::Exchange,
        send_context::RetransmitTrigger,
        sender_state::{SenderState, Sent},
    },
    segment::SegmentRecord,
    side::Side,
    stream_offset::ORIGIN,
};

/// The maximum number of acknowledgements that are kept to infer a receiver's policy.
const MAX_ACKS: usize = 4096;

/// The bytes of a message, and the exchange that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageRange {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) exchange: usize,
}

impl MessageRange {
    /// The messages of a side, in order.
    pub(super) fn of(exchanges: &[Exchange], side: Side) -> Vec<Self> {
        let parts = exchanges.iter().enumerate();
        let ranges =
            parts.filter_map(|(exchange, parts)| parts.parts[side].map(|(start, end)| Self { start, end, exchange }));
        let mut ranges: Vec<Self> = ranges.collect();
        ranges.sort_unstable();
        ranges
    }
}

impl Walk<'_> {
    /// Records a packet in the messages that it belongs to; returns whether one begins with it.
    pub(super) fn observe(
        &mut self,
        timeline: &mut Timeline,
        segment: &SegmentRecord,
        side: Side,
        range: &Range<u64>,
        sent: Sent,
    ) -> bool {
        let state = &self.sides[side];
        let mut begins_message = false;
        // A timer fired although acknowledgements had reported the loss: the retransmission that they triggered was lost
        // as well, before the capture point.
        let loss_was_reported = state.sender.as_ref().is_some_and(|sender| sender.sacks() >= 3);
        let lost_twice = loss_was_reported
            && matches!(sent, Sent::Retransmission(RetransmitTrigger::Timer))
            && self.may_lose_before_capture(side);
        for MessageRange { start, end, exchange } in &state.messages[state.current.min(state.messages.len())..] {
            if *start >= range.end {
                break;
            }
            if *end <= range.start {
                continue;
            }
            let message = &mut timeline.messages[*exchange][side];
            message.last = segment.time;
            let origin = start + message.held.map_or(0, |held| held.offset);
            if range.end <= origin {
                // The head again, after the body has begun.
                continue;
            }
            let from = range.start.max(origin) - origin;
            match sent {
                Sent::New(context) | Sent::Late(context) => {
                    if message.first.is_none() {
                        begins_message = true;
                        let min_cwnd = state.sender.as_ref().map(SenderState::min_cwnd);
                        message.history.initial_cwnd = min_cwnd.filter(|_| *start > ORIGIN + 1);
                    }
                    message.history.record_data(
                        &context,
                        from,
                        range.end.min(*end) - origin,
                        segment.time.saturating_sub(self.cursor),
                    );
                    if segment.time <= message.flow_began().unwrap_or(segment.time) + self.vantage.rtt() / 2 {
                        message.history.first_flight = range.end - origin;
                    }
                }
                Sent::Retransmission(_) => {
                    // An apparent pause was a loss.
                    message.history.pauses.retain(|(at, _)| *at != from);
                    message.history.record_retransmission(from, range.end.min(*end) - origin);
                    if lost_twice {
                        message.history.record_retransmission(from, range.end.min(*end) - origin);
                    }
                }
            }
            message.first.get_or_insert(segment.time);
        }
        begins_message
    }

    /// Records the acknowledgements that reached a sender.
    pub(super) fn record_acks(&mut self, timeline: &mut Timeline, side: Side) {
        let SideState { sender: Some(sender), messages, current, .. } = &mut self.sides[side] else { return };
        let rtt_to_sender = self.vantage.rtt_to[side];
        for ack in sender.acks.drain(..) {
            let stats = &mut timeline.stats[side];
            stats.largest_acked = stats.largest_acked.max(ack.last_packet_bytes);
            if stats.acks.len() < MAX_ACKS {
                stats.acks.push(ack);
            }
            while let Some(message) = messages.get(*current)
                && message.end <= ack.ack
            {
                timeline.messages[message.exchange][side].acked =
                    Some((ack.time - ack.held).saturating_sub(rtt_to_sender));
                *current += 1;
            }
        }
    }

    pub(super) fn count_bytes(&mut self, timeline: &mut Timeline, side: Side) {
        let SideState { sender: Some(sender), delivered, stream_end, messages, .. } = &mut self.sides[side] else {
            return;
        };
        // The acknowledgement of a FIN is one beyond the data.
        delivered.acknowledge(sender.snd_una.min(stream_end.unwrap_or(u64::MAX)));
        for MessageRange { start, end, exchange } in messages {
            let message = &mut timeline.messages[*exchange][side];
            message.bytes = if message.first.is_some() { delivered.within(*start, *end) } else { 0 };
        }
    }
}
