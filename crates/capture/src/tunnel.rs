//! IP packets inside of IP packets.
//!
//! A VPN, a container network or a provider's core wraps each packet in another one. The transfer that a user asks about
//! is the inner one, so [`Packet::network`](crate::Packet::network) returns the innermost IP packet. A TCP connection that
//! is a tunnel itself (an SSH or a TLS VPN) has nothing readable inside, and stays what it is.

use crate::{
    encapsulation::{self, Layer, Layered},
    link_layer::whole,
    transport::{TCP, Transport, UDP},
};

/// Protocol numbers: IPv4 in IP (RFC 2003), IPv6 in IP (RFC 4213 §3.5, RFC 2473), GRE (RFC 2784), EtherIP (RFC 3378) and
/// MPLS in IP (RFC 4023).
const IPV4: u8 = 4;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const ETHER_IP: u8 = 97;
const MPLS: u8 = 137;

/// UDP ports: VXLAN's, the one that Linux uses unless told otherwise (`ip-link(8)`), and Geneve's.
const VXLAN: u16 = 4789;
const VXLAN_LINUX: u16 = 8472;
const GENEVE: u16 = 6081;

/// EtherTypes in GRE of mirrored Ethernet frames (draft-foschiano-erspan): type I and II, and III.
const ERSPAN: u16 = 0x88BE;
const ERSPAN_3: u16 = 0x22EB;

/// The IP packet inside of `ip`, if it is a tunnel's. A fragment is none before it is reassembled.
#[inline]
pub(crate) fn inner(ip: &[u8]) -> Option<&[u8]> {
    // By far the most packets.
    let protocol = if ip[0] >> 4 == 4 { ip[9] } else { ip[6] };
    if protocol == TCP { None } else { inner_of(ip) }
}

fn inner_of(ip: &[u8]) -> Option<&[u8]> {
    let Transport { protocol, bytes, .. } = Transport::of(ip)?;
    let inner = match protocol {
        IPV4 | IPV6 => (Layer::Ip, bytes),
        GRE => gre(bytes)?,
        ETHER_IP => (Layer::Ethernet, bytes.get(2..)?),
        MPLS => (Layer::Mpls, bytes),
        UDP => udp(bytes)?,
        _ => return None,
    };
    whole(encapsulation::ip(inner)?)
}

/// GRE with its optional fields (RFC 2890 §2), and with acknowledgements in version 1 (RFC 2637 §4.1).
fn gre(bytes: &[u8]) -> Option<Layered<'_>> {
    let [flags, version, high, low, ..] = *bytes else { return None };
    let (kind, has) = (u16::from_be_bytes([high, low]), |flag: u8| if flags & flag == 0 { 0 } else { 4 });
    if flags & 0x40 != 0 || version & 0x07 > 1 {
        return None;
    }
    let acknowledgement = if version & 0x80 == 0 { 0 } else { 4 };
    let rest = bytes.get(4 + has(0x80) + has(0x20) + has(0x10) + acknowledgement..)?;
    match kind {
        // Without a sequence number it is type I, which has no header of its own.
        ERSPAN => Some((Layer::Ethernet, rest.get(2 * has(0x10)..)?)),
        ERSPAN_3 => {
            let has_subheader = rest.get(11)? & 1 == 1;
            Some((Layer::Ethernet, rest.get(if has_subheader { 20 } else { 12 }..)?))
        }
        _ => encapsulation::announced(kind, rest),
    }
}

