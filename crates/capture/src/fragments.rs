//! Reassembly of IP fragments (RFC 791 §3.2, RFC 8200 §4.5).
//!
//! A segment in fragments is one segment to its receiver, and only the first fragment contains the TCP header. So
//! fragments are held until all have passed, and returned as one packet, with the number and time of the last fragment,
//! since the receiver waited for that one. If the capture truncated a fragment, the packet ends there.
//!
//! A packet with a **missing fragment** is never returned, as its receiver never got it; [`Fragments::lost`] counts it. It
//! is dropped after 60 seconds of the capture (RFC 8200), when fragments contradict each other (overlapping fragments are
//! an attack, RFC 5722), or when the held fragments exceed [`MAX_HELD`], the oldest first.
//!
//! Rejected: etherparse's `IpDefragPool`, whose memory has no bound on hostile input ("NOT safe against Out of Memory
//! attacks"), and which accepts no fragments truncated by a snaplen.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::{LinkType, Packet};

/// Maximum time between the first and the last fragment of a packet.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum number of bytes held in fragments, including [`PIECE`] for each of them.
pub const MAX_HELD: usize = 4 << 20;
/// Overhead of a held fragment in bytes.
const PIECE: usize = 128;

/// Maximum length of a reassembled packet without its header.
const MAX_LENGTH: u32 = 0xFFFF;

/// The fragment header, and the IPv6 extension headers that may precede it.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// The fragments of incomplete packets.
#[derive(Debug, Default)]
pub struct Fragments {
    /// In order of arrival.
    partial: VecDeque<Partial>,
    /// Bytes held.
    held: usize,
    lost: u64,
    /// The last reassembled packet.
    whole: Vec<u8>,
}

/// Identifies the fragments of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    /// Both addresses, of either version.
    addresses: [u8; 32],
    /// Of IPv4. In IPv6 it may differ between fragments, so it is 0 here.
    protocol: u8,
    identification: u32,
}

/// An incomplete packet.
#[derive(Debug)]
struct Partial {
    key: Key,
    begun: Duration,
    /// The headers before the data, without the fragment's own fields.
    header: Vec<u8>,
    /// Length of the data; known from the last fragment.
    len: Option<u32>,
    pieces: BTreeMap<u32, Piece>,
    held: usize,
}

/// The data of a fragment.
#[derive(Debug)]
struct Piece {
    /// Original length.
    len: u32,
    /// The captured bytes.
    bytes: Vec<u8>,
}

/// A parsed fragment.
struct Fragment<'a> {
    key: Key,
    /// Offset of its data in the packet's data.
    at: u32,
    more: bool,
    len: u32,
    bytes: &'a [u8],
    header: Header<'a>,
}

/// The headers of the reassembled packet, before its length is set.
enum Header<'a> {
    V4(&'a [u8]),
    V6 {
        bytes: &'a [u8],
        /// Offset of the next-header field that names the fragment header, and its new value.
        next_at: usize,
        next: u8,
    },
}

impl Fragments {
    /// Returns a packet that is no fragment unchanged, the reassembled packet for its last missing fragment, and `None`
    /// for any other fragment.
    #[inline]
    pub fn reassemble<'a>(&'a mut self, packet: Packet<'a>) -> Option<Packet<'a>> {
        let Some(fragment) = packet.network().and_then(|ip| Fragment::of(ip, packet.original_len)) else {
            return Some(packet);
        };
        let original_len = self.take(&fragment, packet.time)?;
        Some(Packet { link: LinkType::RAW, original_len, bytes: &self.whole, ..packet })
    }

    /// Number of packets that could not be reassembled.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds a fragment; returns the length of the packet that it completes.
    fn take(&mut self, fragment: &Fragment, now: Duration) -> Option<u32> {
        while self.partial.front().is_some_and(|oldest| now.saturating_sub(oldest.begun) > REASSEMBLY_TIMEOUT) {
            self.drop_partial(0);
        }
        let known = self.partial.iter().position(|partial| partial.key == fragment.key);
        let index = known.unwrap_or_else(|| {
            self.partial.push_back(Partial::new(fragment.key.clone(), now));
            self.held += PIECE;
            self.partial.len() - 1
        });
        let partial = &mut self.partial[index];
        let before = partial.held;
        let fits = partial.add(fragment);
        self.held += partial.held - before;
        if !fits {
            self.drop_partial(index);
            return None;
        }
        if self.partial[index].is_complete() {
            let partial = self.partial.remove(index)?;
            self.held -= partial.held;
            self.whole.clear();
            return Some(partial.write(&mut self.whole));
        }
        while self.held > MAX_HELD {
            self.drop_partial(0);
        }
        None
    }

    fn drop_partial(&mut self, index: usize) {
        if let Some(partial) = self.partial.remove(index) {
            self.held -= partial.held;
            self.lost += 1;
        }
    }
}

impl Partial {
    fn new(key: Key, begun: Duration) -> Self {
        Self { key, begun, header: Vec::new(), len: None, pieces: BTreeMap::new(), held: PIECE }
    }

