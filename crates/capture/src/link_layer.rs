//! Link-layer headers: finding the IP packet.

use crate::{
    Direction, LinkType, Packet,
    encapsulation::{self, IPV4, IPV6, Layer, Layered, TAGS},
    tunnel,
    wifi::Frame,
};

/// Maximum number of IP packets inside of one another.
const MAX_TUNNELS: usize = 8;

/// Maximum number of headers that contain the link type of the next.
const MAX_NESTED: usize = 4;

impl<'a> Packet<'a> {
    /// The IP packet, from its header on, if there is one with a complete fixed header. If it is a tunnel's, it is the
    /// packet inside: of IP in IP, GRE, VXLAN, Geneve, EtherIP or MPLS in IP.
    ///
    /// Ethernet's padding and check sequence are removed. The packet ends early if the capture truncated it. Its length is
    /// in its header, except for a length of 0, as in offloaded packets longer than 65,535 bytes (RFC 2675, Linux's BIG
    /// TCP): there it is `original_len` without the link-layer header.
    #[inline]
    pub fn network(&self) -> Option<&'a [u8]> {
        let mut ip = match self.bytes {
            // By far the most packets.
            [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, ip @ ..] if self.link == LinkType::ETHERNET => whole(ip)?,
            _ => whole(encapsulation::ip(payload(self.link, self.bytes)?)?)?,
        };
        for _ in 0..MAX_TUNNELS {
            let Some(inner) = tunnel::inner(ip) else { break };
            ip = inner;
        }
        Some(ip)
    }
}

/// The IP packet at the beginning of `ip`, up to the end that its header names.
#[inline]
pub(crate) fn whole(ip: &[u8]) -> Option<&[u8]> {
    let len = match (ip.first()? >> 4, ip) {
        (4, [_, _, high, low, ..]) if ip.len() >= 20 => usize::from(u16::from_be_bytes([*high, *low])),
        (6, [_, _, _, _, high, low, ..]) if ip.len() >= 40 => match u16::from_be_bytes([*high, *low]) {
            0 => 0,
            payload => 40 + usize::from(payload),
        },
        _ => return None,
    };
    Some(if (20..ip.len()).contains(&len) { &ip[..len] } else { ip })
}

/// What follows the link-layer header, if it may be IP.
fn payload(mut link: LinkType, mut bytes: &[u8]) -> Option<Layered<'_>> {
    for _ in 0..MAX_NESTED {
        return Some(match link.0 {
            // The address family of the machine that captured, in its byte order, and OpenBSD's loopback in network
            // byte order.
            0 | 108 => is_ip_family(*bytes.first_chunk()?).then(|| (Layer::Ip, &bytes[4..]))?,
            1 => (Layer::Ethernet, bytes),
            9 => (Layer::Ppp, bytes),
            12 | 14 | 101 | 228 | 229 => (Layer::Ip, bytes),
            50 => encapsulation::hdlc(bytes),
            51 => (Layer::Pppoe, bytes),
            100 => (Layer::Llc, bytes),
            104 => (Layer::EtherType, bytes.get(2..)?),
            105 => (Layer::Llc, Frame::new(bytes).data()?),
            107 => encapsulation::frame_relay(bytes)?,
            // OpenBSD's IPsec interface: the address family, the security association and flags.
            109 => (Layer::Ip, bytes.get(12..)?),
            113 => (Layer::EtherType, bytes.get(14..)?),
            117 => (Layer::Ip, pflog(bytes)?),
            127 => (Layer::Llc, Frame::radiotap(bytes)?.data()?),
            // The direction in the place of HDLC's address, then its control.
            166 => (Layer::Ppp, bytes.get(2..)?),
            204 => (Layer::Ppp, bytes.get(1..)?),
            205 => (Layer::EtherType, bytes.get(3..)?),
            206 => encapsulation::frame_relay(bytes.get(1..)?)?,
            219 => (Layer::Mpls, bytes),
            239 => (Layer::Ip, nflog(bytes)?),
            // The address, the type and two reserved bytes (RFC 4391 §6).
            242 => encapsulation::announced(u16::from_be_bytes(*bytes.get(40..)?.first_chunk()?), bytes.get(44..)?)?,
            276 => sll2(bytes)?,
            // Headers that name the type of the next: its length, then the type.
            192 | 258 => {
                (link, bytes) = nested(link, bytes)?;
                continue;
            }
            _ => return None,
        });
    }
    None
}

