//! The sender's state: what a sender knew and was allowed to send, at each of its packets.
//!
//! Only at the sender can one see whether a window, a timer or the program held it back. But a capture is taken anywhere.
//! So each acknowledgement is shifted to the time at which the sender acts on it, as seen from the capture point: the
//! round-trip time between capture point and sender later ([`crate::infer::vantage`]). After that, a capture at the
//! receiver's end reads like one at the sender's.
//!
//! The bottleneck is simulated beside it as a queue: each packet keeps it busy for as long as its bytes take. While it
//! is busy, no other reason for waiting is needed.

use std::collections::VecDeque;

use capture::tcp::Flags;

use super::{
    facts::Facts,
    send_context::{FlightTrend, ReceiveWindowState, ReleasingAck, RetransmitTrigger, SendContext, WriterState},
    vantage::VantagePoint,
};
use crate::{
    segment::SegmentRecord,
    side::Side,
    stream_offset::{ORIGIN, StreamOffsets},
};

/// How soon a sender reacts to an acknowledgement, in nanoseconds, on a busy machine.
const PROMPT: u64 = 3_000_000;

/// How many times as long it takes if the program has to react.
pub(crate) const PROGRAM_DELAY: u64 = 10;

/// Acknowledgements closer together than this count as one, in nanoseconds.
const TOGETHER: u64 = 1_000_000;

/// A delayed ACK is delayed by at least this, in nanoseconds.
const MIN_DELAYED_ACK: u64 = 5_000_000;

/// A delayed ACK is delayed by at most this (RFC 5681 §4.2: within 500 ms; clock ticks add to it).
const MAX_DELAYED_ACK: u64 = 600_000_000;

/// The number of round trips that are compared to see whether the data in flight grows.
const RECENT_ROUNDS: usize = 4;

/// The maximum number of round trips that are kept for the survey.
const MAX_ROUNDS: usize = 4096;

/// An acknowledgement on the path to the sender.
#[derive(Debug, Clone, Copy)]
struct ArrivingAck {
    /// When the sender acts on it, as seen from the capture point.
    time: u64,
    packet: u32,
    ack: u64,
    window: u64,
    has_sack: bool,
    has_data: bool,
    /// Whether it stands for a control frame of the protocol above TCP, and acknowledges nothing.
    is_control_frame: bool,
}

/// A packet on the path to the receiver.
#[derive(Debug, Clone, Copy)]
struct SentSegment {
    end: u64,
    time: u64,
    /// When the bottleneck had transmitted it.
    transmitted: u64,
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
    /// Whether it has no data and no SACK blocks, and nothing was being repaired.
    pub(crate) is_plain: bool,
    /// For how long the receiver delayed it, in nanoseconds; 0 if it did not.
    pub(crate) held: u64,
    /// Whether everything in flight is acknowledged.
    pub(crate) acks_all: bool,
}

/// What was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sent {
    New(SendContext),
    Retransmission(RetransmitTrigger),
}

/// The state of a sender: what RFC 9293 §3.3.1 calls its transmission control block.
#[derive(Debug)]
pub(crate) struct SenderState<'a> {
    facts: &'a Facts,
    /// The round-trip time between capture point and sender, and between both ends, in nanoseconds.
    rtt_to_sender: u64,
    rtt: u64,
    offsets: StreamOffsets,
    arriving: VecDeque<ArrivingAck>,
    in_flight: VecDeque<SentSegment>,
    /// The first unacknowledged byte (RFC 9293 §3.3.1: SND.UNA), and the byte after the last sent (SND.NXT).
    pub(crate) snd_una: u64,
    pub(crate) snd_nxt: u64,
    /// The first byte of the last packet sent.
    pub(crate) last_start: u64,
    /// When a packet was last sent.
    last_sent: u64,
    /// When the bottleneck has transmitted everything sent so far.
    pub(crate) busy_until: u64,
    last_ack: u64,
    since_send: SinceLastSend,
    /// The first byte beyond the receive window.
    right_edge: Option<u64>,
    /// Since when the receive window has been closed.
    closed_since: Option<u64>,
    recovery: Recovery,
    rounds: Rounds,
    /// What the latest acknowledgements reveal, for the caller to drain.
    pub(crate) acks: Vec<AckRecord>,
}

/// What reached the sender since its last packet.
#[derive(Debug, Default)]
struct SinceLastSend {
    /// The latest acknowledgement that may release the next packet.
    release: Option<ReleasingAck>,
    /// Since when both windows have had room.
    room_since: Option<u64>,
    /// When an acknowledgement last arrived while the receive window was full.
    window_full: Option<u64>,
    /// From when to when the receive window was closed.
    window_closed: Option<(u64, u64)>,
    /// When the other side last sent data.
    peer_data: Option<u64>,
    /// When the other side last opened an HTTP/2 window.
    control_frame: Option<u64>,
}

