//! The bottleneck's rate, from the spacing of packets that were sent back to back (packet-train dispersion; Dovrolis et
//! al., INFOCOM 2001).
//!
//! Three things look like a bottleneck and are none. A sender that is clocked by acknowledgements spaces its packets on an
//! empty path too: only packets that were closer together when they were sent, or that queued, show a rate. A sender that
//! paces spaces them as well, and away from it only the acknowledgement that released a packet is known, not when it was
//! sent. In start-up, BBR and Linux's fq pace at a rate that grows from round trip to round trip. So a rate counts there only
//! if the first flight, which is not paced, came at it or it lasted longer than a round trip, and if no round trip carried
//! more. And a machine that is late handles its packets all at once: only common rates count.

use std::collections::{HashMap, VecDeque};

use super::sender_properties::SenderProperties;

/// The number of segments over which a rate is measured. With fewer, the sending machine's jitter counts too much.
const TRAIN: u64 = 6;

/// The width of a histogram bin, as a logarithm of the rate: 5 %.
const BIN_WIDTH: f64 = 0.05;

/// The shortest time over which a rate is measured, in nanoseconds. Within less, machines handle packets in batches, and
/// what they show is how fast the machine is.
const MIN_TIME: u64 = 100_000;

/// The number of bins on each side that belong to the same rate, because machines add jitter.
const HALF_PEAK: i32 = 5;

/// The number of bins on each side of a rate that is known well.
const NARROW_PEAK: i32 = 2;

/// The smallest number of full segments that a rate is measured by.
const MIN_SEGMENTS: u64 = 6;

/// The number of segments at the start of a connection that senders do not pace, small ones included (Linux: 10).
const FIRST_SEGMENTS: u64 = 10;

/// The number of full segments in a queue that show that the path is full.
const MIN_QUEUE: u64 = 4;

/// The share of the delivered bytes that makes a rate common.
const COMMON_SHARE: f64 = 0.2;

/// The same for rates at which [`TRAIN`] segments take less than [`MIN_TIME`]. A machine comes near to them on a path without
/// a limit too, but not evenly.
const COMMON_SHARE_OF_FAST: f64 = 0.5;

/// The share of the bytes that must have been delivered at a rate to show that the path has it, in a sender's capture, even
/// if most of what it sent did not fill the path.
const SPREAD_SHARE: f64 = 0.02;

/// How many times as high a rate must be to count as another; and if it was measured by few segments.
const FASTER: f64 = 1.4;
const MUCH_FASTER: f64 = 2.0;

/// The smallest number of full segments that a rate of the first ones is measured by.
const FEW: u64 = 2;

/// The number of round trips for which no start-up has the same rate.
const LONG_TRIPS: u64 = 8;

/// A delivery: when, the total of bytes delivered so far, and when the last of them was sent, 0 if unknown. At the
/// receiver's end, that is when the acknowledgement passed which released it: the latest that its sender had received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delivery {
    pub(super) time: u64,
    pub(super) total: u64,
    pub(super) sent: u64,
    /// For how long it waited in queues, in nanoseconds, as far as that shows.
    pub(super) queued: u64,
}

/// Where the deliveries were captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// At the sender's end: it is known when each packet was sent.
    FromSender,
    /// Elsewhere, with timestamps: it is known which acknowledgement released a packet.
    WithEcho,
    /// Elsewhere, without.
    WithoutEcho,
}

/// What was delivered at a rate.
#[derive(Debug, Clone, Copy)]
struct Bin {
    bytes: f64,
    /// Those of them that queued, but were as far apart when they were sent.
    queued: f64,
    /// When it was delivered at this rate first, and last.
    first: u64,
    last: u64,
}

/// Packets that followed each other without a pause: the latest deliveries, of about [`TRAIN`] segments.
#[derive(Debug, Default)]
struct Train(VecDeque<Delivery>);

/// A train: its first delivery, the bytes of data after it, and the nanoseconds that they took.
struct Spacing {
    first: Delivery,
    bytes: u64,
    took: u64,
}

impl Spacing {
    /// In bits per second, counting whole IP packets.
    fn rate(&self, properties: &SenderProperties) -> f64 {
        self.bytes as f64 * properties.wire_factor() * 8e9 / self.took as f64
    }
}

impl Train {
    /// Adds a delivery, after a long silence as the first; none if the train is too short to show a rate.
    fn add(&mut self, delivery: Delivery, mss: u64, rtt: u64, min_time: u64) -> Option<Spacing> {
        let Delivery { time, total, .. } = delivery;
        if let (Some(first), Some(last)) = (self.0.front(), self.0.back()) {
            let spacing = (last.time - first.time) / self.0.len() as u64;
            let silence = time.saturating_sub(last.time);
            if silence * 3 > rtt && silence > 8 * spacing && self.0.len() > 1 {
                // The path was empty in between.
                self.0.clear();
            }
        }
        self.0.push_back(delivery);
        let is_long = |from: &Delivery| total - from.total >= TRAIN * mss && time.saturating_sub(from.time) >= min_time;
        while self.0.get(1).is_some_and(is_long) {
            self.0.pop_front();
        }
        let first = *self.0.front()?;
        let (bytes, took) = (total.saturating_sub(first.total), time.saturating_sub(first.time));
        (bytes >= TRAIN * mss / 2 && took >= min_time).then_some(Spacing { first, bytes, took })
    }
}

