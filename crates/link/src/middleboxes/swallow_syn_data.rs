//! Removes the data of SYNs.
//!
//! A box that reassembles TCP streams may assume that data begins after the handshake, and keep the SYN without its
//! data. The server then acknowledges the SYN alone, and the client sends the data again.

use std::time::Instant;

use super::{Kind, Side};
use crate::{
    headers::{Change, Tcp},
    lanes::Element,
    packet::Packet,
    stage::{Out, Stage},
};

/// Offsets of the total length and the checksum in an IPv4 header, of the payload length in an IPv6 header, and of the
/// checksum in a TCP header.
const V4_LENGTH: usize = 2;
const V4_CHECKSUM: usize = 10;
const V6_LENGTH: usize = 4;
const TCP_CHECKSUM: usize = 16;

pub(super) const KIND: Kind = Kind {
    name: "swallow-syn-data",
    help: "remove the data of SYNs, and pass the SYNs",
    parameters: &[],
    side: Side::Client,
    build: |_| Ok(Element::both(|_| StripSynData)),
};

struct StripSynData;

impl Stage for StripSynData {
    fn push(&mut self, mut packet: Packet, _now: Instant, out: &mut Out) {
        if let Some(tcp) = Tcp::of(&packet.bytes)
            && tcp.syn()
            && !tcp.payload().is_empty()
        {
            let (segment, kept) = (tcp.headers.payload.clone(), tcp.headers.payload.len() - tcp.payload().len());
            truncate(&mut packet.bytes, segment.start, segment.len(), kept);
        }
        out.forward(packet);
    }
}

/// Truncates a TCP segment of `length` bytes at offset `start` to `kept` bytes.
fn truncate(bytes: &mut Vec<u8>, start: usize, length: usize, kept: usize) {
    // Removed bytes count as zeros, and the checksum covers the segment's length too (RFC 9293 §3.1).
    let mut segment = Change::default();
    let removed = vec![0; length - kept];
    segment.write(bytes, start + kept, &removed);
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

#[cfg(test)]
mod tests {
    use crate::{
        headers::Tcp,
        middleboxes::tests::pass_up,
        test_packets::{Segment, checksums_are_right, segment, tcp, tcp6},
    };

    #[test]
    fn syn_loses_its_data_and_stays_valid() {
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
}