/// Loss recovery and the congestion window (RFC 5681, RFC 6675).
#[derive(Debug)]
struct Recovery {
    /// The recovery in progress: SND.NXT at its start (RFC 6675: `RecoveryPoint`), and how the loss was noticed.
    current: Option<(u64, RetransmitTrigger)>,
    has_loss: bool,
    /// The most that was in flight since the last loss: a lower bound of the congestion window.
    min_cwnd: u64,
    /// How many acknowledgements have had SACK blocks since the last that acknowledged new data.
    sacks: u32,
    /// The state before the last recovery, in case its retransmission was spurious.
    undo: Undo,
}

/// What to restore if a retransmission turns out to be spurious (the Eifel response, RFC 4015).
#[derive(Debug, Clone, Copy, Default)]
struct Undo {
    min_cwnd: u64,
    has_loss: bool,
    /// When the acknowledgement was due that the sender missed.
    ack_due: u64,
}

/// The most that was in flight in each round trip.
#[derive(Debug)]
struct Rounds {
    /// The current round ends when this byte is acknowledged.
    end: u64,
    count: usize,
    /// The current round and those before it, latest first.
    recent: [u64; RECENT_ROUNDS],
    all: Vec<u64>,
}

impl Rounds {
    fn next(&mut self, end: u64) {
        self.end = end;
        if self.all.len() < MAX_ROUNDS {
            self.all.push(self.recent[0]);
        }
        self.recent.rotate_right(1);
        self.recent[0] = 0;
        self.count += 1;
    }
}

impl<'a> SenderState<'a> {
    pub(crate) fn new(offsets: StreamOffsets, vantage: &VantagePoint, side: Side, facts: &'a Facts) -> Self {
        Self {
            facts,
            // In a capture at the sender's end, an acknowledgement has arrived when it is captured.
            rtt_to_sender: if vantage.is_at(side) { 0 } else { vantage.rtt_to[side] },
            rtt: vantage.rtt(),
            offsets: offsets.rewound(),
            arriving: VecDeque::new(),
            in_flight: VecDeque::new(),
            snd_una: ORIGIN,
            snd_nxt: ORIGIN,
            last_start: ORIGIN,
            last_sent: 0,
            busy_until: 0,
            last_ack: 0,
            since_send: SinceLastSend::default(),
            right_edge: None,
            closed_since: None,
            recovery: Recovery {
                current: None,
                has_loss: false,
                // No sender since RFC 2581 (§3.1) begins with less than two segments.
                min_cwnd: 2 * facts.mss,
                sacks: 0,
                undo: Undo::default(),
            },
            rounds: Rounds { end: ORIGIN, count: 0, recent: [0; RECENT_ROUNDS], all: Vec::new() },
            acks: Vec::new(),
        }
    }

    /// Takes the most that was in flight in each round trip so far; empty if anything was lost.
    pub(crate) fn take_rounds(&mut self) -> Vec<u64> {
        if self.recovery.has_loss { Vec::new() } else { std::mem::take(&mut self.rounds.all) }
    }

    /// A lower bound of the congestion window, in bytes.
    pub(crate) fn min_cwnd(&self) -> u64 {
        self.recovery.min_cwnd
    }

    /// How many acknowledgements have reported a loss since the last that acknowledged new data.
    pub(crate) fn sacks(&self) -> u32 {
        self.recovery.sacks
    }

    /// Bytes in flight.
    pub(crate) fn flight(&self) -> u64 {
        self.snd_nxt.saturating_sub(self.snd_una)
    }

    /// How soon after an acknowledgement a packet counts as released by it, in nanoseconds.
    pub(crate) fn prompt(&self) -> u64 {
        PROMPT.max(self.rtt / 8)
    }

