//! The TCP segment in a packet.

use std::{net::SocketAddr, ops::Range};

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
    pub(crate) fn fast_open(&self) -> Option<&'a [u8]> {
        let place = options(self.options).find(|place| self.options[place.start] == FAST_OPEN)?;
        Some(&self.options[place.start + 2..place.end])
    }
}

/// Where the options are among the bytes between a TCP header's fixed part and its end: each with its
/// kind, its length and its data (RFC 9293 §3.2), and so of two bytes at least. No-operations are left
/// out; the walk ends at the end of the options, or where they make no sense.
///
/// etherparse's own iterator ends at the first kind it does not know, and the new ones, such as Fast
/// Open's, are those that matter here.
pub fn options(area: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while area.get(at) == Some(&1) {
            at += 1;
        }
        let [(2..), len @ (2..), ..] = *area.get(at..)? else { return None };
        let place = at..at + usize::from(len);
        at = place.end;
        (place.end <= area.len()).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::options;

    #[test]
    fn options_are_found_up_to_where_they_make_no_sense() {
        let found = |area: &[u8]| options(area).map(|place| area[place].to_vec()).collect::<Vec<_>>();
        assert_eq!(found(&[1, 2, 4, 5, 180, 1, 1, 34, 2, 0, 3, 3, 7]), [vec![2, 4, 5, 180], vec![34, 2]]);
        for broken in [&[4, 2, 5][..], &[4, 2, 5, 0], &[4, 2, 5, 1, 1], &[4, 2, 5, 4, 1], &[4, 2, 5, 255, 4, 2]] {
            assert_eq!(found(broken), [[4, 2]]);
        }
        assert!(found(&[]).is_empty() && found(&[1, 1]).is_empty());
    }
}
