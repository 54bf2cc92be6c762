//! Link-layer headers: finding the IP packet.

use crate::{Direction, LinkType, Packet};

/// EtherTypes of VLAN tags (IEEE 802.1Q, 802.1ad, and QinQ before its standard).
const TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;

impl<'a> Packet<'a> {
    /// The IP packet, from its header on, if there is one with a complete fixed header.
    ///
    /// Ethernet's padding and check sequence are removed. The packet ends early if the capture truncated it. Its length is
    /// in its header, except for a length of 0, as in offloaded packets longer than 65,535 bytes (RFC 2675, Linux's BIG
    /// TCP): there it is `original_len` without the link-layer header.
    pub fn network(&self) -> Option<&'a [u8]> {
        let ip = self.bytes.get(header(self.link, self.bytes)?..)?;
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
}

/// The length of the link-layer header, if IP follows.
fn header(link: LinkType, bytes: &[u8]) -> Option<usize> {
    match link {
        LinkType::ETHERNET => ether_type(bytes, 12),
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType(12 | 14) => Some(0),
        LinkType::LINUX_SLL => ether_type(bytes, 14),
        LinkType::LINUX_SLL2 => {
            let kind = u16::from_be_bytes(*bytes.first_chunk()?);
            // A VLAN tag follows the rest of the header.
            match kind {
                IPV4 | IPV6 => Some(20),
                kind if TAGS.contains(&kind) => ether_type(bytes, 22),
                _ => None,
            }
        }
        LinkType::NULL | LinkType::LOOP => {
            // The address family of the machine that captured, in its byte order: 2 is IPv4 everywhere,
            // and IPv6 is 10 on Linux, 24, 28 and 30 on NetBSD, FreeBSD and macOS.
            let family: [u8; 4] = *bytes.first_chunk()?;
            let family = u32::from_le_bytes(family).min(u32::from_be_bytes(family));
            matches!(family, 2 | 10 | 24 | 28 | 30).then_some(4)
        }
        _ => None,
    }
}

/// Offset of the IP header after the EtherType at offset `at`, and after any VLAN tags.
fn ether_type(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?) {
            IPV4 | IPV6 => return Some(at + 2),
            kind if TAGS.contains(&kind) => at += 4,
            _ => return None,
        }
    }
}

/// The direction in a Linux cooked header, for packets to and from this host.
pub(crate) fn direction(link: LinkType, bytes: &[u8]) -> Option<Direction> {
    let kind = match link {
        LinkType::LINUX_SLL => u16::from_be_bytes(*bytes.first_chunk()?),
        LinkType::LINUX_SLL2 => u16::from(*bytes.get(10)?),
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
