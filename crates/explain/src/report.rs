//! What an explanation says.

use std::{net::SocketAddr, time::Duration};

use crate::{
    acks::AckHabit,
    causes::{Cause, Times},
    collect,
    event::{Both, Event, Side},
    exchange::{self, Exchange},
    facts::Facts,
    finding::{Chunk, Evidence, Finding},
    story::Seen,
    timeline::{Piece, Timeline},
    vantage::{Place, Vantage},
    view::{Keeper, Slot},
    whatif::{self, Known, Replica},
};

/// The longest pause between two exchanges that the second is thought to have waited for, in nanoseconds. After a
/// longer one somebody came back to a connection that had been left open.
const PAUSE: u64 = 5_000_000_000;

/// The least share of a transfer's time that makes a finding.
const SHARE: f64 = 0.1;

/// The least time that makes a finding, in nanoseconds: nobody waits for less.
const LEAST: u64 = 1_000_000;

/// How many waits for a window make a habit of it: less is how TCP begins.
const HABIT: u32 = 3;

/// With how many full segments a sender may begin (RFC 6928 §2).
const INITIAL: u64 = 10;

/// How many packets a finding names.
const NAMED: usize = 5;

/// Which way most of a transfer's bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Upload,
    /// From the server to the client.
    Download,
}

/// A connection explained.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The end that opened it.
    pub client: SocketAddr,
    /// The end that was asked.
    pub server: SocketAddr,
    /// Their names, where the capture has any.
    pub names: [Option<String>; 2],
    /// The client's initial sequence number, if its SYN was captured: the same connection has the same everywhere.
    pub isn: Option<u32>,
    /// When its first packet passed, since the epoch.
    pub start: Duration,
    /// The number of its first packet.
    pub packet: u32,
    /// How many packets it has.
    pub packets: u64,
    /// The round-trip time when nothing waits.
    pub rtt: Duration,
    /// The payload of a full segment, the way of most bytes.
    pub mss: u64,
    /// The narrowest link's rate in bits per second for whole packets, the way of most bytes; where it showed.
    pub rate: Option<f64>,
    /// The size of the sender's chunks, if it waits for each to be acknowledged.
    pub chunk: Option<u64>,
    /// How far the client is from the capture, and back.
    pub(crate) to_client: Duration,
    /// When the receiver of most bytes acknowledges, where it showed.
    pub acks: Option<AckHabit>,
    /// Where it was captured.
    pub vantage: Vantage,
    /// Its transfers, in order.
    pub transfers: Vec<Transfer>,
    /// Its packets, where they are kept for a page.
    pub(crate) packets_kept: Option<Slot>,
    /// Its packets, where they are kept for a comparison.
    pub(crate) events: Vec<Event>,
}

/// A message's journey, from its first cause to its last byte.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// `PUT /file`, where it can be read.
    pub what: Box<str>,
    /// The response's status, where it can be read.
    pub status: Box<str>,
    /// Which way most of its bytes went.
    pub direction: Direction,
    /// When its first cause was, since the epoch.
    pub start: Duration,
    /// From its first cause to its last byte.
    pub duration: Duration,
    /// Bytes of data, both ways.
    pub bytes: u64,
    /// What the time was spent on; adds up to `duration`.
    pub times: Times,
    /// The cause that took most of the time of those that can be avoided.
    pub cause: Option<Cause>,
    /// What is worth a change, dearest first.
    pub findings: Vec<Finding>,
    pub(crate) replica: Option<Box<Replica>>,
}

impl Transfer {
    /// How much of its time could be avoided.
    pub fn avoidable(&self) -> Duration {
        Duration::from_nanos(self.findings.iter().map(|finding| self.times[finding.cause]).sum())
    }

    /// Bits of data per second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.duration.as_secs_f64().max(1e-9)
    }
}

impl Connection {
    /// `host22:1742 → yangtze:443`.
    pub fn ends(&self) -> String {
        self.ends_apart().join(" → ")
    }

    /// The client and the server, by name where the capture has one.
    pub(crate) fn ends_apart(&self) -> [String; 2] {
        let [client, server] = &self.names;
        let end = |name: &Option<String>, end: SocketAddr| match name {
            Some(name) => format!("{name}:{}", end.port()),
            None => end.to_string(),
        };
        [end(client, self.client), end(server, self.server)]
    }

