//! Resets connections, as some firewalls do, with a RST to each end that seems to come from the other.
//!
//! A receiver accepts a RST only with exactly the sequence number that it expects next (RFC 5961 §3.2). The box is on
//! the path, so that is the end of the highest segment that has passed. Before the first segment of an end, a RST must
//! acknowledge the other end's SYN instead (RFC 9293 §3.10.7.3).

use std::time::{Duration, Instant};

use super::{
    Kind, Parameter, Side,
    bidirectional::{Bidirectional, stages},
    connection_table::Flows,
};
use crate::{
    headers::{self, Flow, Tcp, before},
    packet::Packet,
    stage::{Direction, Out},
    stages::Start,
};
use units::{Size, Span};

pub(super) const KIND: Kind = Kind {
    name: "reset",
    help: "reset connections, with a RST to both ends",
    parameters: &[
        Parameter {
            name: "bytes",
            form: "SIZE",
            help: "reset a connection when its data in both directions exceeds this",
            default: "",
        },
        Parameter {
            name: "after",
            form: "TIME",
            help: "reset all connections this long after the first packet",
            default: "",
        },
        Parameter { name: "syn", form: "NUMBER", help: "reset the connection of the nth SYN", default: "" },
    ],
    side: Side::Server,
    build: |arguments| {
        let bytes = arguments.get::<Size>("bytes")?.map(|size| When::Bytes(size.as_bytes()));
        let after = arguments.get::<Span>("after")?.map(|time| When::After(time.0));
        let syn = arguments.get("syn")?.map(When::Syn);
        let mut given = [bytes, after, syn].into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(when), None) => Ok(stages(Reset {
                when,
                start: Start::default(),
                fired: false,
                syns: 0,
                connections: Flows::default(),
            })),
            _ => arguments.one_of("bytes, after and syn"),
        }
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Bytes(u64),
    After(Duration),
    Syn(u64),
}

struct Reset {
    when: When,
    start: Start,
    /// Whether the time of `When::After` has passed.
    fired: bool,
    syns: u64,
    connections: Flows<Connection>,
}

#[derive(Debug, Default)]
struct Connection {
    /// The next sequence number in each direction.
    next: [Option<u32>; 2],
    bytes: u64,
    is_reset: bool,
}

impl Connection {
    /// The two resets: as if from the client, and as if from the server.
    fn end(&mut self, flow: &Flow) -> [Option<Packet>; 2] {
        self.is_reset = true;
        let [up, down] = self.next.map(Option::unwrap_or_default);
        [headers::reset(flow.client, flow.server, up, down), headers::reset(flow.server, flow.client, down, up)]
    }
}

/// Sends the resets to their ends; `direction` is that of the packet that triggered them.
fn send(resets: [Option<Packet>; 2], direction: Direction, out: &mut Out) {
    let [mut forward, mut back] = resets;
    if direction == Direction::Down {
        std::mem::swap(&mut forward, &mut back);
    }
    out.forward.extend(forward);
    out.back.extend(back);
}

impl Bidirectional for Reset {
    fn push(&mut self, direction: Direction, packet: Packet, now: Instant, out: &mut Out) {
        self.start.at(now);
        let Some(tcp) = Tcp::of(&packet.bytes) else { return out.forward(packet) };
        let flow = tcp.flow(direction);
        if tcp.rst() {
            self.connections.remove(&flow);
            return out.forward(packet);
        }
        if tcp.syn() && !tcp.ack() {
            self.syns += 1;
            if self.when == When::Syn(self.syns) {
                let mut refused = Connection::default();
                refused.next[direction as usize] = Some(tcp.sequence_end());
                let [from_client, from_server] = refused.end(&flow);
                out.back.extend(if direction == Direction::Up { from_server } else { from_client });
                return; // the other end never hears of it
            }
            self.connections.remove(&flow);
        }
        if self.connections.get(&flow, now).is_none() {
            self.connections.insert(flow, Connection::default(), now);
        }
        let Some(connection) = self.connections.get(&flow, now) else { return };
        connection.bytes += tcp.payload().len() as u64;
        if !connection.is_reset && matches!(self.when, When::Bytes(most) if connection.bytes > most) {
            // If the box has not seen the beginning of the connection, the packet itself has the numbers.
            connection.next[direction as usize].get_or_insert(tcp.sequence_number());
            connection.next[1 - direction as usize].get_or_insert(tcp.acknowledgment_number());
            return send(connection.end(&flow), direction, out);
        }
        let next = &mut connection.next[direction as usize];
        if next.is_none_or(|next| before(next, tcp.sequence_end())) {
            *next = Some(tcp.sequence_end());
        }
        out.forward(packet);
    }

