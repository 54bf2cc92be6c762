//! The sender's seat: what a sender knew and was allowed when it sent each packet.
//!
//! Whether a sender was held by a window, a timer or its own program can only be told from its vantage. But a capture
//! is taken anywhere. So acknowledgements are moved to when the sender acts on them, as seen from the capture: one
//! distance to the sender and back later ([`crate::infer::vantage`]). After that a capture at the receiver's end reads like
//! one at the sender's.
//!
//! The narrowest link is followed beside it as a queue: busy from when a packet is sent for as long as its bytes
//! take. The time during which it was busy needs no other reason.

use std::collections::VecDeque;

use super::{
    facts::Facts,
    send_context::{ReleasingAck, RetransmitTrigger, SendContext},
    vantage::VantagePoint,
};
use crate::{
    segment::SegmentRecord,
    side::Side,
    stream_offset::{ORIGIN, StreamOffsets},
};

/// How long a sender takes to go on when an acknowledgement comes, in nanoseconds: machines are busy.
const PROMPT: u64 = 3_000_000;

/// How many times as long one takes whose program has to see it first, now and then.
pub(crate) const LATE: u64 = 10;

/// How close together acknowledgements come that are one, in nanoseconds.
const TOGETHER: u64 = 1_000_000;

/// An acknowledgement that is held back for less than this is none that a timer sent.
const HELD: u64 = 5_000_000;

/// Nor one that is held for longer (RFC 5681 §4.2: within 500 ms; clocks tick).
const HELD_MOST: u64 = 600_000_000;

/// How many round trips are looked back at.
const BACK: usize = 4;

/// How many are told to who looks at all of them.
const TOLD: usize = 4096;

/// An acknowledgement on its way to the sender.
#[derive(Debug, Clone, Copy)]
struct Ack {
    at: u64,
    number: u32,
    to: u64,
    window: u64,
    sacked: bool,
    data: bool,
    /// Whether it is talk of the protocol above TCP, and acknowledges nothing.
    talk: bool,
}

/// A packet on its way to the receiver.
#[derive(Debug, Clone, Copy)]
struct Flown {
    end: u64,
    at: u64,
    /// When the narrowest link had carried it.
    carried: u64,
}

/// What an acknowledgement told, for who infers from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckRecord {
    pub(crate) at: u64,
    /// How far it acknowledges.
    pub(crate) to: u64,
    /// Bytes newly acknowledged, how many packets they were, and how many of them were the last's.
    pub(crate) bytes: u64,
    pub(crate) packets: u32,
    pub(crate) last: u64,
    /// Whether it did nothing else, and nothing was being repaired.
    pub(crate) plain: bool,
    /// When the last of them was sent.
    pub(crate) sent: u64,
    /// For how long the receiver held it, if it did.
    pub(crate) held: u64,
    /// Whether everything is acknowledged.
    pub(crate) all: bool,
}

/// What was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sent {
    /// New data, and what let it go.
    New(SendContext),
    /// SendContext that had been sent before.
    Retransmission(RetransmitTrigger),
}

/// The state of a sender.
#[derive(Debug)]
pub(crate) struct SenderState<'a> {
    facts: &'a Facts,
    /// From the capture to the sender and back, and the whole round trip, in nanoseconds.
    away: u64,
    rtt: u64,
    offsets: StreamOffsets,
    coming: VecDeque<Ack>,
    flying: VecDeque<Flown>,
    /// The first byte not acknowledged, and the one behind the last sent.
    pub(crate) una: u64,
    pub(crate) next: u64,
    /// The first byte of what was last sent.
    pub(crate) start: u64,
    /// The right edge of the receiver's window.
    edge: Option<u64>,
    /// What was outstanding at most since the last loss: the congestion window is no less.
    limit: u64,
    /// Until when the narrowest link is busy.
    pub(crate) busy_until: u64,
    latest_ack: u64,
    /// When something was last sent.
    sent_at: u64,
    release: Option<ReleasingAck>,
    /// When an acknowledgement last came while the receiver's window was full.
    limited_at: Option<u64>,
    room: Option<u64>,
    closed_since: Option<u64>,
    closed: Option<(u64, u64)>,
    /// When the other side last said anything.
    heard: Option<u64>,
    /// When the other side's protocol above TCP last gave room.
    talk: Option<u64>,
    recovery: Option<(u64, RetransmitTrigger)>,
    lost: bool,
    /// How many acknowledgements told of a loss since the last new one.
    pub(crate) told: u32,
    /// What was known before something was sent again, and when its acknowledgement was due.
    unshaken: (u64, bool, u64),
    /// The end of the current round, and the most that was outstanding in this one and those before.
    round: u64,
    peaks: [u64; BACK],
    rounds: usize,
    all_peaks: Vec<u64>,
    /// What the last acknowledgements told.
    pub(crate) acked: Vec<AckRecord>,
}

