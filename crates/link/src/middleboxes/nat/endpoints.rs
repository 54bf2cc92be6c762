//! Addresses and ports of a packet: where they are, and how to rewrite them.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, ip_number};

use crate::{
    headers::{Change, Flow, Headers},
    stage::Direction,
};

/// The addresses and ports of a packet that can be translated, and where to write new ones.
pub(super) struct Endpoints {
    pub(super) protocol: IpNumber,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    /// Offsets of the ports. For ICMP echo both are the offset of the identifier: the requester's port is the identifier,
    /// and the other port is zero.
    source_port: usize,
    destination_port: usize,
    /// Offset of the transport checksum.
    checksum: usize,
}

/// ICMP message types: echo request, echo reply, and errors.
pub(super) fn icmp(protocol: IpNumber) -> Option<(u8, u8, &'static [u8])> {
    match protocol {
        ip_number::ICMP => Some((8, 0, &[3, 11, 12])),
        ip_number::IPV6_ICMP => Some((128, 129, &[1, 2, 3, 4])),
        _ => None,
    }
}

impl Endpoints {
    /// Those of a packet with these headers; `None` if NAT does not translate its kind.
    pub(super) fn of(headers: &Headers, bytes: &[u8]) -> Option<Self> {
        let at = headers.payload.start;
        let payload = &bytes[headers.payload.clone()];
        let word = |at: usize| Some(u16::from_be_bytes([*payload.get(at)?, *payload.get(at + 1)?]));
        let (source, destination, source_port, destination_port, checksum) = match headers.protocol {
            ip_number::TCP => (word(0)?, word(2)?, 0, 2, 16),
            ip_number::UDP => (word(0)?, word(2)?, 0, 2, 6),
            protocol => match icmp(protocol)? {
                (request, ..) if *payload.first()? == request => (word(4)?, 0, 4, 4, 2),
                (_, reply, _) if *payload.first()? == reply => (0, word(4)?, 4, 4, 2),
                _ => return None,
            },
        };
        Some(Self {
            protocol: headers.protocol,
            source: SocketAddr::new(headers.source, source),
            destination: SocketAddr::new(headers.destination, destination),
            source_port: at + source_port,
            destination_port: at + destination_port,
            checksum: at + checksum,
        })
    }

    pub(super) fn flow(&self, direction: Direction) -> Flow {
        Flow::new(self.protocol, self.source, self.destination, direction)
    }

    /// Writes a new source or destination, and corrects the checksums.
    pub(super) fn rewrite(&self, bytes: &mut [u8], is_source: bool, new: SocketAddr) {
        let mut transport = rewrite_address(bytes, is_source, new.ip());
        if self.protocol == ip_number::ICMP {
            transport = Change::default(); // its checksum does not cover addresses
        }
        let port = if is_source { self.source_port } else { self.destination_port };
        transport.write(bytes, port, &new.port().to_be_bytes());
        if bytes.len() < self.checksum + 2 {
            return; // a quoted packet may be truncated
        }
        if self.protocol == ip_number::UDP {
            transport.apply_udp(bytes, self.checksum);
        } else {
            transport.apply(bytes, self.checksum);
        }
    }
}

/// Writes an address into an IP header, and corrects the header's checksum. Returns the change for other checksums.
pub(super) fn rewrite_address(bytes: &mut [u8], is_source: bool, new: IpAddr) -> Change {
    let mut change = Change::default();
    match new {
        IpAddr::V4(new) => {
            change.write(bytes, if is_source { 12 } else { 16 }, &new.octets());
            change.apply(bytes, 10);
        }
        IpAddr::V6(new) => change.write(bytes, if is_source { 8 } else { 24 }, &new.octets()),
    }
    change
}
