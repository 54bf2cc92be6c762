//! What an acknowledgement changes at the sender: what is in flight, the receive window, loss recovery, and the event
//! that may release the next packet.

use capture::tcp::Flags;

use super::SenderState;
use crate::{infer::send_context::ReleasingAck, segment::SegmentRecord};

/// A delayed ACK is delayed by at least this, in nanoseconds.
const MIN_DELAYED_ACK: u64 = 5_000_000;

/// A delayed ACK is delayed by at most this (RFC 5681 §4.2: within 500 ms; clock ticks add to it).
pub(crate) const MAX_DELAYED_ACK: u64 = 600_000_000;

/// An acknowledgement on the path to the sender.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "independent observations")]
pub(super) struct ArrivingAck {
    /// When the sender acts on it, as seen from the capture point.
    time: u64,
    packet: u32,
    ack: u64,
    window: u64,
    has_sack: bool,
    has_data: bool,
    /// Whether it is a SYN, whose window is not scaled.
    is_syn: bool,
    /// Whether it stands for a control frame of the protocol above TCP, and acknowledges nothing.
    is_control_frame: bool,
}

/// What an acknowledgement reveals of its receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckRecord {
    pub(crate) time: u64,
    /// The acknowledgement number, as an offset.
    pub(crate) ack: u64,
    /// Bytes newly acknowledged.
    pub(crate) bytes: u64,
    /// Packets newly acknowledged.
    pub(crate) packets: u32,
    /// Bytes of the last of these packets.
    pub(crate) last_packet_bytes: u64,
    /// When that packet was sent.
    pub(crate) last_packet_sent: u64,
    /// For how long that packet waited in a queue before the capture point, where timestamps show it.
    pub(crate) last_packet_late: u64,
    /// Whether it has no data and no SACK blocks, and nothing was being repaired.
    pub(crate) is_plain: bool,
    /// Whether a loss was being repaired: then it may acknowledge much that arrived before.
    pub(crate) is_repair: bool,
    /// For how long the receiver delayed it, in nanoseconds; 0 if it did not.
    pub(crate) held: u64,
    /// Whether everything in flight is acknowledged.
    pub(crate) acks_all: bool,
}

