//! The two ends that a packet names: where its addresses and ports are, and writing others in their place.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, ip_number};

use crate::{
    headers::{Change, Flow, Headers},
    stage::Direction,
};

/// The addresses and ports of a packet that can be translated, and where to write new ones.
pub(super) struct Ends {
    pub(super) protocol: IpNumber,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    /// Where the ports are. For ICMP echo both are the identifier's place; of the two ports, the one
    /// on the side that asks is the identifier, and the other zero.
    source_port: usize,
    destination_port: usize,
    /// Where the transport's checksum is.
    checksum: usize,
}

/// ICMP's message types: of echo request, echo reply, and those of the errors.
pub(super) fn icmp(protocol: IpNumber) -> Option<(u8, u8, &'static [u8])> {
    match protocol {
        ip_number::ICMP => Some((8, 0, &[3, 11, 12])),
        ip_number::IPV6_ICMP => Some((128, 129, &[1, 2, 3, 4])),
        _ => None,
    }
}

impl Ends {
    /// Those of a packet with these headers, if it is of a kind that is translated.
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

    /// Writes a new source or destination, and corrects the checksums that are there.
    pub(super) fn rewrite(&self, bytes: &mut [u8], is_source: bool, new: SocketAddr) {
        let mut transport = rewrite_address(bytes, is_source, new.ip());
        if self.protocol == ip_number::ICMP {
            transport = Change::default(); // the one that does not cover addresses
        }
        let port = if is_source { self.source_port } else { self.destination_port };
        transport.write(bytes, port, &new.port().to_be_bytes());
        if bytes.len() < self.checksum + 2 {
            return; // a quoted packet may be cut off before it
        }
        if self.protocol == ip_number::UDP {
            transport.apply_udp(bytes, self.checksum);
        } else {
            transport.apply(bytes, self.checksum);
        }
    }
}

/// Writes an address into an IP header, and corrects the header's checksum. Returns the change.
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
