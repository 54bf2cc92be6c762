//! A link with an MTU.
//!
//! It treats larger packets as a router does. It fragments an IPv4 packet if allowed (RFC 791 §3.2), and otherwise drops
//! it and answers with ICMP "fragmentation needed" and the MTU (RFC 1191 §4). It drops an IPv6 packet and answers with
//! "packet too big" (RFC 4443 §3.2). It does not answer ICMP errors, fragments other than the first, or packets with
//! addresses that identify no single host (RFC 1122 §3.2.2).
//!
//! The stage has no address of its own. It answers from the packet's destination address, since answers from there are
//! sure to be routed.
//!
//! As a **black hole** it drops every packet that is too large, without an answer, like a firewall that breaks path MTU
//! discovery (RFC 2923 §2.1).

use std::{net::IpAddr, time::Instant};

use etherparse::{
    Icmpv4Type, Icmpv6Type, IpFragOffset, Ipv4Header, Ipv4HeaderSlice, Ipv4Options, Ipv6HeaderSlice,
    icmpv4::DestUnreachableHeader, ip_number,
};

use crate::{
    headers::{self, Headers},
    packet::Packet,
    stage::{Out, Stage},
};

/// Maximum length of an ICMP error about an IPv4 packet (RFC 1812 §4.3.2.3) and about an IPv6 packet (RFC 4443 §2.4), in
/// bytes with all headers.
const MAX_ERROR_V4: usize = 576;
const MAX_ERROR_V6: usize = 1280;
/// Length of the headers in front of the quoted packet in an ICMP error: IP and ICMP.
const HEADERS_V4: usize = 20 + 8;
const HEADERS_V6: usize = 40 + 8;

/// See the module documentation.
#[derive(Debug)]
pub struct Mtu {
    mtu: u16,
    black_hole: bool,
}

impl Mtu {
    /// Minimum MTU: IPv4 requires 68 bytes (RFC 791 §3.2). Below 1280 a link cannot carry IPv6 (RFC 8200 §5): hosts keep
    /// sending packets that are too large.
    pub const MIN: u16 = 68;

    /// A link that carries packets of up to `mtu` bytes; the minimum is [`Mtu::MIN`].
    pub fn new(mtu: u16, black_hole: bool) -> Self {
        Self { mtu: mtu.max(Self::MIN), black_hole }
    }

    fn ipv4(&self, bytes: &[u8], out: &mut Out) -> Option<()> {
        let header = Ipv4HeaderSlice::from_slice(bytes).ok()?.to_header();
        if !header.dont_fragment {
            return self.fragment(&header, bytes, out);
        }
        let headers = Headers::of(bytes)?;
        let icmp_error = headers.protocol == ip_number::ICMP
            && matches!(bytes.get(headers.payload.start), Some(3 | 4 | 5 | 11 | 12));
        if icmp_error || !may_be_answered(&headers) {
            return None;
        }
        let needed = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: self.mtu };
        let quote = &bytes[..bytes.len().min(MAX_ERROR_V4.min(self.mtu.into()) - HEADERS_V4)];
        let builder =
            headers::build(headers.destination, headers.source)?.icmpv4(Icmpv4Type::DestinationUnreachable(needed));
        let mut answer = Vec::with_capacity(builder.size(quote.len()));
        builder.write(&mut answer, quote).ok()?;
        out.back(Packet::new(answer));
        Some(())
    }

    /// Splits a packet into fragments, or a fragment into smaller ones.
    fn fragment(&self, whole: &Ipv4Header, bytes: &[u8], out: &mut Out) -> Option<()> {
        let payload = bytes.get(whole.header_len()..whole.total_len.into())?;
        let mut header = whole.clone();
        let mut at = 0;
        while at < payload.len() {
            let room = (usize::from(self.mtu) - header.header_len()) / 8 * 8;
            let end = payload.len().min(at + room);
            header.more_fragments = whole.more_fragments || end < payload.len();
            let offset = usize::from(whole.fragment_offset.value()) + at / 8;
            header.fragment_offset = IpFragOffset::try_new(offset as u16).ok()?;
            header.set_payload_len(end - at).ok()?;
            header.header_checksum = header.calc_header_checksum();
            let mut fragment = Vec::with_capacity(header.header_len() + end - at);
            fragment.extend_from_slice(&header.to_bytes());
            fragment.extend_from_slice(&payload[at..end]);
            out.forward(Packet::new(fragment));
            header.options = copied(whole);
            at = end;
        }
        Some(())
    }

    fn ipv6(&self, bytes: &[u8], out: &mut Out) -> Option<()> {
        Ipv6HeaderSlice::from_slice(bytes).ok()?;
        let headers = Headers::of(bytes)?;
        let icmp_error =
            headers.protocol == ip_number::IPV6_ICMP && bytes.get(headers.payload.start).is_none_or(|kind| *kind < 128);
        if icmp_error || !may_be_answered(&headers) {
            return None;
        }
        let quote = &bytes[..bytes.len().min(MAX_ERROR_V6 - HEADERS_V6)];
        let builder = headers::build(headers.destination, headers.source)?
            .icmpv6(Icmpv6Type::PacketTooBig { mtu: self.mtu.into() });
        let mut answer = Vec::with_capacity(builder.size(quote.len()));
        builder.write(&mut answer, quote).ok()?;
        out.back(Packet::new(answer));
        Some(())
    }
}

