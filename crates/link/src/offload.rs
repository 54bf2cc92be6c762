//! TCP segmentation offload (TSO), done by the cable in place of a network card.
//!
//! Linux hands a device TCP segments of up to 64 KiB with incomplete checksums, and the device splits them into packets.
//! That saves most of the cost of sending, so our devices offer it, and the cable splits ([`split`]) as a card does: it
//! repeats the headers, counts sequence numbers and IPv4 identifications up, keeps FIN and PSH for the last packet and
//! CWR for the first, and completes every checksum. So the cable carries real packets, none larger than the MTU. Only
//! where no stage and no tap needs single packets, a segment passes unsplit, and the receiving kernel accepts it like
//! one that its own card has merged.
//!
//! Layout of the header: `struct virtio_net_hdr`, <linux/virtio_net.h>; TSO's rules: the kernel's
//! Documentation/networking/segmentation-offloads.rst.

use etherparse::checksum::Sum16BitWords;

use crate::packet::{MAX_PACKET, Packet};

const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_ECN: u8 = 0x80;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// `struct virtio_net_hdr`, as the kernel puts it before each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Header {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

impl Header {
    pub(crate) const LEN: usize = 10;

    pub(crate) fn from_bytes(b: [u8; Self::LEN]) -> Self {
        let word = |i: usize| u16::from_ne_bytes([b[i], b[i + 1]]);
        let [flags, gso_type, ..] = b;
        Self { flags, gso_type, hdr_len: word(2), gso_size: word(4), csum_start: word(6), csum_offset: word(8) }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut b = [0; Self::LEN];
        b[0] = self.flags;
        b[1] = self.gso_type;
        for (i, word) in [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset].into_iter().enumerate() {
            b[2 + 2 * i..4 + 2 * i].copy_from_slice(&word.to_ne_bytes());
        }
        b
    }

    /// Whether the bytes that follow are a segment to be split, or lack a checksum.
    pub(crate) fn is_unfinished(self) -> bool {
        self.flags & NEEDS_CHECKSUM != 0 || self.gso_type != 0
    }
}

/// Splits what the kernel handed over into packets with complete checksums. A segment with invalid headers is dropped;
/// the kernel produces none.
pub(crate) fn split(header: Header, bytes: &[u8], pool: &mut BufferPool, mut each: impl FnMut(Packet)) {
    if !matches!(header.gso_type & !GSO_ECN, GSO_TCP4 | GSO_TCP6) {
        let mut whole = pool.take();
        whole.extend_from_slice(bytes);
        finish_checksum(header, &mut whole);
        return each(Packet::new(whole));
    }
    let Some((tcp, payload)) = headers(header, bytes) else { return };
    let chunks = bytes[payload..].chunks(usize::from(header.gso_size));
    let last = chunks.len().saturating_sub(1);
    for (index, chunk) in chunks.enumerate() {
        let mut packet = pool.take();
        packet.extend_from_slice(&bytes[..payload]);
        packet.extend_from_slice(chunk);
        let sequence = word32(bytes, tcp + 4).wrapping_add((index * usize::from(header.gso_size)) as u32);
        packet[tcp + 4..tcp + 8].copy_from_slice(&sequence.to_be_bytes());
        if index != 0 {
            packet[tcp + 13] &= !CWR;
        }
        if index != last {
            packet[tcp + 13] &= !(FIN | PSH);
        }
        renumber(&mut packet, index as u16);
        let sum = transport_checksum(&packet, tcp);
        packet[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
        each(Packet::new(packet));
    }
}

/// Buffers for reuse. At hundreds of thousands of packets a second, the allocator would otherwise return memory to the
/// kernel and fetch it again all the time.
#[derive(Default)]
pub(crate) struct BufferPool {
    packets: Vec<Vec<u8>>,
    segments: Vec<Vec<u8>>,
}

impl BufferPool {
    /// Capacity of a packet's buffer, in bytes.
    const PACKET: usize = 2048;
    /// Maximum number of buffers for packets and for segments: 32 MiB each.
    const MOST: [usize; 2] = [16_384, 512];

    fn take(&mut self) -> Vec<u8> {
        self.packets.pop().unwrap_or_else(|| Vec::with_capacity(Self::PACKET))
    }

    /// The first `length` bytes of `buffer`, which has room for a segment. If they are few, it is a copy; otherwise the
    /// buffer itself, which is replaced by another.
    pub(crate) fn split_off(&mut self, buffer: &mut Vec<u8>, length: usize) -> Vec<u8> {
        if length <= Self::PACKET {
            let mut bytes = self.take();
            bytes.extend_from_slice(&buffer[..length]);
            return bytes;
        }
        let mut other = self.segments.pop().unwrap_or_default();
        other.resize(MAX_PACKET, 0);
        let mut bytes = std::mem::replace(buffer, other);
        bytes.truncate(length);
        bytes
    }

    /// Puts a buffer back.
    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        let [packets, segments] = Self::MOST;
        if buffer.capacity() >= MAX_PACKET && self.segments.len() < segments {
            self.segments.push(buffer);
        } else if buffer.capacity() <= Self::PACKET && self.packets.len() < packets {
            buffer.clear();
            self.packets.push(buffer);
        }
    }
}

