//! The walk along a connection: from one packet to the next, and what the wait between them was for.

use std::ops::Range;

use capture::tcp::Flags;

use super::timeline::Timeline;
use crate::{
    causes::wait::{Wait, WaitEnd},
    collect::CapturedConnection,
    infer::{
        control_frames::{self, is_control},
        exchange::Exchange,
        facts::{Facts, scale},
        send_context::{ReleasingAck, RetransmitTrigger, SendContext},
        sender_state::{SenderState, Sent},
        vantage::{Vantage, VantagePoint},
    },
    read::Protocol,
    segment::SegmentRecord,
    side::{PerSide, Side},
    stream_offset::ORIGIN,
};

/// The least time that a retransmission timer waits, in nanoseconds.
const LEAST_TIMER: u64 = 200_000_000;

/// How many acknowledgements are looked at to infer a receiver's rule.
const ACKS: usize = 4096;

/// The state of the walk along a connection.
#[allow(clippy::struct_excessive_bools, reason = "what has been seen so far, each by itself")]
pub(crate) struct Walk<'a> {
    connection: &'a CapturedConnection,
    vantage: &'a VantagePoint,
    seats: PerSide<Option<SenderState<'a>>>,
    /// The messages of each side by their first bytes, with their exchange.
    marks: PerSide<Vec<(u64, u64, usize)>>,
    /// Up to which byte the server speaks before it answers.
    prelude: u64,
    /// When each side last sent anything.
    sent: PerSide<u64>,
    /// Messages before these are over.
    current: PerSide<usize>,
    scales: PerSide<u8>,
    /// Whether HTTP/2's window stops each side, as its pattern shows.
    stopped: PerSide<bool>,
    pub(crate) cursor: u64,
    /// Until when the narrowest link is busy with what was sent there.
    busy_until: u64,
    /// Who sent what the walk is at.
    at: Option<Side>,
    /// The number of the packet it is at.
    number: u32,
    syn: bool,
    answered: bool,
    established: bool,
    secured: bool,
    /// What was last sent again after a silence, and where its intervals begin.
    probe: Option<(Wait, usize)>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        connection: &'a CapturedConnection,
        vantage: &'a VantagePoint,
        facts: &'a PerSide<Facts>,
        exchanges: &[Exchange],
        first: &SegmentRecord,
    ) -> Self {
        let seat = |side: Side| Some(SenderState::new(connection.offsets[side]?, vantage, side, &facts[side]));
        let marks = |side: Side| {
            let parts = exchanges.iter().enumerate();
            let mut marks: Vec<_> = parts
                .filter_map(|(index, exchange)| exchange.parts[side].map(|(start, end)| (start, end, index)))
                .collect();
            marks.sort_unstable();
            marks
        };
        Self {
            connection,
            vantage,
            seats: PerSide::of(seat),
            marks: PerSide::of(marks),
            prelude: control_frames::prelude(connection, vantage),
            sent: PerSide::default(),
            current: PerSide::default(),
            scales: PerSide::of(|side| scale(connection, side)),
            stopped: PerSide::of(|side| facts[side].stops_at.is_some()),
            cursor: first.time,
            busy_until: 0,
            at: None,
            number: first.number,
            syn: false,
            answered: false,
            established: false,
            secured: connection.content.protocol != Protocol::Tls,
            probe: None,
        }
    }

    /// Goes on to a time, over a wait that ended so.
    pub(crate) fn step(&mut self, timeline: &mut Timeline, to: u64, number: u32, end: WaitEnd, busy_until: u64) {
        let wait = Wait { from: self.cursor, to, busy_until: busy_until.clamp(self.cursor, to.max(self.cursor)), end };
        let begin = timeline.intervals.len();
        timeline.account(&wait, number);
        if matches!(end, WaitEnd::Retransmission(RetransmitTrigger::Timer)) {
            self.probe = Some((wait, begin));
        }
        self.cursor = self.cursor.max(to);
        self.number = number;
    }

    pub(crate) fn segment(&mut self, timeline: &mut Timeline, segment: &SegmentRecord) {
        let side = segment.from();
        if segment.has(Flags::SYN) {
            self.shake(timeline, segment);
        } else if self.answered && !self.established && side == Side::Client {
            self.established = true;
            if segment.len == 0 {
                self.step(timeline, segment.time, segment.number, WaitEnd::Connect, 0);
                self.at = Some(side);
            }
        }
        if segment.len > 0 {
            self.data(timeline, segment);
        }
        if segment.came_twice() {
            self.take_back(timeline, !side, segment.number);
        }
        if segment.has(Flags::ACK)
            && let Some(seat) = &mut self.seats[!side]
        {
            let scale = self.scales[side];
            let window = u64::from(segment.window) << if segment.has(Flags::SYN) { 0 } else { scale };
            let stats = &mut timeline.stats[!side];
            stats.max_window = stats.max_window.max(window);
            if stats.first_window == 0 {
                stats.first_window = window;
            }
            seat.hear(segment, scale);
        }
    }

    /// What was sent again after a silence had not been lost: the receiver had held its acknowledgement back.
    fn take_back(&mut self, timeline: &mut Timeline, side: Side, number: u32) {
        let Some((wait, begin)) = self.probe.take() else { return };
        let Some(seat) = &mut self.seats[side] else { return };
        if timeline.end() != wait.to {
            return;
        }
        for message in timeline.messages.iter_mut().filter(|message| message[side].last == wait.to) {
            message[side].history.losses.pop();
        }
        let (due, data) = seat.needless();
        let due = due.clamp(wait.from, wait.to);
        timeline.intervals.truncate(begin);
        // Its first interval may have been joined with the one before it.
        if let Some(last) = timeline.intervals.last_mut() {
            last.to = last.to.min(wait.from);
        }
        let release = ReleasingAck { at: wait.to, held: wait.to - due, all: true, number };
        timeline.account(&Wait { end: WaitEnd::Data(SendContext { released: Some(release), ..data }), ..wait }, number);
    }

    fn shake(&mut self, timeline: &mut Timeline, segment: &SegmentRecord) {
        let answer = segment.has(Flags::ACK);
        let flag = if answer { &mut self.answered } else { &mut self.syn };
        let end = match (std::mem::replace(flag, true), answer) {
            (true, _) => WaitEnd::SynRetry,
            (false, true) => WaitEnd::Connect,
            (false, false) if self.comes_again(segment.time) => WaitEnd::SynRetry,
            // Nothing was sent before it but a question for the name, whose answer had to come to the client.
            (false, false) => WaitEnd::Turn { side: Side::Client, travel: self.vantage.rtt_to.client },
        };
        self.step(timeline, segment.time, segment.number, end, 0);
        self.at = Some(segment.from());
    }

    /// Whether the first SYN seen is not the first: it was lost on its way here, and the next comes when its timer
    /// fires, after one second, three, seven (RFC 6298 §2.1).
    fn comes_again(&self, now: u64) -> bool {
        let waited = (now - self.cursor) / 1_000_000;
        let fired = [1000, 3000, 7000].into_iter().any(|after| (after..after + after / 10).contains(&waited));
        self.connection.lookup.is_some() && self.vantage.position != Vantage::Client && fired
    }

    /// Whether packets may be lost between a side and the capture.
    fn is_away(&self, side: Side) -> bool {
        self.vantage.rtt_to[side] * 4 >= self.vantage.rtt()
    }

    /// Whether what looks like the end of a message that comes late is rather sent again: all else is acknowledged,
    /// it is at most a segment, and longer was waited than the least timer (Linux: 200 ms). The first was then lost on
    /// its way here.
    fn is_tail(&self, side: Side, at: &Range<u64>, now: u64) -> bool {
        let mark = self.marks[side].get(self.current[side]);
        let ends = mark.is_some_and(|(start, end, _)| at.start > *start && *end <= at.end && *end != u64::MAX);
        self.is_away(side) && ends && now - self.cursor >= LEAST_TIMER
    }

    fn data(&mut self, timeline: &mut Timeline, segment: &SegmentRecord) {
        let side = segment.from();
        let Some(seat) = &mut self.seats[side] else { return };
        seat.until(segment.time);
        let quiet = seat.flight() == 0;
        let went = seat.send(segment);
        let (next, flight, start, busy_until) = (seat.next, seat.flight(), seat.start, seat.busy_until);
        self.tell(timeline, side);
        let Some(went) = went else { return };
        let stats = &mut timeline.stats[side];
        stats.retransmissions += u64::from(matches!(went, Sent::Retransmission(_)));
        stats.max_in_flight = stats.max_in_flight.max(flight);
        let at = start..start + u64::from(segment.len);
        let alone = matches!(went, Sent::New(data) if data.released.is_none());
        let went = if quiet && alone && self.is_tail(side, &at, segment.time) {
            self.see(timeline, segment, side, &at, went);
            Sent::Retransmission(RetransmitTrigger::Timer)
        } else {
            went
        };
        let begins = self.see(timeline, segment, side, &at, went);
        let silent = self.vantage.has_heard(side, self.sent[!side], segment.time);
        self.sent[side] = segment.time;
        let speaks = side == Side::Server && at.end <= self.prelude;
        if (speaks || is_control(self.connection, segment, &at, silent)) && !begins {
            let gives_room = self.connection.content.protocol == Protocol::Http2 || self.stopped[!side];
            if let Some(other) = self.seats[!side].as_mut().filter(|_| gives_room) {
                other.hear_talk(segment);
            }
            return;
        }
        let end = self.end(segment, went, begins, quiet, next);
        self.step(timeline, segment.time, segment.number, end, self.busy_until);
        self.busy_until = busy_until;
        self.at = Some(side);
    }

    /// What ended the wait before a data packet.
    fn end(&mut self, segment: &SegmentRecord, sent: Sent, begins: bool, quiet: bool, next: u64) -> WaitEnd {
        let side = segment.from();
        let data = match sent {
            Sent::Retransmission(by) => return WaitEnd::Retransmission(by),
            Sent::New(data) => data,
        };
        if !self.secured {
            let secured = self.connection.content.secured.client;
            self.secured = side == Side::Client && secured.is_some_and(|secured| next > secured);
            let travel = if self.at == Some(!side) { self.vantage.rtt_to[side] } else { 0 };
            return WaitEnd::Tls { over: self.secured, travel };
        }
        let others_turn = self.at == Some(!side) || self.at.is_none();
        // A message that follows one of the same side goes when that side can send; else somebody took time.
        let turn = if others_turn { begins || quiet } else { begins && data.released.is_none() && quiet };
        if !turn {
            return WaitEnd::Data(data);
        }
        let travel = if others_turn { self.vantage.rtt_to[side] } else { 0 };
        WaitEnd::Turn { side, travel }
    }

    /// Notes when messages are seen; whether one begins with this packet.
    fn see(
        &mut self,
        timeline: &mut Timeline,
        segment: &SegmentRecord,
        side: Side,
        at: &Range<u64>,
        sent: Sent,
    ) -> bool {
        let marks = &self.marks[side];
        let mut begins = false;
        // It came when a timer fired although acknowledgements had told of the loss: what they made the sender send
        // was lost too, on its way here.
        let told = self.seats[side].as_ref().is_some_and(|seat| seat.told >= 3);
        let twice = told && matches!(sent, Sent::Retransmission(RetransmitTrigger::Timer)) && self.is_away(side);
        for (start, end, exchange) in &marks[self.current[side].min(marks.len())..] {
            if *start >= at.end {
                break;
            }
            if *end <= at.start {
                continue;
            }
            let message = &mut timeline.messages[*exchange][side];
            message.last = segment.time;
            let from = at.start.max(*start) - start;
            match sent {
                Sent::New(data) => {
                    message.bytes += at.end.min(*end) - at.start.max(*start);
                    if message.first.is_none() {
                        begins = true;
                        let limit = self.seats[side].as_ref().map(SenderState::limit);
                        message.history.initial_cwnd = limit.filter(|_| *start > ORIGIN + 1);
                    }
                    message.history.record_data(&data, from, segment.time.saturating_sub(self.cursor));
                    if segment.time <= message.first.unwrap_or(segment.time) + self.vantage.rtt() / 2 {
                        message.history.first_flight = at.end - start;
                    }
                }
                Sent::Retransmission(_) => {
                    // What seemed to be a pause was a loss.
                    message.history.pauses.retain(|(at, _)| *at != from);
                    message.history.record_retransmission(from, at.end.min(*end) - start);
                    if twice {
                        message.history.record_retransmission(from, at.end.min(*end) - start);
                    }
                }
            }
            message.first.get_or_insert(segment.time);
        }
        begins
    }

    /// Passes on what acknowledgements told.
    fn tell(&mut self, timeline: &mut Timeline, side: Side) {
        let Some(seat) = &mut self.seats[side] else { return };
        let away = self.vantage.rtt_to[side];
        for acked in seat.acked.drain(..) {
            let stats = &mut timeline.stats[side];
            if stats.acks.len() < ACKS {
                stats.acks.push(acked);
            }
            let marks = &self.marks[side];
            let current = &mut self.current[side];
            while let Some((_, end, exchange)) = marks.get(*current)
                && *end <= acked.to
            {
                timeline.messages[*exchange][side].acked = Some((acked.at - acked.held).saturating_sub(away));
                *current += 1;
            }
        }
    }

    /// The last data arrives.
    pub(crate) fn arrive(&mut self, timeline: &mut Timeline) {
        for side in [Side::Client, Side::Server] {
            if let Some(seat) = &mut self.seats[side] {
                seat.until(u64::MAX);
            }
            self.tell(timeline, side);
        }
        // What has no end but the stream's.
        for side in [Side::Client, Side::Server] {
            let acked = timeline.stats[side].acks.last().filter(|acked| acked.all);
            if let (Some((_, _, exchange)), Some(acked)) = (self.marks[side].get(self.current[side]), acked) {
                timeline.messages[*exchange][side].acked =
                    Some((acked.at - acked.held).saturating_sub(self.vantage.rtt_to[side]));
            }
        }
        let ends = timeline.messages.iter().flat_map(|message| [&message.client, &message.server]);
        let end = ends.map(|message| message.acked.unwrap_or(0).max(message.last)).max().unwrap_or(self.cursor);
        self.step(timeline, end.max(self.cursor), self.number, WaitEnd::Arrival, self.busy_until);
    }
}
