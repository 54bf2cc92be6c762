//! The two byte streams of each TCP connection in a capture, with the time at which every byte could be read.
//!
//! Segments are stored by their offset in the stream and joined at the end, so their order does not matter. Of a byte that
//! arrived twice, the first one counts. A hole, where the capture lacks or truncated a packet, is filled with zeros and
//! recorded. Memory is bounded.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    ops::Range,
    time::Duration,
};

use ::capture::{
    Fragments, Source,
    tcp::{Flags, Segment},
};

/// The maximum number of payload bytes, and of bytes in holes.
const ROOM: u64 = 512 << 20;

/// The memory of a segment besides its bytes.
const PIECE: u64 = 64;

/// A connection's two streams.
#[derive(Debug)]
pub(super) struct Pair {
    /// When its first packet passed, since the epoch.
    pub(super) opened: Duration,
    /// The side that opened it, if its SYN is in the capture; else the one that spoke first.
    pub(super) client: SocketAddr,
    /// The other one.
    pub(super) server: SocketAddr,
    /// What the client sent.
    pub(super) sent: Stream,
    /// What the server sent.
    pub(super) received: Stream,
}

/// A stream of bytes.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The bytes.
    pub(super) bytes: Vec<u8>,
    /// Offsets and arrival times from there on, ascending.
    times: Vec<(usize, Duration)>,
    /// The bytes that the capture lacks.
    holes: Vec<Range<usize>>,
}

impl Stream {
    /// When this byte and all before it had arrived.
    pub(super) fn time(&self, place: usize) -> Duration {
        let after = self.times.partition_point(|(start, _)| *start <= place);
        self.times.get(after.saturating_sub(1)).map_or(Duration::ZERO, |(_, time)| *time)
    }

    /// Whether all of these bytes were captured.
    pub(super) fn is_whole(&self, range: &Range<usize>) -> bool {
        self.holes.iter().all(|hole| hole.end <= range.start || range.end <= hole.start)
    }
}

/// A direction while its segments are collected.
#[derive(Debug, Default)]
struct Half {
    /// The sequence number of the first byte, and the offset and sequence number of the latest one.
    latest: Option<(u64, u32)>,
    pieces: BTreeMap<u64, Piece>,
}

#[derive(Debug)]
struct Piece {
    time: Duration,
    len: u64,
    bytes: Vec<u8>,
}

/// The offset of a stream's first captured byte: in the middle, because earlier bytes may be captured later.
const BEGIN: u64 = 1 << 40;

impl Half {
    /// Stores a segment's data, and returns the memory that it takes.
    fn add(&mut self, segment: &Segment) -> u64 {
        let first = segment.sequence.wrapping_add(u32::from(segment.flags.has(Flags::SYN)));
        let (place, number) = *self.latest.get_or_insert((BEGIN, first));
        let place = place.wrapping_add_signed(i64::from(first.wrapping_sub(number) as i32));
        if place > BEGIN {
            self.latest = Some((place, first));
        }
        let known = self.pieces.get(&place);
        if segment.data == 0 || known.is_some_and(|known| known.bytes.len() >= segment.payload.len()) {
            return 0;
        }
        let piece = Piece { time: segment.time, len: segment.data.into(), bytes: segment.payload.to_vec() };
        let taken = piece.bytes.len() as u64 + PIECE;
        self.pieces.insert(place, piece);
        taken
    }

    /// The stream, with at most this many bytes in holes.
    fn join(self, room: &mut u64) -> Stream {
        let mut stream = Stream::default();
        let Some(begin) = self.pieces.keys().next().copied() else { return stream };
        let mut latest = Duration::ZERO;
        for (place, piece) in self.pieces {
            latest = latest.max(piece.time);
            let hole = (place - begin).saturating_sub(stream.bytes.len() as u64);
            let lacking = piece.len.saturating_sub(piece.bytes.len() as u64);
            let Some(left) = room.checked_sub(hole + lacking) else { break };
            *room = left;
            stream.fill(hole);
            let known = (stream.bytes.len() as u64 - (place - begin)) as usize;
            if known as u64 >= piece.len {
                continue;
            }
            stream.times.push((stream.bytes.len(), latest));
            stream.bytes.extend_from_slice(piece.bytes.get(known..).unwrap_or_default());
            stream.fill((place - begin + piece.len) - stream.bytes.len() as u64);
        }
        stream
    }
}

impl Stream {
    fn fill(&mut self, hole: u64) {
        if hole > 0 {
            let start = self.bytes.len();
            self.bytes.resize(start + hole as usize, 0);
            self.holes.push(start..self.bytes.len());
        }
    }
}

#[derive(Debug)]
struct Open {
    opened: Duration,
    client: SocketAddr,
    server: SocketAddr,
    syn: Option<u32>,
    halves: [Half; 2],
}

/// Reads all connections of a capture in the order of their beginning. After an error, it returns what was complete
/// before it.
pub(super) fn read(source: &mut dyn Source) -> (Vec<Pair>, Option<String>) {
    let mut open: Vec<Open> = Vec::new();
    let mut latest: HashMap<(SocketAddr, SocketAddr), usize> = HashMap::new();
    let mut fragments = Fragments::default();
    let mut room = ROOM;
    let error = loop {
        let packet = match source.next() {
            Ok(Some(packet)) => packet,
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        };
        let Some(packet) = fragments.reassemble(packet) else { continue };
        let Some(segment) = Segment::of(&packet) else { continue };
        let asks = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        let answers = segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK);
        let ends = (segment.from.min(segment.to), segment.from.max(segment.to));
        let known = latest.get(&ends).copied();
        // A SYN with another sequence number begins a new connection on the same ports.
        let known = known.filter(|at| !asks || open[*at].syn == Some(segment.sequence));
        let at = known.unwrap_or_else(|| {
            let (client, server) = if answers { (segment.to, segment.from) } else { (segment.from, segment.to) };
            let syn = asks.then_some(segment.sequence);
            open.push(Open { opened: segment.time, client, server, syn, halves: Default::default() });
            latest.insert(ends, open.len() - 1);
            room = room.saturating_sub(PIECE * 4);
            open.len() - 1
        });
        let connection = &mut open[at];
        let half = usize::from(segment.from != connection.client);
        room = room.saturating_sub(connection.halves[half].add(&segment));
        if room == 0 {
            break Some(format!("it holds more than {} MiB", ROOM >> 20));
        }
    };
    let mut holes = ROOM;
    let pairs = open.into_iter().map(|open| {
        let [sent, received] = open.halves.map(|half| half.join(&mut holes));
        Pair { opened: open.opened, client: open.client, server: open.server, sent, received }
    });
    (pairs.collect(), error)
}