    /// A packet of the receiver passed the capture point: its acknowledgement is on the path to the sender.
    pub(crate) fn expect_ack(&mut self, segment: &SegmentRecord, scale: u8) {
        let shift = if segment.has(Flags::SYN) { 0 } else { scale };
        self.arriving.push_back(ArrivingAck {
            time: segment.time + self.rtt_to_sender,
            packet: segment.number,
            ack: self.offsets.near(segment.ack),
            window: u64::from(segment.window) << shift,
            has_sack: segment.sacked().is_some(),
            has_data: segment.len > 0,
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
        self.snd_nxt = self.snd_nxt.max(ack.ack);
        let usable = self.right_edge.map(|edge| edge.saturating_sub(self.snd_nxt));
        let right_edge = ack.ack + ack.window;
        if ack.ack >= self.snd_una {
            self.right_edge = Some(right_edge);
        }
        let opens_window = usable.is_some_and(|usable| right_edge.saturating_sub(self.snd_nxt) > usable);
        let acks_new_data = ack.ack > self.snd_una;
        self.recovery.sacks = if acks_new_data { 0 } else { self.recovery.sacks + u32::from(ack.has_sack) };
        let held = if acks_new_data { self.acknowledge(ack) } else { 0 };
        if acks_new_data || opens_window {
            if usable.is_some_and(|usable| usable < self.facts.mss) {
                self.since_send.window_full = Some(ack.time);
            }
            self.since_send.release =
                Some(ReleasingAck { time: ack.time, held, acks_all: self.flight() == 0, packet: ack.packet });
        } else if ack.has_sack && !ack.has_data {
            self.since_send.release =
                Some(ReleasingAck { time: ack.time, held: 0, acks_all: false, packet: ack.packet });
        }
        self.last_ack = ack.time;
        if ack.has_data {
            self.since_send.peer_data = Some(ack.time);
        }
        let is_closed = right_edge.saturating_sub(self.snd_nxt) < self.facts.mss && ack.window < self.facts.mss;
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
        let (before, mut last) = (self.snd_una, None);
        self.snd_una = ack.ack;
        let mss = self.facts.mss.max(1);
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
        let held = if acks_all && by_timer && !is_repair && !ack.has_data { late } else { 0 };
        self.acks.push(AckRecord {
            time: ack.time,
            ack: ack.ack,
            bytes: ack.ack - before,
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            last_packet_bytes,
            last_packet_sent: last.time,
            is_plain: !ack.has_data && !ack.has_sack && !is_repair,
            held,
            acks_all,
        });
        held
    }

    /// Notes the time from which both windows have room.
    fn check_room(&mut self, now: u64) {
        // A third of the congestion window: with less, senders wait to send more at once (Linux:
        // `tcp_tso_should_defer`).
        let enough = self.facts.mss.max(self.recovery.min_cwnd / 3);
        let window_allows = self.right_edge.is_none_or(|edge| edge.saturating_sub(self.snd_nxt) >= self.facts.mss);
        if self.since_send.room_since.is_none() && window_allows && self.flight() + enough <= self.recovery.min_cwnd {
            self.since_send.room_since = Some(now);
        }
    }

    /// A packet of the sender passed: what released it; none if it has no data.
    pub(crate) fn send(&mut self, segment: &SegmentRecord) -> Option<Sent> {
        self.advance(segment.time);
        if self.since_send.release.is_none_or(|release| segment.time > release.time + self.prompt()) {
            // Distances are measured, and not to the microsecond: an acknowledgement that has almost arrived counts.
            self.advance(segment.time + (self.rtt_to_sender / 16).min(TOGETHER));
        }
        let syn = u32::from(segment.has(Flags::SYN));
        let start = self.offsets.of(segment.seq.wrapping_add(syn))?;
        let (now, end) = (segment.time, start + u64::from(segment.len));
        // A window probe or a keep-alive carries at most a byte (RFC 9293 §3.8.4, §3.8.6.1).
        if segment.len <= 1 && (end <= self.snd_nxt || self.closed_since.is_some()) {
            return None;
        }
        let is_retransmission = start < self.snd_nxt;
        self.last_start = start;
        let sent = if is_retransmission {
            Sent::Retransmission(self.retransmit(now))
        } else {
            Sent::New(self.context(now, segment.len.into()))
        };
        self.busy_until = self.busy_until.max(now) + self.facts.transmission_time(segment.len.into());
        self.snd_nxt = self.snd_nxt.max(end);
        self.last_sent = now;
        if !is_retransmission {
            self.in_flight.push_back(SentSegment { end, time: now, transmitted: self.busy_until });
        }
        if self.recovery.current.is_none() {
            self.recovery.min_cwnd = self.recovery.min_cwnd.max(self.flight());
        }
        self.rounds.recent[0] = self.rounds.recent[0].max(self.flight());
        self.since_send = SinceLastSend::default();
        if let Some(since) = &mut self.closed_since {
            *since = now.max(*since);
        }
        self.check_room(now);
        Some(sent)
    }

    /// Processes a retransmission; returns what triggered it.
    fn retransmit(&mut self, now: u64) -> RetransmitTrigger {
        // No timer fires this soon after acknowledgements that reported the loss.
        let soon = if self.recovery.sacks > 0 { self.prompt().max(self.rtt / 2) } else { self.prompt() };
        let follows_ack = self.since_send.release.is_some_and(|release| now <= release.time + soon)
            || self.last_ack > 0 && now <= self.last_ack + soon;
        let trigger = match self.recovery.current {
            // A recovery goes on as it began.
            Some((_, trigger)) if follows_ack => trigger,
            _ if follows_ack => RetransmitTrigger::Acks,
            _ => RetransmitTrigger::Timer,
        };
        if self.recovery.current.is_none() {
            let ack_due = self.in_flight.back().map_or(0, |last| last.transmitted + self.rtt);
            let Recovery { min_cwnd, has_loss, .. } = self.recovery;
            self.recovery.undo = Undo { min_cwnd, has_loss, ack_due };
        }
        self.recovery.has_loss = true;
        self.recovery.min_cwnd = match trigger {
            RetransmitTrigger::Acks => (self.recovery.min_cwnd / 2).max(2 * self.facts.mss),
            RetransmitTrigger::Timer => self.facts.mss,
        };
        self.recovery.current = Some((self.snd_nxt, trigger));
        trigger
    }

    /// The last retransmission was spurious: the data had arrived. Returns when its acknowledgement was due, and what
    /// is known of a sender that went on when it came.
    pub(crate) fn undo_recovery(&mut self) -> (u64, SendContext) {
        let Undo { min_cwnd, has_loss, ack_due } = self.recovery.undo;
        (self.recovery.min_cwnd, self.recovery.has_loss, self.recovery.current) = (min_cwnd, has_loss, None);
        let writer = WriterState {
            waits_for_chunks: self.facts.chunk.is_some(),
            is_ack_clocked: true,
            ..WriterState::default()
        };
        (ack_due, SendContext { room_since: Some(0), writer, ..SendContext::default() })
    }

    fn context(&self, now: u64, len: u64) -> SendContext {
        let facts = self.facts;
        let waits_for_chunks = facts.chunk.is_some();
        // A program that waits for its chunk may notice the acknowledgement late.
        let delay = |release: &ReleasingAck| if waits_for_chunks && release.acks_all { PROGRAM_DELAY } else { 1 };
        let released_by =
            self.since_send.release.filter(|release| now <= release.time + delay(release) * self.prompt());
        let [current, last, before, earlier] = self.rounds.recent;
        let has_loss = self.recovery.has_loss;
        let has_rounds = self.rounds.count >= RECENT_ROUNDS;
        let is_growing = !has_loss && if has_rounds { last.max(before) * 4 >= earlier * 5 } else { facts.from_start };
        // Acknowledgements close together count as one; while the window grows, also all that arrive before the sender
        // reacts.
        let together = if is_growing && facts.steady_flight.is_none() { self.prompt() } else { TOGETHER };
        let room_since =
            self.since_send.room_since.filter(|room| released_by.is_none_or(|release| room + together < release.time));
        let last_event = self.last_sent.max(self.since_send.release.map_or(0, |release| release.time));
        SendContext {
            released_by,
            room_since,
            recovery: self.recovery.current.map(|(_, trigger)| trigger),
            has_loss,
            flow_control_opened: self.since_send.control_frame.is_some_and(|opened| {
                now <= opened + self.prompt() && self.since_send.room_since.is_some_and(|room| room < opened)
            }),
            receive_window: ReceiveWindowState {
                closed: self.since_send.window_closed.or_else(|| self.closed_since.map(|since| (since, now))),
                is_limiting: match self.since_send.release {
                    Some(release) => self.since_send.window_full.is_some_and(|at| release.time <= at + self.prompt()),
                    None => self.right_edge.is_some_and(|edge| edge.saturating_sub(self.snd_nxt) < facts.mss),
                },
            },
            flight: FlightTrend {
                is_growing,
                is_steady: !has_loss && facts.steady_flight.is_some_and(|flight| current.max(last) * 2 >= flight),
                is_known: facts.from_start || has_rounds,
                fills_path: facts.fills_path(self.flight(), self.rtt),
            },
            writer: WriterState {
                is_unprompted: released_by.is_none() && now > last_event + self.prompt(),
                follows_peer: self.since_send.peer_data.is_some_and(|time| now <= time + self.prompt()),
                waits_for_chunks,
                is_ack_clocked: facts.is_ack_clocked,
                sent_small_segment: len < facts.mss && !facts.nodelay,
            },
        }
    }
}