/// The rates at which packet trains were delivered.
#[derive(Debug, Default)]
pub(super) struct Dispersion {
    /// Trains that the path had spread, by rate (logarithmic bins).
    spread: HashMap<i32, Bin>,
    /// All trains.
    all: HashMap<i32, Bin>,
    /// The latest deliveries: the current train.
    train: Train,
    /// The number of segments delivered.
    segments: u64,
    /// The first ones. One that is not quite full is no interruption: the records of HTTP/2 and TLS do not fill segments. If
    /// its sender waited after it, the rate only seems lower.
    first_train: Train,
    /// The bytes of the first segments by rate.
    first_segments: HashMap<i32, f64>,
    /// The deliveries of the latest round trip.
    round_trip: VecDeque<(u64, u64)>,
    /// The most that was delivered in a round trip, in bytes of whole packets per nanosecond: the path carries that.
    most_in_round_trip: f64,
}

impl Dispersion {
    /// The next delivery does not belong to the train before it.
    pub(super) fn interrupt(&mut self) {
        self.train.0.clear();
    }

    /// Records that `bytes` were delivered.
    pub(super) fn deliver(&mut self, delivery: Delivery, bytes: u64, properties: &SenderProperties, rtt: u64) {
        let Delivery { time, total, sent, queued } = delivery;
        self.segments += bytes.div_ceil(properties.mss);
        if bytes * 2 < properties.mss {
            self.first_train.0.clear();
        } else if self.segments <= FIRST_SEGMENTS
            && let Some(spacing) = self.first_train.add(delivery, properties.mss, rtt, 1)
        {
            *self.first_segments.entry(bin_of(spacing.rate(properties))).or_default() += bytes as f64;
        }
        self.add_to_round_trip(time, total, properties, rtt);
        let Some(spacing) = self.train.add(delivery, properties.mss, rtt, MIN_TIME) else { return };
        let Spacing { first, took, .. } = spacing;
        let rate = spacing.rate(properties);
        let bin = bin_of(rate);
        let is_spread = sent.saturating_sub(first.sent) * 10 <= took * 8;
        let is_queued = rate / 8e9 * queued as f64 >= (MIN_QUEUE * properties.mss) as f64;
        let add = |rates: &mut HashMap<i32, Bin>| {
            let bin = rates.entry(bin).or_insert(Bin { bytes: 0.0, queued: 0.0, first: time, last: time });
            (bin.bytes, bin.last) = (bin.bytes + bytes as f64, time);
            bin.queued += if is_spread { 0.0 } else { bytes as f64 };
        };
        // A sender that is clocked by acknowledgements sends as evenly as they come, on an empty path too. So the packets
        // were closer together when they were sent, or they queued.
        if is_spread || is_queued {
            add(&mut self.spread);
        }
        add(&mut self.all);
    }

    fn add_to_round_trip(&mut self, time: u64, total: u64, properties: &SenderProperties, rtt: u64) {
        self.round_trip.push_back((time, total));
        while let (Some(_), Some(second)) = (self.round_trip.front(), self.round_trip.get(1))
            && time - second.0.min(time) >= rtt
        {
            self.round_trip.pop_front();
        }
        if let Some((begin, before)) = self.round_trip.front().copied()
            && time >= begin + rtt.max(1)
        {
            let rate = total.saturating_sub(before) as f64 * properties.wire_factor() / (time - begin) as f64;
            self.most_in_round_trip = self.most_in_round_trip.max(rate);
        }
    }

