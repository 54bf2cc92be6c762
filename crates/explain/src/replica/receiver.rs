//! The receiving end: what it acknowledges, when, and how much it lets come.

use std::collections::{BTreeMap, VecDeque};

use units::Rate;

use super::{
    AckRule, Acks, Model, Stall,
    clock::{Nanos, SECOND, nanos},
    sender::Arrival,
};

/// The most that a program reads at once.
const READ: u64 = 16 << 10;

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ack {
    /// Everything before this offset has arrived.
    pub(super) upto: u64,
    /// The offset up to which the sender may send.
    pub(super) edge: u64,
    /// What arrived out of order and brought this about (the first block of RFC 2018).
    pub(super) sack: Option<(u64, u64)>,
    /// It was brought about by bytes that had arrived before (RFC 2883).
    pub(super) duplicate: bool,
}

#[derive(Debug)]
pub(super) struct Receiver {
    acks: Acks,
    mss: u64,
    rtt: Nanos,
    /// Everything before has arrived.
    next: u64,
    /// What arrived behind a gap: starts and ends.
    beyond: BTreeMap<u64, u64>,
    /// What the last acknowledgement said.
    acknowledged: u64,
    edge: u64,
    packets: u32,
    deadline: Option<Nanos>,
    buffer: Buffer,
    /// How many acknowledgements went because their time was up.
    pub(super) deferred: u64,
}

impl Receiver {
    pub(super) fn new(model: &Model, start: Nanos) -> Self {
        let buffer = Buffer::new(model, start);
        Self {
            acks: model.receiver.acks,
            mss: model.sender.mss.0,
            rtt: nanos(model.path.rtt),
            next: 0,
            beyond: BTreeMap::new(),
            acknowledged: 0,
            edge: buffer.capacity,
            packets: 0,
            deadline: None,
            buffer,
            deferred: 0,
        }
    }

    /// Round trips take so long now, queues included; the receiver learns it by its timestamps' echoes.
    pub(super) fn learn(&mut self, rtt: Nanos) {
        self.rtt = rtt;
    }

    /// The offset up to which the sender may send at first.
    pub(super) fn edge(&self) -> u64 {
        self.edge
    }

    /// All bytes before this offset are here.
    pub(super) fn delivered(&self) -> u64 {
        self.next
    }

    /// A packet arrives.
    pub(super) fn arrive(&mut self, packet: &Arrival, now: Nanos) -> Option<Ack> {
        let (start, end) = (packet.start, packet.end);
        let duplicate = end <= self.next || self.beyond.range(..=start).next_back().is_some_and(|(_, e)| *e >= end);
        if duplicate {
            return Some(Ack { duplicate, ..self.acknowledge(None) });
        }
        if start > self.next {
            let block = self.keep(start, end);
            return Some(self.acknowledge(Some(block)));
        }
        self.next = end;
        let gaps = !self.beyond.is_empty();
        while let Some(first) = self.beyond.first_entry()
            && *first.key() <= self.next
        {
            self.next = self.next.max(first.remove());
        }
        self.packets += 1;
        let waited = self.deadline;
        self.deadline = Some(waited.unwrap_or_else(|| now.saturating_add(nanos(self.acks.timer))));
        let idle = self.buffer.read(self.next, self.rtt, now);
        let pushed = self.acks.pushed_at_once && packet.push && idle;
        if gaps || pushed || self.is_due() {
            return Some(self.acknowledge(None));
        }
        self.window_update()
    }

    /// Whether the rule asks for an acknowledgement now.
    fn is_due(&mut self) -> bool {
        let bytes = self.next - self.acknowledged;
        let due = match self.acks.rule {
            AckRule::Packets(packets) => self.packets >= packets,
            AckRule::Segments(segments) => bytes >= self.mss * u64::from(segments),
            AckRule::MoreThanSegment => bytes > self.mss,
            AckRule::Bytes(least) => bytes >= least.0,
        };
        if !due && self.acks.quick == 0 {
            return false;
        }
        self.acks.quick = self.acks.quick.saturating_sub(1);
        true
    }

    /// Keeps what is behind a gap; says of which block it has become a part.
    fn keep(&mut self, mut start: u64, mut end: u64) -> (u64, u64) {
        while let Some((&s, &e)) = self.beyond.range(..=end).next_back().filter(|(_, e)| **e >= start) {
            (start, end) = (start.min(s), end.max(e));
            self.beyond.remove(&s);
        }
        self.beyond.insert(start, end);
        (start, end)
    }

