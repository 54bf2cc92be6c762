//! ICMP's messages that a packet could not be delivered (RFC 792, RFC 4443 §3.1).

use std::net::{IpAddr, SocketAddr};

use crate::{
    Packet,
    transport::{TCP, Transport},
};

/// Protocol numbers.
const ICMP: u8 = 1;
const ICMP6: u8 = 58;

/// A report that a TCP segment could not be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undelivered {
    /// Who reports it: the destination, or a router or firewall before it.
    pub by: IpAddr,
    /// The segment's sender.
    pub from: SocketAddr,
    /// The segment's receiver.
    pub to: SocketAddr,
    /// What the report says, as in `host unreachable`.
    pub reason: &'static str,
}

impl Packet<'_> {
    /// The report of a TCP segment that could not be delivered, if the packet is one.
    pub fn undelivered(&self) -> Option<Undelivered> {
        let report = Transport::of(self.network()?)?;
        let (header, quoted) = report.bytes.split_first_chunk::<8>()?;
        let reason = match (report.protocol, header[0], header[1]) {
            (ICMP, 3, 0 | 6 | 11) | (ICMP6, 1, 0) => "no route to the network",
            (ICMP, 3, 1 | 7 | 12) | (ICMP6, 1, 3) => "host unreachable",
            (ICMP, 3, 3) | (ICMP6, 1, 4) => "port unreachable",
            (ICMP, 3, 9 | 10 | 13) | (ICMP6, 1, 1 | 5 | 6) => "prohibited by a filter",
            // A larger packet than a link carries is no end: path MTU discovery goes on.
            (ICMP, 3, 4) => return None,
            (ICMP, 3, _) | (ICMP6, 1, _) => "destination unreachable",
            _ => return None,
        };
        let Transport { from, to, protocol: TCP, bytes } = Transport::of(quoted)? else { return None };
        // At least the ports are quoted.
        let [a, b, c, d] = *bytes.first_chunk()?;
        let port = |high, low| u16::from_be_bytes([high, low]);
        Some(Undelivered { by: report.from, from: (from, port(a, b)).into(), to: (to, port(c, d)).into(), reason })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use etherparse::{Icmpv4Type, Icmpv6Type, PacketBuilder, icmpv4, icmpv6};

    use super::Undelivered;
    use crate::{LinkType, Packet};

    fn packet(bytes: &[u8]) -> Packet<'_> {
        let len = bytes.len() as u32;
        Packet {
            number: 1,
            time: Duration::ZERO,
            interface: 0,
            link: LinkType::RAW,
            direction: None,
            original_len: len,
            bytes,
        }
    }

    #[test]
    fn report_names_the_segment_and_the_reason() {
        let mut quoted = Vec::new();
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(40_000, 80, 1, 9).write(&mut quoted, &[]).unwrap();
        let report = |kind: u8| {
            let header = icmpv4::DestUnreachableHeader::from_values(kind, 0).unwrap();
            let mut bytes = Vec::new();
            let builder = PacketBuilder::ipv4([10, 0, 0, 9], [10, 0, 0, 1], 64);
            // A router quotes the IP header and eight bytes.
            builder.icmpv4(Icmpv4Type::DestinationUnreachable(header)).write(&mut bytes, &quoted[..28]).unwrap();
            bytes
        };
        let expected = Undelivered {
            by: [10, 0, 0, 9].into(),
            from: ([10, 0, 0, 1], 40_000).into(),
            to: ([10, 0, 0, 2], 80).into(),
            reason: "host unreachable",
        };
        let bytes = report(1);
        assert_eq!(packet(&bytes).undelivered(), Some(expected));
        for len in 0..bytes.len() - 4 {
            assert_eq!(packet(&bytes[..len]).undelivered(), None, "{len} bytes");
        }
        assert_eq!(packet(&report(4)).undelivered(), None);
        assert_eq!(packet(&quoted).undelivered(), None);
    }

    #[test]
    fn report_is_read_from_ipv6() {
        let (client, server, router) = ([1; 16], [2; 16], [3; 16]);
        let mut quoted = Vec::new();
        PacketBuilder::ipv6(client, server, 64).tcp(40_000, 80, 1, 9).write(&mut quoted, &[]).unwrap();
        let mut bytes = Vec::new();
        let kind = Icmpv6Type::DestinationUnreachable(icmpv6::DestUnreachableCode::Prohibited);
        PacketBuilder::ipv6(router, client, 64).icmpv6(kind).write(&mut bytes, &quoted).unwrap();
        let found = packet(&bytes).undelivered().unwrap();
        assert_eq!((found.by, found.to, found.reason), (router.into(), (server, 80).into(), "prohibited by a filter"));
    }
}