    /// Which way most of its bytes went.
    pub fn direction(&self) -> Direction {
        let sent = |way| self.transfers.iter().filter(|one| one.direction == way).map(|one| one.bytes).sum::<u64>();
        if sent(Direction::Upload) > sent(Direction::Download) { Direction::Upload } else { Direction::Download }
    }

    /// Explains a connection; none if nothing was asked of it: late packets of one that was over before.
    pub(crate) fn explain(connection: &collect::Connection, keeper: Option<&Keeper>) -> Option<Self> {
        let opened = connection.syn.client.is_some();
        if !opened && connection.events.iter().all(|event| event.len <= 1) {
            return None;
        }
        let place = Place::of(connection);
        let facts = Facts::of(connection, &place);
        let exchanges = exchange::exchanges(connection, &place);
        let timeline = Timeline::of(connection, &place, &facts, &exchanges);
        let habits = Both::of(|side| AckHabit::of(&timeline.counts[side].acks, facts[side].mss));
        let view = View { connection, place: &place, facts: &facts, timeline: &timeline, habits };
        let transfers = view.transfers(&exchanges);
        let sent = |side| transfers.iter().filter(|one| one.main() == side).map(|one| one.bytes).sum::<u64>();
        let main = if sent(Side::Client) > sent(Side::Server) { Side::Client } else { Side::Server };
        let mut explained = Self {
            client: connection.ends.client,
            server: connection.ends.server,
            names: [None, None],
            isn: connection.syn.client.map(|syn| syn.isn),
            start: Duration::from_nanos(connection.events.first().map_or(0, |event| event.time)),
            packet: connection.events.first().map_or(0, |event| event.number),
            packets: connection.events.len() as u64,
            rtt: Duration::from_nanos(place.rtt()),
            mss: facts[main].mss,
            rate: facts[main].rate,
            chunk: facts[main].chunk,
            to_client: Duration::from_nanos(place.to.client),
            acks: habits[main],
            vantage: place.vantage,
            transfers,
            packets_kept: None,
            events: Vec::new(),
        };
        explained.packets_kept = keeper.and_then(|keeper| keeper.keep(connection, &timeline, &explained));
        Some(explained)
    }
}

impl Transfer {
    /// Who sent most of it.
    pub(crate) fn main(&self) -> Side {
        match self.direction {
            Direction::Upload => Side::Client,
            Direction::Download => Side::Server,
        }
    }
}

/// A connection and what was found out about it.
struct View<'a> {
    connection: &'a collect::Connection,
    place: &'a Place,
    facts: &'a Both<Facts>,
    timeline: &'a Timeline,
    /// How what each side sends is acknowledged.
    habits: Both<Option<AckHabit>>,
}

