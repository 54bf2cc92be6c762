//! Findings: a cause with its evidence, its cost, what would take it away, and how long it would then take.

use std::{borrow::Cow, time::Duration};

use units::rounded::count;
pub use units::rounded::{rate as rate_text, size as bytes, time as time_text};

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

/// `1 round trip`, `3 round trips`; `once`, `twice`.
pub(crate) fn plural(number: u64, what: &str) -> String {
    match (number, what) {
        (1, "time") => "once".to_owned(),
        (2, "time") => "twice".to_owned(),
        _ => count(number, what),
    }
}

/// A time in nanoseconds, rounded: `93 ms`, `1.2 s`, `4.1 min`.
pub(crate) fn ms(nanos: u64) -> String {
    time_text(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::plural;

    #[test]
    fn counts_of_times_are_words_up_to_two() {
        assert_eq!([(1, "time"), (3, "round trip")].map(|(n, what)| plural(n, what)), ["once", "3 round trips"]);
    }
}