impl SenderState<'_> {
    /// A packet of the receiver passed the capture point: its acknowledgement is on the path to the sender.
    pub(crate) fn expect_ack(&mut self, segment: &SegmentRecord, scale: u8) {
        let shift = if segment.has(Flags::SYN) { 0 } else { scale };
        self.arriving.push_back(ArrivingAck {
            time: segment.time + self.rtt_to_sender,
            packet: segment.number,
            ack: self.offsets.near(segment.ack),
            window: u64::from(segment.window) << shift,
            has_sack: segment.has_sack(),
            has_data: segment.len > 0,
            is_syn: segment.has(Flags::SYN),
            is_control_frame: false,
        });
    }

    /// A control frame of the receiver's protocol above TCP passed the capture point.
    pub(crate) fn expect_control_frame(&mut self, segment: &SegmentRecord) {
        self.arriving.push_back(ArrivingAck {
            time: segment.time + self.rtt_to_sender,
            packet: segment.number,
            ack: 0,
            window: 0,
            has_sack: false,
            has_data: true,
            is_syn: false,
            is_control_frame: true,
        });
    }

    /// Processes everything that reaches the sender up to a time.
    pub(crate) fn advance(&mut self, now: u64) {
        while let Some(ack) = self.arriving.front().copied()
            && ack.time <= now
        {
            self.arriving.pop_front();
            self.process(ack);
        }
    }

    fn process(&mut self, ack: ArrivingAck) {
        if ack.is_control_frame {
            self.since_send.control_frame = Some(ack.time);
            return;
        }
        let is_absurd = ack.ack > self.snd_nxt + (1 << 30);
        if is_absurd {
            return;
        }
        // What is acknowledged was sent, whether it was captured or not.
        self.expect_gap(ack.ack, ack.time);
        self.snd_nxt = self.snd_nxt.max(ack.ack);
        let usable = self.right_edge.map(|edge| edge.saturating_sub(self.snd_nxt));
        let right_edge = ack.ack + ack.window;
        if ack.ack >= self.snd_una {
            self.right_edge = (self.properties.knows_window || ack.window == 0).then_some(right_edge);
        }
        (self.window, self.largest_window) =
            (ack.window, self.largest_window.max(if ack.is_syn { 0 } else { ack.window }));
        let opens_window = usable.is_some_and(|usable| right_edge.saturating_sub(self.snd_nxt) > usable);
        let acks_new_data = ack.ack > self.snd_una;
        self.recovery.sacks = if acks_new_data { 0 } else { self.recovery.sacks + u32::from(ack.has_sack) };
        let held = if acks_new_data { self.acknowledge(ack) } else { 0 };
        if acks_new_data || opens_window {
            if usable.is_some_and(|usable| usable < self.properties.mss) {
                self.since_send.window_full = Some(ack.time);
            }
            self.since_send.release =
                Some(ReleasingAck { time: ack.time, held, acks_all: self.flight() == 0, packet: ack.packet });
        } else if ack.has_sack && !ack.has_data {
            self.since_send.release =
                Some(ReleasingAck { time: ack.time, held: 0, acks_all: false, packet: ack.packet });
        }
        (self.ack_before_last, self.last_ack) = (self.last_ack, ack.time);
        if ack.has_data {
            self.since_send.peer_data = Some(ack.time);
        }
        let is_small =
            right_edge.saturating_sub(self.snd_nxt) < self.properties.mss && ack.window < self.properties.mss;
        let is_closed = is_small && (self.properties.knows_window || ack.window == 0);
        match (is_closed, self.closed_since) {
            (true, None) => self.closed_since = Some(ack.time),
            (false, Some(since)) => {
                self.since_send.window_closed =
                    Some((self.since_send.window_closed.map_or(since, |(from, _)| from), ack.time));
                self.closed_since = None;
            }
            _ => {}
        }
        self.check_room(ack.time);
    }

    /// Processes the acknowledgement of new data; returns for how long the receiver delayed it.
    fn acknowledge(&mut self, ack: ArrivingAck) -> u64 {
        if self.last_small.is_some_and(|end| end <= ack.ack) {
            self.last_small = None;
            self.since_send.small_acked = Some(ack.time).filter(|_| !ack.has_data);
        }
        let (before, mut last) = (self.snd_una, None);
        self.snd_una = ack.ack;
        let mss = self.properties.mss.max(1);
        let (mut packets, mut begin, mut last_packet_bytes) = (0, before, 0);
        // Larger than a segment: the network card splits it after the capture point.
        let mut count = |end: u64| {
            let size = end.saturating_sub(begin);
            if size > 0 {
                let more = size.div_ceil(mss);
                packets += more;
                last_packet_bytes = size - (more - 1) * mss;
                begin = end;
            }
        };
        while let Some(sent) = self.in_flight.front().copied()
            && sent.end <= ack.ack
        {
            last = Some(sent);
            count(sent.end);
            self.in_flight.pop_front();
        }
        count(ack.ack);
        let is_repair = self.recovery.current.is_some();
        if self.recovery.current.is_some_and(|(recovery_point, _)| self.snd_una >= recovery_point) {
            self.recovery.current = None;
            self.loss_response.repair(self.rounds.count);
        }
        if self.snd_una >= self.rounds.end {
            self.rounds.next(self.snd_nxt);
        }
        let Some(last) = last else { return 0 };
        // A receiver delays only the acknowledgement of the end of a flight, as it knows of no more data. It is due
        // one RTT after the bottleneck transmitted the packet, and not before the preceding acknowledgement.
        let due = (last.transmitted + self.rtt).max(if self.last_ack > last.time { self.last_ack } else { 0 });
        let late = ack.time.saturating_sub(due);
        let by_timer = late >= MIN_DELAYED_ACK.max(self.rtt / 10) && late <= MAX_DELAYED_ACK;
        let acks_all = self.flight() == 0;
        if acks_all {
            self.loss_response.forget();
        }
        let held = if acks_all && by_timer && !is_repair && !ack.has_data { late } else { 0 };
        self.acks.push(AckRecord {
            time: ack.time,
            ack: ack.ack,
            bytes: ack.ack - before,
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            last_packet_bytes,
            last_packet_sent: last.time,
            last_packet_late: last.late,
            is_repair: is_repair || ack.has_sack,
            is_plain: !ack.has_data && !ack.has_sack && !is_repair,
            held,
            acks_all,
        });
        held
    }
}