impl View<'_> {
    fn transfers(&self, exchanges: &[Exchange]) -> Vec<Transfer> {
        let Some(begin) = self.timeline.pieces.first().map(|piece| piece.from) else { return Vec::new() };
        if exchanges.is_empty() {
            // A connection that was opened, or tried, and carried nothing.
            return vec![self.transfer(&Exchange::default(), &Both::default(), begin, self.timeline.end())];
        }
        let mut before: Option<u64> = None;
        let mut transfers = Vec::new();
        for (exchange, seen) in exchanges.iter().zip(&self.timeline.seen) {
            let Some(first) = seen.client.first.or(seen.server.first) else { continue };
            let start = match before {
                None => begin,
                Some(end) if end <= first && first - end <= PAUSE => end,
                Some(_) => first,
            };
            let last = if seen.server.first.is_some() { &seen.server } else { &seen.client };
            let end = last.acked.unwrap_or(0).max(last.last).max(start).min(self.timeline.end().max(start));
            before = Some(end);
            transfers.push(self.transfer(exchange, seen, start, end));
        }
        // Most connections have one, and there may be very many connections.
        transfers.shrink_to_fit();
        transfers
    }

    fn transfer(&self, exchange: &Exchange, seen: &Both<Seen>, start: u64, end: u64) -> Transfer {
        let upload = seen.client.bytes > seen.server.bytes;
        let times = self.timeline.times(start, end);
        let mut transfer = Transfer {
            what: exchange.request.clone(),
            status: exchange.status.clone(),
            direction: if upload { Direction::Upload } else { Direction::Download },
            start: Duration::from_nanos(start),
            duration: Duration::from_nanos(end - start),
            bytes: seen.client.bytes + seen.server.bytes,
            times,
            cause: times.ranked().into_iter().map(|(cause, _)| cause).find(|cause| cause.is_avoidable()),
            findings: Vec::new(),
            replica: None,
        };
        let ranked = times.ranked().into_iter().filter(|(cause, _)| cause.is_avoidable());
        let began_with = self.began_with(seen, transfer.main());
        let findings = ranked.filter_map(|(cause, cost)| self.finding(&transfer, began_with, cause, cost, start, end));
        transfer.findings = findings.collect();
        transfer.findings.shrink_to_fit();
        let main = transfer.main();
        let lead = self.timeline.times(start, seen[main].first.unwrap_or(start));
        let known = Known {
            connection: self.connection,
            place: self.place,
            facts: self.facts,
            counts: &self.timeline.counts,
            seen,
            times: &transfer.times,
            habit: self.habits[main],
            main,
            start,
            lead,
        };
        transfer.replica = known.replica().map(Box::new);
        transfer
    }

    /// With how many full segments the connection's first message was begun, if they are fewer than RFC 6928 allows and
    /// more had to wait.
    fn began_with(&self, seen: &Both<Seen>, side: Side) -> Option<u64> {
        let (seen, mss) = (&seen[side], self.facts[side].mss);
        let small = seen.story.warm.is_none() && seen.story.burst < seen.bytes && seen.story.burst < INITIAL * mss;
        (small && self.facts[side].from_start).then(|| seen.story.burst.div_ceil(mss))
    }

    fn finding(
        &self,
        transfer: &Transfer,
        began_with: Option<u64>,
        cause: Cause,
        cost: u64,
        start: u64,
        end: u64,
    ) -> Option<Finding> {
        if cost < LEAST || (cost as f64) < SHARE * (end - start) as f64 {
            return None;
        }
        let mut pieces: Vec<Piece> = self.timeline.between(start, end).filter(|piece| piece.cause == cause).collect();
        pieces.sort_by_key(|piece| std::cmp::Reverse(piece.to - piece.from));
        let length = |piece: Option<&Piece>| piece.map_or(0, |piece| piece.to - piece.from);
        let longest = length(pieces.first());
        // Waits that matter: what is lost in the noise of the others tells nothing.
        let count = pieces.iter().filter(|piece| (piece.to - piece.from) * 10 >= longest).count() as u32;
        let window = matches!(cause, Cause::SlowStart | Cause::CongestionWindow | Cause::ReceiveWindow);
        // Unless it is how TCP began once.
        let small = cause == Cause::SlowStart && began_with.is_some();
        if window && !small && count < HABIT {
            return None;
        }
        let side = transfer.main();
        let counts = &self.timeline.counts[side];
        let held = counts.acks.iter().map(|acked| acked.held).filter(|held| *held > 0);
        let evidence = Evidence {
            facts: &self.facts[side],
            rtt: self.place.rtt(),
            total: cost,
            longest,
            typical: length(pieces.get(count as usize / 2)),
            count,
            held: held.clone().min().zip(held.clone().max()).map(|(least, most)| (least, most, held.count())),
            window: counts.window,
            peak: counts.peak,
            began_with,
            lost: counts.again > 0,
        };
        let mut packets: Vec<u32> = pieces.iter().take(NAMED).map(|piece| piece.number).collect();
        packets.sort_unstable();
        packets.dedup();
        let rule = cause.rule();
        Some(Finding {
            cause,
            cost: Duration::from_nanos(cost),
            packets,
            why: (rule.why)(&evidence),
            chunk: evidence.facts.chunk.map(|bytes| Chunk { bytes, segment: evidence.facts.mss }),
            what_if: whatif::remedy(cause),
        })
    }
}
