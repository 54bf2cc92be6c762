//! What happened to a message: the part of it that a replica needs to know.

use crate::{
    causes::nagle,
    infer::{send_context::SendContext, sender_state::AckRecord},
};

/// The maximum number of losses, pauses and stalls that are kept of a message.
const MAX_INCIDENTS: usize = 1000;

/// What happened to a message that no rule of its sender or receiver explains. Offsets are relative to its first byte, or to
/// that of the body that was held back.
#[derive(Debug, Clone, Default)]
pub(crate) struct MessageHistory {
    /// The least that the congestion window can have been when the message began, in bytes; none for the connection's
    /// first message.
    pub(crate) initial_cwnd: Option<u64>,
    /// The byte ranges that were retransmitted, and how often.
    pub(crate) losses: Vec<(u64, u64, u32)>,
    /// The offsets before which the program paused, and for how long, in nanoseconds.
    pub(crate) pauses: Vec<(u64, u64)>,
    /// The offsets after which the receiving program stopped reading, and for how long its window was closed, in
    /// nanoseconds.
    pub(crate) stalls: Vec<(u64, u64)>,
    /// The number of bytes sent before the first acknowledgement of the message can have arrived.
    pub(crate) first_flight: u64,
    /// The number of small segments that Nagle's algorithm held, and how many of them waited for another small segment.
    pub(crate) nagle_holds: u64,
    pub(crate) minshall_holds: u64,
    /// The ends of small segments: a write ended there.
    pub(crate) write_ends: Vec<u64>,
}

/// A message as it was captured. Times are in nanoseconds since the epoch.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedMessage {
    /// When its first byte passed.
    pub(crate) first: Option<u64>,
    /// When its last packet passed, retransmissions included.
    pub(crate) last: u64,
    /// When all of it was acknowledged, less the time for which the receiver delayed that acknowledgement.
    pub(crate) acked: Option<u64>,
    /// The number of its bytes that were delivered.
    pub(crate) bytes: u64,
    /// The body that was held back.
    pub(crate) held: Option<HeldBody>,
    pub(crate) history: MessageHistory,
}

/// A body that was held back until the server's `100 Continue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldBody {
    /// Its first byte, from the message's.
    pub(crate) offset: u64,
    /// When that passed.
    pub(crate) sent: u64,
    /// Whether `100 Continue` had passed before.
    pub(crate) got_continue: bool,
}

impl ObservedMessage {
    /// When its data began to pass without a break that its sender intended.
    pub(crate) fn flow_began(&self) -> Option<u64> {
        self.held.map(|held| held.sent).or(self.first)
    }

    /// The bytes of the part that was held back, or of all.
    pub(crate) fn flow_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.held.map_or(0, |held| held.offset))
    }

    /// From here on comes a body that was held back: what happened to the head explains nothing of it.
    pub(crate) fn begin_held_body(&mut self, held: HeldBody) {
        self.held = Some(held);
        self.history = MessageHistory { initial_cwnd: self.history.initial_cwnd, ..MessageHistory::default() };
    }
}

/// Counters of one direction of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirectionStats {
    pub(crate) retransmissions: u64,
    /// How many full segments a timer retransmitted, and the most bytes of a packet that was acknowledged last.
    pub(crate) full_timeouts: u64,
    pub(crate) largest_acked: u64,
    /// How many packets the receiver reported as duplicates: retransmissions without need.
    pub(crate) duplicates: u64,
    /// Whether losses do not make the sender reduce its window.
    pub(crate) ignores_losses: bool,
    /// The largest number of bytes in flight.
    pub(crate) max_in_flight: u64,
    /// The largest window that the receiver offered, and the first, in bytes.
    pub(crate) max_window: u64,
    pub(crate) first_window: u64,
    pub(crate) acks: Vec<AckRecord>,
}

impl MessageHistory {
    /// Records new data at this offset, up to that one, sent after a wait.
    pub(crate) fn record_data(&mut self, context: &SendContext, at: u64, to: u64, waited: u64) {
        let is_pause = context.writer.is_unprompted && !context.writer.is_paced;
        if is_pause && at > 0 && self.pauses.len() < MAX_INCIDENTS {
            self.pauses.push((at, waited));
        }
        if at > 0 && nagle::is_held(context) {
            self.nagle_holds += 1;
            self.minshall_holds += u64::from(context.writer.follows_small_ack);
        }
        if context.writer.sent_small_segment && self.write_ends.len() < MAX_INCIDENTS {
            self.write_ends.push(to);
        }
        if let Some((from, to)) = context.receive_window.closed
            && self.stalls.len() < MAX_INCIDENTS
        {
            self.stalls.push((at, to.saturating_sub(from)));
        }
    }

    /// Records a retransmission of these bytes.
    pub(crate) fn record_retransmission(&mut self, from: u64, to: u64) {
        let has_room = self.losses.len() < MAX_INCIDENTS;
        match self.losses.iter_mut().find(|loss| loss.0 == from) {
            Some(loss) => loss.2 += 1,
            None if has_room => self.losses.push((from, to, 1)),
            None => {}
        }
    }
}
