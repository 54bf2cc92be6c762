//! The first look at a sender.

use std::collections::HashMap;

use capture::tcp::Flags;

use super::{
    control_frames,
    facts::{Facts, scale},
    sender_state::{LATE, SenderState, Sent},
    vantage::VantagePoint,
};
use crate::{
    collect::CapturedConnection,
    side::{PerSide, Side},
};

/// Segments over which a rate is measured: fewer, and a machine's lateness counts too much.
const STRETCH: u64 = 6;

/// What is true of what each side of `connection` sends.
pub(crate) fn facts(connection: &CapturedConnection, vantage: &VantagePoint) -> PerSide<Facts> {
    PerSide::of(|side| {
        let mut facts = Facts::from_headers(connection, side);
        if let Some(survey) = Survey::of(connection, vantage, side, &facts) {
            facts.rate =
                survey.rate(&facts, connection.syn[side].is_some() && vantage.rtt_to[side] * 8 < vantage.rtt());
            facts.chunk = survey.chunk(&facts);
            let full = |level: &u64| *level * 10 < survey.window * 9;
            facts.level = level(&survey.peaks).filter(full);
            facts.answers_acks = survey.answers_acks();
            facts.nodelay = survey.nodelay;
        }
        facts.stops_at = control_frames::window(connection, vantage, side);
        facts
    })
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
    fn of(connection: &CapturedConnection, vantage: &VantagePoint, side: Side, facts: &Facts) -> Option<Self> {
        let rtt = vantage.rtt();
        let mut seat = SenderState::new(connection.offsets[side]?, vantage, side, facts);
        let scale = scale(connection, !side);
        // At the receiver's end the data itself shows how it was delivered.
        let at_receiver = vantage.rtt_to[!side] * 4 < vantage.rtt_to[side];
        let mut survey = Self::default();
        let (mut began, mut delivered, mut small) = (seat.next, 0, None);
        // When everything was last acknowledged.
        let mut silent_since: u64 = 0;
        for segment in &connection.segments {
            if segment.from() != side {
                if segment.has(Flags::ACK) {
                    survey.window = survey.window.max(u64::from(segment.window) << scale);
                    seat.hear(segment, scale);
                }
                continue;
            }
            if segment.len == 0 {
                continue;
            }
            let went = seat.send(segment);
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
                        delivered += u64::from(segment.len);
                        survey.deliver(segment.time, delivered, 0, segment.len.into(), facts, rtt);
                        if u64::from(segment.len) < facts.mss {
                            // The sender had no more to send: the path was not full.
                            survey.stretch.clear();
                        }
                    }
                    let start = seat.next - u64::from(segment.len);
                    if data.small {
                        survey.nodelay |= small.replace(seat.next).is_some_and(|end| seat.una < end);
                    }
                    if !data.window && data.released.is_some_and(|release| release.all) {
                        survey.chunks.push(start - began);
                        began = start;
                    } else if seat.una == start {
                        if !data.window && segment.time <= silent_since + LATE * seat.prompt() {
                            survey.late_chunks.push(start - began);
                        }
                        // It went on at a time of its own, or when a window let it: no chunk ended here.
                        began = start;
                    }
                    if data.room.is_some_and(|room| segment.time > room + rtt / 8 + 1_000_000) {
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
