//! From packets to connections.
//!
//! A connection is a pair of addresses with ports, from a SYN until the next SYN with another initial sequence number.
//! If the SYN was not captured, the connection begins with its first packet, and the lower port is taken for the
//! server's, since servers use well-known ports. Finished connections are handed over while the capture is still being
//! read, so that only open ones stay in memory.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    net::{IpAddr, SocketAddr},
};

use capture::{
    LinkRates, Packet,
    tcp::{Flags, Segment},
};

use crate::{
    duplicate_filter::{DuplicateFilter, MAX_COMPARED, Mark},
    echo::Echo,
    ending::{Forged, Reset, Undelivered},
    hop_limits::HopLimits,
    read::{Content, dns},
    segment::SegmentRecord,
    send_order::SendOrder,
    side::{PerSide, Side},
    stream_offset::StreamOffsets,
    surroundings::{self, Answer, Place, Surroundings},
    system::{Inferred, System},
};

/// The bytes of a segment with this payload on the wire: IP, TCP and the usual timestamps.
pub(crate) fn wire_bytes(payload: u32) -> u64 {
    u64::from(payload) + 52
}

/// The bytes of timestamps and of a SACK block among the options, padded (RFC 7323 appendix A, RFC 2018 §3).
const TIMESTAMPS: usize = 12;
const ONE_BLOCK: usize = 12;

/// How long a closed connection is kept for late packets, in nanoseconds: those of TIME-WAIT arrive within a few round
/// trips.
const LINGER: u64 = 2_000_000_000;

/// The longest time between a DNS answer and the connection that uses it, in nanoseconds.
const MAX_LOOKUP_AGE: u64 = 5_000_000_000;

/// The longest duration of a capture, in nanoseconds: four years, so that multiples of times do not overflow.
const MAX_DURATION: u64 = 1 << 57;

/// The maximum number of DNS queries and answers that are remembered.
const MAX_LOOKUPS: usize = 65_536;

/// The longest time between the first query and a repetition, in nanoseconds (resolv.conf(5): `timeout`, at most 30 s).
const MAX_QUERY_RETRY: u64 = 30_000_000_000;

/// A DNS query and its answer. Times are in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lookup {
    pub(crate) asked: u64,
    pub(crate) answered: u64,
    /// The packet number of the answer.
    pub(crate) number: u32,
}

/// A connection as it was captured.
#[derive(Debug)]
pub(crate) struct CapturedConnection {
    pub(crate) ends: PerSide<SocketAddr>,
    /// The announcements of each SYN, where it was captured.
    pub(crate) syn: PerSide<Option<Syn>>,
    pub(crate) offsets: PerSide<Option<StreamOffsets>>,
    pub(crate) segments: Vec<SegmentRecord>,
    pub(crate) content: Content,
    pub(crate) lookup: Option<Lookup>,
    /// SACK blocks: the packet number, the start, the end. Only where packets are kept.
    pub(crate) sacks: Vec<(u32, u32, u32)>,
    /// Whether data packets carry timestamps.
    pub(crate) timestamps: bool,
    /// What was not captured of its packets.
    pub(crate) cut: Cut,
    /// The round-trip times between the capture point and each side, by timestamps.
    pub(crate) echoes: PerSide<Echo>,
    /// The end at which the capture was taken, if the capture format says so.
    pub(crate) captured_at: Option<Side>,
    /// The rates of the link on which it was captured, where the capture says them, once it is finished.
    pub(crate) link_rates: Option<LinkRates>,
    /// What the rest of the capture says about its path, once it is finished.
    pub(crate) surroundings: Surroundings,
    /// Where its packets are counted.
    place: Option<Place>,
    /// When a SYN, and a SYN-ACK, was sent that waits for its answer.
    handshake: PerSide<Option<u64>>,
    pub(crate) duplicates: DuplicateFilter,
    closed: PerSide<bool>,
    hop_limits: PerSide<HopLimits>,
    send_order: PerSide<SendOrder>,
    pub(crate) reset: Option<Reset>,
    pub(crate) undelivered: Option<Undelivered>,
}

