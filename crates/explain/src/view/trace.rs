//! A connection's packets and its pieces of time, as bytes: some nine for each packet.
//!
//! A page that opens from disk carries its capture as text. As objects, 200,000 packets would be 30 MB of it and a
//! second of parsing; as columns of fixed width 5 MB. But a packet is mostly what one expects after the last of its
//! side: it follows on in sequence, comes soon after, acknowledges little more, offers the same window. So each is
//! written as its difference from that, in numbers of variable length (LEB128; those with a sign in zigzag), and a
//! page reads them in a few milliseconds.
//!
//! A packet is, in this order:
//!
//! | number | is |
//! |---|---|
//! | number | more than the packet before, in the capture |
//! | time | more than the packet before, in microseconds; the first's from the trace's beginning |
//! | kind | the TCP flags, FIN = 1 to URG = 32; 64 from the server; 128 sent again; 256 a probe; 512 SACK blocks follow; 1024 its sequence number is of no window |
//! | sequence | more than where its side's last packet ended; signed. The side's first byte of data is 0, its SYN −1 |
//! | length | bytes of data |
//! | acknowledgement | more than its side's last; signed. Only with the flag ACK |
//! | window | more than its side's last, in bytes, scaled; signed |
//! | blocks | with 512: how many, then of each the start, more than the acknowledgement, signed; and its length |
//!
//! A piece of time is: how long, in microseconds, since the last one's end; the cause's place in the list; the number
//! of the packet that ended it, more than the last piece's, signed.

use capture::tcp::Flags;

use crate::{
    collect::Connection,
    event::{Both, Event, ORIGIN, Offsets, Side},
    facts::scale,
    timeline::Timeline,
};

const SERVER: u64 = 64;
const AGAIN: u64 = 128;
const PROBE: u64 = 256;
const BLOCKS: u64 = 512;
const STRAY: u64 = 1024;

/// A connection's packets and pieces between two times.
#[derive(Debug)]
pub(crate) struct Trace {
    /// When it begins, in nanoseconds since the epoch: all times are from here.
    pub(super) begin: u64,
    pub(super) count: u64,
    pub(super) packets: Vec<u8>,
    pub(super) pieces: Vec<u8>,
}

impl Trace {
    /// Of `connection`, at most so many packets: those from a time on, in nanoseconds since the epoch, if they are
    /// more.
    pub(super) fn of(connection: &Connection, timeline: &Timeline, most: u64, from: u64) -> Self {
        let events = &connection.events;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let first = if events.len() <= most { 0 } else { events.partition_point(|event| event.time < from) };
        let last = events.len().min(first.saturating_add(most));
        let whole = timeline.pieces.first().map_or(0, |piece| piece.from);
        let begin = if first == 0 { whole } else { events.get(first).map_or(whole, |event| event.time) };
        let end = if last == events.len() { u64::MAX } else { events.get(last).map_or(u64::MAX, |event| event.time) };
        let mut writer = Writer::new(connection, begin);
        events.iter().enumerate().take(last).for_each(|(at, event)| writer.packet(event, at >= first));
        Self { begin, count: (last - first) as u64, packets: writer.bytes, pieces: pieces(timeline, begin, end) }
    }
}

fn pieces(timeline: &Timeline, begin: u64, end: u64) -> Vec<u8> {
    let (mut bytes, mut before, mut number) = (Vec::new(), 0, 0);
    for piece in timeline.between(begin, end) {
        // Rounded from the beginning on, so that no error adds up.
        let to = (piece.to - begin) / 1000;
        put(&mut bytes, to - before);
        put(&mut bytes, piece.cause as u64);
        put_signed(&mut bytes, i64::from(piece.number) - number);
        (before, number) = (to, i64::from(piece.number));
    }
    bytes
}

/// What was last seen of a side.
#[derive(Debug, Default)]
struct Last {
    /// Where its last packet ended, relative to its first byte of data.
    end: i64,
    ack: i64,
    window: i64,
    /// The end of what it has sent.
    next: u64,
    syn: bool,
}

