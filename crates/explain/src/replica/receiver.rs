//! The receiving TCP and its program: what it acknowledges, when, and its window.

use std::collections::{BTreeMap, VecDeque};

use units::Rate;

use super::{
    AckRule, Acks, Model, Stall,
    clock::{Nanos, SECOND, nanos},
    sender::Arrival,
};

/// The maximum that a program reads at once, in bytes.
const MAX_READ: u64 = 16 << 10;

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ack {
    /// The acknowledgement number, as an offset.
    pub(super) number: u64,
    /// The right edge of the window.
    pub(super) right_edge: u64,
    /// The first SACK block (RFC 2018): the segment that triggered this acknowledgement, if it was out of order.
    pub(super) sack: Option<(u64, u64)>,
    /// It was triggered by bytes that had arrived before (RFC 2883).
    pub(super) duplicate: bool,
}

#[derive(Debug)]
pub(super) struct Receiver {
    acks: Acks,
    mss: u64,
    rtt: Nanos,
    /// The first byte that has not arrived (RFC 9293: RCV.NXT).
    rcv_nxt: u64,
    /// The data that arrived out of order: starts and ends.
    out_of_order: BTreeMap<u64, u64>,
    /// The acknowledgement number and the right edge of the last acknowledgement.
    last_ack: u64,
    right_edge: u64,
    /// Packets since then.
    packets: u32,
    /// When the delayed ACK timer expires.
    ack_timer: Option<Nanos>,
    buffer: Buffer,
    /// How many acknowledgements the timer sent.
    pub(super) delayed: u64,
}

impl Receiver {
    pub(super) fn new(model: &Model, start: Nanos) -> Self {
        let buffer = Buffer::new(model, start);
        Self {
            acks: model.receiver.acks,
            mss: model.sender.mss.0,
            rtt: nanos(model.path.rtt),
            rcv_nxt: 0,
            out_of_order: BTreeMap::new(),
            last_ack: 0,
            right_edge: buffer.capacity,
            packets: 0,
            ack_timer: None,
            buffer,
            delayed: 0,
        }
    }

    /// The current round-trip time including queues, which a receiver measures by the echoes of its timestamps.
    pub(super) fn set_rtt(&mut self, rtt: Nanos) {
        self.rtt = rtt;
    }

    /// The right edge of the window.
    pub(super) fn right_edge(&self) -> u64 {
        self.right_edge
    }

    /// The first byte that has not arrived.
    pub(super) fn rcv_nxt(&self) -> u64 {
        self.rcv_nxt
    }

    /// A packet arrives.
    pub(super) fn on_packet(&mut self, packet: &Arrival, now: Nanos) -> Option<Ack> {
        let (start, end) = (packet.start, packet.end);
        let duplicate =
            end <= self.rcv_nxt || self.out_of_order.range(..=start).next_back().is_some_and(|(_, e)| *e >= end);
        if duplicate {
            return Some(Ack { duplicate, ..self.acknowledge(None) });
        }
        if start > self.rcv_nxt {
            let block = self.store(start, end);
            return Some(self.acknowledge(Some(block)));
        }
        self.rcv_nxt = end;
        let fills_gap = !self.out_of_order.is_empty();
        while let Some(first) = self.out_of_order.first_entry()
            && *first.key() <= self.rcv_nxt
        {
            self.rcv_nxt = self.rcv_nxt.max(first.remove());
        }
        self.packets += 1;
        self.ack_timer = Some(self.ack_timer.unwrap_or_else(|| now.saturating_add(nanos(self.acks.timer))));
        let has_read_all = self.buffer.read(self.rcv_nxt, self.rtt, now);
        let is_pushed = self.acks.pushed_at_once && packet.push && has_read_all;
        if fills_gap || is_pushed || self.is_due() {
            return Some(self.acknowledge(None));
        }
        self.window_update()
    }

    /// Whether the rule calls for an acknowledgement now.
    fn is_due(&mut self) -> bool {
        let bytes = self.rcv_nxt - self.last_ack;
        let is_due = match self.acks.rule {
            AckRule::Packets(packets) => self.packets >= packets,
            AckRule::Segments(segments) => bytes >= self.mss * u64::from(segments),
            AckRule::MoreThanSegment => bytes > self.mss,
            AckRule::Bytes(least) => bytes >= least.0,
        };
        if !is_due && self.acks.quick == 0 {
            return false;
        }
        self.acks.quick = self.acks.quick.saturating_sub(1);
        true
    }

    /// Stores out-of-order data; returns the block that it is now part of.
    fn store(&mut self, mut start: u64, mut end: u64) -> (u64, u64) {
        while let Some((&s, &e)) = self.out_of_order.range(..=end).next_back().filter(|(_, e)| **e >= start) {
            (start, end) = (start.min(s), end.max(e));
            self.out_of_order.remove(&s);
        }
        self.out_of_order.insert(start, end);
        (start, end)
    }

