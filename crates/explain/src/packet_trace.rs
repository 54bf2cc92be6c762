//! A connection's packets and intervals of time as bytes, about nine per packet.
//!
//! A page that opens from disk contains its packets as text. As JSON objects, 200,000 packets would be 30 MB and take a
//! second to parse; as columns of fixed width 5 MB. But a packet mostly resembles the last one of its side: it follows
//! in sequence, comes soon after, acknowledges little more, offers the same window. So each is written as a difference,
//! in numbers of variable length (LEB128; signed ones in zigzag encoding), and a page reads them in milliseconds.
//!
//! A packet consists of, in this order:
//!
//! | field | value |
//! |---|---|
//! | number | difference to the packet before, in the capture |
//! | time | difference to the packet before, in microseconds; for the first packet, to the trace's beginning |
//! | kind | the TCP flags, FIN = 1 to URG = 32; 64: from the server; 128: retransmission; 256: probe; 512: SACK blocks follow; 1024: sequence number outside any window |
//! | sequence | difference to the end of the side's last packet; signed. The side's first byte of data is 0, its SYN −1 |
//! | length | bytes of data |
//! | acknowledgement | difference to the side's last; signed. Only with the flag ACK |
//! | window | difference to the side's last, in bytes, scaled; signed |
//! | blocks | with 512: their number, then for each its start, relative to the acknowledgement, signed; and its length |
//!
//! An interval of time consists of: its length in microseconds; the index of its cause; the number of the packet that
//! ended it, as a difference to the last interval's, signed.

use capture::tcp::Flags;

use crate::{
    collect::CapturedConnection,
    critical_path::timeline::Timeline,
    infer::{vantage::VantagePoint, window_scale::WindowScale},
    segment::SegmentRecord,
    sent_ranges::{Passage, SentRanges},
    side::{PerSide, Side},
    stream_offset::{ORIGIN, StreamOffsets},
};

const SERVER: u64 = 64;
const RETRANSMISSION: u64 = 128;
const PROBE: u64 = 256;
const BLOCKS: u64 = 512;
const STRAY: u64 = 1024;

/// A connection's packets and intervals between two times.
#[derive(Debug)]
pub(crate) struct PacketTrace {
    /// When it begins, in nanoseconds since the epoch; its times count from here.
    pub(crate) begin: u64,
    pub(crate) count: u64,
    pub(crate) packets: Vec<u8>,
    pub(crate) intervals: Vec<u8>,
}

impl PacketTrace {
    /// The trace of `connection` with at most `max` packets. If there are more, those from a time on, in nanoseconds
    /// since the epoch.
    pub(crate) fn of(connection: &CapturedConnection, timeline: &Timeline, max: u64, from: u64) -> Self {
        let segments = &connection.segments;
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let first = if segments.len() <= max { 0 } else { segments.partition_point(|segment| segment.time < from) };
        let last = segments.len().min(first.saturating_add(max));
        let whole = timeline.intervals.first().map_or(0, |interval| interval.from);
        let begin = if first == 0 { whole } else { segments.get(first).map_or(whole, |segment| segment.time) };
        let end =
            if last == segments.len() { u64::MAX } else { segments.get(last).map_or(u64::MAX, |segment| segment.time) };
        let mut writer = Writer::new(connection, begin);
        segments.iter().enumerate().take(last).for_each(|(index, segment)| writer.packet(segment, index >= first));
        Self { begin, count: (last - first) as u64, packets: writer.bytes, intervals: intervals(timeline, begin, end) }
    }
}

fn intervals(timeline: &Timeline, begin: u64, end: u64) -> Vec<u8> {
    let (mut bytes, mut before, mut number) = (Vec::new(), 0, 0);
    for interval in timeline.between(begin, end) {
        // Rounded since the beginning, so that errors do not add up.
        let to = (interval.to - begin) / 1000;
        put(&mut bytes, to - before);
        put(&mut bytes, interval.cause as u64);
        put_signed(&mut bytes, i64::from(interval.number) - number);
        (before, number) = (to, i64::from(interval.number));
    }
    bytes
}

/// The state of a side after its last packet.
#[derive(Debug)]
struct SideState {
    /// Where its last packet ended, relative to its first byte of data.
    end: i64,
    ack: i64,
    window: i64,
    /// What it has sent.
    ranges: SentRanges,
    syn: bool,
}