    /// The highest common rate. Deliveries are slower where the path was not full, and occasionally faster where a
    /// machine was late.
    pub(super) fn rate(&self, properties: &SenderProperties, seen: Seen, rtt: u64, has_loss: bool) -> Option<f64> {
        // Only packets that the path has spread show its rate; the others arrived as they were sent. A capture that
        // begins in the middle of a full path, or was taken behind the bottleneck, has no others.
        let has_spread = sum(&self.spread) * 20.0 >= sum(&self.all);
        let rates = if has_spread { &self.spread } else { &self.all };
        if seen != Seen::WithoutEcho && !has_spread {
            return None;
        }
        let is_accepted = |bin: i32| {
            let peak = || peak_bins(rates, bin);
            let first = peak().map(|bin| bin.first).min().unwrap_or(0);
            let last = peak().map(|bin| bin.last).max().unwrap_or(0);
            let lasted = last - first;
            // The initial window is sent back to back, and shows the path's rate at once.
            let at_first = (bin - HALF_PEAK..=bin + HALF_PEAK).filter_map(|bin| self.first_segments.get(&bin));
            let is_first = at_first.sum::<f64>() >= (MIN_QUEUE * properties.mss) as f64;
            let is_exceeded = || {
                let rate = rate_of(bin);
                self.most_in_round_trip * 8e9 > rate * FASTER || self.began_faster(properties, rate)
            };
            // A path with a token bucket is faster at first, too, and a machine that was late makes packets look faster. But
            // then they queue, or are lost.
            let is_full = || {
                let (all, queued) =
                    peak().fold((0.0, 0.0), |(all, queued), bin| (all + bin.bytes, queued + bin.queued));
                has_loss || queued >= COMMON_SHARE * all
            };
            seen == Seen::FromSender
                || lasted > LONG_TRIPS * rtt && (is_full() || !self.began_faster(properties, rate_of(bin)))
                || (is_first || lasted * 2 > 3 * rtt) && !is_exceeded()
        };
        highest(rates, properties, is_accepted)
    }

    /// The rate of the path, if it was once faster than `than` at the same place: in bursts, such as the initial window.
    pub(super) fn faster_rate(&self, properties: &SenderProperties, than: f64) -> Option<f64> {
        let faster = self.spread.iter().filter(|(bin, _)| rate_of(**bin) > than * FASTER);
        // Jitter alone makes packets late, and brings others together.
        let faster = faster.map(|(bin, of)| (*bin, Bin { bytes: of.bytes - of.queued, ..*of }));
        let faster: HashMap<i32, Bin> = faster.collect();
        highest(&faster, properties, |_| true)
    }

    /// Whether the first segments came clearly faster than this: then the path is.
    pub(super) fn began_faster(&self, properties: &SenderProperties, than: f64) -> bool {
        [(FASTER, MIN_QUEUE), (MUCH_FASTER, FEW)].into_iter().any(|(times, segments)| {
            let faster = self.first_segments.iter().filter(|(bin, _)| rate_of(**bin) > than * times);
            faster.map(|(_, bytes)| bytes).sum::<f64>() >= (segments * properties.mss) as f64
        })
    }

    /// Whether the path spread packets to this rate: then it is the path's. Jitter spreads them to lower ones.
    pub(super) fn has_spread_to(&self, properties: &SenderProperties, rate: f64) -> bool {
        let bin = bin_of(rate);
        let same = (bin - NARROW_PEAK..=bin + NARROW_PEAK).filter_map(|bin| self.spread.get(&bin));
        let bytes: f64 = same.map(|bin| bin.bytes).sum();
        bytes >= (2 * MIN_SEGMENTS * properties.mss) as f64 && bytes >= SPREAD_SHARE * sum(&self.all)
    }
}

fn bin_of(rate: f64) -> i32 {
    (rate.ln() / BIN_WIDTH) as i32
}

fn rate_of(bin: i32) -> f64 {
    ((f64::from(bin) + 0.5) * BIN_WIDTH).exp()
}

fn sum(rates: &HashMap<i32, Bin>) -> f64 {
    rates.values().map(|bin| bin.bytes).sum()
}

/// The bins of about the same rate.
fn peak_bins(rates: &HashMap<i32, Bin>, bin: i32) -> impl Iterator<Item = &Bin> {
    (bin - HALF_PEAK..=bin + HALF_PEAK).filter_map(|bin| rates.get(&bin))
}

/// The highest common rate that is accepted.
fn highest(rates: &HashMap<i32, Bin>, properties: &SenderProperties, is_accepted: impl Fn(i32) -> bool) -> Option<f64> {
    let total = sum(rates);
    if total < (MIN_SEGMENTS * properties.mss) as f64 {
        return None;
    }
    let peak = |bin: i32| peak_bins(rates, bin).map(|bin| bin.bytes).sum::<f64>();
    let mut bins: Vec<i32> = rates.keys().copied().collect();
    bins.sort_unstable();
    let share = |bin: i32| {
        let takes = (TRAIN * (properties.mss + properties.headers)) as f64 * 8e9 / rate_of(bin);
        if takes < MIN_TIME as f64 { COMMON_SHARE_OF_FAST } else { COMMON_SHARE }
    };
    let is_common = |bin: &i32| peak(*bin) >= total * share(*bin) && is_accepted(*bin);
    let first = bins.iter().rev().copied().find(is_common)?;
    let near = (first - 2 * HALF_PEAK..=first).filter(|bin| is_accepted(*bin));
    let top = near.max_by(|a, b| peak(*a).total_cmp(&peak(*b)))?;
    // The median of the peak.
    let mut left = peak(top) / 2.0;
    let median = (top - HALF_PEAK..=top + HALF_PEAK).find(|bin| {
        left -= rates.get(bin).map_or(0.0, |bin| bin.bytes);
        left <= 0.0
    })?;
    Some(rate_of(median))
}