/// Whether it is an encrypted data frame of IEEE 802.11.
pub(crate) fn is_encrypted(packet: &Packet) -> bool {
    let frame = match packet.link.0 {
        105 => Some(Frame::new(packet.bytes)),
        127 => Frame::radiotap(packet.bytes),
        192 => match nested(packet.link, packet.bytes) {
            Some((link, bytes)) if link != packet.link => return is_encrypted(&Packet { link, bytes, ..*packet }),
            _ => None,
        },
        _ => None,
    };
    frame.is_some_and(Frame::is_encrypted)
}

/// 2 is IPv4 everywhere, and IPv6 is 10 on Linux, 24, 28 and 30 on NetBSD, FreeBSD and macOS.
fn is_ip_family(family: [u8; 4]) -> bool {
    matches!(u32::from_le_bytes(family).min(u32::from_be_bytes(family)), 2 | 10 | 24 | 28 | 30)
}

/// The second version of Linux's cooked header begins with the EtherType; a VLAN tag follows the rest of the header.
fn sll2(bytes: &[u8]) -> Option<Layered<'_>> {
    let kind = u16::from_be_bytes(*bytes.first_chunk()?);
    match kind {
        IPV4 | IPV6 => Some((Layer::Ip, bytes.get(20..)?)),
        kind if TAGS.contains(&kind) => Some((Layer::EtherType, bytes.get(22..)?)),
        kind => encapsulation::announced(kind, bytes.get(20..)?),
    }
}

/// OpenBSD's packet filter log begins with the length of its header, without padding.
fn pflog(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(usize::from(*bytes.first()?).next_multiple_of(4)..)
}

/// Linux's netfilter log is a list of attributes in the byte order of the machine that captured: length, type, value.
fn nflog(bytes: &[u8]) -> Option<&[u8]> {
    /// The packet, among the attributes (linux/netfilter/nfnetlink_log.h).
    const PAYLOAD: u16 = 9;
    let attributes = bytes.get(4..)?;
    let find = |number: fn([u8; 2]) -> u16| {
        let mut rest = attributes;
        loop {
            let [l0, l1, k0, k1, ..] = *rest else { return None };
            let (len, kind) = (usize::from(number([l0, l1])), number([k0, k1]) & 0x3FFF);
            let value = rest.get(4..len)?;
            if kind == PAYLOAD {
                return Some(value);
            }
            rest = rest.get(len.next_multiple_of(4)..)?;
        }
    };
    find(u16::from_le_bytes).or_else(|| find(u16::from_be_bytes))
}

/// The packet in a PPI header (Cace Technologies), or in macOS' PKTAP header (bsd/net/pktap.h).
fn nested(link: LinkType, bytes: &[u8]) -> Option<(LinkType, &[u8])> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    let (len, kind) = if link.0 == 192 { (word(0)? >> 16, word(4)?) } else { (word(0)?, word(8)?) };
    Some((LinkType(kind.try_into().ok()?), bytes.get(len as usize..)?))
}

