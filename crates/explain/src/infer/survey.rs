//! The survey: a first pass over a sender's packets, which infers its properties ([`SenderProperties`]).
//!
//! The bottleneck's rate follows from the spacing of packets that were sent back to back (packet-train dispersion;
//! Dovrolis et al., INFOCOM 2001). The other properties follow from what repeats: the bytes between two times at which
//! everything is acknowledged, the bytes in flight per round trip, and what the sender's waits end with.

use std::collections::{HashMap, VecDeque};

use capture::tcp::Flags;

use super::{
    control_frames,
    sender_properties::SenderProperties,
    sender_state::{PROGRAM_DELAY, SenderState, Sent},
    shared_link::SharedLink,
    vantage::VantagePoint,
};
use crate::{
    collect::CapturedConnection,
    side::{PerSide, Side},
};

/// The number of segments over which a rate is measured. With fewer, the sending machine's jitter counts too much.
const TRAIN: u64 = 6;

/// The width of a histogram bin, as a logarithm of the rate: 5 %.
const BIN_WIDTH: f64 = 0.05;

/// The number of bins on each side that belong to the same rate, because machines add jitter.
const HALF_PEAK: i32 = 5;

/// The smallest number of full segments that a rate is measured by.
const MIN_SEGMENTS: u64 = 6;

/// The number of full segments in a queue that show that the path is full.
const MIN_QUEUE: u64 = 4;

/// The smallest number of acknowledgements that show whether a sender stops at the window's end.
const MIN_RELEASES: u32 = 8;

/// The share of the delivered bytes that makes a rate common.
const COMMON_SHARE: f64 = 0.2;

/// The number of round trips that it takes to see that the data in flight does not grow.
const STEADY_ROUNDS: usize = 6;

/// Infers the properties of both senders of `connection`.
pub(crate) fn properties(connection: &CapturedConnection, vantage: &VantagePoint) -> PerSide<SenderProperties> {
    PerSide::of(|side| {
        let mut properties = SenderProperties::from_headers(connection, side);
        let survey = survey(connection, vantage, side, &mut properties);
        if let Some(survey) = survey {
            let is_at_sender = connection.syn[side].is_some() && vantage.rtt_to[side] * 8 < vantage.rtt();
            properties.rate = survey.rate(&properties, is_at_sender);
            properties.chunk = survey.chunk(&properties);
            let is_below_window = |flight: &u64| *flight < survey.max_window / 10 * 9;
            properties.steady_flight = steady_flight(&survey.rounds).filter(is_below_window);
            properties.is_ack_clocked = survey.is_ack_clocked();
            properties.nodelay = survey.nodelay;
        }
        properties.shared_link = SharedLink::of(connection, vantage, side);
        if let Some(link) = &properties.shared_link {
            // Between the packets of others, its own show only a part of the rate.
            properties.rate = Some(link.rate);
        }
        properties.http2_window = control_frames::flow_control_window(connection, vantage, side);
        properties
    })
}

/// The survey; decides whether a window of a guessed scale can be believed.
fn survey(
    connection: &CapturedConnection,
    vantage: &VantagePoint,
    side: Side,
    properties: &mut SenderProperties,
) -> Option<Survey> {
    if !properties.knows_window {
        let believing = SenderProperties { knows_window: true, ..properties.clone() };
        let survey = Survey::of(connection, vantage, side, &believing)?;
        if survey.stops_at_window() {
            properties.knows_window = true;
            return Some(survey);
        }
    }
    Survey::of(connection, vantage, side, properties)
}

/// A delivery: when, the total of bytes delivered so far, and when the last of them was sent, 0 if unknown. At the
/// receiver's end, that is when the acknowledgement passed which released it: the latest that its sender had received.
#[derive(Debug, Clone, Copy)]
struct Delivery {
    time: u64,
    total: u64,
    sent: u64,
    /// For how long it waited in a queue before the capture point, in nanoseconds.
    late: u64,
}

/// What the first pass over a sender's packets collects.
#[derive(Debug, Default)]
struct Survey {
    /// Bytes delivered by rate (logarithmic bins), in packet trains that the path had spread.
    spread: HashMap<i32, f64>,
    /// Bytes delivered by rate, in all packet trains.
    all: HashMap<i32, f64>,
    /// The latest deliveries: the current packet train.
    train: VecDeque<Delivery>,
    /// Bytes sent between two times at which everything was acknowledged.
    chunks: Vec<u64>,
    /// The same, where the sender took longer to go on.
    late_chunks: Vec<u64>,
    /// The most that was in flight in each round trip, if nothing was lost.
    rounds: Vec<u64>,
    /// The largest window that the receiver offered.
    max_window: u64,
    /// Whether it is known at the receiver's end when data was released.
    has_echo: bool,
    /// How often the sender went on when an acknowledgement arrived, and how often the window was full before.
    released: u32,
    released_by_window: u32,
    waits: u32,
    waits_ended_by_ack: u32,
    nodelay: bool,
}

