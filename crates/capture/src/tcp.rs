//! The TCP segment in a packet.
//!
//! A segment borrows its packet. Its options are parsed only on demand, and nothing is allocated.

use std::{net::SocketAddr, ops::Range, time::Duration};

use crate::{
    Direction, Packet,
    transport::{TCP, Transport},
};

/// Option kinds.
mod kind {
    /// Maximum segment size (RFC 9293 §3.7.1).
    pub(super) const MSS: u8 = 2;
    /// Window scale (RFC 7323 §2.2).
    pub(super) const WINDOW_SCALE: u8 = 3;
    /// Selective acknowledgements permitted (RFC 2018 §2).
    pub(super) const SACK_PERMITTED: u8 = 4;
    /// Selective acknowledgements (RFC 2018 §3).
    pub(super) const SACK: u8 = 5;
    /// Timestamps (RFC 7323 §3.2).
    pub(super) const TIMESTAMPS: u8 = 8;
    /// The Fast Open cookie (RFC 7413 §4.1.1).
    pub(super) const FAST_OPEN: u8 = 34;
}

/// The control bits of a segment (RFC 9293 §3.1), from FIN, the lowest, to URG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender has no more data.
    pub const FIN: Self = Self(1);
    /// The sequence number is the initial one.
    pub const SYN: Self = Self(2);
    /// The connection does not exist, or no longer.
    pub const RST: Self = Self(4);
    /// A write of the sending program ended here.
    pub const PSH: Self = Self(8);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Self(16);

    /// Whether all of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The header of a segment, and its captured payload.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The packet's number in its capture.
    pub number: u64,
    /// When it passed, since the epoch.
    pub time: Duration,
    /// Its direction, if the capture has it.
    pub direction: Option<Direction>,
    /// Its sender.
    pub from: SocketAddr,
    /// Its receiver.
    pub to: SocketAddr,
    /// The identification of its IPv4 packet, which tells a retransmission from the same packet captured again; `None` in
    /// IPv6. Some senders always use 0 (RFC 6864 §4.1).
    pub identification: Option<u16>,
    /// How many more hops its IP packet may take; 0 in a printed capture, which does not have it.
    pub hop_limit: u8,
    /// Its control bits.
    pub flags: Flags,
    /// The sequence number of its first byte of data, or of its SYN or FIN.
    pub sequence: u32,
    /// The sequence number that its sender expects next; valid with [`Flags::ACK`].
    pub acknowledgement: u32,
    /// The window, unscaled.
    pub window: u16,
    /// Bytes of data, captured or not.
    pub data: u32,
    /// The captured beginning of the data.
    pub payload: &'a [u8],
    /// The options, as far as they were captured; see [`options`].
    pub options: &'a [u8],
    /// Bytes of its options, captured or not.
    pub options_len: usize,
    /// Whether some of the options were not captured.
    pub lacks_options: bool,
}

impl<'a> Segment<'a> {
    /// The segment in `packet`, if it has one with a complete header. A fragment of an IP packet has none.
    pub fn of(packet: &Packet<'a>) -> Option<Self> {
        let ip = packet.network()?;
        let Transport { from, to, protocol: TCP, bytes } = Transport::of(ip)? else { return None };
        let header: &[u8; 20] = bytes.first_chunk()?;
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
        let header_len = usize::from(header[12] >> 4) * 4;
        // A capture of headers may end within the options.
        let kept = bytes.len().min(header_len);
        let (options, payload) = (bytes.get(20..kept)?, &bytes[kept..]);
        // The IP header has the length of the data, even if the capture truncated it. Its length is 0 if the packet is
        // too long for the field.
        let truncated = packet.original_len.saturating_sub(packet.bytes.len() as u32);
        let headers = (ip.len() - bytes.len() + header_len) as u32;
        let data = match ip_length(ip) {
            0 => truncated.saturating_add(payload.len() as u32).saturating_sub((header_len - kept) as u32),
            length => length.saturating_sub(headers),
        };
        let (identification, hop_limit) =
            if ip[0] >> 4 == 4 { (Some(u16::from_be_bytes([ip[4], ip[5]])), ip[8]) } else { (None, ip[7]) };
        Some(Self {
            number: packet.number,
            time: packet.time,
            direction: packet.direction,
            from: SocketAddr::new(from, half(0)),
            to: SocketAddr::new(to, half(2)),
            identification,
            hop_limit,
            flags: Flags(header[13] & 0x3f),
            sequence: word(4),
            acknowledgement: word(8),
            window: half(14),
            data,
            payload,
            options,
            options_len: header_len - 20,
            lacks_options: kept < header_len,
        })
    }

    /// The maximum segment size of the sender of this SYN, in bytes of data without options.
    pub fn mss(&self) -> Option<u16> {
        let data = self.option(kind::MSS)?;
        Some(u16::from_be_bytes(data.try_into().ok()?))
    }

    /// The window scale of the sender of this SYN, at most 14 (RFC 7323 §2.3).
    pub fn window_scale(&self) -> Option<u8> {
        self.option(kind::WINDOW_SCALE)?.first().map(|shift| (*shift).min(14))
    }

    /// Whether the sender of this SYN accepts selective acknowledgements.
    pub fn sack_permitted(&self) -> bool {
        self.option(kind::SACK_PERMITTED).is_some()
    }

