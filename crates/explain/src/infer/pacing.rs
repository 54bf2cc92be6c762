//! Pacing: a sender whose packets leave evenly, by a timer, although both windows have room.
//!
//! A rate that is set on the socket (SO_MAX_PACING_RATE), a shaper (tc-tbf(8), fq with `maxrate`) and a slow interface hold
//! packets back in the sender's own host. In a capture there, the data in flight is then the same in every round trip, as
//! with a small send buffer; but a window, of whatever kind, is refilled when acknowledgements arrive, in bursts as they
//! come. So the departures are examined in windows of a few round trips:
//!
//! - They are *even* if the bytes sent so far never stray far from a straight line. A window's worth sent in a burst per
//!   round trip does.
//! - They go *by a timer* if acknowledgements do not start them: the waits that an acknowledgement ended are no longer
//!   than the others; or the packets do not leave when it arrives, but later. A sender that paces what a window lets it
//!   send (fq with CUBIC at 1.2 times the window per round trip, BBR) still begins when an acknowledgement arrives.
//! - They were *held in the host* if they echo an older timestamp than that of the latest acknowledgement: TCP had written
//!   them before it arrived (RFC 7323 §3.2). Then they waited below TCP, in a shaper or for the interface.
//!
//! The rate must be the same in several windows. A start-up, whose rate grows, and BBR's probing do not qualify. Nor do
//! packets smaller than a segment, or pushed one by one: a program writes those at a rate of its own. A sender whose timer
//! fires within a moment of each acknowledgement, by chance, is not recognised.
//!
//! Away from the sender, a queue on the path looks the same. There, the survey asks for more: the path must have been faster
//! once, and nothing may have queued or been lost.

use capture::tcp::Flags;

use super::{sender_properties::SenderProperties, sender_state::SenderState};
use crate::segment::SegmentRecord;

/// The length of a window, in round trips.
const WINDOW_TRIPS: u64 = 2;

/// The smallest number of departures, and of full segments, in a window; and the largest number of departures.
const MIN_DEPARTURES: usize = 8;
const MIN_SEGMENTS: u64 = 32;
const MAX_DEPARTURES: usize = 8192;

/// The number of windows with the same rate that show it.
const MIN_WINDOWS: usize = 3;

/// How far apart rates may be that count as the same.
const SAME: f64 = 0.12;

/// The share of the windows with the same rate whose departures must go by a timer.
const MOST: f64 = 0.6;

/// The share of them in which packets may queue without a queue.
const FEW: f64 = 0.1;

/// The number of full segments that may leave at once, or this part of a round trip's (TCP segmentation offload).
const MAX_QUANTUM: f64 = 3.5;
const QUANTUM_PART: f64 = 0.25;

/// How soon after an acknowledgement a packet counts as released by it: this part of the wait, or this time in nanoseconds.
const PROMPT_PART: u64 = 20;
const PROMPT: u64 = 150_000;

/// How much older than the latest acknowledgement an echoed timestamp is, at least, if its packet was held in the host, in
/// nanoseconds: timestamp clocks tick once in a millisecond.
const MIN_LAG: u64 = 2_000_000;

/// The least time after which a sender goes on that had nothing in flight, if it is not a program that waits for that.
const MIN_PAUSE: u64 = 1_000_000;

/// The greatest relative deviation of such pauses from each other.
const MAX_PAUSE_DEVIATION: f64 = 0.1;

/// What evenly sent packets show.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pacing {
    /// The rate in bits per second, counting whole IP packets.
    pub(crate) rate: f64,
    /// Whether the packets waited in the sender's host below TCP: in a shaper, or for the interface.
    pub(crate) is_held_in_host: bool,
    /// Whether next to none did, or queued on the path as far as that shows.
    pub(crate) is_without_queue: bool,
    /// When, in order.
    spans: Vec<(u64, u64)>,
}

impl Pacing {
    /// Whether the sender paced at this time.
    pub(crate) fn covers(&self, now: u64) -> bool {
        let begin = self.spans.partition_point(|(_, to)| *to < now);
        self.spans.get(begin).is_some_and(|(from, _)| *from < now)
    }
}

/// A packet, or several that the network card will split, that left a sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    pub(super) at: u64,
    pub(super) len: u64,
    /// When an acknowledgement last arrived before it.
    pub(super) acked: u64,
    /// How much earlier the acknowledgement arrived whose timestamp it echoes, if that is known.
    pub(super) lag: Option<u64>,
    /// Whether nothing was in flight before it.
    pub(super) is_first: bool,
    /// Whether it is full, and whether it is pushed (PSH).
    pub(super) is_full: bool,
    pub(super) is_pushed: bool,
}

