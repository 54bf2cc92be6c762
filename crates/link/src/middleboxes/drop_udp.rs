//! Drops UDP, like firewalls with rules from before HTTP/3.
//!
//! Nothing is sent back. So a QUIC client that does not try TCP in parallel waits for a handshake that never comes.

use std::time::Instant;

use super::{Kind, Side};
use crate::{
    lanes::Element,
    packet::Packet,
    stage::{Out, Stage},
};

pub(super) const KIND: Kind = Kind {
    name: "drop-udp",
    help: "drop UDP, and with it QUIC and HTTP/3",
    parameters: &[],
    side: Side::Client,
    build: |_| Ok(Element::both(|_| DropUdp)),
};

struct DropUdp;

impl Stage for DropUdp {
    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        if !is_udp(&packet.bytes) {
            out.forward(packet);
        }
    }
}

/// By the protocol number in the IP header; UDP after IPv6 extension headers passes.
fn is_udp(packet: &[u8]) -> bool {
    const UDP: u8 = 17;
    let at = if packet.first().is_some_and(|first| first >> 4 == 6) { 6 } else { 9 };
    packet.get(at) == Some(&UDP)
}

#[cfg(test)]
mod tests {
    use crate::{
        middleboxes::tests::pass_up,
        test_packets::{segment, tcp, tcp6, udp},
    };

    #[test]
    fn udp_and_nothing_else_is_dropped() {
        let passes = |packet| pass_up("drop-udp", packet).forward.len() == 1;
        assert!(!passes(udp(b"x")));
        assert!(passes(tcp(segment(1))) && passes(tcp6(segment(1))) && passes(vec![0x45]));
    }
}