    /// The SACK blocks: first byte, and the byte after the last.
    pub fn sack(&self) -> impl Iterator<Item = (u32, u32)> + 'a {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        let (blocks, _) = self.option(kind::SACK).unwrap_or_default().as_chunks::<8>();
        blocks.iter().map(move |block| (number(&block[..4]), number(&block[4..])))
    }

    /// The timestamps: the sender's clock (TSval), and the other's echoed one (TSecr).
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        let (value, echo) = self.option(kind::TIMESTAMPS)?.split_first_chunk()?;
        Some((u32::from_be_bytes(*value), u32::from_be_bytes(*echo.first_chunk()?)))
    }

    /// The cookie of the Fast Open option; empty in a cookie request.
    pub fn fast_open(&self) -> Option<&'a [u8]> {
        self.option(kind::FAST_OPEN)
    }

    /// The data of an option.
    fn option(&self, kind: u8) -> Option<&'a [u8]> {
        // By far the most segments have only timestamps, placed as RFC 7323 (appendix A) recommends, or no options.
        match self.options {
            [1, 1, kind::TIMESTAMPS, 10, data @ ..] if data.len() == 8 => {
                return (kind == kind::TIMESTAMPS).then_some(data);
            }
            [] => return None,
            _ => {}
        }
        let range = options(self.options).find(|range| self.options[range.start] == kind)?;
        Some(&self.options[range.start + 2..range.end])
    }
}

/// The length in an IP packet's header, or 0. The fixed header must be complete.
fn ip_length(ip: &[u8]) -> u32 {
    match ip[0] >> 4 {
        4 => u16::from_be_bytes([ip[2], ip[3]]).into(),
        _ => match u16::from_be_bytes([ip[4], ip[5]]) {
            0 => 0,
            payload => 40 + u32::from(payload),
        },
    }
}

/// The positions of the options in a TCP header's options (RFC 9293 §3.2), each with its kind, length and data. No-operations
/// are skipped; it ends at the end-of-options kind or at the first invalid option.
///
/// etherparse's iterator ends at the first unknown kind, such as that of Fast Open.
pub fn options(area: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while area.get(at) == Some(&1) {
            at += 1;
        }
        let [(2..), len @ (2..), ..] = *area.get(at..)? else { return None };
        let range = at..at + usize::from(len);
        at = range.end;
        (range.end <= area.len()).then_some(range)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use etherparse::{PacketBuilder, TcpOptionElement};

    use super::{Flags, Segment, options};
    use crate::{LinkType, Packet};

    #[test]
    fn options_are_found_up_to_the_first_invalid_one() {
        let found = |area: &[u8]| options(area).map(|range| area[range].to_vec()).collect::<Vec<_>>();
        assert_eq!(found(&[1, 2, 4, 5, 180, 1, 1, 34, 2, 0, 3, 3, 7]), [vec![2, 4, 5, 180], vec![34, 2]]);
        for broken in [&[4, 2, 5][..], &[4, 2, 5, 0], &[4, 2, 5, 1, 1], &[4, 2, 5, 4, 1], &[4, 2, 5, 255, 4, 2]] {
            assert_eq!(found(broken), [[4, 2]]);
        }
        assert!(found(&[]).is_empty() && found(&[1, 1]).is_empty());
    }

    #[test]
    fn truncated_segment_keeps_options_flags_and_length() {
        let syn = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(1742, 443, 7, 16384)
            .syn()
            .options(&[
                TcpOptionElement::MaximumSegmentSize(1160),
                TcpOptionElement::WindowScale(9),
                TcpOptionElement::SelectiveAcknowledgementPermitted,
                TcpOptionElement::Timestamp(5, 6),
            ])
            .unwrap();
        let data = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(1742, 443, 8, 500)
            .ack(99)
            .psh()
            .options(&[TcpOptionElement::SelectiveAcknowledgement((100, 200), [Some((300, 400)), None, None])])
            .unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        syn.write(&mut first, &[]).unwrap();
        data.write(&mut second, &[7; 900]).unwrap();
        let header = second.len() - 900;
        second.truncate(header + 7);
        let packet = |bytes| Packet {
            number: 1,
            time: Duration::from_secs(3),
            interface: 0,
            link: LinkType::RAW,
            direction: None,
            original_len: 960,
            bytes,
        };

        let syn = Segment::of(&Packet { original_len: first.len() as u32, ..packet(&first) }).unwrap();
        assert_eq!((syn.mss(), syn.window_scale(), syn.sack_permitted()), (Some(1160), Some(9), true));
        assert_eq!((syn.timestamps(), syn.data, syn.flags), (Some((5, 6)), 0, Flags::SYN));
        let data = Segment::of(&packet(&second)).unwrap();
        assert_eq!((data.mss(), data.timestamps(), data.sack_permitted()), (None, None, false));
        assert!(data.sack().eq([(100, 200), (300, 400)]) && data.flags.has(Flags::PSH) && data.flags.has(Flags::ACK));
        assert_eq!((data.payload, data.data), (&[7; 7][..], 900));
        assert_eq!((data.acknowledgement, data.window, data.sequence), (99, 500, 8));
        assert_eq!((data.identification, data.hop_limit), (Some(0), 64));
    }
}
