//! What a cause knows when it describes itself, and the fixes it returns.

use std::borrow::Cow;

use crate::infer::facts::Facts;

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

/// The size of the chunks whose acknowledgement a sender waits for, and that of its full segments, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) bytes: u64,
    pub(crate) segment: u64,
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
    pub(crate) max_in_flight: u64,
    /// With how many full segments the sender began, where that was less than RFC 6928 allows.
    pub(crate) initial_window: Option<u64>,
    /// Whether anything was lost.
    pub(crate) has_loss: bool,
}

impl Evidence<'_> {
    /// How many round trips a time is.
    pub(crate) fn round_trips(&self, time: u64) -> u64 {
        (time + self.rtt / 2).checked_div(self.rtt).unwrap_or(0).max(1)
    }
}