/// What was not captured of a connection's packets, because they were cut.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cut {
    /// Whether options behind the handshake are missing, and whether data without options was seen then.
    has_options: bool,
    has_plain_data: bool,
    /// Whether data is missing; its length is known.
    pub(crate) has_data: bool,
}

/// The announcements of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syn {
    pub(crate) isn: u32,
    pub(crate) mss: Option<u16>,
    pub(crate) scale: Option<u8>,
    pub(crate) sack: bool,
    /// Whether some of its options were not captured.
    pub(crate) is_cut: bool,
    /// The operating system that lays out its SYNs like this.
    pub(crate) system: Option<Inferred>,
}

/// A DNS query.
#[derive(Debug, Clone, Copy)]
struct Query {
    /// When it was sent for the first time.
    first: u64,
    /// Whether it has not been answered since it was last sent.
    open: bool,
}

type Ends = (SocketAddr, SocketAddr);

/// Sorts packets into connections.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    /// Boxed, so that a map that grows moves little. Each packet is looked up, and SipHash took a quarter of the time
    /// in which it is read; this hasher is seeded at random too, so that no capture can be crafted whose addresses collide.
    open: foldhash::HashMap<Ends, Box<CapturedConnection>>,
    /// Connections that were closed, with the time and the number of segments they had then.
    closing: VecDeque<(u64, Ends)>,
    /// Finished connections, for the caller to take.
    #[allow(clippy::vec_box, reason = "they are moved here from the table, all of them at the end")]
    finished: Vec<Box<CapturedConnection>>,
    /// The queries, by client, server and identifier.
    asked: HashMap<(SocketAddr, SocketAddr, u16), Query>,
    /// The latest answer, by client and resolved address.
    found: HashMap<(IpAddr, IpAddr), Lookup>,
    /// What connections say about each other's path.
    surroundings: surroundings::Collected,
    /// Whether to keep SACK blocks.
    keep_sacks: bool,
    begin: Option<u64>,
    latest: u64,
}

impl Collector {
    /// Creates a collector. SACK blocks are only needed to show single packets.
    pub(crate) fn new(keep_sacks: bool) -> Self {
        Self { keep_sacks, ..Self::default() }
    }

    /// Adds the next packet.
    pub(crate) fn add(&mut self, packet: &Packet) {
        let nanos = u64::try_from(packet.time.as_nanos()).unwrap_or(u64::MAX);
        let begin = *self.begin.get_or_insert(nanos.min(u64::MAX >> 2));
        // Time never runs backwards here, although clocks may be set.
        self.latest = self.latest.max(nanos.clamp(begin, begin + MAX_DURATION));
        if let Some(segment) = Segment::of(packet) {
            let timestamps = segment.timestamps();
            self.add_segment(&segment, timestamps, Mark::of(packet, &segment, timestamps));
        } else {
            self.add_lookup(packet);
            self.add_undelivered(packet);
        }
        while let Some((closed, _)) = self.closing.front()
            && closed + LINGER < self.latest
            && let Some((closed, ends)) = self.closing.pop_front()
        {
            // Its ports may serve another connection by now.
            let over = |connection: &CapturedConnection| {
                connection.segments.last().is_some_and(|last| last.time <= closed + LINGER)
            };
            if self.open.get(&ends).is_some_and(|connection| connection.is_closed() && over(connection)) {
                self.finished.extend(self.open.remove(&ends));
            }
        }
    }

    /// The connections that have finished since the last call.
    pub(crate) fn take_finished(&mut self) -> impl Iterator<Item = Box<CapturedConnection>> {
        let Self { finished, surroundings, .. } = self;
        finished.drain(..).map(|mut connection| {
            if let (Some(place), Some(first), Some(last)) =
                (connection.place, connection.segments.first(), connection.segments.last())
            {
                connection.surroundings = surroundings.within(place, &(first.time..last.time));
            }
            connection
        })
    }

