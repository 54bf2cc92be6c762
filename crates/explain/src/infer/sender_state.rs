//! The sender's state: what a sender knew and was allowed to send, at each of its packets.
//!
//! Only at the sender can one see whether a window, a timer or the program held it back. But a capture is taken anywhere.
//! So each acknowledgement is shifted to the time at which the sender acts on it, as seen from the capture point: the
//! round-trip time between capture point and sender later ([`crate::infer::vantage`]). After that, a capture at the
//! receiver's end reads like one at the sender's.
//!
//! The bottleneck is simulated beside it as a queue: each packet keeps it busy for as long as its bytes take. While it
//! is busy, no other reason for waiting is needed.

mod on_ack;

use std::collections::VecDeque;

use capture::tcp::Flags;

use self::on_ack::ArrivingAck;
pub(crate) use self::on_ack::{AckRecord, MAX_DELAYED_ACK};
use super::{
    loss_response::LossResponse,
    send_context::{FlightTrend, ReceiveWindowState, ReleasingAck, RetransmitTrigger, SendContext, WriterState},
    sender_properties::SenderProperties,
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

/// The number of round trips that are compared to see whether the data in flight grows.
const RECENT_ROUNDS: usize = 4;

/// The maximum number of round trips that are kept for the survey.
const MAX_ROUNDS: usize = 4096;

/// The number of gaps in the data that are remembered.
const MAX_GAPS: usize = 16;

/// A packet on the path to the receiver.
#[derive(Debug, Clone, Copy)]
struct SentSegment {
    end: u64,
    time: u64,
    /// When the bottleneck had transmitted it.
    transmitted: u64,
    /// For how long it waited in a queue before the capture point, where timestamps show it.
    late: u64,
}

/// Data that was not captured when later data was, or its acknowledgement.
#[derive(Debug, Clone, Copy)]
struct Gap {
    start: u64,
    end: u64,
    /// When it was noticed.
    since: u64,
}

/// What was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sent {
    New(SendContext),
    /// Data that was captured after later data, or after its own acknowledgement, for the first time. It was not lost.
    Late(SendContext),
    Retransmission(RetransmitTrigger),
}

