//! Reading the headers of a packet, and changing them in place.
//!
//! A middlebox changes a few bytes of a packet. A correct checksum must stay correct, and a wrong one wrong. So checksums
//! are never recomputed, but updated by the difference between the old and the new bytes (RFC 1624). That also works for
//! the first fragment of a datagram, whose checksum covers bytes of other fragments.
//!
//! An incomplete IP packet and a fragment other than the first have no usable headers: [`Headers::of`] returns `None`,
//! and middleboxes pass such a packet unchanged. Only NAT, which must not leak an address, needs the headers of later
//! fragments too.

use std::{
    net::{IpAddr, SocketAddr},
    ops::{Deref, Range},
};

use etherparse::{
    IpHeaders, IpNumber, IpSlice, Ipv4Extensions, Ipv4Header, Ipv4HeaderSlice, Ipv6ExtensionSlice, Ipv6Extensions,
    Ipv6FragmentHeaderSlice, Ipv6Header, Ipv6HeaderSlice, Ipv6RawExtHeaderSlice, PacketBuilder, PacketBuilderStep,
    TcpSlice, ip_number,
};

use crate::{packet::Packet, stage::Direction};

/// Hop limit of packets that a middlebox creates.
const HOPS: u8 = 64;

/// The IP header of a packet, and the range of its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: IpNumber,
    /// The payload of IP: the transport header and what follows, without padding.
    pub(crate) payload: Range<usize>,
    pub(crate) fragment: Option<Fragment>,
}

/// The identification of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// Identifies its datagram among others with the same addresses: the identification, in IPv4 together with the
    /// protocol (RFC 791 §3.2), in IPv6 alone (RFC 8200 §4.5).
    pub(crate) datagram: u64,
    /// Whether it is the first, which contains the transport header.
    pub(crate) is_first: bool,
}

impl Headers {
    /// Those of an IP packet; `None` if it is invalid, or a fragment other than the first.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        Self::of_any(bytes).filter(|headers| headers.fragment.is_none_or(|fragment| fragment.is_first))
    }

    /// Those of an IP packet, or of any fragment.
    pub(crate) fn of_any(bytes: &[u8]) -> Option<Self> {
        if let Some(headers) = Self::of_later_fragment(bytes) {
            return Some(headers);
        }
        let ip = IpSlice::from_slice(bytes).ok()?;
        let fragment = match &ip {
            IpSlice::Ipv4(ip) => {
                let header = ip.header();
                header.is_fragmenting_payload().then(|| Fragment::v4(&header))
            }
            IpSlice::Ipv6(ip) => ip.extensions().clone().into_iter().find_map(|extension| match extension {
                Ipv6ExtensionSlice::Fragment(header) if header.is_fragmenting_payload() => Some(Fragment::v6(&header)),
                _ => None,
            }),
        };
        let payload = ip.payload();
        let at = payload.payload.as_ptr().addr() - bytes.as_ptr().addr();
        Some(Self {
            source: ip.source_addr(),
            destination: ip.destination_addr(),
            protocol: payload.ip_number,
            payload: at..at + payload.payload.len(),
            fragment,
        })
    }

    /// Those of a fragment other than the first. The next header is only in the first fragment, so a parser must not look
    /// for it here, nor for extension headers (RFC 8200 §4.5).
    fn of_later_fragment(bytes: &[u8]) -> Option<Self> {
        let headers = if let Ok(ip) = Ipv4HeaderSlice::from_slice(bytes) {
            Self {
                source: ip.source_addr().into(),
                destination: ip.destination_addr().into(),
                protocol: ip.protocol(),
                payload: ip.slice().len()..ip.total_len().into(),
                fragment: Some(Fragment::v4(&ip)),
            }
        } else {
            let ip = Ipv6HeaderSlice::from_slice(bytes).ok()?;
            let (mut next, mut at) = (ip.next_header(), ip.slice().len());
            let end = at + usize::from(ip.payload_length());
            while let ip_number::IPV6_HOP_BY_HOP | ip_number::IPV6_ROUTE | ip_number::IPV6_DEST_OPTIONS = next {
                let header = Ipv6RawExtHeaderSlice::from_slice(bytes.get(at..end)?).ok()?;
                (next, at) = (header.next_header(), at + header.slice().len());
            }
            if next != ip_number::IPV6_FRAG {
                return None;
            }
            let header = Ipv6FragmentHeaderSlice::from_slice(bytes.get(at..end)?).ok()?;
            Self {
                source: ip.source_addr().into(),
                destination: ip.destination_addr().into(),
                protocol: header.next_header(),
                payload: at + header.slice().len()..end,
                fragment: Some(Fragment::v6(&header)),
            }
        };
        let is_whole = bytes.get(headers.payload.clone()).is_some();
        (is_whole && headers.fragment.is_some_and(|fragment| !fragment.is_first)).then_some(headers)
    }

    /// Those of the packet that an ICMP error quotes, which may be truncated. IPv6 extension headers are not parsed.
    pub(crate) fn quoted(bytes: &[u8]) -> Option<Self> {
        let (source, destination, protocol, at) = if let Ok(ip) = Ipv4HeaderSlice::from_slice(bytes) {
            if ip.fragments_offset().value() > 0 {
                return None;
            }
            (ip.source_addr().into(), ip.destination_addr().into(), ip.protocol(), ip.slice().len())
        } else {
            let ip = Ipv6HeaderSlice::from_slice(bytes).ok()?;
            (ip.source_addr().into(), ip.destination_addr().into(), ip.next_header(), ip.slice().len())
        };
        Some(Self { source, destination, protocol, payload: at..bytes.len(), fragment: None })
    }
}