    /// Finishes the connections that were still open at the capture's end.
    pub(crate) fn finish(&mut self) {
        let mut rest: Vec<_> = self.open.drain().map(|(_, connection)| connection).collect();
        rest.sort_by_key(|connection| connection.segments.first().map(|segment| segment.number));
        self.finished.extend(rest);
    }

    fn add_segment(&mut self, segment: &Segment, timestamps: Option<(u32, u32)>, mark: Mark) {
        let Segment { from, to, .. } = *segment;
        let ends = if from < to { (from, to) } else { (to, from) };
        let connection = match self.open.entry(ends) {
            Entry::Occupied(known) => {
                let known = known.into_mut();
                if known.is_followed_by(segment) {
                    let new = Box::new(CapturedConnection::new(segment));
                    self.finished.push(std::mem::replace(known, new));
                }
                known
            }
            Entry::Vacant(new) => new.insert(Box::new(CapturedConnection::new(segment))),
        };
        if connection.lookup.is_none() && segment.flags.has(Flags::SYN) {
            let lookup = self.found.get(&(connection.ends.client.ip(), connection.ends.server.ip()));
            connection.lookup = lookup.filter(|lookup| lookup.answered + MAX_LOOKUP_AGE > self.latest).copied();
        }
        let was_closed = connection.is_closed();
        if connection.segments.is_empty() {
            connection.place = self.surroundings.place(connection.ends.client.ip(), connection.ends.server.ip());
        }
        let (is_new, answer) = connection.add(segment, timestamps, mark, self.latest);
        if let Some(place) = connection.place.filter(|_| is_new) {
            let from = connection.side(segment.from);
            if segment.data > 0 {
                self.surroundings.add(place, from, self.latest, wire_bytes(segment.data));
            }
            if let Some(answer) = answer {
                self.surroundings.answered(place, self.latest, answer);
            }
        }
        if self.keep_sacks && is_new {
            let number = u32::try_from(segment.number).unwrap_or(u32::MAX);
            connection.sacks.extend(segment.sack().map(|(from, to)| (number, from, to)));
        }
        if connection.is_closed() && !was_closed {
            self.closing.push_back((self.latest, ends));
        }
    }

    fn add_undelivered(&mut self, packet: &Packet) {
        let Some(report) = packet.undelivered() else { return };
        let ends = (report.from.min(report.to), report.from.max(report.to));
        if let Some(connection) = self.open.get_mut(&ends) {
            let number = u32::try_from(packet.number).unwrap_or(u32::MAX);
            let undelivered = Undelivered { by: report.by, reason: report.reason, time: self.latest, number };
            connection.undelivered.get_or_insert(undelivered);
        }
    }

    fn add_lookup(&mut self, packet: &Packet) {
        let Some((from, to, data)) = packet.udp().filter(|(from, to, _)| from.port() == 53 || to.port() == 53) else {
            return;
        };
        let Some(message) = dns::Message::read(data) else { return };
        if self.asked.len() > MAX_LOOKUPS || self.found.len() > MAX_LOOKUPS {
            self.asked.clear();
            self.found.clear();
        }
        if !message.answer {
            // A client that repeats its query has not received the captured answer: it was lost later.
            let asked = self.asked.get(&(from, to, message.id)).map(|asked| asked.first);
            let first = asked.filter(|first| first + MAX_QUERY_RETRY > self.latest).unwrap_or(self.latest);
            self.asked.insert((from, to, message.id), Query { first, open: true });
        } else if let Some(asked) = self.asked.get_mut(&(to, from, message.id)).filter(|asked| asked.open) {
            asked.open = false;
            let number = u32::try_from(packet.number).unwrap_or(u32::MAX);
            let lookup = Lookup { asked: asked.first, answered: self.latest, number };
            self.found.extend(message.addresses.into_iter().map(|address| ((to.ip(), address), lookup)));
        }
    }
}