/// The state of a sender: what RFC 9293 §3.3.1 calls its transmission control block; hence its many fields.
#[derive(Debug)]
pub(crate) struct SenderState<'a> {
    properties: &'a SenderProperties,
    /// Whether the capture was taken away from the sender's end.
    pub(crate) is_away: bool,
    /// The round-trip time between capture point and sender, and between both ends, in nanoseconds.
    rtt_to_sender: u64,
    rtt: u64,
    offsets: StreamOffsets,
    arriving: VecDeque<ArrivingAck>,
    in_flight: VecDeque<SentSegment>,
    /// The latest gaps.
    gaps: VecDeque<Gap>,
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
    ack_before_last: u64,
    /// The end of the last segment smaller than the MSS, if it is not acknowledged.
    last_small: Option<u64>,
    since_send: SinceLastSend,
    /// The first byte beyond the receive window.
    right_edge: Option<u64>,
    /// The receive window, and the largest so far.
    window: u64,
    largest_window: u64,
    /// Since when the receive window has been closed.
    closed_since: Option<u64>,
    recovery: Recovery,
    pub(crate) loss_response: LossResponse,
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
    /// When the last small segment was acknowledged.
    small_acked: Option<u64>,
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
    pub(crate) fn new(
        offsets: StreamOffsets,
        vantage: &VantagePoint,
        side: Side,
        properties: &'a SenderProperties,
    ) -> Self {
        Self {
            properties,
            is_away: !vantage.is_near(side),
            // In a capture at the sender's end, an acknowledgement has arrived when it is captured.
            rtt_to_sender: if vantage.is_at(side) { 0 } else { vantage.rtt_to[side] },
            rtt: vantage.rtt(),
            offsets: offsets.rewound(),
            arriving: VecDeque::new(),
            in_flight: VecDeque::new(),
            gaps: VecDeque::new(),
            snd_una: ORIGIN,
            snd_nxt: ORIGIN,
            last_start: ORIGIN,
            last_sent: 0,
            busy_until: 0,
            last_ack: 0,
            ack_before_last: 0,
            last_small: None,
            since_send: SinceLastSend::default(),
            right_edge: None,
            window: 0,
            largest_window: 0,
            closed_since: None,
            recovery: Recovery {
                current: None,
                has_loss: false,
                // No sender since RFC 2581 (§3.1) begins with less than two segments.
                min_cwnd: 2 * properties.mss,
                sacks: 0,
                undo: Undo::default(),
            },
            loss_response: LossResponse::default(),
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

    /// Whether anything was lost so far.
    pub(crate) fn has_loss(&self) -> bool {
        self.recovery.has_loss
    }

    /// How many acknowledgements have reported a loss since the last that acknowledged new data.
    pub(crate) fn sacks(&self) -> u32 {
        self.recovery.sacks
    }

    /// When an acknowledgement last arrived, up to a time.
    pub(crate) fn last_ack(&self, now: u64) -> u64 {
        if self.last_ack <= now { self.last_ack } else { self.ack_before_last.min(now) }
    }

    /// How much older the acknowledgement is that a packet echoes than the latest that its sender had received, in nanoseconds:
    /// for that long, the packet waited below TCP or on the path. None without timestamps.
    pub(crate) fn lag(&self, segment: &SegmentRecord) -> Option<u64> {
        let echoed = (segment.time + self.rtt_to_sender).saturating_sub(segment.echo()?);
        Some(self.last_ack(segment.time).saturating_sub(echoed))
    }

    /// Bytes in flight.
    pub(crate) fn flight(&self) -> u64 {
        self.snd_nxt.saturating_sub(self.snd_una)
    }

    /// Whether all that the receive window allows is sent, to the byte.
    pub(crate) fn is_at_edge(&self) -> bool {
        self.right_edge == Some(self.snd_nxt)
    }

    /// The receive window, if it is known.
    pub(crate) fn last_window(&self) -> Option<u64> {
        self.right_edge.map(|_| self.window)
    }

    /// The offset of the byte after a segment of this sender.
    pub(crate) fn end_of(&self, segment: &SegmentRecord) -> u64 {
        let syn = u32::from(segment.has(Flags::SYN));
        self.offsets.near(segment.seq.wrapping_add(syn)) + u64::from(segment.len)
    }

    /// How soon after an acknowledgement a packet counts as released by it, in nanoseconds.
    pub(crate) fn prompt(&self) -> u64 {
        PROMPT.max(self.rtt / 8)
    }

    /// Notes the time from which both windows have room.
    fn check_room(&mut self, now: u64) {
        // A third of the congestion window: with less, senders wait to send more at once (Linux:
        // `tcp_tso_should_defer`).
        let enough = self.properties.mss.max(self.recovery.min_cwnd / 3);
        let window_allows = self.right_edge.is_none_or(|edge| edge.saturating_sub(self.snd_nxt) >= self.properties.mss);
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
        let is_new = start >= self.snd_nxt;
        self.last_start = start;
        let sent = if is_new {
            self.expect_gap(start, now);
            Sent::New(self.context(now, segment.len.into()))
        } else if self.fills_gap(start, end, segment) {
            Sent::Late(self.context(now, segment.len.into()))
        } else {
            Sent::Retransmission(self.retransmit(now))
        };
        self.busy_until = self.busy_until.max(now) + self.properties.transmission_time(segment.len.into());
        self.snd_nxt = self.snd_nxt.max(end);
        self.last_sent = now;
        if u64::from(segment.len) < self.properties.mss {
            self.last_small = Some(end);
        }
        if is_new {
            // At the sender's end, no path is in between.
            let late = self.lag(segment).filter(|_| self.is_away).unwrap_or(0);
            self.in_flight.push_back(SentSegment { end, time: now, transmitted: self.busy_until, late });
        }
        if self.recovery.current.is_none() {
            self.recovery.min_cwnd = self.recovery.min_cwnd.max(self.flight());
        }
        self.rounds.recent[0] = self.rounds.recent[0].max(self.flight());
        if let Sent::New(SendContext { writer, .. }) | Sent::Late(SendContext { writer, .. }) = &sent
            && (writer.is_unprompted || writer.is_paced)
        {
            self.loss_response.forget();
        }
        self.loss_response.send(self.flight(), self.rounds.count);
        self.since_send = SinceLastSend::default();
        if let Some(since) = &mut self.closed_since {
            *since = now.max(*since);
        }
        self.check_room(now);
        Some(sent)
    }

    /// The data up to `end` has not been captured, and should have been.
    fn expect_gap(&mut self, end: u64, now: u64) {
        if end > self.snd_nxt {
            if self.gaps.len() == MAX_GAPS {
                self.gaps.pop_front();
            }
            self.gaps.push_back(Gap { start: self.snd_nxt, end, since: now });
        }
    }

    /// Whether this data was missing in the capture without having been lost: it was acknowledged already, its headers
    /// say that it was overtaken, or it comes too soon after the gap was noticed for the sender to know of it.
    fn fills_gap(&mut self, start: u64, end: u64, segment: &SegmentRecord) -> bool {
        let is_within = |gap: &&mut Gap| gap.start <= start && end <= gap.end;
        let (snd_una, rtt) = (self.snd_una, self.rtt);
        let Some(gap) = self.gaps.iter_mut().rev().find(is_within) else { return false };
        let is_soon = segment.time < gap.since + rtt / 2;
        let is_late = end <= snd_una || segment.is_resent().map_or(is_soon, |is_resent| !is_resent);
        if is_late {
            // In order from either end; the larger rest stays.
            if start - gap.start > gap.end - end { gap.end = start } else { gap.start = end }
        }
        is_late
    }

    /// Processes a retransmission; returns what triggered it.
    fn retransmit(&mut self, now: u64) -> RetransmitTrigger {
        // No timer fires this soon after acknowledgements that reported the loss.
        let soon = if self.recovery.sacks > 0 { self.prompt().max(self.rtt / 2) } else { self.prompt() };
        let follows_ack = self.since_send.release.is_some_and(|release| now <= release.time + soon)
            || self.last_ack > 0 && now <= self.last_ack + soon
            // What triggered it was sent before the capture began.
            || self.last_ack == 0 && !self.properties.from_start;
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
            let before = self.rounds.recent[0].max(self.rounds.recent[1]);
            self.loss_response.lose(before, self.properties.mss, self.window, self.rtt);
        }
        self.recovery.has_loss = true;
        self.recovery.min_cwnd = match trigger {
            RetransmitTrigger::Acks => (self.recovery.min_cwnd / 2).max(2 * self.properties.mss),
            RetransmitTrigger::Timer => self.properties.mss,
        };
        self.recovery.current = Some((self.snd_nxt, trigger));
        if trigger == RetransmitTrigger::Timer {
            self.loss_response.forget();
        }
        trigger
    }

    /// When the acknowledgement was due that the sender missed before it last retransmitted.
    pub(crate) fn ack_due(&self) -> u64 {
        self.recovery.undo.ack_due
    }

    /// The last retransmission was spurious: the data had arrived. Returns when its acknowledgement was due, and what
    /// is known of a sender that went on when it came.
    pub(crate) fn undo_recovery(&mut self) -> (u64, SendContext) {
        let Undo { min_cwnd, has_loss, ack_due } = self.recovery.undo;
        (self.recovery.min_cwnd, self.recovery.has_loss, self.recovery.current) = (min_cwnd, has_loss, None);
        let writer = WriterState {
            waits_for_chunks: self.properties.chunk.is_some(),
            is_ack_clocked: true,
            ..WriterState::default()
        };
        (ack_due, SendContext { room_since: Some(0), writer, ..SendContext::default() })
    }

    fn context(&self, now: u64, len: u64) -> SendContext {
        let properties = self.properties;
        let waits_for_chunks = properties.chunk.is_some();
        // A program that waits for its chunk may notice the acknowledgement late.
        let delay = |release: &ReleasingAck| if waits_for_chunks && release.acks_all { PROGRAM_DELAY } else { 1 };
        let released_by =
            self.since_send.release.filter(|release| now <= release.time + delay(release) * self.prompt());
        let [current, last, before, earlier] = self.rounds.recent;
        let has_loss = self.recovery.has_loss;
        let has_rounds = self.rounds.count >= RECENT_ROUNDS;
        let is_growing =
            !has_loss && if has_rounds { last.max(before) * 4 >= earlier * 5 } else { properties.from_start };
        // Acknowledgements close together count as one; while the window grows, also all that arrive before the sender
        // reacts.
        let together = if is_growing && properties.steady_flight.is_none() { self.prompt() } else { TOGETHER };
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
                may_limit: properties.may_be_window_limited,
                is_shrunk: properties.knows_window && self.window * 2 < self.largest_window,
                is_limiting: match self.since_send.release {
                    Some(release) => self.since_send.window_full.is_some_and(|at| release.time <= at + self.prompt()),
                    None => self.right_edge.is_some_and(|edge| edge.saturating_sub(self.snd_nxt) < properties.mss),
                },
            },
            flight: FlightTrend {
                is_growing,
                is_steady: !has_loss && properties.steady_flight.is_some_and(|flight| current.max(last) * 2 >= flight),
                is_flow_controlled: properties.is_flow_controlled,
                is_known: (properties.from_start || has_rounds) && !properties.may_be_window_limited,
                fills_path: properties.fills_path(self.flight(), self.rtt),
            },
            writer: WriterState {
                is_unprompted: released_by.is_none() && now > last_event + self.prompt(),
                follows_peer: self.since_send.peer_data.is_some_and(|time| now <= time + self.prompt()),
                waits_for_chunks,
                is_paced: properties.pacing.as_ref().is_some_and(|pacing| pacing.covers(now)),
                is_ack_clocked: properties.is_ack_clocked,
                sent_small_segment: len < properties.mss && !properties.nodelay,
                follows_small_ack: self.since_send.small_acked.is_some_and(|acked| {
                    now <= acked + PROMPT && self.since_send.peer_data.is_none_or(|data| data < acked)
                }),
            },
        }
    }
}
