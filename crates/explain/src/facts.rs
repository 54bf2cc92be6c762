//! What is true of one direction of a connection: inferred, where nobody said it.

use std::collections::HashMap;

use capture::tcp::Flags;

use crate::{
    collect::{Connection, Syn},
    event::{Both, Side},
    seat::{LATE, Seat, Sent},
    talk,
    vantage::Place,
};

/// Segments over which a rate is measured: fewer, and a machine's lateness counts too much.
const STRETCH: u64 = 6;

/// What is true of what one side sends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// Payload of a full segment, in bytes.
    pub(crate) mss: u64,
    /// Bytes of headers that each packet has on the path.
    pub(crate) headers: u64,
    /// The narrowest link's rate for whole IP packets, in bits per second.
    pub(crate) rate: Option<f64>,
    /// The size of the chunks whose acknowledgement the sender waits for.
    pub(crate) chunk: Option<u64>,
    /// What is outstanding at most in one round trip after another, without growing and without a loss: the sender's
    /// buffer, in bytes.
    pub(crate) level: Option<u64>,
    /// Whether a sender that could have sent earlier mostly goes on when an acknowledgement comes.
    pub(crate) answers_acks: bool,
    /// Whether it sends small segments before the small ones before them are acknowledged, as it would not with Nagle's
    /// algorithm (RFC 896), nor with Minshall's variant of it, which is Linux's.
    pub(crate) nodelay: bool,
    /// HTTP/2's window that stopped the sender again and again, as far as TLS hides it, in bytes.
    pub(crate) stops_at: Option<u64>,
    /// Whether the connection was seen from its beginning.
    pub(crate) from_start: bool,
}

impl Facts {
    /// For how long the narrowest link carries so many bytes of payload, in nanoseconds.
    pub(crate) fn carry(&self, payload: u64) -> u64 {
        let packets = payload.div_ceil(self.mss.max(1));
        let bits = (payload + packets * self.headers) * 8;
        self.rate.map_or(0, |rate| (bits as f64 * 1e9 / rate) as u64)
    }

    /// Whether so much outstanding payload fills the path for a round trip.
    pub(crate) fn fills(&self, flight: u64, rtt: u64) -> bool {
        self.rate.is_some() && self.carry(flight) * 10 >= rtt * 9
    }

    /// What is true of what each side of `connection` sends.
    pub(crate) fn of(connection: &Connection, place: &Place) -> Both<Self> {
        Both::of(|side| {
            let mut facts = Self::before(connection, side);
            if let Some(survey) = Survey::of(connection, place, side, &facts) {
                facts.rate = survey.rate(&facts, connection.syn[side].is_some() && place.to[side] * 8 < place.rtt());
                facts.chunk = survey.chunk(&facts);
                let full = |level: &u64| *level * 10 < survey.window * 9;
                facts.level = level(&survey.peaks).filter(full);
                facts.answers_acks = survey.answers_acks();
                facts.nodelay = survey.nodelay;
            }
            facts.stops_at = talk::window(connection, place, side);
            facts
        })
    }

    /// What can be told without following the sender.
    fn before(connection: &Connection, side: Side) -> Self {
        let headers = headers(connection);
        let mss = mss(connection, side);
        Self {
            mss,
            headers,
            rate: None,
            chunk: None,
            level: None,
            answers_acks: true,
            nodelay: false,
            stops_at: None,
            from_start: connection.syn.client.is_some() || connection.syn.server.is_some(),
        }
    }
}

/// Bytes of headers that each packet has on the path.
fn headers(connection: &Connection) -> u64 {
    let ip = if connection.ends.client.is_ipv6() { 60 } else { 40 };
    ip + options(connection)
}

/// Bytes of TCP's options that each packet has.
fn options(connection: &Connection) -> u64 {
    if connection.timestamps { 12 } else { 0 }
}

/// The payload of a full segment, as the SYNs said, or by what was sent.
pub(crate) fn mss(connection: &Connection, side: Side) -> u64 {
    let said = [side, !side].map(|side| connection.syn[side].and_then(|syn| syn.mss));
    let said = said.into_iter().flatten().min().map(|mss| u64::from(mss).saturating_sub(options(connection)));
    said.filter(|mss| *mss > 0).unwrap_or_else(|| seen_mss(connection, side, headers(connection)))
}

