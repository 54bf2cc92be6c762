//! The transport protocol in an IP packet, and its header's position.
//!
//! For most packets two bytes are enough, the IPv4 header's length and protocol. IPv6 extension headers are skipped.

use std::net::{IpAddr, SocketAddr};

use crate::Packet;

/// Protocol numbers, and those of the headers that may precede them (RFC 8200 §4, RFC 4302 §2, RFC 6275 §6.1, RFC 7401 §5.1,
/// RFC 5533 §5).
const HOP_BY_HOP: u8 = 0;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;

/// An IP packet's addresses and payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transport<'a> {
    /// Its sender.
    pub(crate) from: IpAddr,
    /// Its receiver.
    pub(crate) to: IpAddr,
    /// The payload's protocol, a number of IANA's registry.
    pub(crate) protocol: u8,
    /// The captured payload, from its header on.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Transport<'a> {
    /// The payload of `ip`, a packet from [`Packet::network`]. A fragment has none, as its header may be missing.
    pub(crate) fn of(ip: &'a [u8]) -> Option<Self> {
        let address = |at: usize| -> Option<[u8; 4]> { ip.get(at..)?.first_chunk().copied() };
        let long = |at: usize| -> Option<[u8; 16]> { ip.get(at..)?.first_chunk().copied() };
        let (from, to, mut protocol, mut at) = match ip.first()? >> 4 {
            // Neither "more fragments" nor a fragment offset.
            4 if u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]).trailing_zeros() >= 14 => {
                (address(12)?.into(), address(16)?.into(), ip[9], usize::from(ip[0] & 0x0F) * 4)
            }
            6 => (long(8)?.into(), long(24)?.into(), ip[6], 40),
            _ => return None,
        };
        if at < 20 {
            return None;
        }
        while protocol != TCP {
            let header = ip.get(at..)?;
            let len = match protocol {
                HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY | HOST_IDENTITY | SHIM6 => {
                    (usize::from(*header.get(1)?) + 1) * 8
                }
                // An atomic fragment, which is the whole packet (RFC 6946).
                FRAGMENT if u16::from_be_bytes([*header.get(2)?, *header.get(3)?]) & 0xFFF9 == 0 => 8,
                FRAGMENT => return None,
                AUTHENTICATION => (usize::from(*header.get(1)?) + 2) * 4,
                _ => break,
            };
            protocol = header[0];
            at += len;
        }
        Some(Self { from, to, protocol, bytes: ip.get(at..)? })
    }
}

impl<'a> Packet<'a> {
    /// The UDP datagram in the packet, if it has one with a complete header: source, destination and data.
    pub fn udp(&self) -> Option<(SocketAddr, SocketAddr, &'a [u8])> {
        let Transport { from, to, protocol: UDP, bytes } = Transport::of(self.network()?)? else { return None };
        let (ports, data) = bytes.split_first_chunk::<8>()?;
        let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
        Some(((from, port(0)).into(), (to, port(2)).into(), data))
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{Ipv6Extensions, Ipv6RawExtHeader, PacketBuilder, ip_number};

    use super::{TCP, Transport, UDP};

    #[test]
    fn extension_headers_are_skipped() {
        let from: [u8; 16] = [1; 16];
        let raw = |next, len: usize| Ipv6RawExtHeader::new_raw(next, &vec![0; len]).unwrap();
        let extensions = Ipv6Extensions {
            hop_by_hop_options: Some(raw(ip_number::IPV6_DEST_OPTIONS, 6)),
            destination_options: Some(raw(ip_number::TCP, 14)),
            ..Ipv6Extensions::default()
        };
        let header = etherparse::Ipv6Header {
            source: from,
            destination: [2; 16],
            next_header: ip_number::IPV6_HOP_BY_HOP,
            payload_length: 44,
            ..Default::default()
        };
        let mut bytes = header.to_bytes().to_vec();
        extensions.write(&mut bytes, ip_number::IPV6_HOP_BY_HOP).unwrap();
        let header_len = bytes.len();
        bytes.extend([7; 20]);
        let found = Transport::of(&bytes).unwrap();
        assert_eq!((found.from, found.protocol, found.bytes), (from.into(), TCP, &[7; 20][..]));
        for cut in 0..header_len {
            assert!(Transport::of(&bytes[..cut]).is_none_or(|found| found.bytes.is_empty()), "{cut}");
        }
    }

    #[test]
    fn fragment_has_no_transport_unless_atomic() {
        let mut packet = Vec::new();
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(53, 5353).write(&mut packet, b"data").unwrap();
        let found = Transport::of(&packet).unwrap();
        assert_eq!((found.to, found.protocol, &found.bytes[8..]), ([10, 0, 0, 2].into(), UDP, &b"data"[..]));
        packet[6] |= 0x20;
        assert_eq!(Transport::of(&packet), None);

        let mut atomic = vec![0x60, 0, 0, 0, 0, 12, super::FRAGMENT, 64];
        atomic.resize(40, 1);
        atomic.extend([TCP, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3, 4]);
        assert_eq!(Transport::of(&atomic).map(|found| found.bytes), Some(&[1, 2, 3, 4][..]));
        atomic[43] = 1;
        assert_eq!(Transport::of(&atomic), None);
    }
}
