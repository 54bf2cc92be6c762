//! The walk along a connection: from one packet to the next, and what the wait between them was for.

use std::ops::Range;

use capture::tcp::Flags;

use crate::{
    collect::Connection,
    event::{Both, Event, ORIGIN, Side},
    exchange::Exchange,
    facts::{Facts, scale},
    read::Protocol,
    seat::{Seat, Sent},
    talk::{self, is_talk},
    timeline::Timeline,
    vantage::{Place, Vantage},
    wait::{Data, End, Release, Repair, Wait},
};

/// The least time that a retransmission timer waits, in nanoseconds.
const LEAST_TIMER: u64 = 200_000_000;

/// How many acknowledgements are looked at to infer a receiver's rule.
const ACKS: usize = 4096;

/// The state of the walk along a connection.
#[allow(clippy::struct_excessive_bools, reason = "what has been seen so far, each by itself")]
pub(crate) struct Walk<'a> {
    connection: &'a Connection,
    place: &'a Place,
    seats: Both<Option<Seat<'a>>>,
    /// The messages of each side by their first bytes, with their exchange.
    marks: Both<Vec<(u64, u64, usize)>>,
    /// Up to which byte the server speaks before it answers.
    prelude: u64,
    /// When each side last sent anything.
    sent: Both<u64>,
    /// Messages before these are over.
    current: Both<usize>,
    scales: Both<u8>,
    /// Whether HTTP/2's window stops each side, as its pattern shows.
    stopped: Both<bool>,
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
    /// What was last sent again after a silence, and where its pieces begin.
    probe: Option<(Wait, usize)>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        place: &'a Place,
        facts: &'a Both<Facts>,
        exchanges: &[Exchange],
        first: &Event,
    ) -> Self {
        let seat = |side: Side| Some(Seat::new(connection.offsets[side]?, place, side, &facts[side]));
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
            place,
            seats: Both::of(seat),
            marks: Both::of(marks),
            prelude: talk::prelude(connection, place),
            sent: Both::default(),
            current: Both::default(),
            scales: Both::of(|side| scale(connection, side)),
            stopped: Both::of(|side| facts[side].stops_at.is_some()),
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
    pub(crate) fn step(&mut self, timeline: &mut Timeline, to: u64, number: u32, end: End, busy_until: u64) {
        let wait = Wait { from: self.cursor, to, busy_until: busy_until.clamp(self.cursor, to.max(self.cursor)), end };
        let begin = timeline.pieces.len();
        timeline.account(&wait, number);
        if matches!(end, End::Again(Repair::Timer)) {
            self.probe = Some((wait, begin));
        }
        self.cursor = self.cursor.max(to);
        self.number = number;
    }

    pub(crate) fn event(&mut self, timeline: &mut Timeline, event: &Event) {
        let side = event.from();
        if event.has(Flags::SYN) {
            self.shake(timeline, event);
        } else if self.answered && !self.established && side == Side::Client {
            self.established = true;
            if event.len == 0 {
                self.step(timeline, event.time, event.number, End::Connect, 0);
                self.at = Some(side);
            }
        }
        if event.len > 0 {
            self.data(timeline, event);
        }
        if event.came_twice() {
            self.take_back(timeline, !side, event.number);
        }
        if event.has(Flags::ACK)
            && let Some(seat) = &mut self.seats[!side]
        {
            let scale = self.scales[side];
            let window = u64::from(event.window) << if event.has(Flags::SYN) { 0 } else { scale };
            let counts = &mut timeline.counts[!side];
            counts.window = counts.window.max(window);
            if counts.first_window == 0 {
                counts.first_window = window;
            }
            seat.hear(event, scale);
        }
    }

    /// What was sent again after a silence had not been lost: the receiver had held its acknowledgement back.
    fn take_back(&mut self, timeline: &mut Timeline, side: Side, number: u32) {
        let Some((wait, begin)) = self.probe.take() else { return };
        let Some(seat) = &mut self.seats[side] else { return };
        if timeline.end() != wait.to {
            return;
        }
        for seen in timeline.seen.iter_mut().filter(|seen| seen[side].last == wait.to) {
            seen[side].story.lost.pop();
        }
        let (due, data) = seat.needless();
        let due = due.clamp(wait.from, wait.to);
        timeline.pieces.truncate(begin);
        // Its first piece may have been joined with the one before it.
        if let Some(last) = timeline.pieces.last_mut() {
            last.to = last.to.min(wait.from);
        }
        let release = Release { at: wait.to, held: wait.to - due, all: true, number };
        timeline.account(&Wait { end: End::Data(Data { released: Some(release), ..data }), ..wait }, number);
    }

    fn shake(&mut self, timeline: &mut Timeline, event: &Event) {
        let answer = event.has(Flags::ACK);
        let seen = if answer { &mut self.answered } else { &mut self.syn };
        let end = match (std::mem::replace(seen, true), answer) {
            (true, _) => End::SynAgain,
            (false, true) => End::Connect,
            (false, false) if self.comes_again(event.time) => End::SynAgain,
            // Nothing was sent before it but a question for the name, whose answer had to come to the client.
            (false, false) => End::Turn { side: Side::Client, travel: self.place.to.client },
        };
        self.step(timeline, event.time, event.number, end, 0);
        self.at = Some(event.from());
    }

    /// Whether the first SYN seen is not the first: it was lost on its way here, and the next comes when its timer
    /// fires, after one second, three, seven (RFC 6298 §2.1).
    fn comes_again(&self, now: u64) -> bool {
        let waited = (now - self.cursor) / 1_000_000;
        let fired = [1000, 3000, 7000].into_iter().any(|after| (after..after + after / 10).contains(&waited));
        self.connection.lookup.is_some() && self.place.vantage != Vantage::Client && fired
    }

    /// Whether packets may be lost between a side and the capture.
    fn is_away(&self, side: Side) -> bool {
        self.place.to[side] * 4 >= self.place.rtt()
    }

    /// Whether what looks like the end of a message that comes late is rather sent again: all else is acknowledged,
    /// it is at most a segment, and longer was waited than the least timer (Linux: 200 ms). The first was then lost on
    /// its way here.
    fn is_tail(&self, side: Side, at: &Range<u64>, now: u64) -> bool {
        let mark = self.marks[side].get(self.current[side]);
        let ends = mark.is_some_and(|(start, end, _)| at.start > *start && *end <= at.end && *end != u64::MAX);
        self.is_away(side) && ends && now - self.cursor >= LEAST_TIMER
    }

    fn data(&mut self, timeline: &mut Timeline, event: &Event) {
        let side = event.from();
        let Some(seat) = &mut self.seats[side] else { return };
        seat.until(event.time);
        let quiet = seat.flight() == 0;
        let went = seat.send(event);
        let (next, flight, start, busy_until) = (seat.next, seat.flight(), seat.start, seat.busy_until);
        self.tell(timeline, side);
        let Some(went) = went else { return };
        let counts = &mut timeline.counts[side];
        counts.packets += 1;
        counts.again += u64::from(matches!(went, Sent::Again(_)));
        counts.peak = counts.peak.max(flight);
        let at = start..start + u64::from(event.len);
        let alone = matches!(went, Sent::New(data) if data.released.is_none());
        let went = if quiet && alone && self.is_tail(side, &at, event.time) {
            self.see(timeline, event, side, &at, went);
            Sent::Again(Repair::Timer)
        } else {
            went
        };
        let begins = self.see(timeline, event, side, &at, went);
        let silent = self.place.has_heard(side, self.sent[!side], event.time);
        self.sent[side] = event.time;
        let speaks = side == Side::Server && at.end <= self.prelude;
        if (speaks || is_talk(self.connection, event, &at, silent)) && !begins {
            let gives_room = self.connection.content.protocol == Protocol::Http2 || self.stopped[!side];
            if let Some(other) = self.seats[!side].as_mut().filter(|_| gives_room) {
                other.hear_talk(event);
            }
            return;
        }
        let end = self.end(event, went, begins, quiet, next);
        self.step(timeline, event.time, event.number, end, self.busy_until);
        self.busy_until = busy_until;
        self.at = Some(side);
    }

    /// What ended the wait before a data packet.
    fn end(&mut self, event: &Event, sent: Sent, begins: bool, quiet: bool, next: u64) -> End {
        let side = event.from();
        let data = match sent {
            Sent::Again(by) => return End::Again(by),
            Sent::New(data) => data,
        };
        if !self.secured {
            let secured = self.connection.content.secured.client;
            self.secured = side == Side::Client && secured.is_some_and(|secured| next > secured);
            let travel = if self.at == Some(!side) { self.place.to[side] } else { 0 };
            return End::Tls { over: self.secured, travel };
        }
        let others_turn = self.at == Some(!side) || self.at.is_none();
        // A message that follows one of the same side goes when that side can send; else somebody took time.
        let turn = if others_turn { begins || quiet } else { begins && data.released.is_none() && quiet };
        if !turn {
            return End::Data(data);
        }
        let travel = if others_turn { self.place.to[side] } else { 0 };
        End::Turn { side, travel }
    }

    /// Notes when messages are seen; whether one begins with this packet.
    fn see(&mut self, timeline: &mut Timeline, event: &Event, side: Side, at: &Range<u64>, sent: Sent) -> bool {
        let marks = &self.marks[side];
        let mut begins = false;
        // It came when a timer fired although acknowledgements had told of the loss: what they made the sender send
        // was lost too, on its way here.
        let told = self.seats[side].as_ref().is_some_and(|seat| seat.told >= 3);
        let twice = told && matches!(sent, Sent::Again(Repair::Timer)) && self.is_away(side);
        for (start, end, exchange) in &marks[self.current[side].min(marks.len())..] {
            if *start >= at.end {
                break;
            }
            if *end <= at.start {
                continue;
            }
            let seen = &mut timeline.seen[*exchange][side];
            seen.last = event.time;
            let from = at.start.max(*start) - start;
            match sent {
                Sent::New(data) => {
                    seen.bytes += at.end.min(*end) - at.start.max(*start);
                    if seen.first.is_none() {
                        begins = true;
                        let limit = self.seats[side].as_ref().map(Seat::limit);
                        seen.story.warm = limit.filter(|_| *start > ORIGIN + 1);
                    }
                    seen.story.pass(&data, from, event.time.saturating_sub(self.cursor));
                    if event.time <= seen.first.unwrap_or(event.time) + self.place.rtt() / 2 {
                        seen.story.burst = at.end - start;
                    }
                }
                Sent::Again(_) => {
                    // What seemed to be a pause was a loss.
                    seen.story.pauses.retain(|(at, _)| *at != from);
                    seen.story.repeat(from, at.end.min(*end) - start);
                    if twice {
                        seen.story.repeat(from, at.end.min(*end) - start);
                    }
                }
            }
            seen.first.get_or_insert(event.time);
        }
        begins
    }

    /// Passes on what acknowledgements told.
    fn tell(&mut self, timeline: &mut Timeline, side: Side) {
        let Some(seat) = &mut self.seats[side] else { return };
        let away = self.place.to[side];
        for acked in seat.acked.drain(..) {
            let counts = &mut timeline.counts[side];
            if counts.acks.len() < ACKS {
                counts.acks.push(acked);
            }
            let marks = &self.marks[side];
            let current = &mut self.current[side];
            while let Some((_, end, exchange)) = marks.get(*current)
                && *end <= acked.to
            {
                timeline.seen[*exchange][side].acked = Some((acked.at - acked.held).saturating_sub(away));
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
            let acked = timeline.counts[side].acks.last().filter(|acked| acked.all);
            if let (Some((_, _, exchange)), Some(acked)) = (self.marks[side].get(self.current[side]), acked) {
                timeline.seen[*exchange][side].acked =
                    Some((acked.at - acked.held).saturating_sub(self.place.to[side]));
            }
        }
        let ends = timeline.seen.iter().flat_map(|seen| [&seen.client, &seen.server]);
        let end = ends.map(|seen| seen.acked.unwrap_or(0).max(seen.last)).max().unwrap_or(self.cursor);
        self.step(timeline, end.max(self.cursor), self.number, End::Arrival, self.busy_until);
    }
}
