//! The walk along a connection: from one event to the next, and what ended the wait between them.

mod messages;
mod unseen_losses;

use capture::tcp::Flags;

use messages::MessageRange;

use super::{message_history::HeldBody, timeline::Timeline};
use crate::{
    causes::{
        nagle,
        wait::{Wait, WaitEnd},
    },
    collect::CapturedConnection,
    infer::{
        control_frames::{self, is_control_frame},
        exchange::Exchange,
        send_context::{ReleasingAck, RetransmitTrigger, SendContext},
        sender_properties::SenderProperties,
        sender_state::{MAX_DELAYED_ACK, SenderState, Sent},
        shared_link::SharedLink,
        vantage::{Vantage, VantagePoint},
    },
    read::Protocol,
    segment::SegmentRecord,
    sent_ranges::SentRanges,
    side::{PerSide, Side},
};

/// The shortest time in queues that counts, in nanoseconds.
const MIN_QUEUE: u64 = 5_000_000;

/// The state of the walk along a connection. Times are in nanoseconds since the epoch.
pub(crate) struct Walk<'a> {
    connection: &'a CapturedConnection,
    vantage: &'a VantagePoint,
    properties: &'a PerSide<SenderProperties>,
    sides: PerSide<SideState<'a>>,
    handshake: Handshake,
    /// The server's data before this offset is no response to anything.
    prelude_end: u64,
    /// Everything before this time has a cause.
    pub(crate) cursor: u64,
    /// Until when the bottleneck is busy with the data that the walk has passed.
    busy_until: u64,
    /// Who sent the packet that the walk is at.
    at: Option<Side>,
    /// The number of that packet.
    number: u32,
    /// Who sends the data of the current step.
    sending: Side,
    /// The links on which they send, if they are shared.
    shared: PerSide<Option<&'a SharedLink>>,
    /// Whether a `100 Continue` passed since the client last sent data.
    got_continue: bool,
    /// The last retransmission by a timer: the wait before it, and the index of the wait's first interval.
    timer_retransmission: Option<(Wait, usize)>,
}

/// The walk's state for one side.
struct SideState<'a> {
    sender: Option<SenderState<'a>>,
    delivered: SentRanges,
    /// The end of its stream, if it was captured.
    stream_end: Option<u64>,
    /// The messages of this side, in order.
    messages: Vec<MessageRange>,
    /// The messages before this index are acknowledged.
    current: usize,
    /// When this side last sent data.
    last_sent: u64,
    /// The shift of its window field.
    scale: u8,
    /// Whether an HTTP/2 window inside TLS limits this side.
    is_http2_limited: bool,
}

