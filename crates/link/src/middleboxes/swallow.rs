//! Swallows: the data in a SYN, or everything that follows such a SYN.
//!
//! A box that rebuilds TCP streams may know that data begins after the handshake. One kind keeps the SYN and loses
//! its data; the server then acknowledges the SYN alone, and the client sends the data again. The other lets the SYN
//! pass, and its answer, and then takes every segment for one out of its window: the connection stands at both ends,
//! and nothing comes any more. No retransmission gets it going again, and no kernel gives it up before minutes have
//! gone by.

use std::time::Instant;

use super::{
    Kind, Side,
    both::{Watcher, stages},
    flows::Flows,
};
use crate::{
    headers::{Change, Tcp},
    lanes::Element,
    packet::Packet,
    stage::{Direction, Out, Stage},
};

/// Where IPv4 keeps its total length and its checksum, IPv6 the length of its payload, TCP its checksum.
const V4_LENGTH: usize = 2;
const V4_CHECKSUM: usize = 10;
const V6_LENGTH: usize = 4;
const TCP_CHECKSUM: usize = 16;

pub(super) const DATA: Kind = Kind {
    name: "swallow-syn-data",
    help: "take the data out of SYNs, and let the SYNs pass",
    parameters: &[],
    side: Side::Client,
    build: |_| Ok(Element::both(|_| Data)),
};

pub(super) const AFTER: Kind = Kind {
    name: "swallow-after-syn-data",
    help: "let SYNs with data pass, and their answers, and nothing after",
    parameters: &[],
    side: Side::Client,
    build: |_| Ok(stages(After { silenced: Flows::default() })),
};

struct Data;

impl Stage for Data {
    fn push(&mut self, mut packet: Packet, _now: Instant, out: &mut Out) {
        if let Some(tcp) = Tcp::of(&packet.bytes)
            && tcp.syn()
            && !tcp.payload().is_empty()
        {
            let (segment, kept) = (tcp.headers.payload.clone(), tcp.headers.payload.len() - tcp.payload().len());
            cut(&mut packet.bytes, segment.start, segment.len(), kept);
        }
        out.forward(packet);
    }
}

/// Shortens a TCP segment of `length` bytes, which begins at `start`, to `kept` of them.
fn cut(bytes: &mut Vec<u8>, start: usize, length: usize, kept: usize) {
    // What is gone counts as zeros, and the segment's length is under its checksum too (RFC 9293 §3.1).
    let mut segment = Change::default();
    let gone = vec![0; length - kept];
    segment.write(bytes, start + kept, &gone);
    segment.write(&mut (length as u16).to_be_bytes(), 0, &(kept as u16).to_be_bytes());
    segment.apply(bytes, start + TCP_CHECKSUM);
    bytes.truncate(start + kept);
    if bytes[0] >> 4 == 4 {
        let mut header = Change::default();
        header.write(bytes, V4_LENGTH, &((start + kept) as u16).to_be_bytes());
        header.apply(bytes, V4_CHECKSUM);
    } else {
        let shorter = u16::from_be_bytes([bytes[V6_LENGTH], bytes[V6_LENGTH + 1]]) - (length - kept) as u16;
        bytes[V6_LENGTH..V6_LENGTH + 2].copy_from_slice(&shorter.to_be_bytes());
    }
}

struct After {
    silenced: Flows<()>,
}

impl Watcher for After {
    fn push(&mut self, direction: Direction, packet: Packet, now: Instant, out: &mut Out) {
        let Some(tcp) = Tcp::of(&packet.bytes) else { return out.forward(packet) };
        let flow = tcp.flow(direction);
        if tcp.syn() && !tcp.ack() {
            if tcp.payload().is_empty() {
                // A new connection in the place of an old one, or the same SYN again: this one it understands.
                self.silenced.remove(&flow);
            } else {
                self.silenced.insert(flow, (), now);
            }
        }
        if tcp.syn() || self.silenced.get(&flow, now).is_none() {
            out.forward(packet);
        }
    }

    fn take_over(&mut self, old: &mut Self) {
        std::mem::swap(&mut self.silenced, &mut old.silenced);
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        headers::Tcp,
        middleboxes::tests::{Bench, pass_up},
        stage::Direction::{Down, Up},
        testing::{Segment, checksums_are_right, segment, tcp, tcp6},
    };

    #[test]
    fn the_data_is_gone_and_the_rest_is_whole() {
        for payload in [1, 2, 7, 1000] {
            let syn = Segment { syn: true, ack: None, options: vec![34, 6, 1, 2, 3, 4, 1, 1], ..segment(payload) };
            let bare = Segment { payload: 0, ..syn.clone() };
            for (with, without) in [(tcp(syn.clone()), tcp(bare.clone())), (tcp6(syn.clone()), tcp6(bare.clone()))] {
                let passed = &pass_up("swallow-syn-data", with).forward[0].bytes;
                assert!(checksums_are_right(passed));
                assert_eq!(*passed, without, "{payload}");
                assert!(Tcp::of(passed).unwrap().payload().is_empty());
            }
        }
        let later = tcp(segment(100));
        assert_eq!(pass_up("swallow-syn-data", later.clone()).forward[0].bytes, later);
    }

    #[test]
    fn after_a_syn_with_data_and_its_answer_nothing_passes() {
        let mut bench = Bench::new("swallow-after-syn-data");
        let syn = |payload| tcp(Segment { syn: true, ack: None, ..segment(payload) });
        let answer = || tcp(Segment { syn: true, down: true, ..segment(0) });
        assert!(bench.passes(Up, 0, syn(10)) && bench.passes(Down, 1, answer()));
        assert!(
            !bench.passes(Up, 2, tcp(segment(0))) && !bench.passes(Down, 3, tcp(Segment { down: true, ..segment(5) }))
        );
        // Another connection is not touched, nor one that takes this one's place.
        assert!(bench.passes(Up, 4, tcp(Segment { port: 50_000, ..segment(9) })));
        assert!(bench.passes(Up, 5, syn(0)) && bench.passes(Up, 6, tcp(segment(3))));
        assert!(bench.passes(Up, 7, syn(10)));
        bench.replace("swallow-after-syn-data", 8);
        assert!(!bench.passes(Up, 9, tcp(segment(0))));
    }
}