/// Offsets of the TCP header and the payload in a segment.
fn headers(header: Header, bytes: &[u8]) -> Option<(usize, usize)> {
    let tcp = usize::from(header.csum_start);
    let payload = tcp + usize::from(bytes.get(tcp + 12)? >> 4) * 4;
    let ip = match bytes[0] >> 4 {
        4 => usize::from(bytes[0] & 0xf) * 4,
        _ => 40,
    };
    (ip >= 20 && tcp >= ip && payload >= tcp + 20 && payload <= bytes.len() && header.gso_size > 0)
        .then_some((tcp, payload))
}

/// Gives the IP header of the `index`th packet its own length, identification and checksum.
fn renumber(packet: &mut [u8], index: u16) {
    let length = packet.len();
    if packet[0] >> 4 == 6 {
        packet[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        return;
    }
    packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    let id = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(index);
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[10..12].fill(0);
    let header = usize::from(packet[0] & 0xf) * 4;
    let sum = Sum16BitWords::new().add_slice(&packet[..header]).ones_complement().to_be();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Completes the checksum of a packet that is not to be split, if the kernel left it to the device: the field holds
/// the pseudo-header's sum, and everything from `csum_start` on is added.
fn finish_checksum(header: Header, packet: &mut [u8]) {
    let start = usize::from(header.csum_start);
    let field = start + usize::from(header.csum_offset);
    if header.flags & NEEDS_CHECKSUM == 0 || field + 2 > packet.len() {
        return;
    }
    let mut sum = Sum16BitWords::new().add_slice(&packet[start..]).ones_complement().to_be();
    if sum == 0 {
        sum = 0xffff; // to UDP, zero means none (RFC 768); to TCP both are the same
    }
    packet[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The TCP checksum of a whole packet whose TCP header starts at `tcp` (RFC 9293 §3.1).
fn transport_checksum(packet: &[u8], tcp: usize) -> u16 {
    const TCP: u8 = 6;
    let addresses = if packet[0] >> 4 == 6 { &packet[8..40] } else { &packet[12..20] };
    let segment = &packet[tcp..];
    let sum =
        Sum16BitWords::new().add_slice(addresses).add_2bytes([0, TCP]).add_slice(&(segment.len() as u32).to_be_bytes());
    let sum = sum.add_slice(&segment[..16]).add_slice(&segment[18..]);
    sum.ones_complement().to_be()
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    /// A segment as the kernel hands it over, with `payload` bytes behind its headers.
    fn segment(v6: bool, payload: &[u8], fin: bool) -> (Vec<u8>, usize) {
        let ip = if v6 {
            PacketBuilder::ipv6([1; 16], [2; 16], 64)
        } else {
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        };
        let mut tcp = ip
            .tcp(1234, 443, u32::MAX - 5000, 8000)
            .ack(77)
            .psh()
            .options_raw(&[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8])
            .unwrap();
        if fin {
            tcp = tcp.fin();
        }
        let mut bytes = Vec::new();
        tcp.write(&mut bytes, payload).unwrap();
        (bytes, if v6 { 40 } else { 20 })
    }

    proptest! {
        #[test]
        fn large_segment_is_split_into_valid_packets(
            v6: bool, fin: bool, mss in 500u16..1460, payload in proptest::collection::vec(any::<u8>(), 1..30_000),
        ) {
            let (bytes, tcp) = segment(v6, &payload, fin);
            let gso_type = if v6 { GSO_TCP6 } else { GSO_TCP4 };
            let header = Header { flags: NEEDS_CHECKSUM, gso_type, gso_size: mss, csum_start: tcp as u16, csum_offset: 16, ..Header::default() };
            let mut packets = Vec::new();
            split(header, &bytes, &mut BufferPool::default(), |packet| packets.push(packet));
            let mut together = Vec::new();
            for (index, packet) in packets.iter().enumerate() {
                prop_assert!(packet.len() <= usize::from(mss) + tcp + 32);
                let sliced = SlicedPacket::from_ip(&packet.bytes).unwrap();
                let Some(TransportSlice::Tcp(slice)) = sliced.transport else { panic!("no TCP") };
                let sum = match sliced.net.unwrap() {
                    NetSlice::Ipv4(ip) => {
                        prop_assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
                        slice.to_header().calc_checksum_ipv4(&ip.header().to_header(), slice.payload()).unwrap()
                    }
                    NetSlice::Ipv6(ip) => slice.to_header().calc_checksum_ipv6(&ip.header().to_header(), slice.payload()).unwrap(),
                    NetSlice::Arp(_) => unreachable!(),
                };
                prop_assert_eq!(slice.checksum(), sum);
                prop_assert_eq!(slice.sequence_number(), (u32::MAX - 5000).wrapping_add(together.len() as u32));
                let last = index + 1 == packets.len();
                prop_assert_eq!((slice.psh(), slice.fin()), (last, last && fin));
                together.extend_from_slice(slice.payload());
            }
            prop_assert_eq!(together, payload);
        }

        #[test]
        fn any_bytes_are_split_without_panic(raw: [u8; Header::LEN], bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            split(Header::from_bytes(raw), &bytes, &mut BufferPool::default(), |_| {});
        }
    }
}