/// The handshake steps that the walk has passed.
#[allow(clippy::struct_excessive_bools, reason = "each step may be missing from a capture")]
struct Handshake {
    syn: bool,
    syn_ack: bool,
    established: bool,
    /// The TLS handshake is over, or there is none.
    secured: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        connection: &'a CapturedConnection,
        vantage: &'a VantagePoint,
        properties: &'a PerSide<SenderProperties>,
        exchanges: &[Exchange],
        first: &SegmentRecord,
    ) -> Self {
        let state = |side: Side| SideState {
            sender: connection.offsets[side].map(|offsets| SenderState::new(offsets, vantage, side, &properties[side])),
            delivered: SentRanges::new(vantage),
            stream_end: None,
            messages: MessageRange::of(exchanges, side),
            current: 0,
            last_sent: 0,
            scale: properties[!side].window_shift,
            is_http2_limited: properties[side].http2_window.is_some(),
        };
        Self {
            connection,
            vantage,
            properties,
            sides: PerSide::of(state),
            handshake: Handshake {
                syn: false,
                syn_ack: false,
                established: false,
                // A capture that began later has none of the handshake, or a part of unknown size.
                secured: connection.content.protocol != Protocol::Tls || !properties.client.from_start,
            },
            prelude_end: control_frames::prelude_end(connection, vantage),
            cursor: first.time,
            busy_until: 0,
            at: None,
            number: first.number,
            sending: first.from(),
            shared: PerSide::of(|side| properties[side].shared_link.as_ref()),
            got_continue: false,
            timer_retransmission: None,
        }
    }

    /// Moves the cursor to a time, over a wait that ended like this.
    pub(crate) fn step(&mut self, timeline: &mut Timeline, to: u64, number: u32, end: WaitEnd, busy_until: u64) {
        let from = self.cursor;
        let busy_until = busy_until.clamp(from, to.max(from));
        let wait =
            Wait { from, to, busy_until, queued: self.queued(from, to), is_shared: self.is_shared(from, to, end), end };
        let begin = timeline.intervals.len();
        timeline.account(&wait, number);
        if matches!(end, WaitEnd::Retransmission(RetransmitTrigger::Timer)) {
            self.timer_retransmission = Some((wait, begin));
        }
        self.cursor = self.cursor.max(to);
        self.number = number;
    }

    /// For how long packets were in queues at this time; shorter times are jitter.
    fn queued(&self, from: u64, to: u64) -> u64 {
        let rtt = self.vantage.rtt();
        if to - from.min(to) <= rtt / 2 {
            return 0;
        }
        let surroundings = &self.connection.surroundings;
        // Between the capture point and an end that is next to it, there is no queue of the path.
        let sides = [Side::Client, Side::Server].into_iter().filter(|side| !self.vantage.is_at(*side));
        let queued: u64 = sides.map(|side| surroundings.extra_delay(side, from, to)).sum();
        if queued > MIN_QUEUE.max(rtt / 4) { queued } else { 0 }
    }

    fn is_shared(&self, from: u64, to: u64, end: WaitEnd) -> bool {
        let side = match end {
            WaitEnd::Data(_) | WaitEnd::Retransmission(_) => self.sending,
            _ => return false,
        };
        self.shared[side].is_some_and(|link| link.is_full(from, to))
    }

    /// Processes the next packet.
    pub(crate) fn packet(&mut self, timeline: &mut Timeline, segment: &SegmentRecord) {
        let side = segment.from();
        if segment.has(Flags::SYN) {
            self.syn(timeline, segment);
        } else if self.handshake.syn_ack && !self.handshake.established && side == Side::Client {
            self.handshake.established = true;
            if segment.len == 0 {
                self.step(timeline, segment.time, segment.number, WaitEnd::Connect, 0);
                self.at = Some(side);
            }
        }
        if segment.has(Flags::RST) && !self.handshake.syn_ack && side == Side::Server {
            self.step(timeline, segment.time, segment.number, WaitEnd::Connect, 0);
        }
        if segment.len > 0 {
            self.data(timeline, segment);
        }
        if segment.has(Flags::FIN) {
            let state = &mut self.sides[side];
            state.stream_end = state.sender.as_ref().map(|sender| sender.end_of(segment));
        }
        if segment.has_duplicate_sack() {
            timeline.stats[!side].duplicates += 1;
            if let Some(sender) = &mut self.sides[!side].sender {
                sender.loss_response.is_spurious();
            }
            self.undo_spurious_retransmission(timeline, !side, segment.number);
        }
        let scale = self.sides[side].scale;
        if segment.has(Flags::ACK)
            && let Some(sender) = &mut self.sides[!side].sender
        {
            let window = u64::from(segment.window) << if segment.has(Flags::SYN) { 0 } else { scale };
            let stats = &mut timeline.stats[!side];
            stats.max_window = stats.max_window.max(window);
            if stats.first_window == 0 {
                stats.first_window = window;
            }
            sender.expect_ack(segment, scale);
        }
    }

    /// The last retransmission by a timer was spurious: nothing had been lost, the receiver had delayed its
    /// acknowledgement. Accounts for the wait before it anew.
    fn undo_spurious_retransmission(&mut self, timeline: &mut Timeline, side: Side, number: u32) {
        let Some((wait, begin)) = self.timer_retransmission.take() else { return };
        let Some(sender) = &mut self.sides[side].sender else { return };
        // An acknowledgement that is missing for longer was lost.
        if timeline.end() != wait.to || wait.to.saturating_sub(sender.ack_due()) > MAX_DELAYED_ACK {
            return;
        }
        for messages in timeline.messages.iter_mut().filter(|messages| messages[side].last == wait.to) {
            messages[side].history.losses.pop();
        }
        let (ack_due, context) = sender.undo_recovery();
        let ack_due = ack_due.clamp(wait.from, wait.to);
        timeline.intervals.truncate(begin);
        // Its first interval may have been joined with the one before.
        if let Some(last) = timeline.intervals.last_mut() {
            last.to = last.to.min(wait.from);
        }
        let ack = ReleasingAck { time: wait.to, held: wait.to - ack_due, acks_all: true, packet: number };
        let end = WaitEnd::Data(SendContext { released_by: Some(ack), ..context });
        timeline.account(&Wait { end, ..wait }, number);
    }

    fn syn(&mut self, timeline: &mut Timeline, segment: &SegmentRecord) {
        let is_syn_ack = segment.has(Flags::ACK);
        let step = if is_syn_ack { &mut self.handshake.syn_ack } else { &mut self.handshake.syn };
        let end = match (std::mem::replace(step, true), is_syn_ack) {
            (true, _) => WaitEnd::SynRetry,
            (false, true) => WaitEnd::Connect,
            (false, false) if self.is_syn_retry(segment.time) => WaitEnd::SynRetry,
            // Nothing happened before it but a DNS lookup, whose answer had to reach the client.
            (false, false) => WaitEnd::Turn { side: Side::Client, travel: self.vantage.rtt_to.client, held: None },
        };
        self.step(timeline, segment.time, segment.number, end, 0);
        self.at = Some(segment.from());
    }

    /// Whether the first captured SYN is a retransmission: the original was lost before the capture point, and this
    /// one came when the timer fired, one, three or seven seconds after the DNS answer (RFC 6298 §2.1).
    fn is_syn_retry(&self, now: u64) -> bool {
        let waited = (now - self.cursor) / 1_000_000;
        let fired = [1000, 3000, 7000].into_iter().any(|after| (after..after + after / 10).contains(&waited));
        self.connection.lookup.is_some() && self.vantage.position != Vantage::Client && fired
    }

    fn data(&mut self, timeline: &mut Timeline, segment: &SegmentRecord) {
        let side = segment.from();
        let Some(sender) = &mut self.sides[side].sender else { return };
        sender.advance(segment.time);
        let (was_quiet, expected) = (sender.flight() == 0, sender.snd_nxt);
        let sent = sender.send(segment);
        let (snd_nxt, flight) = (sender.snd_nxt, sender.flight());
        let (start, busy_until) = (sender.last_start, sender.busy_until);
        self.record_acks(timeline, side);
        let Some(sent) = sent else { return };
        let range = start..start + u64::from(segment.len);
        self.sides[side].delivered.pass(range.start, range.end, segment.time, segment.is_resent());
        let stats = &mut timeline.stats[side];
        stats.retransmissions += u64::from(matches!(sent, Sent::Retransmission(_)));
        let is_full = u64::from(segment.len) >= self.properties[side].mss;
        stats.full_timeouts += u64::from(is_full && matches!(sent, Sent::Retransmission(RetransmitTrigger::Timer)));
        stats.max_in_flight = stats.max_in_flight.max(flight);
        let is_unreleased = was_quiet && matches!(sent, Sent::New(context) if context.released_by.is_none());
        let timer = self.unseen_timer(side, is_unreleased && start <= expected, segment);
        let original = sent;
        let is_held_body = side == Side::Client
            && matches!(sent, Sent::New(_) | Sent::Late(_))
            && self.connection.content.has_held_body(range.start);
        if is_held_body {
            self.begin_held_body(timeline, segment.time, range.start);
        }
        let mut begins_message = false;
        let sent = if is_unreleased && (timer.is_some() || self.is_tail_retransmission(side, &range, segment.time)) {
            begins_message = self.observe(timeline, segment, side, &range, sent);
            Sent::Retransmission(RetransmitTrigger::Timer)
        } else {
            sent
        };
        begins_message |= self.observe(timeline, segment, side, &range, sent);
        let has_heard_all = self.vantage.has_heard(side, self.sides[!side].last_sent, segment.time);
        self.sides[side].last_sent = segment.time;
        let is_continue = side == Side::Server && self.connection.content.has_continue(range.start) && !begins_message;
        if is_continue && self.is_body_held() {
            self.got_continue = true;
            self.step(timeline, segment.time, segment.number, WaitEnd::Continue, 0);
            self.at = Some(side);
            return;
        }
        let is_prelude = side == Side::Server && range.end <= self.prelude_end;
        let is_control = is_prelude || is_continue || is_control_frame(self.connection, segment, &range, has_heard_all);
        if is_control && !begins_message {
            let peer = &mut self.sides[!side];
            let may_open_window = self.connection.content.protocol == Protocol::Http2 || peer.is_http2_limited;
            if let Some(peer) = peer.sender.as_mut().filter(|_| may_open_window) {
                peer.expect_control_frame(segment);
            }
            return;
        }
        self.sending = side;
        if let Some(timer) = timer {
            // Until it started, the program had not written the data.
            let end = self.wait_end(segment, original, begins_message, was_quiet, snd_nxt);
            if segment.time - timer > self.cursor {
                self.step(timeline, segment.time - timer, segment.number, end, self.busy_until);
            }
        }
        let end = match self.wait_end(segment, sent, begins_message, was_quiet, snd_nxt) {
            WaitEnd::Turn { .. } | WaitEnd::Data(_) if is_held_body => WaitEnd::Continue,
            end => end,
        };
        self.step(timeline, segment.time, segment.number, end, self.busy_until);
        self.busy_until = busy_until;
        self.at = Some(side);
    }

    /// Whether the client has sent a head, and waits for `100 Continue` before it sends the body.
    fn is_body_held(&self) -> bool {
        let sent = self.sides.client.sender.as_ref().map(|sender| sender.snd_nxt);
        sent.is_some_and(|sent| self.connection.content.has_held_body(sent))
    }

    /// The client sends a body that it held back, at this offset of its stream.
    fn begin_held_body(&mut self, timeline: &mut Timeline, now: u64, at: u64) {
        let got_continue = std::mem::take(&mut self.got_continue);
        let messages = &self.sides.client.messages;
        let Some(message) = messages.iter().find(|message| (message.start..message.end).contains(&at)) else { return };
        let held = HeldBody { offset: at - message.start, sent: now, got_continue };
        timeline.messages[message.exchange].client.begin_held_body(held);
    }

    /// What ended the wait before a data packet.
    fn wait_end(
        &mut self,
        segment: &SegmentRecord,
        sent: Sent,
        begins_message: bool,
        was_quiet: bool,
        snd_nxt: u64,
    ) -> WaitEnd {
        let side = segment.from();
        let context = match sent {
            Sent::Retransmission(trigger) => return WaitEnd::Retransmission(trigger),
            Sent::New(context) | Sent::Late(context) => context,
        };
        if !self.handshake.secured {
            let secured = self.connection.content.secured.client;
            self.handshake.secured = side == Side::Client && secured.is_some_and(|secured| snd_nxt > secured);
            let travel = if self.at == Some(!side) { self.vantage.rtt_to[side] } else { 0 };
            return WaitEnd::Tls { over: self.handshake.secured, travel };
        }
        let follows_peer = self.at == Some(!side) || self.at.is_none();
        // A message that follows one of the same side is sent as soon as TCP allows; otherwise its sender took time.
        let is_turn = if follows_peer {
            begins_message || was_quiet
        } else {
            begins_message && context.released_by.is_none() && was_quiet
        };
        if !is_turn {
            return WaitEnd::Data(context);
        }
        let travel = if follows_peer { self.vantage.rtt_to[side] } else { 0 };
        // Only a pure acknowledgement after the request says that the response was ready.
        let is_held = follows_peer && context.writer.follows_small_ack && nagle::is_held(&context);
        WaitEnd::Turn { side, travel, held: is_held.then_some(self.cursor + travel) }
    }

    /// Ends the walk with the arrival of the last data.
    pub(crate) fn finish(&mut self, timeline: &mut Timeline) {
        for side in [Side::Client, Side::Server] {
            if let Some(sender) = &mut self.sides[side].sender {
                sender.advance(u64::MAX);
            }
            self.record_acks(timeline, side);
            self.count_bytes(timeline, side);
            let sender = self.sides[side].sender.as_ref();
            timeline.stats[side].ignores_losses = sender.is_some_and(|sender| sender.loss_response.ignores());
        }
        // Messages that only the end of the stream ends.
        for side in [Side::Client, Side::Server] {
            let ack = timeline.stats[side].acks.last().filter(|ack| ack.acks_all);
            let state = &self.sides[side];
            if let (Some(message), Some(ack)) = (state.messages.get(state.current), ack) {
                timeline.messages[message.exchange][side].acked =
                    Some((ack.time - ack.held).saturating_sub(self.vantage.rtt_to[side]));
            }
        }
        let messages = timeline.messages.iter().flat_map(|messages| [&messages.client, &messages.server]);
        let end = messages.map(|message| message.acked.unwrap_or(0).max(message.last)).max().unwrap_or(self.cursor);
        self.step(timeline, end.max(self.cursor), self.number, WaitEnd::Arrival, self.busy_until);
    }
}