/// The payload of a full segment by what was sent: the largest size that came twice and fits a packet, as larger
/// ones were put together or not yet taken apart by a network card.
fn seen_mss(connection: &Connection, side: Side, headers: u64) -> u64 {
    let mut sizes: HashMap<u32, u32> = HashMap::new();
    for event in connection.events.iter().filter(|event| event.from() == side && event.len > 0) {
        if sizes.len() < 4096 {
            *sizes.entry(event.len).or_default() += 1;
        }
    }
    let fits = |len: u32| u64::from(len) + headers <= 1500;
    let twice = sizes.iter().filter(|(len, count)| **count > 1 && fits(**len)).map(|(len, _)| *len).max();
    match (twice, sizes.keys().max()) {
        (Some(len), _) => len.into(),
        (None, Some(len)) if fits(*len) => (*len).into(),
        (None, Some(_)) => 1500 - headers,
        (None, None) => 1460,
    }
}

/// What the first look at a sender collects.
#[derive(Debug, Default)]
struct Survey {
    /// How much was measured at each rate, by the logarithm of the rate: where the path had spread packets that were
    /// sent faster, and in all.
    spread: HashMap<i32, f64>,
    all: HashMap<i32, f64>,
    /// Whether the delivery was seen at the receiver.
    stretch: std::collections::VecDeque<(u64, u64, u64)>,
    /// Sizes of what was sent between two times at which all was acknowledged.
    chunks: Vec<u64>,
    /// Those after which the sender took longer to go on.
    late_chunks: Vec<u64>,
    /// The most that was outstanding in each round trip, if nothing was lost.
    peaks: Vec<u64>,
    /// The largest window that the receiver offered.
    window: u64,
    waits: u32,
    waits_ended_by_ack: u32,
    nodelay: bool,
}

/// Steps of the logarithm: 5 %.
const STEP: f64 = 0.05;

/// How many steps to each side are one rate, measured on machines that are late.
const HILL: i32 = 5;

/// How many full segments must have been measured.
const ENOUGH: u64 = 6;

/// The share of what was delivered that makes a rate common.
const COMMON: f64 = 0.2;

impl Survey {
    fn of(connection: &Connection, place: &Place, side: Side, facts: &Facts) -> Option<Self> {
        let rtt = place.rtt();
        let mut seat = Seat::new(connection.offsets[side]?, place, side, facts);
        let scale = scale(connection, !side);
        // At the receiver's end the data itself shows how it was delivered.
        let at_receiver = place.to[!side] * 4 < place.to[side];
        let mut survey = Self::default();
        let (mut began, mut delivered, mut small) = (seat.next, 0, None);
        // When everything was last acknowledged.
        let mut silent_since: u64 = 0;
        for event in &connection.events {
            if event.from() != side {
                if event.has(Flags::ACK) {
                    survey.window = survey.window.max(u64::from(event.window) << scale);
                    seat.hear(event, scale);
                }
                continue;
            }
            if event.len == 0 {
                continue;
            }
            let went = seat.send(event);
            for acked in seat.acked.drain(..) {
                if acked.all {
                    silent_since = acked.at;
                    // The path was empty, and this one may have been held back: nothing is told of the rate.
                    survey.stretch.clear();
                } else if !at_receiver {
                    survey.deliver(acked.at, acked.to, acked.sent, acked.bytes, facts, rtt);
                }
            }
            match went {
                Some(Sent::New(data)) => {
                    if at_receiver {
                        delivered += u64::from(event.len);
                        survey.deliver(event.time, delivered, 0, event.len.into(), facts, rtt);
                        if u64::from(event.len) < facts.mss {
                            // The sender had no more to send: the path was not full.
                            survey.stretch.clear();
                        }
                    }
                    let start = seat.next - u64::from(event.len);
                    if data.small {
                        survey.nodelay |= small.replace(seat.next).is_some_and(|end| seat.una < end);
                    }
                    if !data.window && data.released.is_some_and(|release| release.all) {
                        survey.chunks.push(start - began);
                        began = start;
                    } else if seat.una == start {
                        if !data.window && event.time <= silent_since + LATE * seat.prompt() {
                            survey.late_chunks.push(start - began);
                        }
                        // It went on at a time of its own, or when a window let it: no chunk ended here.
                        began = start;
                    }
                    if data.room.is_some_and(|room| event.time > room + rtt / 8 + 1_000_000) {
                        survey.waits += 1;
                        survey.waits_ended_by_ack += u32::from(data.released.is_some());
                    }
                }
                _ => survey.stretch.clear(),
            }
        }
        survey.chunks.push(seat.next - began);
        survey.peaks = seat.rounds();
        Some(survey)
    }

