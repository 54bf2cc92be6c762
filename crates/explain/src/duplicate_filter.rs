//! Packets that a capture contains more than once.
//!
//! `tcpdump -i any` records a packet at each interface that it passes: a container's, a bridge, a VLAN, a bond's member.
//! A mirror port may record it when it enters and when it leaves the switch. A second copy looks like a retransmission, or
//! like a duplicate acknowledgement, so it has to go. But real retransmissions and real duplicate acknowledgements have to
//! stay, and their TCP headers are the same too. What tells them apart:
//!
//! - **The IPv4 identification.** A sender gives each packet another one, a retransmission too, and routers keep it.
//! - **The path into the capture**, for senders that leave the identification 0 (RFC 6864), and for IPv6: another
//!   interface, link-layer header, hop limit or tunnel. A packet passes one interface only once.
//! - **Time.** Without either, data that is repeated within a millisecond, with no report of a loss in between, is no
//!   retransmission: the sender cannot have missed anything so soon. Acknowledgements stay then, and resets: a host sends
//!   one for each packet that it no longer wants.

use std::collections::VecDeque;

use capture::{
    Direction, LinkType, Packet,
    tcp::{Flags, Segment},
};

use crate::{segment::SegmentRecord, side::PerSide};

/// The longest time between two copies of a packet with the same identification, in nanoseconds: it may wait in a queue
/// between two interfaces.
const MAX_AGE_BY_IDENTIFICATION: u64 = 50_000_000;

/// The longest time between two copies on different paths, in nanoseconds.
const MAX_AGE_BY_PATH: u64 = 20_000_000;

/// The longest time between two copies that nothing else tells from a retransmission, in nanoseconds.
const MAX_AGE: u64 = 1_000_000;

/// The number of earlier packets that are compared.
pub(crate) const MAX_COMPARED: usize = 256;

/// The number of duplicate acknowledgements that report a loss (RFC 5681 §3.2).
const LOSS_REPORT: usize = 3;

/// What a [`SegmentRecord`] lacks and tells a copy from a retransmission.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    /// 0 if the sender gives none.
    identification: u16,
    /// A hash of the path into the capture.
    path: u16,
    /// Both timestamps.
    timestamps: u32,
    direction: Option<Direction>,
}

impl Mark {
    pub(crate) fn of(packet: &Packet, segment: &Segment, timestamps: Option<(u32, u32)>) -> Self {
        // Behind it are the fields of tunnels, which may differ in each packet.
        let header_len = match packet.link {
            LinkType::ETHERNET => 14,
            LinkType::LINUX_SLL => 16,
            LinkType::LINUX_SLL2 => 20,
            _ => 0,
        };
        let header = packet.bytes.get(..header_len).unwrap_or_default();
        // In two or three words, of which the last two may overlap.
        let (words, last) = (header.as_chunks().0.iter(), header.last_chunk());
        let words = words.chain(last).map(|word: &[u8; 8]| u64::from_ne_bytes(*word));
        let place = u64::from(packet.interface) << 8 | u64::from(segment.hop_limit);
        let path = words.chain([place, packet.original_len.into()]).fold(0, mix);
        let (value, echo) = timestamps.unwrap_or_default();
        Self {
            identification: segment.identification.unwrap_or(0),
            path: (path >> 48) as u16,
            timestamps: value.rotate_left(16) ^ echo,
            direction: packet.direction,
        }
    }

    /// A hash of what a packet and its copy have in common.
    fn key(&self, record: &SegmentRecord) -> u16 {
        let numbers = u64::from(record.seq) << 32 | u64::from(record.ack);
        let rest = u64::from(self.timestamps) << 32 | u64::from(record.len) << 16 | u64::from(self.identification);
        (mix(mix(0, numbers), rest) >> 48) as u16
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

/// Recognises the packets of a connection that are captured again.
#[derive(Debug, Default)]
pub(crate) struct DuplicateFilter {
    /// Those of the latest segments, in order.
    marks: VecDeque<Mark>,
    /// Hashes of what these segments and their copies have in common, in a ring: most packets are found to be new by a look
    /// at them.
    keys: Vec<u16>,
    next_key: usize,
    /// The highest sequence number and acknowledgement of each side.
    highest: PerSide<Option<(u32, u32)>>,
    /// The number of copies.
    pub(crate) found: u64,
    /// Whether a packet was received and then sent: the capturing machine is on the path.
    pub(crate) is_forwarded: bool,
}

impl DuplicateFilter {
    /// Whether the packet of `record` is among the latest `segments` already; if not, it is the next of them.
    pub(crate) fn is_duplicate(&mut self, segments: &[SegmentRecord], record: &SegmentRecord, mark: Mark) -> bool {
        let key = mark.key(record);
        if !self.advances(record)
            && self.keys.contains(&key)
            && let Some(original) = self.original(segments, record, mark)
        {
            self.found += 1;
            self.is_forwarded |= original.direction.is_some() && original.direction != mark.direction;
            return true;
        }
        if self.marks.len() == MAX_COMPARED {
            self.marks.pop_front();
            self.keys[self.next_key] = key;
            self.next_key = (self.next_key + 1) % MAX_COMPARED;
        } else {
            self.keys.push(key);
        }
        self.marks.push_back(mark);
        false
    }

    /// Whether a packet has new data or acknowledges any: then it is new. Most are.
    fn advances(&mut self, record: &SegmentRecord) -> bool {
        let end = record.seq.wrapping_add(record.len);
        let highest = &mut self.highest[record.from()];
        let Some((seq, ack)) = highest else {
            *highest = Some((end, record.ack));
            return true;
        };
        let is_later = |a: u32, b: u32| (a.wrapping_sub(b) as i32) > 0;
        let (new_data, new_ack) = (is_later(end, *seq), is_later(record.ack, *ack));
        *seq = if new_data { end } else { *seq };
        *ack = if new_ack { record.ack } else { *ack };
        new_data || new_ack
    }

    /// The packet of which this one is a copy.
    fn original(&self, segments: &[SegmentRecord], record: &SegmentRecord, mark: Mark) -> Option<Mark> {
        debug_assert_eq!(segments.len(), self.marks.len(), "each of the latest segments has its mark");
        let known = || segments.iter().zip(&self.marks);
        // Some senders give all packets the same.
        let is_unique = || {
            !known().any(|(other, known)| {
                known.identification == mark.identification && other.from() == record.from() && !other.repeats(record)
            })
        };
        let (mut acks, mut reports_loss) = (0, false);
        for (earlier, known) in known().rev() {
            let age = record.time.saturating_sub(earlier.time);
            if age > MAX_AGE_BY_IDENTIFICATION {
                break;
            }
            if earlier.from() != record.from() {
                acks += usize::from(earlier.len == 0 && earlier.ack == record.seq);
                reports_loss |= earlier.has_sack() || acks >= LOSS_REPORT;
                continue;
            }
            if !earlier.repeats(record) || known.timestamps != mark.timestamps {
                continue;
            }
            let is_copy = if known.identification != mark.identification {
                false
            } else if mark.identification != 0 && is_unique() {
                true
            } else if known.path != mark.path {
                age <= MAX_AGE_BY_PATH
            } else {
                age <= MAX_AGE && takes_sequence_number(record) && !reports_loss
            };
            if is_copy {
                return Some(*known);
            }
        }
        None
    }
}

/// Whether it is repeated only if it is retransmitted, unlike an acknowledgement or a reset.
fn takes_sequence_number(record: &SegmentRecord) -> bool {
    (record.len > 0 || record.has(Flags::SYN) || record.has(Flags::FIN)) && !record.has(Flags::RST)
}
