//! Delays ACKs, as a receiver with delayed ACKs does (RFC 5681 §4.2).
//!
//! A receiver need not acknowledge each segment; it may wait for a second one, or for a timer. Receivers differ in what
//! counts as a second one: Solaris counts bytes in units of the MSS, Windows counts packets of any size. A sender that
//! writes 8217 bytes at a time and waits for their acknowledgment sends seven segments of 1160 bytes and one of 97.
//! These are eight packets, so the Windows rule never waits. But after six of them the Solaris rule finds 1257 bytes,
//! less than two segments, and waits for its timer, every time.
//!
//! Linux receivers do neither as long as the application reads. So this box stands in front of one, at its end of the
//! cable, and imitates the other systems. It holds a pure ACK that acknowledges too little, until the timer expires or a
//! later packet acknowledges enough. The timer starts when the first unacknowledged segment passes the box, as in the
//! receiver (RFC 5681 §4.2), since Linux may have used part of that time itself. The box passes at once what such a
//! receiver sends at once:
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
    bidirectional::{Bidirectional, stages},
    connection_table::Flows,
};
use crate::{
    headers::{Flow, Tcp, before},
    packet::Packet,
    stage::{Direction, Out},
};
use units::Span;

/// Bytes that timestamps take of each segment.
const TIMESTAMPS: u32 = 12;
/// Maximum number of data packets remembered per connection. With more in flight the oldest are forgotten: an ACK for so
/// many is not held anyway.
const MAX_PACKETS: usize = 4096;