    /// So many bytes were delivered up to now; the last of them was sent at `sent`.
    fn deliver(&mut self, at: u64, offset: u64, sent: u64, bytes: u64, facts: &Facts, rtt: u64) {
        if let (Some(first), Some(last)) = (self.stretch.front(), self.stretch.back()) {
            let spacing = (last.0 - first.0) / self.stretch.len() as u64;
            let silence = at.saturating_sub(last.0);
            if silence * 3 > rtt && silence > 8 * spacing && self.stretch.len() > 1 {
                // The path was empty in between.
                self.stretch.clear();
            }
        }
        self.stretch.push_back((at, offset, sent));
        let enough = STRETCH * facts.mss;
        while self.stretch.get(1).is_some_and(|(_, from, _)| offset - from >= enough) {
            self.stretch.pop_front();
        }
        let Some((from, first, first_sent)) = self.stretch.front().copied() else { return };
        if offset.saturating_sub(first) < enough / 2 || at <= from {
            return;
        }
        let payload = (offset - first) as f64;
        let rate = payload * (facts.mss + facts.headers) as f64 / facts.mss as f64 * 8e9 / (at - from) as f64;
        let bin = (rate.ln() / STEP) as i32;
        let took = at - from;
        if (sent - first_sent) * 10 <= took * 8 {
            *self.spread.entry(bin).or_default() += bytes as f64;
        }
        *self.all.entry(bin).or_default() += bytes as f64;
    }

    /// The highest rate that is common: where the path was not full, deliveries are slower, and where a machine was
    /// late, faster now and then.
    fn rate(&self, facts: &Facts, whole: bool) -> Option<f64> {
        let sum = |rates: &HashMap<i32, f64>| rates.values().sum::<f64>();
        // Only packets that the path spread tell how fast it is; others came as they were sent. A capture that begins
        // in the midst of a full path, or lies behind the narrowest link, shows no others.
        let spread = sum(&self.spread) * 20.0 >= sum(&self.all);
        let rates = if spread { &self.spread } else { &self.all };
        let total = sum(rates);
        if total < (ENOUGH * facts.mss) as f64 || whole && !spread {
            return None;
        }
        let hill = |bin: i32| (bin - HILL..=bin + HILL).filter_map(|bin| rates.get(&bin)).sum::<f64>();
        let mut bins: Vec<i32> = rates.keys().copied().collect();
        bins.sort_unstable();
        let first = bins.iter().rev().copied().find(|bin| hill(*bin) >= total * COMMON)?;
        let top = (first - 2 * HILL..=first).max_by(|a, b| hill(*a).total_cmp(&hill(*b)))?;
        // The middle of the hill.
        let mut left = hill(top) / 2.0;
        let middle = (top - HILL..=top + HILL).find(|bin| {
            left -= rates.get(bin).copied().unwrap_or(0.0);
            left <= 0.0
        })?;
        Some(((f64::from(middle) + 0.5) * STEP).exp())
    }

    /// The size that most chunks have, if the sender sends the same again and again and then waits.
    fn chunk(&self, facts: &Facts) -> Option<u64> {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        let sizes = || self.chunks.iter().chain(&self.late_chunks);
        for size in sizes().filter(|size| **size > facts.mss) {
            *counts.entry(*size).or_default() += 1;
        }
        let (size, count) = counts.into_iter().max_by_key(|(size, count)| (*count, *size))?;
        // A program that writes at times of its own is always as late; one that waits is so when its machine is busy.
        let on_time = self.chunks.iter().filter(|chunk| **chunk == size).count();
        if on_time * 3 < count as usize {
            return None;
        }
        let uneven = !size.is_multiple_of(facts.mss);
        let enough = count >= 4 || uneven && count >= 2;
        (enough && count as usize * 2 >= sizes().count()).then_some(size)
    }

    fn answers_acks(&self) -> bool {
        // One wait more or less tells nothing.
        self.waits < 3 || self.waits_ended_by_ack * 5 >= self.waits * 3
    }
}

/// How many round trips it takes to see that nothing grows.
const STEADY: usize = 6;

/// What is outstanding at most in nearly all round trips, if it was so early on and did not grow afterwards.
fn level(peaks: &[u64]) -> Option<u64> {
    let high = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part.get(part.len() * 4 / 5).copied()
    };
    let (first, last) = peaks.split_at(peaks.len() / 2);
    let (first, last) = (high(first)?, high(last)?);
    (peaks.len() >= STEADY && last * 100 <= first * 115).then_some(first.max(last))
}

/// By how many bits a side's windows are shifted: as its SYN said, if both did (RFC 7323 §2.2), else just enough for
/// what was outstanding.
pub(crate) fn scale(connection: &Connection, side: Side) -> u8 {
    match (connection.syn[side], connection.syn[!side]) {
        (Some(own), Some(other)) => own.scale.filter(|_| other.scale.is_some()).unwrap_or(0),
        (Some(Syn { scale: Some(scale), .. }), None) => scale,
        _ => 0,
    }
}