impl<'a> SenderState<'a> {
    pub(crate) fn new(offsets: StreamOffsets, vantage: &VantagePoint, side: Side, facts: &'a Facts) -> Self {
        Self {
            facts,
            // Captured at its own end, it may act as soon as it is seen to hear.
            away: if vantage.is_at(side) { 0 } else { vantage.rtt_to[side] },
            rtt: vantage.rtt(),
            offsets: offsets.rewound(),
            coming: VecDeque::new(),
            flying: VecDeque::new(),
            una: ORIGIN,
            next: ORIGIN,
            start: ORIGIN,
            edge: None,
            // Fewer segments no sender has begun with since RFC 2581 (§3.1: two).
            limit: 2 * facts.mss,
            busy_until: 0,
            latest_ack: 0,
            sent_at: 0,
            release: None,
            limited_at: None,
            room: None,
            closed_since: None,
            closed: None,
            heard: None,
            talk: None,
            recovery: None,
            lost: false,
            told: 0,
            unshaken: (0, false, 0),
            round: ORIGIN,
            peaks: [0; BACK],
            rounds: 0,
            all_peaks: Vec::new(),
            acked: Vec::new(),
        }
    }

    /// The most that was outstanding in each round trip so far, if nothing was lost.
    pub(crate) fn rounds(&mut self) -> Vec<u64> {
        if self.lost { Vec::new() } else { std::mem::take(&mut self.all_peaks) }
    }

