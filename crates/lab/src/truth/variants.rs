//! Captures derived from another one, as people send them: truncated, begun late, of one direction, with merged segments.
//!
//! They are written as pcap with Ethernet headers, as tcpdump does, so that a snaplen of 54 leaves the TCP header
//! without its options.

use std::{net::SocketAddr, path::Path};

use capture::{
    Packet, Source, pcapng,
    tcp::{Flags, Segment},
};

use super::{CLIENT, MIDDLE, measure::MeasureError, programs::PORT};

/// How a capture is derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Each packet truncated to this many bytes.
    Snaplen(usize),
    /// Without this part of its packets at the beginning, in percent.
    BegunLate(usize),
    /// Only the packets of the server.
    OneDirection,
    /// As it is, in a format that does not say which packets the capturing host received and which it sent.
    Pcap,
    /// Consecutive segments as one, as a network card with offload hands them over.
    Merged,
}

/// The name of captures that lack the beginning of the transfer.
pub(crate) const BEGUN_LATE: &str = "begun-late";

/// All variants: of the capture of which place, and their names.
pub(crate) const VARIANTS: [(&str, &str, Variant); 6] = [
    (CLIENT, "snaplen-54", Variant::Snaplen(54)),
    (CLIENT, "snaplen-96", Variant::Snaplen(96)),
    (CLIENT, BEGUN_LATE, Variant::BegunLate(25)),
    (CLIENT, "one-direction", Variant::OneDirection),
    (CLIENT, "merged", Variant::Merged),
    (MIDDLE, "pcap", Variant::Pcap),
];

/// An Ethernet header for IPv4, between two locally administered addresses.
const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];

/// The bytes of the original capture that are kept, if nothing else is asked for.
const SNAPLEN: usize = 256;

/// The longest merged packet: the limit of an IP packet.
const MAX_MERGED: usize = 65_000;

/// The longest time between two segments that are merged, in nanoseconds.
const MAX_GAP: u128 = 1_000_000;

/// A packet: its time in nanoseconds, its captured bytes with Ethernet header, and its length on the link.
struct Frame {
    time: u128,
    bytes: Vec<u8>,
    len: usize,
}

/// Derives `to` from the capture `from`.
pub(crate) fn derive(from: &Path, variant: Variant, to: &Path) -> Result<(), MeasureError> {
    let mut reader = pcapng::Reader::open(from)?;
    let mut frames = Vec::new();
    let mut merger = Merger::default();
    while let Some(packet) = reader.next()? {
        let from_server = Segment::of(&packet).is_some_and(|segment| segment.from.port() == PORT);
        if variant == Variant::OneDirection && !from_server {
            continue;
        }
        if variant == Variant::Merged && merger.take(&packet, &mut frames) {
            continue;
        }
        frames.push(Frame::of(&packet));
    }
    let skip = match variant {
        Variant::BegunLate(percent) => frames.len() * percent / 100,
        _ => 0,
    };
    let snaplen = if let Variant::Snaplen(bytes) = variant { bytes } else { SNAPLEN };
    let text = pcap(&frames[skip..], snaplen);
    // A file that is there is complete: it is not derived again.
    output::replace(to, 0o666, &text).map_err(|source| MeasureError::File { path: to.to_owned(), source })
}

impl Frame {
    fn of(packet: &Packet) -> Self {
        let bytes = [&ETHERNET, packet.bytes].concat();
        Self { time: packet.time.as_nanos(), bytes, len: packet.original_len as usize + ETHERNET.len() }
    }
}

/// A pcap file with times in nanoseconds.
fn pcap(frames: &[Frame], snaplen: usize) -> Vec<u8> {
    const MAGIC: u32 = 0xa1b2_3c4d;
    const ETHERNET_LINK: u32 = 1;
    let mut file = Vec::new();
    let word = |file: &mut Vec<u8>, word: u32| file.extend_from_slice(&word.to_le_bytes());
    for part in [MAGIC, 2 | 4 << 16, 0, 0, snaplen as u32, ETHERNET_LINK] {
        word(&mut file, part);
    }
    for frame in frames {
        let kept = &frame.bytes[..frame.bytes.len().min(snaplen)];
        let (seconds, nanoseconds) = (frame.time / 1_000_000_000, frame.time % 1_000_000_000);
        for part in [seconds as u32, nanoseconds as u32, kept.len() as u32, frame.len as u32] {
            word(&mut file, part);
        }
        file.extend_from_slice(kept);
    }
    file
}

/// Merges segments of one flow that follow one another, as generic receive offload does.
#[derive(Default)]
struct Merger {
    last: Option<Last>,
}

/// The segment that the next may be appended to.
struct Last {
    index: usize,
    flow: (SocketAddr, SocketAddr),
    next: u32,
    acknowledgement: u32,
}

impl Merger {
    /// Appends the packet to the last frame if it continues it.
    fn take(&mut self, packet: &Packet, frames: &mut [Frame]) -> bool {
        let Some(segment) = Segment::of(packet) else {
            self.last = None;
            return false;
        };
        let control = Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0;
        let is_plain = segment.data > 0 && segment.flags.0 & control == 0;
        let flow = (segment.from, segment.to);
        if !is_plain {
            // An acknowledgement of the other direction does not end a run of segments.
            if self.last.as_ref().is_some_and(|last| last.flow == flow) {
                self.last = None;
            }
            return false;
        }
        let time = packet.time.as_nanos();
        if let Some(last) = &mut self.last
            && let Some(frame) = frames.get_mut(last.index)
            && (last.flow, last.next, last.acknowledgement) == (flow, segment.sequence, segment.acknowledgement)
            && time.saturating_sub(frame.time) < MAX_GAP
            && frame.len + (segment.data as usize) < MAX_MERGED
            && last.index + 1 == frames.len()
        {
            append(&mut frames[last.index], &segment);
            last.next = segment.sequence.wrapping_add(segment.data);
            return true;
        }
        self.last = Some(Last {
            index: frames.len(),
            flow,
            next: segment.sequence.wrapping_add(segment.data),
            acknowledgement: segment.acknowledgement,
        });
        false
    }
}

/// Makes a frame longer by the data of a segment.
fn append(frame: &mut Frame, segment: &Segment) {
    if frame.bytes.len() == frame.len {
        frame.bytes.extend_from_slice(segment.payload);
    }
    frame.len += segment.data as usize;
    let ip = ETHERNET.len();
    let length = (frame.len - ip) as u16;
    let header = usize::from(frame.bytes.get(ip).copied().unwrap_or_default() & 15) * 4;
    if let Some(field) = frame.bytes.get_mut(ip + 2..ip + 4) {
        field.copy_from_slice(&length.to_be_bytes());
    }
    // PSH of the last one.
    if let Some(field) = frame.bytes.get_mut(ip + header + 13) {
        *field |= segment.flags.0;
    }
}