    fn acknowledge(&mut self, sack: Option<(u64, u64)>) -> Ack {
        self.acknowledged = self.next;
        self.packets = 0;
        self.deadline = None;
        // An edge that has been named is never taken back (RFC 9293 §3.8.6), nor moved by crumbs (RFC 1122 §4.2.3.3).
        let edge = self.buffer.edge();
        if edge >= self.edge.saturating_add(self.mss.min(self.buffer.capacity / 2)) {
            self.edge = edge;
        }
        Ack { upto: self.next, edge: self.edge, sack, duplicate: false }
    }

    /// The program has read: if that doubles the window, the sender is told.
    fn window_update(&mut self) -> Option<Ack> {
        let (now, then) = (self.edge.saturating_sub(self.next), self.buffer.edge().saturating_sub(self.next));
        (then >= now.saturating_mul(2) && then - now >= self.mss.min(self.buffer.capacity / 2))
            .then(|| self.acknowledge(None))
    }

    /// When it does something by itself.
    pub(super) fn wake(&self) -> Option<Nanos> {
        [self.deadline, self.buffer.wake(self.next)].into_iter().flatten().min()
    }

    pub(super) fn poll(&mut self, now: Nanos) -> Option<Ack> {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deferred += 1;
            return Some(self.acknowledge(None));
        }
        self.buffer.read(self.next, self.rtt, now);
        self.window_update()
    }
}

/// The socket's buffer and the program that empties it.
#[derive(Debug)]
struct Buffer {
    capacity: u64,
    largest: u64,
    reads: Option<u64>,
    stalls: VecDeque<Stall>,
    read: u64,
    busy: Nanos,
    round: Round,
}

/// What the program read in a round trip, by which the window grows.
#[derive(Debug)]
struct Round {
    begin: Nanos,
    from: u64,
    /// What the last one brought.
    brought: u64,
}

impl Buffer {
    fn new(model: &Model, start: Nanos) -> Self {
        let mut stalls = model.receiver.stalls.clone();
        stalls.sort_by_key(|stall| stall.at);
        // Half of what numbers hold, so that sums do.
        let capacity = model.receiver.window.map_or(u64::MAX / 2, |window| window.0);
        Self {
            capacity,
            largest: model.receiver.largest_window.map_or(capacity, |window| window.0.max(capacity)),
            reads: model.receiver.reads.map(Rate::as_bits_per_second),
            stalls: stalls.into(),
            read: 0,
            busy: start,
            round: Round {
                begin: start,
                from: 0,
                brought: model.sender.mss.0 * u64::from(model.sender.initial_window),
            },
        }
    }

    fn edge(&self) -> u64 {
        self.read + self.capacity
    }

    fn wake(&self, arrived: u64) -> Option<Nanos> {
        (arrived > self.read).then_some(self.busy)
    }

    /// Lets the program read what has arrived; says whether it has read all.
    fn read(&mut self, arrived: u64, rtt: Nanos, now: Nanos) -> bool {
        while self.read < arrived && self.busy <= now {
            if let Some(stall) = self.stalls.pop_front_if(|stall| stall.at <= self.read) {
                self.busy = now.saturating_add(nanos(stall.time));
                continue;
            }
            let stall = self.stalls.front().map_or(u64::MAX, |stall| stall.at);
            let upto = arrived.min(stall);
            let Some(rate) = self.reads else {
                self.read = upto;
                continue;
            };
            let bytes = (upto - self.read).min(READ);
            self.read += bytes;
            let took = u128::from(bytes) * 8 * u128::from(SECOND) / u128::from(rate);
            self.busy = self.busy.max(now).saturating_add(Nanos::try_from(took).unwrap_or(Nanos::MAX));
        }
        self.grow(rtt, now);
        self.read == arrived
    }

    /// Linux' dynamic right-sizing: room for twice what the last round trip brought, and for as much more as that
    /// was more than the round trip before it brought.
    fn grow(&mut self, rtt: Nanos, now: Nanos) {
        if self.capacity >= self.largest || now < self.round.begin.saturating_add(rtt) {
            return;
        }
        let brought = self.read - self.round.from;
        if brought > self.round.brought {
            let room = u128::from(brought) * 2;
            let more = room * u128::from(brought - self.round.brought) / u128::from(self.round.brought.max(1)) * 2;
            let wanted = u64::try_from(room + more).unwrap_or(u64::MAX);
            self.capacity = self.capacity.max(wanted.min(self.largest));
            self.round.brought = brought;
        }
        (self.round.begin, self.round.from) = (now, self.read);
    }
}
