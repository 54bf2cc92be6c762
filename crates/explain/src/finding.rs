//! Findings: a cause with its evidence, its cost, what would take it away, and how long it would then take.

use std::{borrow::Cow, time::Duration};

use crate::{causes::Cause, facts::Facts, replica::WhatIf};

/// A change that would take a cause away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// For which system or software, at which end.
    pub system: &'static str,
    /// The command or setting.
    pub how: Cow<'static, str>,
    /// Its side effects; empty if none are known.
    pub but: &'static str,
}

impl Fix {
    pub(crate) fn new(system: &'static str, how: impl Into<Cow<'static, str>>, but: &'static str) -> Self {
        Self { system, how: how.into(), but }
    }
}

/// A cause that took a considerable part of a transfer's time.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What the time was spent on.
    pub cause: Cause,
    /// How much time.
    pub cost: Duration,
    /// Packets that show it: those that ended the longest waits.
    pub packets: Vec<u32>,
    /// One paragraph.
    pub why: String,
    /// The sender's chunks, which some fixes depend on.
    pub(crate) chunk: Option<Chunk>,
    /// The change that stands for taking the cause away, where it can be run again.
    pub what_if: Option<WhatIf>,
}

/// The size of the chunks whose acknowledgement a sender waits for, and that of its full segments, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) bytes: u64,
    pub(crate) segment: u64,
}

impl Finding {
    /// What would take it away.
    pub fn fixes(&self) -> Vec<Fix> {
        (self.cause.rule().fixes)(self.chunk)
    }
}

/// What is known when a cause is explained.
pub(crate) struct Evidence<'a> {
    /// Of the direction that the cause is about.
    pub(crate) facts: &'a Facts,
    /// Round-trip time in nanoseconds.
    pub(crate) rtt: u64,
    /// Time in all, the longest piece and the one in the middle, in nanoseconds.
    pub(crate) total: u64,
    pub(crate) longest: u64,
    pub(crate) typical: u64,
    /// How many pieces.
    pub(crate) count: u32,
    /// The shortest and the longest time that an acknowledgement was held, in nanoseconds, and how many were.
    pub(crate) held: Option<(u64, u64, usize)>,
    /// The largest window that the receiver offered, and the most that was outstanding, in bytes.
    pub(crate) window: u64,
    pub(crate) peak: u64,
    /// With how many full segments the sender began, where that was less than RFC 6928 allows.
    pub(crate) began_with: Option<u64>,
    /// Whether anything was lost.
    pub(crate) lost: bool,
}

impl Evidence<'_> {
    /// How many round trips a time is.
    pub(crate) fn round_trips(&self, time: u64) -> u64 {
        (time + self.rtt / 2).checked_div(self.rtt).unwrap_or(0).max(1)
    }
}

/// `1 round trip`, `3 round trips`.
pub(crate) fn plural(count: u64, what: &str) -> String {
    match (count, what) {
        (1, "time") => "once".to_owned(),
        (2, "time") => "twice".to_owned(),
        (1, _) => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// A time in nanoseconds as a person says it: `93 ms`, `1.2 s`, `4.1 min`.
pub(crate) fn ms(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => digits(seconds * 1e6, "µs"),
        1_000_000..1_000_000_000 => digits(seconds * 1e3, "ms"),
        1_000_000_000..120_000_000_000 => digits(seconds, "s"),
        _ => digits(seconds / 60.0, "min"),
    }
}

/// A time as a person says it.
pub fn time_text(time: Duration) -> String {
    ms(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Two digits, or as many as stand before the point.
fn digits(value: f64, unit: &str) -> String {
    if value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// A size as a person says it: `8217 bytes`, `64 KB`, `18 MB`.
pub fn bytes(size: u64) -> String {
    let value = size as f64;
    match size {
        0..10_000 => plural(size, "byte"),
        10_000..1_000_000 => digits(value / 1e3, "KB"),
        1_000_000..1_000_000_000 => digits(value / 1e6, "MB"),
        _ => digits(value / 1e9, "GB"),
    }
}

/// A rate in bits per second as a person says it: `73 kB/s` would hide the unit of links, so `590 kbit/s`.
pub fn rate_text(bits: f64) -> String {
    match bits {
        ..1e3 => digits(bits, "bit/s"),
        1e3..1e6 => digits(bits / 1e3, "kbit/s"),
        1e6..1e9 => digits(bits / 1e6, "Mbit/s"),
        _ => digits(bits / 1e9, "Gbit/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, ms, plural, rate_text};

    #[test]
    fn quantities_are_said_as_people_say_them() {
        assert_eq!([93_110_000, 1_250_000, 245_000_000_000].map(ms), ["93 ms", "1.2 ms", "4.1 min"]);
        assert_eq!([8217, 65_536, 18_000_000].map(bytes), ["8217 bytes", "66 KB", "18 MB"]);
        assert_eq!([9.5e6, 1e9].map(rate_text), ["9.5 Mbit/s", "1.0 Gbit/s"]);
        assert_eq!([(1, "time"), (3, "round trip")].map(|(n, what)| plural(n, what)), ["once", "3 round trips"]);
    }
}