/// Whether both addresses name one host each.
fn may_be_answered(headers: &Headers) -> bool {
    [headers.source, headers.destination].iter().all(|address| {
        let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        !(broadcast || address.is_multicast() || address.is_unspecified() || address.is_loopback())
    })
}

/// The options that each fragment bears: those with the "copied" bit (RFC 791 §3.1).
fn copied(whole: &Ipv4Header) -> Ipv4Options {
    let mut options = whole.options.as_slice();
    let mut kept = Vec::new();
    while let [kind, rest @ ..] = options {
        let length = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(rest.first().copied().unwrap_or(0)),
        };
        if length == 0 || length > options.len() || (*kind > 1 && length < 2) {
            break;
        }
        let (option, after) = options.split_at(length);
        if kind & 0x80 != 0 {
            kept.extend_from_slice(option);
        }
        options = after;
    }
    kept.resize(kept.len().next_multiple_of(4), 0);
    Ipv4Options::try_from(&kept[..]).unwrap_or_default()
}

impl Stage for Mtu {
    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        if packet.len() <= self.mtu.into() {
            out.forward(packet);
        } else if !self.black_hole {
            // What is garbage gets no answer; it is dropped all the same.
            let _ = match packet.bytes[0] >> 4 {
                4 => self.ipv4(&packet.bytes, out),
                6 => self.ipv6(&packet.bytes, out),
                _ => None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IpSlice, Ipv4Options};

    use super::*;
    use crate::test_packets::{checksums_are_right, segment, tcp, tcp6, udp};

    fn pass(stage: &mut Mtu, bytes: Vec<u8>) -> Out {
        let mut out = Out::default();
        stage.push(Packet::new(bytes), Instant::now(), &mut out);
        out
    }

    #[test]
    fn packet_within_the_mtu_passes() {
        let packet = tcp(segment(1460));
        assert_eq!(packet.len(), 1500);
        let out = pass(&mut Mtu::new(1500, false), packet.clone());
        assert_eq!((out.forward, out.back.len()), (vec![Packet::new(packet)], 0));
    }

    #[test]
    fn ipv4_with_dont_fragment_gets_an_icmp_error() {
        let packet = tcp(segment(1460));
        let out = pass(&mut Mtu::new(1400, false), packet.clone());
        assert_eq!((out.forward.len(), out.back.len()), (0, 1));
        let answer = &out.back[0].bytes;
        assert!(checksums_are_right(answer) && answer.len() <= 576);
        assert_eq!(answer[20..28], [&[3, 4], &answer[22..24], &[0, 0], &1400u16.to_be_bytes()[..]].concat());
        assert_eq!(answer[28..], packet[..answer.len() - 28]);
        assert_eq!((&answer[12..16], &answer[16..20]), (&packet[16..20], &packet[12..16]));
        // The answer itself finds no answer.
        let mut answer = answer.clone();
        answer[6] |= 0x40;
        assert_eq!(pass(&mut Mtu::new(68, false), answer).back.len(), 0);
    }

    #[test]
    fn ipv6_gets_a_packet_too_big() {
        let packet = tcp6(segment(1440));
        let out = pass(&mut Mtu::new(1400, false), packet.clone());
        assert_eq!((out.forward.len(), out.back.len()), (0, 1));
        let answer = &out.back[0].bytes;
        assert!(checksums_are_right(answer));
        assert_eq!((answer.len(), answer[40], answer[41], &answer[44..48]), (1280, 2, 0, &1400u32.to_be_bytes()[..]));
        assert_eq!(answer[48..], packet[..1232]);
    }

    #[test]
    fn black_hole_sends_no_icmp_error() {
        for packet in [tcp(segment(1460)), tcp6(segment(1440)), udp(&[0; 1472])] {
            let out = pass(&mut Mtu::new(1400, true), packet);
            assert_eq!((out.forward.len(), out.back.len()), (0, 0));
        }
    }

    /// Puts fragments together again: the header of the first, and the payload.
    fn together(fragments: &[Packet], mtu: usize) -> (Ipv4Header, Vec<u8>) {
        let mut payload = Vec::new();
        let mut first = None;
        for (n, fragment) in fragments.iter().enumerate() {
            assert!(fragment.len() <= mtu);
            let (header, rest) = Ipv4Header::from_slice(&fragment.bytes).unwrap();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(usize::from(header.fragment_offset.value()) * 8, payload.len());
            assert_eq!(header.more_fragments, n + 1 < fragments.len());
            payload.extend_from_slice(rest);
            first.get_or_insert(header);
        }
        (first.unwrap(), payload)
    }

    #[test]
    fn ipv4_without_dont_fragment_is_fragmented() {
        let whole = udp(&(0..200u8).cycle().take(3000).collect::<Vec<_>>());
        let out = pass(&mut Mtu::new(1000, false), whole.clone());
        assert_eq!((out.forward.len(), out.back.len()), (4, 0));
        assert_eq!(together(&out.forward, 1000).1, whole[20..]);
        // And the fragments of fragments.
        let mut small = Mtu::new(300, false);
        let smaller: Vec<_> = out.forward.into_iter().flat_map(|p| pass(&mut small, p.bytes).forward).collect();
        assert_eq!(together(&smaller, 300).1, whole[20..]);
    }

    #[test]
    fn only_copied_options_are_in_every_fragment() {
        let whole = udp(&[7; 500]);
        let (mut header, payload) = Ipv4Header::from_slice(&whole).unwrap();
        // Record route (not copied), stream id (copied), padding.
        header.options = Ipv4Options::try_from(&[7, 3, 4, 1, 0x88, 4, 1, 2][..]).unwrap();
        header.set_payload_len(payload.len()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        let out = pass(&mut Mtu::new(200, false), [&header.to_bytes()[..], payload].concat());
        let (first, joined) = together(&out.forward, 200);
        assert_eq!((first.options.as_slice(), &joined[..]), (header.options.as_slice(), payload));
        let second = Ipv4Header::from_slice(&out.forward[1].bytes).unwrap().0;
        assert_eq!(second.options.as_slice(), [0x88, 4, 1, 2]);
        assert!(out.forward.iter().all(|fragment| IpSlice::from_slice(&fragment.bytes).is_ok()));
    }
}