    fn wake(&self, _direction: Direction) -> Option<Instant> {
        match self.when {
            When::After(time) if !self.fired => self.start.get().map(|start| start + time),
            _ => None,
        }
    }

    fn poll(&mut self, direction: Direction, _now: Instant, out: &mut Out) {
        self.fired = true;
        for (flow, connection) in self.connections.iter_mut().filter(|(_, connection)| !connection.is_reset) {
            send(connection.end(flow), direction, out);
        }
    }

    fn take_over(&mut self, old: &mut Self) {
        std::mem::swap(&mut self.connections, &mut old.connections);
        if self.when == old.when {
            (self.start, self.fired, self.syns) = (old.start.clone(), old.fired, old.syns);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        headers::Tcp,
        middleboxes::tests::Bench,
        stage::Direction::{self, Down, Up},
        test_packets::{CLIENT, SERVER, Segment, checksums_are_right, segment, tcp},
    };

    fn syn(port: u16) -> Vec<u8> {
        tcp(Segment { port, syn: true, ack: None, ..segment(0) })
    }

    fn syn_ack(port: u16) -> Vec<u8> {
        tcp(Segment { down: true, port, syn: true, seq: 4999, ack: Some(1001), ..segment(0) })
    }

    /// A reset's direction, sequence number and acknowledgment.
    fn resets(bench: &mut Bench) -> Vec<(Direction, u32, u32)> {
        let sent = bench.take_new().into_iter().map(|(direction, packet)| {
            assert!(checksums_are_right(&packet.bytes));
            let tcp = Tcp::of(&packet.bytes).unwrap();
            assert!(tcp.rst() && tcp.ack());
            assert_eq!(tcp.headers.source, if direction == Up { CLIENT } else { SERVER });
            (direction, tcp.sequence_number(), tcp.acknowledgment_number())
        });
        sent.collect()
    }

    #[test]
    fn connection_is_reset_when_it_exceeds_its_bytes() {
        let mut bench = Bench::new("reset:bytes=1000B");
        assert!(bench.passes(Up, 0, syn(1)) && bench.passes(Down, 1, syn_ack(1)));
        assert!(bench.passes(Up, 2, tcp(Segment { port: 1, seq: 1001, ..segment(600) })));
        assert!(bench.passes(
            Down,
            3,
            tcp(Segment { port: 1, down: true, seq: 5000, ack: Some(1601), ..segment(400) })
        ));
        assert!(!bench.passes(Up, 4, tcp(Segment { port: 1, seq: 1601, ack: Some(5000), ..segment(1) })));
        // To the client with what the server sent, though the client had not acknowledged it yet.
        assert_eq!(resets(&mut bench), [(Up, 1601, 5400), (Down, 5400, 1601)]);
        // Another connection has its own count.
        assert!(bench.passes(Up, 5, tcp(Segment { port: 2, ..segment(600) })));
        assert_eq!(resets(&mut bench), []);
    }

    #[test]
    fn sequence_numbers_come_from_the_packet_if_the_beginning_was_missed() {
        let mut bench = Bench::new("reset:bytes=0B");
        assert!(!bench.passes(Down, 0, tcp(Segment { down: true, seq: 70, ack: Some(90), ..segment(10) })));
        assert_eq!(resets(&mut bench), [(Up, 90, 70), (Down, 70, 90)]);
    }

    #[test]
    fn nth_syn_is_reset() {
        let mut bench = Bench::new("reset:syn=2");
        assert!(bench.passes(Up, 0, syn(1)) && !bench.passes(Up, 0, syn(2)) && bench.passes(Up, 0, syn(3)));
        assert_eq!(resets(&mut bench), [(Down, 0, 1001)]);
    }

    #[test]
    fn all_connections_are_reset_at_a_time() {
        let mut bench = Bench::new("reset:after=5ms");
        for port in [1, 2] {
            assert!(bench.passes(Up, 0, syn(port)) && bench.passes(Down, 1, syn_ack(port)));
        }
        bench.run(4);
        assert_eq!(resets(&mut bench), []);
        bench.run(5);
        let [up, down] = [(Up, 1001, 5000), (Down, 5000, 1001)];
        assert_eq!(resets(&mut bench), [up, up, down, down]);
        assert!(bench.passes(Up, 6, syn(3)));
        bench.run(100);
        assert_eq!(resets(&mut bench), []);
    }
}