/// The direction in a Linux cooked header, for packets to and from this host, or in PPP's with a direction.
pub(crate) fn direction(link: LinkType, bytes: &[u8]) -> Option<Direction> {
    let kind = match link {
        LinkType::LINUX_SLL => u16::from_be_bytes(*bytes.first_chunk()?),
        LinkType::LINUX_SLL2 => u16::from(*bytes.get(10)?),
        LinkType(166 | 204..=206) => {
            if *bytes.first()? == 0 {
                0
            } else {
                4
            }
        }
        _ => return None,
    };
    match kind {
        0 => Some(Direction::Inbound),
        4 => Some(Direction::Outbound),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The head of an IPv4 packet of 24 bytes, with its data.
    const V4: [u8; 24] = [0x45, 0, 0, 24, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4];

    fn packet(link: LinkType, bytes: &[u8]) -> Packet<'_> {
        let original_len = bytes.len() as u32;
        Packet { number: 1, time: Duration::ZERO, interface: 0, link, direction: None, original_len, bytes }
    }

    fn v6() -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 4, 59, 64];
        bytes.resize(44, 7);
        bytes
    }

    #[test]
    fn ip_is_found_after_every_link_layer_header() {
        let ether = [9u8; 12];
        let sll2 = |kind: [u8; 2], rest: &[u8]| [&kind[..], &[0; 18], rest].concat();
        let cases = [
            (LinkType::ETHERNET, [&ether[..], &[8, 0]].concat()),
            (LinkType::ETHERNET, [&ether[..], &[0x81, 0, 0, 5, 8, 0]].concat()),
            (LinkType::ETHERNET, [&ether[..], &[0x88, 0xA8, 0, 5, 0x81, 0, 0, 6, 8, 0]].concat()),
            (LinkType::RAW, vec![]),
            (LinkType::IPV4, vec![]),
            (LinkType::LINUX_SLL, [&[0; 14][..], &[8, 0]].concat()),
            (LinkType::LINUX_SLL, [&[0; 14][..], &[0x81, 0, 0, 5, 8, 0]].concat()),
            (LinkType::LINUX_SLL2, sll2([8, 0], &[])),
            (LinkType::LINUX_SLL2, sll2([0x81, 0], &[0, 5, 8, 0])),
            (LinkType::NULL, vec![2, 0, 0, 0]),
            (LinkType::NULL, vec![0, 0, 0, 2]),
            (LinkType::LOOP, vec![0, 0, 0, 2]),
            (LinkType::ETHERNET, [&ether[..], &[0x88, 0x64, 0x11, 0, 0, 7, 0, 26, 0, 0x21]].concat()),
            (LinkType::ETHERNET, [&ether[..], &[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]].concat()),
            (LinkType::ETHERNET, [&ether[..], &[0x88, 0x48, 0, 2, 1, 64]].concat()),
            (LinkType::ETHERNET, [&ether[..], &[0x88, 0x47, 0, 2, 1, 64, 0, 0, 0, 0], &ether, &[8, 0]].concat()),
            (LinkType::ETHERNET, [&ether[..], &[0x88, 0x47, 0, 2, 1, 64, 2], &ether[1..], &[8, 0]].concat()),
            (LinkType::ETHERNET, [&ether[..], &[0, 32, 0xAA, 0xAA, 3, 0, 0, 0, 8, 0]].concat()),
            (LinkType::LINUX_SLL, [&[0; 14][..], &[0x88, 0x64, 0x11, 0, 0, 7, 0, 26, 0, 0x21]].concat()),
            (LinkType::LINUX_SLL2, sll2([0x88, 0x47], &[0, 2, 1, 64])),
            (LinkType(9), vec![0, 0x21]),
            (LinkType(9), vec![0x21]),
            (LinkType(9), vec![0xFF, 3, 0, 0x21]),
            (LinkType(50), vec![0xFF, 3, 0, 0x21]),
            (LinkType(50), vec![0x0F, 0, 8, 0]),
            (LinkType(51), vec![0x11, 0, 0, 7, 0, 26, 0, 0x21]),
            (LinkType(100), vec![0xAA, 0xAA, 3, 0, 0, 0, 8, 0]),
            (LinkType(104), vec![0x0F, 0, 8, 0]),
            (LinkType(105), [&[8, 1][..], &[0; 22], &[0xAA, 0xAA, 3, 0, 0, 0, 8, 0]].concat()),
            (LinkType(107), vec![0x18, 0x41, 3, 0xCC]),
            (LinkType(109), vec![0; 12]),
            (LinkType(117), [&[61, 2][..], &[0; 62]].concat()),
            (LinkType(127), [&[0, 0, 8, 0, 0, 0, 0, 0, 8, 2][..], &[0; 22], &[0xAA, 0xAA, 3, 0, 0, 0, 8, 0]].concat()),
            (LinkType(166), vec![1, 3, 0, 0x21]),
            (LinkType(192), vec![0, 0, 8, 0, 101, 0, 0, 0]),
            (LinkType(204), vec![1, 0xFF, 3, 0, 0x21]),
            (LinkType(219), vec![0, 1, 1, 64]),
            (LinkType(242), [&[0; 40][..], &[8, 0, 0, 0]].concat()),
            (LinkType(258), [&[16, 0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0][..], &[0; 4]].concat()),
        ];
        for (link, head) in cases {
            let bytes = [&head[..], &V4, b"padding"].concat();
            assert_eq!(packet(link, &bytes).network(), Some(&V4[..]), "{link:?} {head:?}");
            for cut in 0..head.len() + 20 {
                assert_eq!(packet(link, &bytes[..cut]).network(), None, "{link:?} {head:?}");
            }
        }
        for (link, head) in
            [(LinkType::NULL, vec![30, 0, 0, 0]), (LinkType::IPV6, vec![]), (LinkType::LOOP, vec![0, 0, 0, 24])]
        {
            let bytes = [&head[..], &v6(), b"padding"].concat();
            assert_eq!(packet(link, &bytes).network(), Some(&v6()[..]), "{link:?}");
        }
    }

    #[test]
    fn other_protocols_have_no_ip_packet() {
        let arp = [&[9u8; 12][..], &[8, 6], &V4].concat();
        assert_eq!(packet(LinkType::ETHERNET, &arp).network(), None);
        assert_eq!(packet(LinkType(147), &V4).network(), None);
        assert_eq!(packet(LinkType::NULL, &[&[7, 0, 0, 0][..], &V4].concat()).network(), None);
        assert_eq!(packet(LinkType::RAW, &[0x55; 60]).network(), None);
    }

    #[test]
    fn netfilter_log_has_the_packet_in_an_attribute() {
        for number in [u16::to_le_bytes as fn(u16) -> [u8; 2], u16::to_be_bytes] {
            let attribute = |kind, value: &[u8]| [&number(4 + value.len() as u16)[..], &number(kind), value].concat();
            let head = [&[2, 0, 0, 1][..], &attribute(10, b"log\0"), &attribute(1, &[8, 0, 3])].concat();
            let bytes = [&head[..], &[0], &attribute(9, &V4)].concat();
            assert_eq!(packet(LinkType(239), &bytes).network(), Some(&V4[..]));
            for cut in 0..bytes.len() {
                assert_eq!(packet(LinkType(239), &bytes[..cut]).network(), None);
            }
        }
    }

    #[test]
    fn headers_without_end_are_given_up() {
        let tags = [&[9; 12][..], &[0x81, 0, 0, 1].repeat(1000)].concat();
        assert_eq!(packet(LinkType::ETHERNET, &tags).network(), None);
        assert_eq!(packet(LinkType(192), &[0, 0, 8, 0, 192, 0, 0, 0].repeat(1000)).network(), None);
        assert_eq!(packet(LinkType(258), &[0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0]).network(), None);
    }

    #[test]
    fn length_0_is_the_length_of_the_packet() {
        let mut big = V4;
        big[3] = 0;
        assert_eq!(packet(LinkType::RAW, &big).network(), Some(&big[..]));
    }

    #[test]
    fn linux_cooked_header_has_the_direction() {
        let sll = |kind| [0, kind, 0, 1];
        assert_eq!(direction(LinkType::LINUX_SLL, &sll(0)), Some(Direction::Inbound));
        assert_eq!(direction(LinkType::LINUX_SLL, &sll(4)), Some(Direction::Outbound));
        assert_eq!(direction(LinkType::LINUX_SLL, &sll(1)), None);
        assert_eq!(direction(LinkType::LINUX_SLL2, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]), Some(Direction::Outbound));
        assert_eq!(direction(LinkType::LINUX_SLL2, &[0; 10]), None);
        assert_eq!(direction(LinkType::ETHERNET, &[0; 20]), None);
    }
}
