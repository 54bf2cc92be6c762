//! The timeline of a connection: every instant with its cause.
//!
//! What happened is a chain: this packet could go because that one had come, back to the name that was looked up.
//! From one link of the chain to the next is a [`Wait`]; waits follow one another without a gap, and each is divided
//! among the causes. So the times of the causes add up to the time there was, to the nanosecond, for any packets
//! whatever. Both directions are one chain: where they take turns, the turn is a link of it.
//!
//! Acknowledgements are no links of their own: they are why a data packet goes, and the wait before it says so.

use std::ops::Range;

use capture::tcp::Flags;

use crate::{
    causes::{Cause, RULES, Times},
    collect::Connection,
    event::{Both, Event, ORIGIN, Side},
    exchange::{Exchange, is_talk},
    facts::{Facts, scale},
    read::Protocol,
    seat::{Acked, Seat, Sent},
    vantage::{Place, Vantage},
    wait::{Data, End, Release, Repair, Wait},
};

/// Pieces shorter than this are joined with a neighbour of the same cause, in nanoseconds.
const SHORT: u64 = 500_000;

/// The least time that a retransmission timer waits, in nanoseconds.
const LEAST_TIMER: u64 = 200_000_000;

/// A piece of time and its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) cause: Cause,
    /// The packet that ended it.
    pub(crate) number: u32,
}

/// How many losses, pauses and stalls of a message are kept.
const KEPT: usize = 1000;

/// What a message went through that is none of the sender's or receiver's rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Story {
    /// What the congestion window was at least when it began, in bytes; none for the connection's first.
    pub(crate) warm: Option<u64>,
    /// Which bytes were sent again, from the message's first one on, and how often.
    pub(crate) lost: Vec<(u64, u64, u32)>,
    /// Before which byte the program paused, and for how long, in nanoseconds.
    pub(crate) pauses: Vec<(u64, u64)>,
    /// After which byte the receiving program stopped to read, and for how long its window was closed.
    pub(crate) stalls: Vec<(u64, u64)>,
    /// How much of it was sent before an acknowledgement could tell anything of it, in bytes.
    pub(crate) burst: u64,
    /// How often a small segment of it was held by Nagle's algorithm.
    pub(crate) naggled: u64,
}

/// When a message was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Its first byte.
    pub(crate) first: Option<u64>,
    /// Its last packet, and any that repeated one.
    pub(crate) last: u64,
    /// When all of it was acknowledged, without what the receiver held that back.
    pub(crate) acked: Option<u64>,
    /// How many of its bytes passed.
    pub(crate) bytes: u64,
    pub(crate) story: Story,
}

/// What is counted of each direction, for whoever judges it afterwards.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// Packets with data.
    pub(crate) packets: u64,
    /// Packets sent again.
    pub(crate) again: u64,
    /// The most that was outstanding, in bytes.
    pub(crate) peak: u64,
    /// The largest window that the receiver offered, and its first, in bytes.
    pub(crate) window: u64,
    pub(crate) first_window: u64,
    /// Acknowledgements.
    pub(crate) acks: Vec<Acked>,
}

impl Story {
    /// New data went at this offset of the message, after a wait.
    fn pass(&mut self, data: &Data, at: u64, waited: u64) {
        if data.idle && at > 0 && self.pauses.len() < KEPT {
            self.pauses.push((at, waited));
        }
        let held = data.small && data.room.is_some() && !data.window;
        self.naggled += u64::from(held && data.released.is_some_and(|release| release.all));
        if let Some((from, to)) = data.closed
            && self.stalls.len() < KEPT
        {
            self.stalls.push((at, to - from));
        }
    }

    /// Data was sent again.
    fn repeat(&mut self, from: u64, to: u64) {
        let room = self.lost.len() < KEPT;
        match self.lost.iter_mut().find(|lost| lost.0 == from) {
            Some(lost) => lost.2 += 1,
            None if room => self.lost.push((from, to, 1)),
            None => {}
        }
    }
}

/// A connection's time.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// One after another, without gaps.
    pub(crate) pieces: Vec<Piece>,
    /// When each exchange's messages were seen.
    pub(crate) seen: Vec<Both<Seen>>,
    pub(crate) counts: Both<Counts>,
    left: Vec<(u64, u64)>,
    spare: Vec<(u64, u64)>,
}

/// How many acknowledgements are looked at to infer a receiver's rule.
const ACKS: usize = 4096;

impl Timeline {
    pub(crate) fn of(connection: &Connection, place: &Place, facts: &Both<Facts>, exchanges: &[Exchange]) -> Self {
        let mut timeline = Self { seen: vec![Both::default(); exchanges.len()], ..Self::default() };
        let Some(first) = connection.events.first() else { return timeline };
        let mut walk = Walk::new(connection, place, facts, exchanges, first);
        if let Some(lookup) = connection.lookup {
            walk.cursor = lookup.asked;
            walk.step(&mut timeline, lookup.answered, lookup.number, End::Lookup, 0);
        }
        for event in &connection.events {
            walk.event(&mut timeline, event);
        }
        walk.arrive(&mut timeline);
        timeline
    }

    /// Divides a wait among the causes.
    fn account(&mut self, wait: &Wait, number: u32) {
        if wait.to <= wait.from {
            return;
        }
        let begin = self.pieces.len();
        self.left.clear();
        self.left.push((wait.from, wait.to));
        for rule in &RULES {
            let Some((from, to)) = (rule.claim)(wait) else { continue };
            self.spare.clear();
            for (left_from, left_to) in self.left.drain(..) {
                let (from, to) = (from.clamp(left_from, left_to), to.clamp(left_from, left_to));
                if from >= to {
                    self.spare.push((left_from, left_to));
                    continue;
                }
                self.pieces.push(Piece { from, to, cause: rule.cause, number: told_by(wait, rule.cause, number) });
                self.spare.extend([(left_from, from), (to, left_to)].into_iter().filter(|(from, to)| from < to));
            }
            std::mem::swap(&mut self.left, &mut self.spare);
            if self.left.is_empty() {
                break;
            }
        }
        debug_assert!(self.left.is_empty(), "nobody claims {:?} of {wait:?}", self.left);
        self.pieces[begin..].sort_unstable_by_key(|piece| piece.from);
        self.join(begin);
    }