impl Fragment {
    fn v4(header: &Ipv4HeaderSlice<'_>) -> Self {
        let datagram = u64::from(header.protocol().0) << 16 | u64::from(header.identification());
        Self { datagram, is_first: header.fragments_offset().value() == 0 }
    }

    fn v6(header: &Ipv6FragmentHeaderSlice<'_>) -> Self {
        Self { datagram: header.identification().into(), is_first: header.fragment_offset().value() == 0 }
    }
}

/// The two ends of a connection, or of a UDP or ICMP flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flow {
    pub(crate) protocol: IpNumber,
    /// At end A.
    pub(crate) client: SocketAddr,
    /// At end B.
    pub(crate) server: SocketAddr,
}

impl Flow {
    /// The flow of a packet from `source` to `destination`, going in `direction`.
    pub(crate) fn new(protocol: IpNumber, source: SocketAddr, destination: SocketAddr, direction: Direction) -> Self {
        match direction {
            Direction::Up => Self { protocol, client: source, server: destination },
            Direction::Down => Self { protocol, client: destination, server: source },
        }
    }
}

/// A TCP segment.
pub(crate) struct Tcp<'a> {
    pub(crate) headers: Headers,
    slice: TcpSlice<'a>,
}

impl<'a> Tcp<'a> {
    /// The segment in an IP packet, if there is one.
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Self> {
        let headers = Headers::of(bytes)?;
        if headers.protocol != ip_number::TCP {
            return None;
        }
        let slice = TcpSlice::from_slice(&bytes[headers.payload.clone()]).ok()?;
        Some(Self { headers, slice })
    }

    pub(crate) fn flow(&self, direction: Direction) -> Flow {
        let source = SocketAddr::new(self.headers.source, self.source_port());
        let destination = SocketAddr::new(self.headers.destination, self.destination_port());
        Flow::new(ip_number::TCP, source, destination, direction)
    }

    /// Length in sequence space: its bytes, and one each for SYN and FIN.
    pub(crate) fn sequence_len(&self) -> u32 {
        self.payload().len() as u32 + u32::from(self.syn()) + u32::from(self.fin())
    }

    /// The sequence number after the segment.
    pub(crate) fn sequence_end(&self) -> u32 {
        self.sequence_number().wrapping_add(self.sequence_len())
    }

    /// Offset of the options in the packet.
    pub(crate) fn options_start(&self) -> usize {
        self.headers.payload.start + 20
    }
}

impl<'a> Deref for Tcp<'a> {
    type Target = TcpSlice<'a>;
    fn deref(&self) -> &TcpSlice<'a> {
        &self.slice
    }
}

/// Whether sequence number a is before b, modulo 2^32 (RFC 9293 §3.4).
pub(crate) fn before(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}

/// The effect of edits on a checksum (RFC 1624).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Change(u32);

impl Change {
    /// Overwrites `bytes` from `at` on. `at` must have the same parity as its offset from the start of the checksummed
    /// bytes; this holds in IP packets, whose headers have even lengths.
    pub(crate) fn write(&mut self, bytes: &mut [u8], at: usize, new: &[u8]) {
        for (index, byte) in (at..).zip(new) {
            let word = |byte: u8| if index % 2 == 0 { u16::from(byte) << 8 } else { byte.into() };
            self.0 += u32::from(!word(bytes[index])) + u32::from(word(*byte));
            bytes[index] = *byte;
        }
    }

    /// Moves the checksum at `at` by the change: HC' = ~(~HC + ~m + m'), equation 3 of RFC 1624.
    pub(crate) fn apply(self, bytes: &mut [u8], at: usize) {
        let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let mut sum = u32::from(!old) + self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        bytes[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }

    /// The same for UDP's, where zero means that there is none (RFC 768).
    pub(crate) fn apply_udp(self, bytes: &mut [u8], at: usize) {
        if bytes[at..at + 2] == [0, 0] {
            return;
        }
        self.apply(bytes, at);
        if bytes[at..at + 2] == [0, 0] {
            bytes[at..at + 2].copy_from_slice(&[0xff, 0xff]);
        }
    }
}

/// The beginning of a new packet; `None` if the addresses are not of one family.
pub(crate) fn build(source: IpAddr, destination: IpAddr) -> Option<PacketBuilderStep<IpHeaders>> {
    // The builder fills in the protocol and the lengths.
    let ip = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = Ipv4Header::new(0, HOPS, ip_number::TCP, source.octets(), destination.octets()).ok()?;
            IpHeaders::Ipv4(header, Ipv4Extensions::default())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let (source, destination) = (source.octets(), destination.octets());
            IpHeaders::Ipv6(
                Ipv6Header { source, destination, hop_limit: HOPS, ..Default::default() },
                Ipv6Extensions::default(),
            )
        }
        _ => return None,
    };
    Some(PacketBuilder::ip(ip))
}

/// A segment that resets a connection, from one of its ends to the other.
pub(crate) fn reset(from: SocketAddr, to: SocketAddr, sequence: u32, acknowledgment: u32) -> Option<Packet> {
    let builder = build(from.ip(), to.ip())?.tcp(from.port(), to.port(), sequence, 0).rst().ack(acknowledgment);
    let mut bytes = Vec::with_capacity(builder.size(0));
    builder.write(&mut bytes, &[]).ok()?;
    Some(Packet::new(bytes))
}