impl CapturedConnection {
    fn new(first: &Segment) -> Self {
        let from_client = match (first.flags.has(Flags::SYN), first.flags.has(Flags::ACK)) {
            (true, false) => true,
            (true, true) => false,
            _ => first.to.port() <= first.from.port(),
        };
        let (client, server) = if from_client { (first.from, first.to) } else { (first.to, first.from) };
        let captured_at = first.direction.map(|direction| {
            let is_outbound = direction == capture::Direction::Outbound;
            if is_outbound == from_client { Side::Client } else { Side::Server }
        });
        Self {
            ends: PerSide { client, server },
            syn: PerSide::default(),
            offsets: PerSide::default(),
            segments: Vec::new(),
            content: Content::default(),
            lookup: None,
            sacks: Vec::new(),
            timestamps: false,
            cut: Cut::default(),
            echoes: PerSide::default(),
            captured_at,
            link_rates: None,
            surroundings: Surroundings::default(),
            place: None,
            handshake: PerSide::default(),
            duplicates: DuplicateFilter::default(),
            closed: PerSide::default(),
            hop_limits: PerSide::default(),
            send_order: PerSide::default(),
            reset: None,
            undelivered: None,
        }
    }

    /// Which side sent a segment of this connection.
    fn side(&self, from: SocketAddr) -> Side {
        if from == self.ends.client { Side::Client } else { Side::Server }
    }

    /// The side that sent all captured packets, if it received some that were not captured: it acknowledges.
    pub(crate) fn only_from(&self) -> Option<Side> {
        let side = self.segments.first()?.from();
        let is_alone = self.segments.iter().all(|segment| segment.from() == side);
        (is_alone && self.segments.iter().any(|segment| segment.has(Flags::ACK))).then_some(side)
    }

    /// Whether a side numbers its packets one by one.
    pub(crate) fn counts_packets(&self, side: Side) -> bool {
        self.send_order[side].counts(self.system(side))
    }

    /// The operating system of a side, if its SYN shows it.
    pub(crate) fn system(&self, side: Side) -> Option<System> {
        self.syn[side]?.system.map(|inferred| inferred.system)
    }

    fn is_closed(&self) -> bool {
        self.reset.is_some() || self.closed.client && self.closed.server
    }

    /// Whether a segment opens another connection between the same ends: a SYN that is not the one seen before. In
    /// a simultaneous open (RFC 9293 §3.5) each side sends its own.
    fn is_followed_by(&self, segment: &Segment) -> bool {
        if !segment.flags.has(Flags::SYN) || segment.flags.has(Flags::ACK) {
            return false;
        }
        match self.syn[self.side(segment.from)] {
            Some(syn) => syn.isn != segment.sequence,
            None => self.syn[!self.side(segment.from)].is_none() || self.is_closed(),
        }
    }

