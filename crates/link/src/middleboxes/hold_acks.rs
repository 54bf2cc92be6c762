//! Holds acknowledgments, as a receiver does that defers them (RFC 5681 §4.2).
//!
//! A receiver need not acknowledge each segment; it waits for a second one, or a timer. Which
//! *second one* is where receivers differ: Solaris counts bytes in units of the MSS, Windows counts
//! packets of any size. A sender that writes 8217 bytes at a time and waits for them to be
//! acknowledged sends seven segments of 1160 and one of 97: eight packets, so Windows's rule never
//! waits; but after six of them Solaris's finds 1257 bytes, less than two segments, and waits for
//! its timer, each time.
//!
//! Linux receivers do neither as long as the application reads. So this box stands in front of one
//! (at its end of the cable) and plays the other: a pure ACK that acknowledges too little is held
//! until the timer fires, or until a later one that acknowledges enough, or anything else that
//! carries the acknowledgment, takes its place. The timer counts from the moment at which the first
//! segment not acknowledged yet passed the box, as the receiver's own would (RFC 5681 §4.2): Linux
//! may have taken a part of that time itself. What a deferring receiver sends at once passes at once:
//! - SYN, FIN, RST, data, window updates, duplicate ACKs, ACKs with SACK blocks;
//! - the next ACK after a segment out of order or sent again, and any after a FIN.
//!
//! A full segment is what the MSS options of both SYNs allow, less 12 bytes where both carry
//! timestamps (RFC 7323 appendix A); where no SYN was seen it is 536 or, for IPv6, 1220 bytes
//! (RFC 9293 §3.7.1).

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use capture::tcp::options;

use super::{
    Kind, Parameter, Side,
    both::{Watcher, stages},
    flows::Flows,
};
use crate::{
    headers::{Flow, Tcp, before},
    packet::Packet,
    stage::{Direction, Out},
};
use units::Span;

/// What timestamps take of each segment.
const TIMESTAMPS: u32 = 12;
/// The most data packets remembered of one connection; when more are unacknowledged, the oldest
/// are forgotten, and an ACK of so many is not held anyway.
const MOST_PACKETS: usize = 4096;

