//! Drops everything after a SYN with data.
//!
//! A box that reassembles TCP streams may assume that data begins after the handshake. It lets the SYN and its answer
//! pass, and then drops every segment as out of the window. The connection is established at both ends, and nothing
//! arrives any more. Retransmissions do not help, and the kernels give up only after minutes.

use std::time::Instant;

use super::{
    Kind, Side,
    bidirectional::{Bidirectional, stages},
    connection_table::Flows,
};
use crate::{
    headers::Tcp,
    packet::Packet,
    stage::{Direction, Out},
};

pub(super) const KIND: Kind = Kind {
    name: "swallow-after-syn-data",
    help: "pass a SYN with data and its answer, then drop the rest of the connection",
    parameters: &[],
    side: Side::Client,
    build: |_| Ok(stages(BlackHole { connections: Flows::default() })),
};

struct BlackHole {
    /// Those whose packets are dropped.
    connections: Flows<()>,
}

impl Bidirectional for BlackHole {
    fn push(&mut self, direction: Direction, packet: Packet, now: Instant, out: &mut Out) {
        let Some(tcp) = Tcp::of(&packet.bytes) else { return out.forward(packet) };
        let flow = tcp.flow(direction);
        if tcp.syn() && !tcp.ack() {
            if tcp.payload().is_empty() {
                // A new connection with the same ports, or a retransmitted SYN without data: the box handles that.
                self.connections.remove(&flow);
            } else {
                self.connections.insert(flow, (), now);
            }
        }
        if tcp.syn() || self.connections.get(&flow, now).is_none() {
            out.forward(packet);
        }
    }

    fn take_over(&mut self, old: &mut Self) {
        std::mem::swap(&mut self.connections, &mut old.connections);
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        middleboxes::tests::Bench,
        stage::Direction::{Down, Up},
        test_packets::{Segment, segment, tcp},
    };

    #[test]
    fn nothing_passes_after_a_syn_with_data_and_its_answer() {
        let mut bench = Bench::new("swallow-after-syn-data");
        let syn = |payload| tcp(Segment { syn: true, ack: None, ..segment(payload) });
        let answer = || tcp(Segment { syn: true, down: true, ..segment(0) });
        assert!(bench.passes(Up, 0, syn(10)) && bench.passes(Down, 1, answer()));
        assert!(
            !bench.passes(Up, 2, tcp(segment(0))) && !bench.passes(Down, 3, tcp(Segment { down: true, ..segment(5) }))
        );
        // Other connections pass, and so does a new one with the same ports.
        assert!(bench.passes(Up, 4, tcp(Segment { port: 50_000, ..segment(9) })));
        assert!(bench.passes(Up, 5, syn(0)) && bench.passes(Up, 6, tcp(segment(3))));
        assert!(bench.passes(Up, 7, syn(10)));
        bench.replace("swallow-after-syn-data", 8);
        assert!(!bench.passes(Up, 9, tcp(segment(0))));
    }
}
