//! The link that a connection shares with others of its client.
//!
//! Connections that compete for a link look as if each had a small window or an idle sender. Together they show the link:
//! while several send at once, the sum of their rates is steady although each one's varies, and packets queue or are lost
//! (flows with a common bottleneck have delays and losses in common: Rubenstein, Kurose and Towsley, SIGMETRICS 2000; RFC
//! 8382).

use super::vantage::VantagePoint;
use crate::{
    collect::{CapturedConnection, wire_bytes},
    side::Side,
    surroundings::BIN,
};

/// The width of a window in which rates are compared, in nanoseconds, and in round trips.
const WINDOW: u64 = 100_000_000;
const WINDOW_TRIPS: u64 = 2;

/// The smallest share of the bytes of both, the connection and the others, that makes a window shared.
const MIN_SHARE: f64 = 0.1;

/// The number of shared windows that show a link.
const MIN_WINDOWS: usize = 3;

/// The share of the link's rate at which it counts as full.
const FULL: f64 = 0.8;

/// The share of the shared windows that must be full: otherwise the sum is not steady.
const STEADY: f64 = 0.5;

/// A link that was full with the packets of several connections.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SharedLink {
    /// Its rate in bits per second, counting whole IP packets.
    pub(crate) rate: f64,
    /// The share of its bytes that were others'.
    pub(crate) others: f64,
    /// When it was full with both, the connection's packets and others', in order.
    full: Vec<(u64, u64)>,
}

impl SharedLink {
    /// The link on which `side` of `connection` sends, if it is shared.
    pub(crate) fn of(connection: &CapturedConnection, vantage: &VantagePoint, side: Side) -> Option<Self> {
        let load = &connection.surroundings.load[side];
        let first = load.first()?.0;
        let width = WINDOW.max(WINDOW_TRIPS * vantage.rtt()).div_ceil(BIN);
        let last = load.last()?.0;
        let count = usize::try_from((last - first) / width + 1).ok().filter(|count| *count <= 1 << 20)?;
        let window_of = |bin: u64| usize::try_from(bin.saturating_sub(first) / width).unwrap_or(usize::MAX);
        // The bytes of all, and the connection's own.
        let mut windows = vec![(0_u64, 0_u64); count];
        for (bin, bytes) in load {
            windows[window_of(*bin)].0 += bytes;
        }
        for segment in connection.segments.iter().filter(|segment| segment.from() == side && segment.len > 0) {
            if let Some(window) = windows.get_mut(window_of(segment.time / BIN)) {
                window.1 += wire_bytes(segment.len);
            }
        }
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        let is_shared = |(all, own): &(u64, u64)| {
            share(*own, *all) >= MIN_SHARE && share(all.saturating_sub(*own), *all) >= MIN_SHARE
        };
        let mut sums: Vec<u64> = windows.iter().filter(|window| is_shared(window)).map(|(all, _)| *all).collect();
        sums.sort_unstable();
        if sums.len() < MIN_WINDOWS {
            return None;
        }
        let most = sums[sums.len() * 4 / 5];
        let is_full = |(all, own): &(u64, u64)| share(*all, most) >= FULL && share(*own, *all) < 1.0 - MIN_SHARE;
        let full_and_shared = windows.iter().filter(|window| is_shared(window) && is_full(window));
        let (count, all, own) =
            full_and_shared.fold((0, 0, 0), |(count, sum, mine), (all, own)| (count + 1, sum + all, mine + own));
        let is_steady = count as f64 >= STEADY * sums.len() as f64;
        let start_of = |index: usize| (first + index as u64 * width) * BIN;
        let span = width * BIN;
        let is_crowded = || {
            let waits = windows.iter().enumerate().filter(|(_, window)| is_shared(window) && is_full(window));
            let queued = waits.filter(|(index, _)| has_queue(connection, vantage, start_of(*index), span));
            queued.count() * 2 >= count
        };
        if !is_steady || !(is_crowded() || has_loss(connection, side)) {
            return None;
        }
        let full = windows.iter().enumerate().filter(|(_, window)| is_full(window));
        let full = full.map(|(index, _)| (start_of(index), start_of(index) + span)).collect();
        let rate = most as f64 * 8e9 / span as f64;
        Some(Self { rate, others: 1.0 - share(own, all), full })
    }

    /// Whether the link was full for most of the time between these two.
    pub(crate) fn is_full(&self, from: u64, to: u64) -> bool {
        let begin = self.full.partition_point(|(_, end)| *end <= from);
        let overlaps = self.full[begin..].iter().take_while(|(start, _)| *start < to);
        let full: u64 = overlaps.map(|(start, end)| (*end).min(to) - (*start).max(from)).sum();
        to > from && full * 2 >= to - from
    }
}

/// Whether packets queued at this time.
fn has_queue(connection: &CapturedConnection, vantage: &VantagePoint, from: u64, span: u64) -> bool {
    let extra = |side| connection.surroundings.extra_delay(side, from, from + span);
    extra(Side::Client) + extra(Side::Server) > (vantage.rtt() / 8).max(1_000_000)
}

/// Whether the receiver of this side's data reported losses.
fn has_loss(connection: &CapturedConnection, side: Side) -> bool {
    connection.segments.iter().filter(|segment| segment.from() != side && segment.has_sack()).nth(2).is_some()
}