impl Departure {
    /// A packet with new data that `sender` has just sent.
    pub(super) fn of(segment: &SegmentRecord, sender: &SenderState, properties: &SenderProperties) -> Self {
        Self {
            at: segment.time,
            len: segment.len.into(),
            acked: sender.last_ack(segment.time),
            lag: sender.lag(segment),
            is_first: sender.flight() <= u64::from(segment.len),
            is_full: u64::from(segment.len) >= properties.mss,
            // Linux pushes each batch that the network card splits, whoever wrote it.
            is_pushed: segment.has(Flags::PSH) && u64::from(segment.len) <= properties.mss,
        }
    }
}

/// A window in which departures were even.
#[derive(Debug, Clone, Copy)]
struct Window {
    from: u64,
    to: u64,
    /// Payload bytes per nanosecond.
    rate: f64,
    is_by_timer: bool,
    is_held: bool,
}

/// The departures of a sender.
#[derive(Debug, Default)]
pub(super) struct Departures {
    mss: u64,
    rtt: u64,
    /// Whether they were captured away from the sender.
    pub(super) is_away: bool,
    current: Vec<Departure>,
    /// The bytes of the current departures.
    bytes: u64,
    windows: Vec<Window>,
}

impl Departures {
    pub(super) fn new(mss: u64, rtt: u64, is_away: bool) -> Self {
        Self { mss, rtt, is_away, ..Self::default() }
    }

    /// What was sent so far cannot be compared with what follows: a loss was repaired, or a window was full.
    pub(super) fn interrupt(&mut self) {
        self.current.clear();
        self.bytes = 0;
    }

    pub(super) fn add(&mut self, departure: Departure) {
        self.current.push(departure);
        self.bytes += departure.len;
        let (Some(first), Some(last)) = (self.current.first(), self.current.last()) else { return };
        let is_long = last.at - first.at >= WINDOW_TRIPS * self.rtt;
        if self.current.len() > MAX_DEPARTURES {
            self.interrupt();
        } else if is_long && self.current.len() >= MIN_DEPARTURES && self.bytes >= MIN_SEGMENTS * self.mss {
            let window = self.window();
            // The next window begins where this one ends, or where its end may be even.
            self.current.drain(..if window.is_some() { self.current.len() - 1 } else { self.current.len() / 2 });
            self.bytes = self.current.iter().map(|departure| departure.len).sum();
            self.windows.extend(window);
        }
    }

    /// The rate of the departures, if most of them went by a timer.
    pub(super) fn pacing(&self, properties: &SenderProperties) -> Option<Pacing> {
        let rate = self.common_rate()?;
        let is_same = |one: &&Window| (one.rate / rate - 1.0).abs() <= SAME;
        let windows = || self.windows.iter().filter(is_same);
        let duration =
            |is: fn(&Window) -> bool| windows().filter(|one| is(one)).map(Window::duration).sum::<u64>() as f64;
        let is_most = |is: fn(&Window) -> bool| duration(is) >= MOST * duration(|_| true);
        if windows().count() < MIN_WINDOWS || !is_most(|one| one.is_by_timer) {
            return None;
        }
        let mut spans: Vec<(u64, u64)> = windows().map(|one| (one.from, one.to)).collect();
        // The rest is too short to show a rate, but not to have it.
        let rest = self.window().filter(|rest| is_same(&rest));
        spans.extend(rest.map(|rest| (rest.from, rest.to)));
        let rate = rate * properties.wire_factor() * 8e9;
        let is_held_in_host = is_most(|one| one.is_held);
        let is_without_queue = duration(|one| one.is_held) <= FEW * duration(|_| true);
        Some(Pacing { rate, is_held_in_host, is_without_queue, spans })
    }

    /// The rate that the windows had for the longest time: the median of those that differ little.
    fn common_rate(&self) -> Option<f64> {
        let mut sorted: Vec<&Window> = self.windows.iter().collect();
        sorted.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let (mut end, mut sum, mut longest) = (0, 0, (0, 0, 0));
        for (begin, window) in sorted.iter().enumerate() {
            while let Some(next) = sorted.get(end).filter(|next| next.rate <= window.rate * (1.0 + 2.0 * SAME)) {
                (sum, end) = (sum + next.duration(), end + 1);
            }
            longest = longest.max((sum, begin, end));
            sum -= window.duration();
        }
        let (_, begin, end) = longest;
        sorted.get(begin.midpoint(end)).map(|window| window.rate)
    }

