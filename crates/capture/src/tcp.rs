//! The TCP segment in a packet.

use std::net::SocketAddr;

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};

use crate::{LinkType, Packet};

/// The kind of the Fast Open option (RFC 7413 §4.1.1).
const FAST_OPEN: u8 = 34;

/// What the head of a segment says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) syn: bool,
    pub(crate) ack: bool,
    pub(crate) sequence: u32,
    /// Bytes of data, whether the capture kept them or not.
    pub(crate) data: u32,
    options: &'a [u8],
}

impl<'a> Segment<'a> {
    /// The segment in `packet`, if it is one and its whole header was kept. A fragment of an IP packet
    /// is none.
    pub(crate) fn of(packet: &Packet<'a>) -> Option<Self> {
        let sliced = match packet.link {
            LinkType::ETHERNET => LaxSlicedPacket::from_ethernet(packet.bytes).ok()?,
            LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => LaxSlicedPacket::from_ip(packet.bytes).ok()?,
            _ => return None,
        };
        let (from, to) = match &sliced.net {
            Some(LaxNetSlice::Ipv4(ip)) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            Some(LaxNetSlice::Ipv6(ip)) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            _ => return None,
        };
        let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { return None };
        // What the capture cut off is the end of the data.
        let cut = packet.original_len.saturating_sub(packet.bytes.len() as u32);
        Some(Self {
            from: SocketAddr::new(from, tcp.source_port()),
            to: SocketAddr::new(to, tcp.destination_port()),
            syn: tcp.syn(),
            ack: tcp.ack(),
            sequence: tcp.sequence_number(),
            data: cut.saturating_add(tcp.payload().len() as u32),
            options: &tcp.header_slice()[20..],
        })
    }

    /// The cookie of the Fast Open option, empty where one is asked for.
    ///
    /// Walks the options itself, since etherparse's iterator ends at the first kind it does not know,
    /// and this is one.
    pub(crate) fn fast_open(&self) -> Option<&'a [u8]> {
        let mut rest = self.options;
        loop {
            rest = match *rest {
                [1, ref rest @ ..] => rest, // no operation (RFC 9293 §3.2)
                [FAST_OPEN, len, ..] => return rest.get(2..usize::from(len)),
                [(2..), len @ (2..), ..] => rest.get(usize::from(len)..)?,
                _ => return None,
            };
        }
    }
}