    /// Adds a segment; returns whether it is new, not a packet that was captured again, and how long its sender took to
    /// answer.
    fn add(
        &mut self,
        segment: &Segment,
        timestamps: Option<(u32, u32)>,
        mark: Mark,
        now: u64,
    ) -> (bool, Option<Answer>) {
        let from = self.side(segment.from);
        let mut record = SegmentRecord::new(segment, now, from);
        if segment.lacks_options && !segment.flags.has(Flags::SYN) {
            self.read_cut_options(segment, &mut record);
        }
        let latest = self.segments.len().saturating_sub(MAX_COMPARED);
        if self.duplicates.is_duplicate(&self.segments[latest..], &record, mark) {
            if self.duplicates.is_forwarded {
                self.captured_at = None;
            }
            return (false, None);
        }
        let answered = self.shake_hands(segment, from, now);
        let mut echoed = None;
        if segment.flags.has(Flags::SYN) {
            self.syn[from].get_or_insert_with(|| Syn {
                isn: segment.sequence,
                mss: segment.mss(),
                scale: segment.window_scale(),
                // Nearly all do.
                sack: segment.sack_permitted() || segment.lacks_options,
                is_cut: segment.lacks_options,
                system: Inferred::of(segment),
            });
            if self.offsets[from].is_none() {
                self.offsets[from] = Some(StreamOffsets::from(segment.sequence.wrapping_add(1)));
                self.content.begin(from);
            }
        }
        if let Some((value, echo)) = timestamps {
            self.timestamps |= segment.data > 0;
            let has_data = segment.data > 0;
            self.echoes[!from].send(value, now, has_data);
            // A receiver whose program does not read delays acknowledgements of any amount (Linux: `__tcp_ack_snd_check`).
            let is_reading = segment.window >= self.send_order[from].window();
            echoed = self.echoes[from].receive(echo, now, has_data);
            echoed = echoed.map(|(took, prompt)| (took, prompt.filter(|_| has_data || is_reading)));
            let age = self.echoes[from].age(echo, now);
            if let Some(age) = age.filter(|_| segment.data > 0) {
                record.set_echo(age);
            }
        }
        let [heard, latest] = [!from, from].map(|side| self.send_order[side].end());
        let allowed = self.syn.client.iter().chain(&self.syn.server).filter_map(|syn| syn.mss).min();
        let system = self.system(from);
        record.set_order(self.send_order[from].send(segment, system, allowed, heard));
        self.send_order[!from].hear(segment, latest);
        let syn = u32::from(segment.flags.has(Flags::SYN));
        let offsets = self.offsets[from].get_or_insert_with(|| StreamOffsets::from(segment.sequence));
        if segment.data > 0
            && let Some(at) = offsets.of(segment.sequence.wrapping_add(syn))
        {
            self.content.add(from, at, segment.payload, segment.data);
        }
        self.cut.has_data |= segment.payload.len() < segment.data as usize;
        self.closed[from] |= segment.flags.has(Flags::FIN);
        if segment.flags.has(Flags::RST) {
            let forged = self.hop_limits[from].others(segment.hop_limit);
            let forged = forged.map(|others| Forged { hop_limit: segment.hop_limit, others });
            self.reset.get_or_insert(Reset { from, time: now, number: record.number, forged });
        } else {
            self.hop_limits[from].add(segment.hop_limit);
        }
        self.segments.push(record);
        let answer = answered.map(|took| (took, Some(took))).or(echoed);
        (true, answer.map(|(took, prompt)| Answer { side: from, took, prompt }))
    }

    /// What the length of options says that were not captured. Data carries timestamps or nothing; an acknowledgement
    /// that is longer has SACK blocks.
    fn read_cut_options(&mut self, segment: &Segment, record: &mut SegmentRecord) {
        self.cut.has_options = true;
        if segment.data > 0 {
            self.timestamps |= segment.options_len == TIMESTAMPS;
            self.cut.has_plain_data |= segment.options_len == 0;
        }
        let usual = if self.timestamps { TIMESTAMPS } else { 0 };
        if segment.data == 0 && (self.timestamps || self.cut.has_plain_data) && segment.options_len >= usual + ONE_BLOCK
        {
            record.set_sack();
        }
    }

    /// Whether the ends use selective acknowledgements: both agreed to it, or one was seen.
    pub(crate) fn has_sack(&self) -> bool {
        let is_seen = || self.cut.has_options || self.segments.iter().any(SegmentRecord::has_sack);
        // A SYN-ACK has it only if the SYN offered it (RFC 2018 §2).
        match (self.syn.client.map(|syn| syn.sack), self.syn.server.map(|syn| syn.sack)) {
            (_, Some(is_agreed)) => is_agreed,
            (Some(false), None) => false,
            (_, None) => is_seen(),
        }
    }

    /// A step of the handshake: how long it took, if it is not repeated.
    fn shake_hands(&mut self, segment: &Segment, from: Side, now: u64) -> Option<u64> {
        let asked = self.handshake[!from].take().filter(|_| segment.flags.has(Flags::ACK));
        if segment.flags.has(Flags::SYN) {
            // Which of two the answer is for is unknown.
            let is_first = self.syn[from].is_none();
            self.handshake[from] = is_first.then_some(now);
        }
        asked.map(|at| now - at)
    }
}