    /// The current window, if its departures are even.
    fn window(&self) -> Option<Window> {
        let (first, after) = self.current.split_first()?;
        let last = after.last()?;
        let count = |is: fn(&Departure) -> bool| after.iter().filter(|departure| is(departure)).count();
        let is_written_so = count(|departure| !departure.is_full) * 16 > after.len()
            || count(|departure| departure.is_pushed) * 20 > after.len() * 19;
        let (rate, deviation) = line(&self.current)?;
        let quantum = (MAX_QUANTUM * self.mss as f64).max(rate * self.rtt as f64 * QUANTUM_PART);
        let wait = (last.at - first.at) / after.len() as u64;
        let is_held = self.is_held(wait);
        if deviation > quantum || is_written_so && !is_held {
            return None;
        }
        let is_by_timer = is_held || is_by_timer(&self.current, wait, self.rtt);
        Some(Window { from: first.at, to: last.at, rate, is_by_timer, is_held })
    }

    /// Whether most of the current departures echo an older timestamp than the latest acknowledgement's.
    fn is_held(&self, wait: u64) -> bool {
        let mut lags: Vec<u64> = self.current.iter().filter_map(|one| one.lag).collect();
        lags.sort_unstable();
        let least = if self.is_away {
            // An acknowledgement that seems to have arrived may be the next.
            let pairs = self.current.windows(2);
            let acks = pairs.map(|pair| pair[1].acked.saturating_sub(pair[0].acked)).filter(|apart| *apart > 0);
            let (sum, count) = acks.fold((0, 0_u64), |(sum, count), apart| (sum + apart, count + 1));
            sum / count.max(1) * 3 / 2
        } else {
            wait
        };
        lags.get(lags.len() / 2).is_some_and(|lag| *lag >= MIN_LAG.max(least))
    }
}

impl Window {
    fn duration(&self) -> u64 {
        self.to - self.from
    }
}

/// The rate of departures in bytes per nanosecond by least squares, and how far they stray from it in bytes.
fn line(departures: &[Departure]) -> Option<(f64, f64)> {
    let begin = departures.first()?.at;
    let mut sent = 0;
    let points: Vec<(f64, f64)> = departures
        .iter()
        .map(|departure| {
            sent += departure.len;
            ((departure.at - begin) as f64, sent as f64)
        })
        .collect();
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (xx, xy) = points
        .iter()
        .fold((0.0, 0.0), |(xx, xy), point| (xx + (point.0 - x) * (point.0 - x), xy + (point.0 - x) * (point.1 - y)));
    let rate = xy / xx;
    let apart = points.iter().map(|point| point.1 - rate * point.0);
    let (least, most) = apart.fold((f64::MAX, f64::MIN), |(least, most), one| (least.min(one), most.max(one)));
    (rate > 0.0 && rate.is_finite()).then_some((rate, most - least))
}

/// Whether a timer starts the departures, not the arrival of acknowledgements. `wait` is the mean time between them.
fn is_by_timer(departures: &[Departure], wait: u64, rtt: u64) -> bool {
    let waits = departures.windows(2).map(|pair| (pair[1].at - pair[0].at, pair[1].acked > pair[0].at, pair[1]));
    // What leaves together leaves for one reason.
    let waits: Vec<_> = waits.filter(|(took, ..)| *took * 2 >= wait).collect();
    let with_ack = || waits.iter().filter(|(_, has_ack, _)| *has_ack);
    let mean = |took: &mut dyn Iterator<Item = u64>| {
        let (sum, count) = took.fold((0, 0_u64), |(sum, count), took| (sum + took, count + 1));
        (sum / count.max(1), count)
    };
    let (mean_with, _) = mean(&mut with_ack().map(|(took, ..)| *took));
    let (mean_without, without) = mean(&mut waits.iter().filter(|wait| !wait.1).map(|(took, ..)| *took));
    let firsts = waits.iter().filter(|(_, _, departure)| departure.is_first).count();
    if firsts * 2 > waits.len() {
        return is_regular(&waits.iter().map(|(took, ..)| *took).collect::<Vec<_>>())
            && waits
                .iter()
                .all(|(_, _, departure)| departure.at - departure.acked.min(departure.at) >= MIN_PAUSE.max(rtt / 8));
    }
    if without as usize * 4 >= waits.len() && mean_with * 10 <= mean_without * 12 {
        return true;
    }
    let is_prompt = |(took, _, departure): &&(u64, bool, Departure)| {
        departure.at.saturating_sub(departure.acked) <= (took / PROMPT_PART).max(PROMPT)
    };
    let acked = with_ack().count();
    acked > 0 && with_ack().filter(is_prompt).count() * 2 <= acked
}

/// Whether these times are nearly the same.
fn is_regular(times: &[u64]) -> bool {
    let count = times.len().max(1) as f64;
    let mean = times.iter().sum::<u64>() as f64 / count;
    let variance = times.iter().map(|time| (*time as f64 - mean).powi(2)).sum::<f64>() / count;
    variance.sqrt() <= MAX_PAUSE_DEVIATION * mean
}