    /// Joins pieces with those before them.
    fn join(&mut self, begin: usize) {
        let mut kept = begin;
        for at in begin..self.pieces.len() {
            let piece = self.pieces[at];
            let short = piece.to - piece.from < SHORT;
            match kept.checked_sub(1).map(|last| &mut self.pieces[last]) {
                Some(last)
                    if last.cause == piece.cause && last.to == piece.from && (short || last.to - last.from < SHORT) =>
                {
                    last.to = piece.to;
                    if !short {
                        last.number = piece.number;
                    }
                }
                _ => {
                    self.pieces[kept] = piece;
                    kept += 1;
                }
            }
        }
        self.pieces.truncate(kept);
    }

    /// The pieces between two times, cut to them.
    pub(crate) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = Piece> {
        let begin = self.pieces.partition_point(|piece| piece.to <= from);
        let cut = move |piece: &Piece| Piece { from: piece.from.max(from), to: piece.to.min(to), ..*piece };
        self.pieces[begin..].iter().take_while(move |piece| piece.from < to).map(cut)
    }

    /// What the time between two times was spent on.
    pub(crate) fn times(&self, from: u64, to: u64) -> Times {
        let mut times = Times::default();
        for piece in self.between(from, to) {
            times[piece.cause] += piece.to - piece.from;
        }
        times
    }

    pub(crate) fn end(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.to)
    }
}

/// The packet that shows a cause best: a held acknowledgement itself, else what ended the wait.
fn told_by(wait: &Wait, cause: Cause, number: u32) -> u32 {
    match (cause, wait.end) {
        (Cause::DelayedAck, End::Data(Data { released: Some(release), .. })) => release.number,
        _ => number,
    }
}

/// The state of the walk along a connection.
struct Walk<'a> {
    connection: &'a Connection,
    place: &'a Place,
    seats: Both<Option<Seat<'a>>>,
    /// The messages of each side by their first bytes, with their exchange.
    marks: Both<Vec<(u64, u64, usize)>>,
    /// Messages before these are over.
    current: Both<usize>,
    scales: Both<u8>,
    cursor: u64,
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
    fn new(
        connection: &'a Connection,
        place: &'a Place,
        facts: &'a Both<Facts>,
        exchanges: &[Exchange],
        first: &Event,
    ) -> Self {
        let seat = |side: Side| Some(Seat::new(connection.offsets[side]?, place.to[side], place.rtt(), &facts[side]));
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
            current: Both::default(),
            scales: Both::of(|side| scale(connection, side)),
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
    fn step(&mut self, timeline: &mut Timeline, to: u64, number: u32, end: End, busy_until: u64) {
        let wait = Wait { from: self.cursor, to, busy_until: busy_until.clamp(self.cursor, to.max(self.cursor)), end };
        let begin = timeline.pieces.len();
        timeline.account(&wait, number);
        if matches!(end, End::Again(Repair::Timer)) {
            self.probe = Some((wait, begin));
        }
        self.cursor = self.cursor.max(to);
        self.number = number;
    }

    fn event(&mut self, timeline: &mut Timeline, event: &Event) {
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
            // Nothing was sent before it but a question for the name.
            (false, false) => End::Turn { side: Side::Client, travel: 0 },
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

    /// Whether what looks like the end of a message that comes late is rather sent again: all else is acknowledged,
    /// it is at most a segment, and longer was waited than the least timer (Linux: 200 ms). The first was then lost on
    /// its way here.
    fn is_tail(&self, side: Side, at: &Range<u64>, now: u64) -> bool {
        let away = self.place.to[side] * 4 >= self.place.rtt();
        let mark = self.marks[side].get(self.current[side]);
        let ends = mark.is_some_and(|(start, end, _)| at.start > *start && *end <= at.end && *end != u64::MAX);
        away && ends && now - self.cursor >= LEAST_TIMER
    }

    fn data(&mut self, timeline: &mut Timeline, event: &Event) {
        let side = event.from();
        let Some(seat) = &mut self.seats[side] else { return };
        seat.until(event.time);
        let quiet = seat.flight() == 0;
        let sent = seat.send(event);
        let (next, flight, start, busy_until) = (seat.next, seat.flight(), seat.start, seat.busy_until);
        self.tell(timeline, side);
        let Some(sent) = sent else { return };
        let counts = &mut timeline.counts[side];
        counts.packets += 1;
        counts.again += u64::from(matches!(sent, Sent::Again(_)));
        counts.peak = counts.peak.max(flight);
        let at = start..start + u64::from(event.len);
        let alone = matches!(sent, Sent::New(data) if data.released.is_none());
        let sent = if quiet && alone && self.is_tail(side, &at, event.time) {
            self.see(timeline, event, side, &at, sent);
            Sent::Again(Repair::Timer)
        } else {
            sent
        };
        let begins = self.see(timeline, event, side, &at, sent);
        if is_talk(self.connection, event, at) && !begins {
            if let Some(other) = &mut self.seats[!side] {
                other.hear_talk(event);
            }
            return;
        }
        let end = self.end(event, sent, begins, quiet, next);
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
    fn arrive(&mut self, timeline: &mut Timeline) {
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