pub(super) const KIND: Kind = Kind {
    name: "hold-acks",
    help: "delay ACKs for less than two segments, as the receiver at this end would",
    parameters: &[
        Parameter {
            name: "rule",
            form: "mss|packets",
            help: "two segments are 2 × MSS (Solaris), or two packets of any size (Windows)",
            default: "mss",
        },
        Parameter {
            name: "timer",
            form: "TIME",
            help: "maximum delay of an ACK",
            default: "100ms for mss, 200ms for packets",
        },
    ],
    side: Side::Server,
    build: |arguments| {
        let (rule, usual) = match arguments.get::<String>("rule")?.as_deref() {
            None | Some("mss") => (Rule::Mss, Duration::from_millis(100)),
            Some("packets") => (Rule::Packets, Duration::from_millis(200)),
            Some(_) => return arguments.invalid("rule", "write mss or packets"),
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
    /// The direction of the receiver's ACKs.
    acks: Direction,
    connections: Flows<Connection>,
    /// When each held ACK is released.
    timers: BTreeSet<(Instant, Flow)>,
}

#[derive(Debug, Default)]
struct Connection {
    /// The smaller MSS of both SYNs.
    mss: Option<u16>,
    /// Whether the SYN in each direction carried timestamps.
    timestamps: [bool; 2],
    /// The highest acknowledgment number that the sender has got.
    acknowledged: Option<u32>,
    /// The end of the sender's highest segment.
    sent: Option<u32>,
    /// Sequence end and time of each unacknowledged data packet.
    packets: VecDeque<(u32, Instant)>,
    /// Whether the next ACK must not be held.
    urgent: bool,
    /// Whether the sender has sent a FIN.
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
    fn on_syn(&mut self, tcp: &Tcp<'_>, direction: Direction) {
        for range in options(tcp.options()) {
            match &tcp.options()[range] {
                [2, _, high, low] => {
                    let mss = u16::from_be_bytes([*high, *low]);
                    self.mss = Some(self.mss.map_or(mss, |other| other.min(mss)));
                }
                [8, ..] => self.timestamps[direction as usize] = true,
                _ => {}
            }
        }
    }

    fn on_data(&mut self, tcp: &Tcp<'_>, now: Instant) {
        let end = tcp.sequence_end();
        self.closing |= tcp.fin();
        if let Some(sent) = self.sent
            && tcp.sequence_number() != sent
        {
            self.urgent = true; // a gap, or something that may fill one
        }
        if self.sent.is_none_or(|sent| before(sent, end)) {
            self.sent = Some(end);
            if self.packets.len() == MAX_PACKETS {
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
        // A duplicate ACK, a window update, or an old ACK.
        let newest = self.held.as_ref().map_or(acknowledged, |held| held.number);
        if self.urgent || self.closing || !before(newest, number) {
            return true;
        }
        match rule {
            Rule::Mss => number.wrapping_sub(acknowledged) >= 2 * self.full_segment(ipv6),
            Rule::Packets => self.packets.iter().take_while(|(end, _)| !before(number, *end)).nth(1).is_some(),
        }
    }

    /// The sender gets this acknowledgment number; returns the held ACK, if there is one.
    fn acknowledge(&mut self, number: u32) -> Option<HeldAck> {
        if self.acknowledged.is_none_or(|acknowledged| before(acknowledged, number)) {
            self.acknowledged = Some(number);
        }
        while self.packets.pop_front_if(|(end, _)| !before(number, *end)).is_some() {}
        self.held.take()
    }
}

impl HoldAcks {
    /// A packet from the receiver.
    fn on_receiver_packet(&mut self, flow: Flow, packet: Packet, now: Instant, out: &mut Out) {
        let Some(tcp) = Tcp::of(&packet.bytes) else { return out.forward(packet) };
        let Some(connection) = self.connections.get(&flow, now) else { return out.forward(packet) };
        if tcp.syn() {
            connection.on_syn(&tcp, self.acks);
        }
        let number = tcp.acknowledgment_number();
        let pure = tcp.ack() && tcp.sequence_len() == 0 && !tcp.rst() && !tcp.urg();
        let sack = || options(tcp.options()).any(|range| tcp.options()[range.start] == 5);
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
            if let Some(held) = connection.acknowledge(number) {
                self.timers.remove(&(held.until, flow));
                if before(number, held.number) {
                    connection.acknowledge(held.number);
                    out.forward(held.packet); // this ACK is older and does not replace it
                }
            }
        }
        out.forward(packet);
    }

    /// A packet to the receiver.
    fn on_sender_packet(&mut self, flow: Flow, direction: Direction, packet: Packet, now: Instant, out: &mut Out) {
        if let Some(tcp) = Tcp::of(&packet.bytes)
            && let Some(connection) = self.connections.get(&flow, now)
        {
            if tcp.syn() {
                connection.on_syn(&tcp, direction);
                connection.acknowledged = Some(tcp.sequence_number().wrapping_add(1));
            }
            if tcp.sequence_len() > 0 {
                connection.on_data(&tcp, now);
            }
        }
        out.forward(packet);
    }

    /// Releases the held ACK of a connection that is forgotten.
    fn forget(&mut self, flow: &Flow, connection: Option<Connection>) -> Option<Packet> {
        let held = connection?.held?;
        self.timers.remove(&(held.until, *flow));
        Some(held.packet)
    }
}

impl Bidirectional for HoldAcks {
    fn push(&mut self, direction: Direction, packet: Packet, now: Instant, out: &mut Out) {
        let Some(tcp) = Tcp::of(&packet.bytes) else { return out.forward(packet) };
        let flow = tcp.flow(direction);
        // Output in the direction of the ACKs.
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
            self.on_receiver_packet(flow, packet, now, out);
        } else {
            self.on_sender_packet(flow, direction, packet, now, out);
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
            // `until` is not later than the last packet, so that waiting does not count as use of the connection.
            let Some(connection) = self.connections.get(&flow, until) else { continue };
            if let Some(held) = connection.held.take() {
                connection.acknowledge(held.number);
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

    fn drain(&mut self, direction: Direction) -> Vec<Packet> {
        if direction != self.acks {
            return Vec::new();
        }
        let timers = std::mem::take(&mut self.timers).into_iter();
        timers.filter_map(|(until, flow)| Some(self.connections.get(&flow, until)?.held.take()?.packet)).collect()
    }
}

#[cfg(test)]
mod tests;