    fn acknowledge(&mut self, sack: Option<(u64, u64)>) -> Ack {
        self.last_ack = self.rcv_nxt;
        self.packets = 0;
        self.ack_timer = None;
        // A window never shrinks (RFC 9293 §3.8.6), and never grows in small steps (silly window syndrome avoidance, RFC
        // 9293 §3.8.6.2.2).
        let right_edge = self.buffer.right_edge();
        if right_edge >= self.right_edge.saturating_add(self.mss.min(self.buffer.capacity / 2)) {
            self.right_edge = right_edge;
        }
        Ack { number: self.rcv_nxt, right_edge: self.right_edge, sack, duplicate: false }
    }

    /// The program has read: sends a window update if that doubles the window.
    fn window_update(&mut self) -> Option<Ack> {
        let window = self.right_edge.saturating_sub(self.rcv_nxt);
        let new_window = self.buffer.right_edge().saturating_sub(self.rcv_nxt);
        (new_window >= window.saturating_mul(2) && new_window - window >= self.mss.min(self.buffer.capacity / 2))
            .then(|| self.acknowledge(None))
    }

    /// When it acts without a packet.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        [self.ack_timer, self.buffer.next_event(self.rcv_nxt)].into_iter().flatten().min()
    }

    pub(super) fn on_timer(&mut self, now: Nanos) -> Option<Ack> {
        if self.ack_timer.is_some_and(|at| at <= now) {
            self.delayed += 1;
            return Some(self.acknowledge(None));
        }
        self.buffer.read(self.rcv_nxt, self.rtt, now);
        self.window_update()
    }
}

/// The receive buffer and the program that reads from it.
#[derive(Debug)]
struct Buffer {
    capacity: u64,
    largest: u64,
    /// How fast the program reads, in bits per second; none: at once.
    read_rate: Option<u64>,
    stalls: VecDeque<Stall>,
    /// The end of the data that the program has read.
    read: u64,
    /// When the program reads again.
    busy_until: Nanos,
    round: Round,
}

/// The data that the program read in a round trip, by which the window grows.
#[derive(Debug)]
struct Round {
    begin: Nanos,
    from: u64,
    /// The bytes of the round before.
    copied: u64,
}

impl Buffer {
    fn new(model: &Model, start: Nanos) -> Self {
        let mut stalls = model.receiver.stalls.clone();
        stalls.sort_by_key(|stall| stall.at);
        // Half of the maximum, so that sums do not overflow.
        let capacity = model.receiver.window.map_or(u64::MAX / 2, |window| window.0);
        Self {
            capacity,
            largest: model.receiver.largest_window.map_or(capacity, |window| window.0.max(capacity)),
            read_rate: model.receiver.reads.map(Rate::as_bits_per_second),
            stalls: stalls.into(),
            read: 0,
            busy_until: start,
            round: Round { begin: start, from: 0, copied: model.sender.mss.0 * u64::from(model.sender.initial_window) },
        }
    }

    fn right_edge(&self) -> u64 {
        self.read + self.capacity
    }

    fn next_event(&self, arrived: u64) -> Option<Nanos> {
        (arrived > self.read).then_some(self.busy_until)
    }

    /// Lets the program read what has arrived; returns whether it has read everything.
    fn read(&mut self, arrived: u64, rtt: Nanos, now: Nanos) -> bool {
        while self.read < arrived && self.busy_until <= now {
            if let Some(stall) = self.stalls.pop_front_if(|stall| stall.at <= self.read) {
                self.busy_until = now.saturating_add(nanos(stall.time));
                continue;
            }
            let stall = self.stalls.front().map_or(u64::MAX, |stall| stall.at);
            let end = arrived.min(stall);
            let Some(rate) = self.read_rate else {
                self.read = end;
                continue;
            };
            let bytes = (end - self.read).min(MAX_READ);
            self.read += bytes;
            let took = u128::from(bytes) * 8 * u128::from(SECOND) / u128::from(rate);
            self.busy_until = self.busy_until.max(now).saturating_add(Nanos::try_from(took).unwrap_or(Nanos::MAX));
        }
        self.grow(rtt, now);
        self.read == arrived
    }

    /// Linux's dynamic right-sizing (`tcp_rcv_space_adjust`): room for twice the data of the last round trip, plus its
    /// growth over the round trip before.
    fn grow(&mut self, rtt: Nanos, now: Nanos) {
        if self.capacity >= self.largest || now < self.round.begin.saturating_add(rtt) {
            return;
        }
        let copied = self.read - self.round.from;
        if copied > self.round.copied {
            let room = u128::from(copied) * 2;
            let more = room * u128::from(copied - self.round.copied) / u128::from(self.round.copied.max(1)) * 2;
            let wanted = u64::try_from(room + more).unwrap_or(u64::MAX);
            self.capacity = self.capacity.max(wanted.min(self.largest));
            self.round.copied = copied;
        }
        (self.round.begin, self.round.from) = (now, self.read);
    }
}