pub(super) const KIND: Kind = Kind {
    name: "hold-acks",
    help: "hold ACKs of less than two segments, as a receiver at this end that defers them",
    parameters: &[
        Parameter {
            name: "rule",
            form: "mss|packets",
            help: "what two segments are: twice the MSS, as to Solaris, or two packets of any size, as to Windows",
            default: "mss",
        },
        Parameter {
            name: "timer",
            form: "TIME",
            help: "how long after a segment its ACK goes at the latest",
            default: "100ms for mss, 200ms for packets",
        },
    ],
    side: Side::Server,
    build: |arguments| {
        let (rule, usual) = match arguments.get::<String>("rule")?.as_deref() {
            None | Some("mss") => (Rule::Mss, Duration::from_millis(100)),
            Some("packets") => (Rule::Packets, Duration::from_millis(200)),
            Some(_) => return arguments.bad("rule", "write mss or packets"),
        };
        let timer = arguments.get::<Span>("timer")?.map_or(usual, Duration::from);
        let acks = match arguments.side() {
            Side::Client => Direction::Up,
            Side::Server => Direction::Down,
        };
        Ok(stages(HoldAcks { rule, timer, acks, connections: Flows::default(), timers: BTreeSet::new() }))
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Mss,
    Packets,
}

struct HoldAcks {
    rule: Rule,
    timer: Duration,
    /// The direction in which the receiver's ACKs go.
    acks: Direction,
    connections: Flows<Connection>,
    /// When which held ACK goes on; one entry for each that is held.
    timers: BTreeSet<(Instant, Flow)>,
}

#[derive(Debug, Default)]
struct Connection {
    /// The least MSS that a SYN named.
    mss: Option<u16>,
    /// Whether the SYN in each direction carried timestamps.
    timestamps: [bool; 2],
    /// Up to where the sender knows its data to be received.
    acknowledged: Option<u32>,
    /// The end of the sender's highest segment.
    sent: Option<u32>,
    /// The ends of the data packets that are not acknowledged yet, and when they passed.
    packets: VecDeque<(u32, Instant)>,
    /// Whether the next ACK must not be held.
    urgent: bool,
    /// Whether the sender said FIN.
    closing: bool,
    held: Option<HeldAck>,
}

#[derive(Debug)]
struct HeldAck {
    packet: Packet,
    number: u32,
    until: Instant,
}

impl Connection {
    fn saw_syn(&mut self, tcp: &Tcp<'_>, direction: Direction) {
        for place in options(tcp.options()) {
            match &tcp.options()[place] {
                [2, _, high, low] => {
                    let mss = u16::from_be_bytes([*high, *low]);
                    self.mss = Some(self.mss.map_or(mss, |other| other.min(mss)));
                }
                [8, ..] => self.timestamps[direction as usize] = true,
                _ => {}
            }
        }
    }

    fn saw_data(&mut self, tcp: &Tcp<'_>, now: Instant) {
        let end = tcp.sequence_end();
        self.closing |= tcp.fin();
        if let Some(sent) = self.sent
            && tcp.sequence_number() != sent
        {
            self.urgent = true; // a gap, or something that may fill one
        }
        if self.sent.is_none_or(|sent| before(sent, end)) {
            self.sent = Some(end);
            if self.packets.len() == MOST_PACKETS {
                self.packets.pop_front();
            }
            self.packets.push_back((end, now));
        }
    }

    fn full_segment(&self, ipv6: bool) -> u32 {
        let mss = self.mss.map_or(if ipv6 { 1220 } else { 536 }, u32::from);
        mss.saturating_sub(if self.timestamps == [true; 2] { TIMESTAMPS } else { 0 }).max(1)
    }

    /// Whether the receiver would have sent this pure ACK at once.
    fn is_due(&self, number: u32, ipv6: bool, rule: Rule) -> bool {
        let Some(acknowledged) = self.acknowledged else { return true };
        // A duplicate, an update of the window, or older than what went before.
        let newest = self.held.as_ref().map_or(acknowledged, |held| held.number);
        if self.urgent || self.closing || !before(newest, number) {
            return true;
        }
        match rule {
            Rule::Mss => number.wrapping_sub(acknowledged) >= 2 * self.full_segment(ipv6),
            Rule::Packets => self.packets.iter().take_while(|(end, _)| !before(number, *end)).nth(1).is_some(),
        }
    }

    /// The sender is being told this; returns the held ACK, if there is one.
    fn tell(&mut self, number: u32) -> Option<HeldAck> {
        if self.acknowledged.is_none_or(|acknowledged| before(acknowledged, number)) {
            self.acknowledged = Some(number);
        }
        while self.packets.pop_front_if(|(end, _)| !before(number, *end)).is_some() {}
        self.held.take()
    }
}

impl HoldAcks {
    /// A packet from the receiver.
    fn receiver_says(&mut self, flow: Flow, packet: Packet, now: Instant, out: &mut Out) {
        let Some(tcp) = Tcp::of(&packet.bytes) else { return out.forward(packet) };
        let Some(connection) = self.connections.get(&flow, now) else { return out.forward(packet) };
        if tcp.syn() {
            connection.saw_syn(&tcp, self.acks);
        }
        let number = tcp.acknowledgment_number();
        let pure = tcp.ack() && tcp.sequence_len() == 0 && !tcp.rst() && !tcp.urg();
        let sack = || options(tcp.options()).any(|place| tcp.options()[place.start] == 5);
        let until = match (&connection.held, connection.packets.front()) {
            (Some(held), _) => held.until,
            (None, Some((_, passed))) => *passed + self.timer,
            (None, None) => now + self.timer,
        };
        if pure && now < until && !connection.is_due(number, flow.server.is_ipv6(), self.rule) && !sack() {
            self.timers.insert((until, flow));
            connection.held = Some(HeldAck { packet, number, until });
            return;
        }
        if tcp.ack() {
            connection.urgent = false;
            if let Some(held) = connection.tell(number) {
                self.timers.remove(&(held.until, flow));
                if before(number, held.number) {
                    connection.tell(held.number);
                    out.forward(held.packet); // this one does not stand for it
                }
            }
        }
        out.forward(packet);
    }

    /// A packet to the receiver.
    fn sender_says(&mut self, flow: Flow, direction: Direction, packet: Packet, now: Instant, out: &mut Out) {
        if let Some(tcp) = Tcp::of(&packet.bytes)
            && let Some(connection) = self.connections.get(&flow, now)
        {
            if tcp.syn() {
                connection.saw_syn(&tcp, direction);
                connection.acknowledged = Some(tcp.sequence_number().wrapping_add(1));
            }
            if tcp.sequence_len() > 0 {
                connection.saw_data(&tcp, now);
            }
        }
        out.forward(packet);
    }

    /// A connection is forgotten; its held ACK is not lost.
    fn forget(&mut self, flow: &Flow, connection: Option<Connection>) -> Option<Packet> {
        let held = connection?.held?;
        self.timers.remove(&(held.until, *flow));
        Some(held.packet)
    }
}

impl Watcher for HoldAcks {
    fn push(&mut self, direction: Direction, packet: Packet, now: Instant, out: &mut Out) {
        let Some(tcp) = Tcp::of(&packet.bytes) else { return out.forward(packet) };
        let flow = tcp.flow(direction);
        // Past this box in the direction of the ACKs.
        let with_acks = if direction == self.acks { &mut out.forward } else { &mut out.back };
        if tcp.rst() || (tcp.syn() && !tcp.ack()) {
            let old = self.connections.remove(&flow);
            with_acks.extend(self.forget(&flow, old));
        }
        if !tcp.rst()
            && self.connections.get(&flow, now).is_none()
            && let Some((old, connection)) = self.connections.insert(flow, Connection::default(), now)
        {
            with_acks.extend(self.forget(&old, Some(connection)));
        }
        if direction == self.acks {
            self.receiver_says(flow, packet, now, out);
        } else {
            self.sender_says(flow, direction, packet, now, out);
        }
    }

    fn wake(&self, direction: Direction) -> Option<Instant> {
        (direction == self.acks).then(|| self.timers.first().map(|(until, _)| *until))?
    }

    fn poll(&mut self, _direction: Direction, now: Instant, out: &mut Out) {
        while let Some((until, flow)) = self.timers.first().copied()
            && until <= now
        {
            self.timers.pop_first();
            // Waiting is no use of the connection: `until` is not later than the last packet's time.
            let Some(connection) = self.connections.get(&flow, until) else { continue };
            if let Some(held) = connection.held.take() {
                connection.tell(held.number);
                out.forward(held.packet);
            }
        }
    }

    fn take_over(&mut self, old: &mut Self) {
        if self.acks == old.acks {
            std::mem::swap(&mut self.connections, &mut old.connections);
            std::mem::swap(&mut self.timers, &mut old.timers);
        }
    }

    fn leave(&mut self, direction: Direction) -> Vec<Packet> {
        if direction != self.acks {
            return Vec::new();
        }
        let timers = std::mem::take(&mut self.timers).into_iter();
        timers.filter_map(|(until, flow)| Some(self.connections.get(&flow, until)?.held.take()?.packet)).collect()
    }
}

#[cfg(test)]
mod tests;