impl Survey {
    /// One pass over the packets, which all properties share.
    fn of(
        connection: &CapturedConnection,
        vantage: &VantagePoint,
        side: Side,
        properties: &SenderProperties,
    ) -> Option<Self> {
        let rtt = vantage.rtt();
        let mut sender = SenderState::new(connection.offsets[side]?, vantage, side, properties);
        let scale = properties.window_shift;
        // At the receiver's end, the data itself shows the deliveries; elsewhere the acknowledgements do.
        let is_at_receiver = vantage.rtt_to[!side] * 4 < vantage.rtt_to[side];
        let mut survey = Self::default();
        let (mut chunk_start, mut delivered, mut last_small) = (sender.snd_nxt, 0, None);
        let mut all_acked: u64 = 0;
        for segment in &connection.segments {
            if segment.from() != side {
                if segment.has(Flags::ACK) {
                    let window = if properties.knows_window { u64::from(segment.window) << scale } else { u64::MAX };
                    survey.max_window = survey.max_window.max(window);
                    sender.expect_ack(segment, scale);
                }
                continue;
            }
            if segment.len == 0 {
                continue;
            }
            let sent = sender.send(segment);
            for ack in sender.acks.drain(..) {
                if ack.is_repair {
                    survey.train.clear();
                } else if ack.acks_all {
                    all_acked = ack.time;
                    // The path was empty, and this acknowledgement may be a delayed one: it says nothing of the rate.
                    survey.train.clear();
                } else if !is_at_receiver {
                    let delivery = Delivery {
                        time: ack.time,
                        total: ack.ack,
                        sent: ack.last_packet_sent,
                        late: ack.last_packet_late,
                    };
                    survey.deliver(delivery, ack.bytes, properties, rtt);
                }
            }
            let Some(Sent::New(context)) = sent else {
                survey.train.clear();
                continue;
            };
            if is_at_receiver {
                delivered += u64::from(segment.len);
                let sent = segment.echo().map_or(0, |age| segment.time - age);
                let delivery = Delivery { time: segment.time, total: delivered, sent, late: 0 };
                survey.deliver(delivery, segment.len.into(), properties, rtt);
                if u64::from(segment.len) < properties.mss || sent == 0 && context.receive_window.is_limiting {
                    // The sender had no more to send, or was not allowed to: the path was not full.
                    survey.train.clear();
                }
            }
            survey.has_echo |= segment.echo().is_some();
            let start = sender.snd_nxt - u64::from(segment.len);
            if context.writer.sent_small_segment {
                survey.nodelay |= last_small.replace(sender.snd_nxt).is_some_and(|end| sender.snd_una < end);
            }
            if context.released_by.is_some() {
                survey.released += 1;
                survey.released_by_window += u32::from(context.receive_window.is_limiting);
            }
            if context.receive_window.is_limiting || context.receive_window.closed.is_some() {
                // What was delivered before was spaced by the receiver.
                survey.train.clear();
            }
            let is_window_limited = context.receive_window.is_limiting;
            if !is_window_limited && context.released_by.is_some_and(|ack| ack.acks_all) {
                survey.chunks.push(start - chunk_start);
                chunk_start = start;
            } else if sender.snd_una == start {
                if !is_window_limited && segment.time <= all_acked + PROGRAM_DELAY * sender.prompt() {
                    survey.late_chunks.push(start - chunk_start);
                }
                // The sender went on by itself, or a window let it: no chunk ended here.
                chunk_start = start;
            }
            if context.room_since.is_some_and(|room| segment.time > room + rtt / 8 + 1_000_000) {
                survey.waits += 1;
                survey.waits_ended_by_ack += u32::from(context.released_by.is_some());
            }
        }
        survey.chunks.push(sender.snd_nxt - chunk_start);
        survey.rounds = sender.take_rounds();
        Some(survey)
    }