    /// Adds a fragment; returns false if it contradicts the others.
    fn add(&mut self, fragment: &Fragment) -> bool {
        let Fragment { at, len, more, bytes, .. } = *fragment;
        let end = at + len;
        if self.pieces.get(&at).is_some_and(|known| known.len == len) {
            return true; // a duplicate
        }
        let before = self.pieces.range(..=at).next_back().map(|(at, piece)| at + piece.len);
        let after = self.pieces.range(at..).next().map(|(at, _)| *at);
        if end > MAX_LENGTH || before.is_some_and(|before| before > at) || after.is_some_and(|after| after < end) {
            return false;
        }
        if !more && self.len.replace(end).is_some() {
            return false;
        }
        if at == 0 {
            self.header = fragment.header.whole();
        }
        self.held += PIECE + bytes.len() + if at == 0 { self.header.len() } else { 0 };
        self.pieces.insert(at, Piece { len, bytes: bytes.to_vec() });
        true
    }

    fn is_complete(&self) -> bool {
        self.len.is_some_and(|len| self.pieces.values().map(|piece| piece.len).sum::<u32>() == len)
            && self.pieces.contains_key(&0)
    }

    /// Writes the packet; returns its original length.
    fn write(mut self, packet: &mut Vec<u8>) -> u32 {
        let data = self.len.unwrap_or_default();
        let len = self.header.len() as u32 + data;
        let field = if self.header[0] >> 4 == 4 { (2, len) } else { (4, len - 40) };
        let (at, value) = (field.0, u16::try_from(field.1).unwrap_or(0));
        self.header[at..at + 2].copy_from_slice(&value.to_be_bytes());
        packet.append(&mut self.header);
        for piece in self.pieces.into_values() {
            packet.extend(&piece.bytes);
            if (piece.bytes.len() as u32) < piece.len {
                break;
            }
        }
        len
    }
}

impl<'a> Fragment<'a> {
    /// Parses an IP packet; `None` if it is no fragment.
    #[inline]
    fn of(ip: &'a [u8], original_len: u32) -> Option<Self> {
        match ip[0] >> 4 {
            // Neither "more fragments" nor an offset: by far the most packets.
            4 if u16::from_be_bytes([ip[6], ip[7]]).trailing_zeros() >= 14 => None,
            4 => Self::v4(ip, original_len),
            6 if matches!(ip[6], HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION) => Self::v6(ip),
            _ => None,
        }
    }

    fn v4(ip: &'a [u8], original_len: u32) -> Option<Self> {
        let header = usize::from(ip[0] & 0x0F) * 4;
        let place = u16::from_be_bytes([ip[6], ip[7]]);
        let bytes = ip.get(header..).filter(|_| header >= 20)?;
        let total = match u16::from_be_bytes([ip[2], ip[3]]) {
            0 => original_len,
            total => u32::from(total),
        };
        let mut addresses = [0; 32];
        addresses[..8].copy_from_slice(&ip[12..20]);
        Some(Self {
            key: Key { addresses, protocol: ip[9], identification: u32::from(u16::from_be_bytes([ip[4], ip[5]])) },
            at: u32::from(place & 0x1FFF) * 8,
            more: place & 0x2000 != 0,
            len: total.checked_sub(header as u32)?.min(MAX_LENGTH),
            bytes,
            header: Header::V4(&ip[..header]),
        })
    }

    fn v6(ip: &'a [u8]) -> Option<Self> {
        let (mut next_at, mut at) = (6, 40);
        while ip[next_at] != FRAGMENT {
            let (HOP_BY_HOP | ROUTING | DESTINATION) = ip[next_at] else { return None };
            next_at = at;
            at += (usize::from(*ip.get(at + 1)?) + 1) * 8;
            ip.get(at)?;
        }
        let fragment: &[u8; 8] = ip.get(at..)?.first_chunk()?;
        let [next, _, place_high, place_low, identification @ ..] = *fragment;
        let place = u16::from_be_bytes([place_high, place_low]);
        let behind = at + fragment.len();
        let total = 40 + u32::from(u16::from_be_bytes([ip[4], ip[5]]));
        let mut addresses = [0; 32];
        addresses.copy_from_slice(&ip[8..40]);
        Some(Self {
            key: Key { addresses, protocol: 0, identification: u32::from_be_bytes(identification) },
            at: u32::from(place & !7),
            more: place & 1 != 0,
            len: total.checked_sub(behind as u32)?,
            bytes: &ip[behind..],
            header: Header::V6 { bytes: &ip[..at], next_at, next },
        })
    }
}

impl Header<'_> {
    /// The header of the reassembled packet, with the fragment's checksum.
    fn whole(&self) -> Vec<u8> {
        match *self {
            Self::V4(bytes) => {
                let mut bytes = bytes.to_vec();
                bytes[6] &= 0xC0;
                bytes[7] = 0;
                bytes
            }
            Self::V6 { bytes, next_at, next } => {
                let mut bytes = bytes.to_vec();
                bytes[next_at] = next;
                bytes
            }
        }
    }
}