    /// What the congestion window is at least, in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn flight(&self) -> u64 {
        self.next.saturating_sub(self.una)
    }

    /// How soon after an acknowledgement a packet was let go by it.
    pub(crate) fn prompt(&self) -> u64 {
        PROMPT.max(self.rtt / 8)
    }

    /// A packet of the receiver passed: its acknowledgement is on its way to the sender.
    pub(crate) fn hear(&mut self, segment: &SegmentRecord, scale: u8) {
        let shift = if segment.has(capture::tcp::Flags::SYN) { 0 } else { scale };
        let ack = Ack {
            at: segment.time + self.away,
            number: segment.number,
            to: self.offsets.near(segment.ack),
            window: u64::from(segment.window) << shift,
            sacked: segment.sacked().is_some(),
            data: segment.len > 0,
            talk: false,
        };
        self.coming.push_back(ack);
    }

    /// The other side's protocol above TCP says something that is no message.
    pub(crate) fn hear_talk(&mut self, segment: &SegmentRecord) {
        let at = segment.time + self.away;
        let nothing = Ack { at, number: segment.number, to: 0, window: 0, sacked: false, data: true, talk: true };
        self.coming.push_back(nothing);
    }

    /// Takes in what reached the sender up to a time.
    pub(crate) fn until(&mut self, now: u64) {
        while let Some(ack) = self.coming.front().copied()
            && ack.at <= now
        {
            self.coming.pop_front();
            self.take_in(ack);
        }
    }

    fn take_in(&mut self, ack: Ack) {
        if ack.talk {
            self.talk = Some(ack.at);
            return;
        }
        // What is acknowledged was sent, whether it was captured or not.
        let far = ack.to > self.next + (1 << 30);
        if far {
            return;
        }
        self.next = self.next.max(ack.to);
        let usable = self.edge.map(|edge| edge.saturating_sub(self.next));
        let edge = ack.to + ack.window;
        if ack.to >= self.una {
            self.edge = Some(edge);
        }
        let opened = usable.is_some_and(|usable| edge.saturating_sub(self.next) > usable);
        let new = ack.to > self.una;
        self.told = if new { 0 } else { self.told + u32::from(ack.sacked) };
        let held = if new { self.acknowledge(ack) } else { 0 };
        if new || opened {
            if usable.is_some_and(|usable| usable < self.facts.mss) {
                self.limited_at = Some(ack.at);
            }
            self.release = Some(ReleasingAck { at: ack.at, held, all: self.flight() == 0, number: ack.number });
        } else if ack.sacked && !ack.data {
            self.release = Some(ReleasingAck { at: ack.at, held: 0, all: false, number: ack.number });
        }
        self.latest_ack = ack.at;
        if ack.data {
            self.heard = Some(ack.at);
        }
        let closed = edge.saturating_sub(self.next) < self.facts.mss && ack.window < self.facts.mss;
        match (closed, self.closed_since) {
            (true, None) => self.closed_since = Some(ack.at),
            (false, Some(since)) => {
                self.closed = Some((self.closed.map_or(since, |(from, _)| from), ack.at));
                self.closed_since = None;
            }
            _ => {}
        }
        self.look_for_room(ack.at);
    }

    /// New data is acknowledged; for how long that was held back.
    fn acknowledge(&mut self, ack: Ack) -> u64 {
        let (before, mut last) = (self.una, None);
        self.una = ack.to;
        let mss = self.facts.mss.max(1);
        let (mut packets, mut begin, mut last_bytes) = (0, before, 0);
        // What was captured larger than a segment is cut up on its way.
        let mut count = |end: u64| {
            let size = end.saturating_sub(begin);
            if size > 0 {
                let more = size.div_ceil(mss);
                packets += more;
                last_bytes = size - (more - 1) * mss;
                begin = end;
            }
        };
        while let Some(flown) = self.flying.front().copied()
            && flown.end <= ack.to
        {
            last = Some(flown);
            count(flown.end);
            self.flying.pop_front();
        }
        count(ack.to);
        let repaired = self.recovery.is_some();
        if self.recovery.is_some_and(|(until, _)| self.una >= until) {
            self.recovery = None;
        }
        if self.una >= self.round {
            self.round = self.next;
            if self.all_peaks.len() < TOLD {
                self.all_peaks.push(self.peaks[0]);
            }
            self.peaks.rotate_right(1);
            self.peaks[0] = 0;
            self.rounds += 1;
        }
        let Some(last) = last else { return 0 };
        // A receiver that knows of more to acknowledge holds nothing back: only what ends a flight is held. It came
        // no later than a round trip after the link had carried it, and not before the acknowledgement ahead of it.
        let due = (last.carried + self.rtt).max(if self.latest_ack > last.at { self.latest_ack } else { 0 });
        let late = ack.at.saturating_sub(due);
        let by_timer = late >= HELD.max(self.rtt / 10) && late <= HELD_MOST;
        let held = if self.flight() == 0 && by_timer && !repaired && !ack.data { late } else { 0 };
        self.acked.push(AckRecord {
            at: ack.at,
            to: ack.to,
            bytes: ack.to - before,
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            last: last_bytes,
            plain: !ack.data && !ack.sacked && !repaired,
            sent: last.at,
            held,
            all: self.flight() == 0,
        });
        held
    }

    /// Since when a sender that goes on later could have.
    fn look_for_room(&mut self, now: u64) {
        // A third: less than that, and senders wait to send more at once (Linux: `tcp_tso_should_defer`).
        let enough = self.facts.mss.max(self.limit / 3);
        let window = self.edge.is_none_or(|edge| edge.saturating_sub(self.next) >= self.facts.mss);
        if self.room.is_none() && window && self.flight() + enough <= self.limit {
            self.room = Some(now);
        }
    }

    /// A packet of the sender passed: what let it go; none where it is no data.
    pub(crate) fn send(&mut self, segment: &SegmentRecord) -> Option<Sent> {
        self.until(segment.time);
        if self.release.is_none_or(|release| segment.time > release.at + self.prompt()) {
            // Distances are measured, and not to the microsecond: an acknowledgement that is all but there is.
            self.until(segment.time + (self.away / 16).min(TOGETHER));
        }
        let syn = u32::from(segment.has(capture::tcp::Flags::SYN));
        let start = self.offsets.of(segment.seq.wrapping_add(syn))?;
        let (now, end) = (segment.time, start + u64::from(segment.len));
        // A probe of a closed window or of a silent peer carries a byte at most (RFC 9293 §3.8.4, §3.8.6.1).
        if segment.len <= 1 && (end <= self.next || self.closed_since.is_some()) {
            return None;
        }
        let again = start < self.next;
        self.start = start;
        let sent =
            if again { Sent::Retransmission(self.repair(now)) } else { Sent::New(self.data(now, segment.len.into())) };
        let carried = self.facts.carry(segment.len.into());
        self.busy_until = self.busy_until.max(now) + carried;
        self.next = self.next.max(end);
        self.sent_at = now;
        if !again {
            self.flying.push_back(Flown { end, at: now, carried: self.busy_until });
        }
        if self.recovery.is_none() {
            self.limit = self.limit.max(self.flight());
        }
        self.peaks[0] = self.peaks[0].max(self.flight());
        self.release = None;
        self.closed = None;
        self.limited_at = None;
        self.room = None;
        (self.heard, self.talk) = (None, None);
        if let Some(since) = &mut self.closed_since {
            *since = now.max(*since);
        }
        self.look_for_room(now);
        Some(sent)
    }

    /// A loss is repaired: by acknowledgements, or after a silence.
    fn repair(&mut self, now: u64) -> RetransmitTrigger {
        // No timer fires as soon as that after acknowledgements that told of the loss.
        let soon = if self.told > 0 { self.prompt().max(self.rtt / 2) } else { self.prompt() };
        let heard = self.release.is_some_and(|release| now <= release.at + soon)
            || self.latest_ack > 0 && now <= self.latest_ack + soon;
        let by = match self.recovery {
            // In the midst of a repair it goes on as it began.
            Some((_, by)) if heard => by,
            _ if heard => RetransmitTrigger::Acks,
            _ => RetransmitTrigger::Timer,
        };
        if self.recovery.is_none() {
            let due = self.flying.back().map_or(0, |last| last.carried + self.rtt);
            self.unshaken = (self.limit, self.lost, due);
        }
        self.lost = true;
        self.limit = match by {
            RetransmitTrigger::Acks => (self.limit / 2).max(2 * self.facts.mss),
            RetransmitTrigger::Timer => self.facts.mss,
        };
        self.recovery = Some((self.next, by));
        by
    }

    /// What was sent again had arrived: nothing was lost. When its acknowledgement had been due, and what is known of
    /// a sender that went on when that came.
    pub(crate) fn needless(&mut self) -> (u64, SendContext) {
        let (limit, lost, due) = self.unshaken;
        (self.limit, self.lost, self.recovery) = (limit, lost, None);
        let facts = self.facts;
        (
            due,
            SendContext { chunks: facts.chunk.is_some(), answers_acks: true, room: Some(0), ..SendContext::default() },
        )
    }

    fn data(&self, now: u64, len: u64) -> SendContext {
        // A program that waits for its chunk looks now and then whether it was acknowledged.
        let late = |release: &ReleasingAck| if self.facts.chunk.is_some() && release.all { LATE } else { 1 };
        let released = self.release.filter(|release| now <= release.at + late(release) * self.prompt());
        let closed = match (self.closed, self.closed_since) {
            (Some((from, to)), _) => Some((from, to)),
            (None, Some(since)) => Some((since, now)),
            (None, None) => None,
        };
        let [_, last, before, earlier] = self.peaks;
        let recent = last.max(before);
        let grows = !self.lost && if self.rounds < BACK { self.facts.from_start } else { recent * 4 >= earlier * 5 };
        // Acknowledgements that come close together are one to a sender; while its window opens, all that come sooner
        // than it goes on.
        let together = if grows && self.facts.level.is_none() { self.prompt() } else { TOGETHER };
        let earlier_than = |room: &u64| released.is_none_or(|release| room + together < release.at);
        SendContext {
            released,
            room: self.room.filter(earlier_than),
            idle: released.is_none()
                && now > self.sent_at.max(self.release.map_or(0, |release| release.at)) + self.prompt(),
            closed,
            window: match self.release {
                Some(release) => self.limited_at.is_some_and(|at| release.at <= at + self.prompt()),
                None => self.edge.is_some_and(|edge| edge.saturating_sub(self.next) < self.facts.mss),
            },
            recovers: self.recovery.map(|(_, by)| by),
            lost: self.lost,
            grows,
            known: self.facts.from_start || self.rounds >= BACK,
            steady: !self.lost && self.facts.level.is_some_and(|level| self.peaks[0].max(last) * 2 >= level),
            chunks: self.facts.chunk.is_some(),
            answers_acks: self.facts.answers_acks,
            small: len < self.facts.mss && !self.facts.nodelay,
            full: self.facts.fills(self.flight(), self.rtt),
            answers: self.heard.is_some_and(|at| now <= at + self.prompt()),
            flow_control: self
                .talk
                .is_some_and(|talk| now <= talk + self.prompt() && self.room.is_some_and(|room| room < talk)),
        }
    }
}