    /// Records that `bytes` were delivered.
    fn deliver(&mut self, delivery: Delivery, bytes: u64, properties: &SenderProperties, rtt: u64) {
        let Delivery { time, total, sent, late } = delivery;
        if let (Some(first), Some(last)) = (self.train.front(), self.train.back()) {
            let spacing = (last.time - first.time) / self.train.len() as u64;
            let silence = time.saturating_sub(last.time);
            if silence * 3 > rtt && silence > 8 * spacing && self.train.len() > 1 {
                // The path was empty in between.
                self.train.clear();
            }
        }
        self.train.push_back(delivery);
        let enough = TRAIN * properties.mss;
        while self.train.get(1).is_some_and(|second| total - second.total >= enough) {
            self.train.pop_front();
        }
        let Some(first) = self.train.front().copied() else { return };
        if total.saturating_sub(first.total) < enough / 2 || time <= first.time {
            return;
        }
        let payload = (total - first.total) as f64;
        let took = time - first.time;
        let rate = payload * (properties.mss + properties.headers) as f64 / properties.mss as f64 * 8e9 / took as f64;
        let bin = (rate.ln() / BIN_WIDTH) as i32;
        // A sender that is clocked by acknowledgements sends as evenly as they come, on an empty path too. So the packets
        // were closer together when they were sent, or they queued.
        let queued = if sent > 0 { rate / 8e9 * (time.saturating_sub(sent + rtt) + late) as f64 } else { 0.0 };
        if sent.saturating_sub(first.sent) * 10 <= took * 8 || queued >= (MIN_QUEUE * properties.mss) as f64 {
            *self.spread.entry(bin).or_default() += bytes as f64;
        }
        *self.all.entry(bin).or_default() += bytes as f64;
    }

    /// The highest common rate. Deliveries are slower where the path was not full, and occasionally faster where a
    /// machine was late.
    fn rate(&self, properties: &SenderProperties, is_at_sender: bool) -> Option<f64> {
        let sum = |rates: &HashMap<i32, f64>| rates.values().sum::<f64>();
        // Only packets that the path has spread show its rate; the others arrived as they were sent. A capture that
        // begins in the middle of a full path, or was taken behind the bottleneck, has no others.
        let has_spread = sum(&self.spread) * 20.0 >= sum(&self.all);
        let rates = if has_spread { &self.spread } else { &self.all };
        let total = sum(rates);
        if total < (MIN_SEGMENTS * properties.mss) as f64 || (is_at_sender || self.has_echo) && !has_spread {
            return None;
        }
        let peak = |bin: i32| (bin - HALF_PEAK..=bin + HALF_PEAK).filter_map(|bin| rates.get(&bin)).sum::<f64>();
        let mut bins: Vec<i32> = rates.keys().copied().collect();
        bins.sort_unstable();
        let first = bins.iter().rev().copied().find(|bin| peak(*bin) >= total * COMMON_SHARE)?;
        let top = (first - 2 * HALF_PEAK..=first).max_by(|a, b| peak(*a).total_cmp(&peak(*b)))?;
        // The median of the peak.
        let mut left = peak(top) / 2.0;
        let median = (top - HALF_PEAK..=top + HALF_PEAK).find(|bin| {
            left -= rates.get(bin).copied().unwrap_or(0.0);
            left <= 0.0
        })?;
        Some(((f64::from(median) + 0.5) * BIN_WIDTH).exp())
    }

    /// The size of most chunks, if the sender repeatedly sends the same number of bytes and then waits.
    fn chunk(&self, properties: &SenderProperties) -> Option<u64> {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        let sizes = || self.chunks.iter().chain(&self.late_chunks);
        for size in sizes().filter(|size| **size > properties.mss) {
            *counts.entry(*size).or_default() += 1;
        }
        let (size, count) = counts.into_iter().max_by_key(|(size, count)| (*count, *size))?;
        // A program that writes at times of its own is always late; one that waits only if its machine is busy.
        let on_time = self.chunks.iter().filter(|chunk| **chunk == size).count();
        if on_time * 3 < count as usize {
            return None;
        }
        let is_uneven = !size.is_multiple_of(properties.mss);
        let is_repeated = count >= 4 || is_uneven && count >= 2;
        (is_repeated && count as usize * 2 >= sizes().count()).then_some(size)
    }

    /// Whether the sender nearly always stops at the window's end. With a scale that is only guessed, it would do so rarely, by
    /// chance.
    fn stops_at_window(&self) -> bool {
        self.released >= MIN_RELEASES && self.released_by_window * 3 >= self.released * 2
    }

    fn is_ack_clocked(&self) -> bool {
        // Fewer than three waits say nothing.
        self.waits < 3 || self.waits_ended_by_ack * 5 >= self.waits * 3
    }
}

/// The number of bytes in flight of nearly all round trips, if it was reached early and did not grow afterwards.
fn steady_flight(rounds: &[u64]) -> Option<u64> {
    let percentile_80 = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part.get(part.len() * 4 / 5).copied()
    };
    let (first, last) = rounds.split_at(rounds.len() / 2);
    let (first, last) = (percentile_80(first)?, percentile_80(last)?);
    (rounds.len() >= STEADY_ROUNDS && last * 100 <= first * 115).then_some(first.max(last))
}