fn udp(bytes: &[u8]) -> Option<Layered<'_>> {
    let [_, _, high, low, _, _, _, _, data @ ..] = bytes else { return None };
    match u16::from_be_bytes([*high, *low]) {
        // The network identifier is valid, and no other flag is set (RFC 7348 §5) but that of a group policy
        // (draft-smith-vxlan-group-policy).
        VXLAN | VXLAN_LINUX => {
            let ([0x08 | 0x88, ..], frame) = data.split_first_chunk::<8>()? else { return None };
            Some((Layer::Ethernet, frame))
        }
        // Version 0, with options of a multiple of four bytes (RFC 8926 §3.4).
        GENEVE => {
            let ([options @ ..0x40, _, high, low, ..], _) = data.split_first_chunk::<8>()? else { return None };
            encapsulation::announced(u16::from_be_bytes([*high, *low]), data.get(8 + usize::from(*options) * 4..)?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use etherparse::PacketBuilder;

    use crate::{LinkType, Packet, tcp::Segment};

    const MAC: [u8; 12] = [2; 12];

    fn packet(bytes: &[u8]) -> Packet<'_> {
        let original_len = bytes.len() as u32;
        let (link, direction) = (LinkType::RAW, None);
        Packet { number: 1, time: Duration::ZERO, interface: 0, link, direction, original_len, bytes }
    }

    fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        let len = (ip.len() + payload.len()) as u16;
        ip[2..4].copy_from_slice(&len.to_be_bytes());
        [ip, payload.to_vec()].concat()
    }

    fn v6(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut ip = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
        ip[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        ip.resize(40, 7);
        [ip, payload.to_vec()].concat()
    }

    fn udp(port: u16, data: &[u8]) -> Vec<u8> {
        let len = (8 + data.len()) as u16;
        let head: Vec<u8> = [50_000, port, len, 0].into_iter().flat_map(u16::to_be_bytes).collect();
        v4(17, &[&head[..], data].concat())
    }

    fn tcp() -> Vec<u8> {
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(1742, 443, 7, 16_384);
        builder.ack(9).write(&mut bytes, b"hello").unwrap();
        bytes
    }

    #[test]
    fn tcp_is_found_inside_of_every_tunnel() {
        let tcp = tcp();
        let frame = [&MAC[..], &[8, 0], &tcp].concat();
        let tagged = [&MAC[..], &[0x81, 0, 0, 5, 8, 0], &tcp].concat();
        let geneve = |kind: [u8; 2], options: &[u8], inner: &[u8]| {
            let head = [(options.len() / 4) as u8, 0, kind[0], kind[1], 0, 0, 9, 0];
            udp(6081, &[&head[..], options, inner].concat())
        };
        let vxlan = |frame: &[u8]| [&[8, 0, 0, 0, 0, 0, 9, 0], frame].concat();
        let cases = [
            v4(4, &tcp),
            v6(4, &tcp),
            v4(41, &v6(4, &tcp)),
            v4(47, &[&[0, 0, 8, 0], &tcp[..]].concat()),
            v4(47, &[&[0xB0, 0, 8, 0, 1, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3], &tcp[..]].concat()),
            v6(47, &[&[0, 0, 0x65, 0x58], &frame[..]].concat()),
            v4(
                47,
                &[&[0x30, 0x81, 0x88, 0x0B, 0, 9, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xFF, 3, 0, 0x21], &tcp[..]].concat(),
            ),
            v4(47, &[&[0x10, 0, 0x88, 0xBE, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0], &frame[..]].concat()),
            v4(97, &[&[0x30, 0], &frame[..]].concat()),
            v4(137, &[&[0, 1, 1, 64], &tcp[..]].concat()),
            udp(4789, &vxlan(&frame)),
            udp(8472, &vxlan(&tagged)),
            udp(4789, &[&[0x88, 0, 0, 7, 0, 0, 9, 0], &frame[..]].concat()),
            geneve([0x65, 0x58], &[], &frame),
            geneve([8, 0], &[1, 2, 3, 1, 0, 0, 0, 0], &tcp),
            // A container's network in a VPN.
            v4(4, &udp(4789, &vxlan(&frame))),
        ];
        for (index, bytes) in cases.iter().enumerate() {
            let segment = Segment::of(&packet(bytes)).unwrap_or_else(|| panic!("case {index}: no segment"));
            assert_eq!((segment.from.port(), segment.data, segment.payload), (1742, 5, &b"hello"[..]), "case {index}");
            for cut in 20..bytes.len() {
                let _ = packet(&bytes[..cut]).network();
            }
        }
    }

    #[test]
    fn packet_that_is_no_tunnel_stays_the_outer_one() {
        let (tcp, frame) = (tcp(), [&MAC[..], &[8, 6], &tcp()[..]].concat());
        let cases = [
            tcp.clone(),
            udp(53, b"query"),
            // A resolver's answer to a client's port that happens to be VXLAN's.
            udp(4789, b"\x12\x34\x81\x80\0\x01\0\x01 and the rest of a long answer"),
            udp(4789, &[&[8, 0, 0, 0, 0, 0, 9, 0], &frame[..]].concat()),
            v4(47, &[&[0, 0, 0x88, 0x3E], &tcp[..]].concat()),
            v4(4, b"no header"),
        ];
        for bytes in &cases {
            assert_eq!(packet(bytes).network(), Some(&bytes[..]));
        }
        // A fragment may be one of a tunnel's packet.
        let mut fragment = v4(4, &tcp);
        fragment[6] = 0x20;
        assert_eq!(packet(&fragment).network(), Some(&fragment[..]));
    }

    #[test]
    fn nested_tunnels_are_bounded() {
        let mut bytes = tcp();
        for _ in 0..200 {
            bytes = v4(4, &bytes);
        }
        let found = packet(&bytes).network().map(<[u8]>::len);
        assert!(found.is_some_and(|len| len > 3000), "{found:?}");
    }
}