struct Writer<'a> {
    bytes: Vec<u8>,
    begin: u64,
    number: u32,
    micros: u64,
    sides: Both<Last>,
    offsets: Both<Option<Offsets>>,
    scales: Both<u8>,
    sacks: &'a [(u32, u32, u32)],
}

impl<'a> Writer<'a> {
    fn new(connection: &'a Connection, begin: u64) -> Self {
        Self {
            bytes: Vec::new(),
            begin,
            number: 0,
            micros: 0,
            sides: Both::of(|_| Last { next: ORIGIN, ..Last::default() }),
            offsets: Both::of(|side| connection.offsets[side].map(Offsets::rewound)),
            scales: Both::of(|side| scale(connection, side)),
            sacks: &connection.sacks,
        }
    }

    /// Takes a packet in, and writes it where it is wanted.
    fn packet(&mut self, event: &Event, wanted: bool) {
        let side = event.from();
        let (syn, fin) = (event.has(Flags::SYN), event.has(Flags::FIN));
        let offset = self.offsets[side].get_or_insert_with(|| Offsets::from(event.seq)).of(event.seq);
        let last = &self.sides[side];
        let seq = offset.map_or(last.end, |offset| offset as i64 - ORIGIN as i64);
        let start = (seq + i64::from(syn)).saturating_add_unsigned(ORIGIN) as u64;
        let behind = start < last.next;
        let probe = behind && event.len <= 1 && !syn && !fin && !event.has(Flags::RST);
        let again = behind && event.len > 0 && !probe || syn && last.syn;
        let mut kind = u64::from(event.flags());
        for (set, bit) in [(side == Side::Server, SERVER), (again, AGAIN), (probe, PROBE), (offset.is_none(), STRAY)] {
            kind |= if set { bit } else { 0 };
        }
        let acknowledges = event.has(Flags::ACK);
        let ack = if acknowledges {
            let offsets = self.offsets[!side].get_or_insert_with(|| Offsets::from(event.ack));
            offsets.of(event.ack).map_or(last.ack, |offset| offset as i64 - ORIGIN as i64)
        } else {
            last.ack
        };
        let window = i64::from(event.window) << if syn { 0 } else { self.scales[side] };
        let behind = self.sacks.partition_point(|(number, ..)| *number < event.number);
        self.sacks = &self.sacks[behind..];
        let blocks = &self.sacks[..self.sacks.partition_point(|(number, ..)| *number == event.number)];
        if wanted {
            let micros = (event.time.saturating_sub(self.begin)) / 1000;
            put(&mut self.bytes, u64::from(event.number.wrapping_sub(self.number)));
            put(&mut self.bytes, micros - self.micros);
            put(&mut self.bytes, kind | if blocks.is_empty() { 0 } else { BLOCKS });
            put_signed(&mut self.bytes, seq - last.end);
            put(&mut self.bytes, event.len.into());
            if acknowledges {
                put_signed(&mut self.bytes, ack - last.ack);
            }
            put_signed(&mut self.bytes, window - last.window);
            if !blocks.is_empty() {
                put(&mut self.bytes, blocks.len() as u64);
                for (_, from, to) in blocks {
                    put_signed(&mut self.bytes, i64::from(from.wrapping_sub(event.ack) as i32));
                    put(&mut self.bytes, u64::from(to.wrapping_sub(*from)));
                }
            }
            (self.number, self.micros) = (event.number, micros);
        }
        let last = &mut self.sides[side];
        let end = seq + i64::from(event.len) + i64::from(syn) + i64::from(fin);
        if wanted {
            (last.end, last.ack, last.window) = (end, ack, window);
        }
        last.next = last.next.max(start.saturating_add(event.len.into()));
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

/// Writes a number with a sign: 0, −1, 1, −2 as 0, 1, 2, 3.
fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put(bytes, (number << 1 ^ number >> 63) as u64);
}