struct Writer<'a> {
    bytes: Vec<u8>,
    begin: u64,
    number: u32,
    micros: u64,
    sides: PerSide<SideState>,
    offsets: PerSide<Option<StreamOffsets>>,
    scales: PerSide<u8>,
    sacks: &'a [(u32, u32, u32)],
}

impl<'a> Writer<'a> {
    fn new(connection: &'a CapturedConnection, begin: u64) -> Self {
        let vantage = VantagePoint::of(connection);
        let state = |_| SideState { end: 0, ack: 0, window: 0, ranges: SentRanges::new(&vantage), syn: false };
        Self {
            bytes: Vec::new(),
            begin,
            number: 0,
            micros: 0,
            sides: PerSide::of(state),
            offsets: PerSide::of(|side| connection.offsets[side].map(StreamOffsets::rewound)),
            scales: PerSide::of(|side| WindowScale::of(connection, &vantage, side).shift),
            sacks: &connection.sacks,
        }
    }

    /// Processes a packet, and writes it if it is wanted.
    fn packet(&mut self, segment: &SegmentRecord, is_wanted: bool) {
        let side = segment.from();
        let (syn, fin) = (segment.has(Flags::SYN), segment.has(Flags::FIN));
        let offset = self.offsets[side].get_or_insert_with(|| StreamOffsets::from(segment.seq)).of(segment.seq);
        let last = &mut self.sides[side];
        let seq = offset.map_or(last.end, |offset| offset as i64 - ORIGIN as i64);
        let start = (seq + i64::from(syn)).saturating_add_unsigned(ORIGIN) as u64;
        let is_old = start < last.ranges.snd_nxt();
        let is_probe = is_old && segment.len <= 1 && !syn && !fin && !segment.has(Flags::RST);
        let is_sent_again = offset.is_some() && segment.len > 0 && !is_probe && {
            let end = start.saturating_add(segment.len.into());
            last.ranges.pass(start, end, segment.time, segment.is_resent()).0 == Passage::Retransmission
        };
        let is_retransmission = is_sent_again || syn && last.syn;
        let mut kind = u64::from(segment.flags());
        for (set, bit) in [
            (side == Side::Server, SERVER),
            (is_retransmission, RETRANSMISSION),
            (is_probe, PROBE),
            (offset.is_none(), STRAY),
        ] {
            kind |= if set { bit } else { 0 };
        }
        let acknowledges = segment.has(Flags::ACK);
        let ack = if acknowledges {
            let offsets = self.offsets[!side].get_or_insert_with(|| StreamOffsets::from(segment.ack));
            offsets.of(segment.ack).map_or(last.ack, |offset| offset as i64 - ORIGIN as i64)
        } else {
            last.ack
        };
        let window = i64::from(segment.window) << if syn { 0 } else { self.scales[side] };
        let next = self.sacks.partition_point(|(number, ..)| *number < segment.number);
        self.sacks = &self.sacks[next..];
        let blocks = &self.sacks[..self.sacks.partition_point(|(number, ..)| *number == segment.number)];
        if is_wanted {
            let micros = (segment.time.saturating_sub(self.begin)) / 1000;
            put(&mut self.bytes, u64::from(segment.number.wrapping_sub(self.number)));
            put(&mut self.bytes, micros - self.micros);
            put(&mut self.bytes, kind | if blocks.is_empty() { 0 } else { BLOCKS });
            put_signed(&mut self.bytes, seq - last.end);
            put(&mut self.bytes, segment.len.into());
            if acknowledges {
                put_signed(&mut self.bytes, ack - last.ack);
            }
            put_signed(&mut self.bytes, window - last.window);
            if !blocks.is_empty() {
                put(&mut self.bytes, blocks.len() as u64);
                for (_, from, to) in blocks {
                    put_signed(&mut self.bytes, i64::from(from.wrapping_sub(segment.ack) as i32));
                    put(&mut self.bytes, u64::from(to.wrapping_sub(*from)));
                }
            }
            (self.number, self.micros) = (segment.number, micros);
        }
        let last = &mut self.sides[side];
        let end = seq + i64::from(segment.len) + i64::from(syn) + i64::from(fin);
        if is_wanted {
            (last.end, last.ack, last.window) = (end, ack, window);
        }
        last.syn |= syn;
    }
}

/// Writes a number, seven bits at a time, the lowest first.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Writes a signed number in zigzag encoding: 0, −1, 1, −2 as 0, 1, 2, 3.
fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put(bytes, (number << 1 ^ number >> 63) as u64);
}
