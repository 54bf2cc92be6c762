//! The evidence from which a cause describes a finding, and the fixes it returns.

use std::borrow::Cow;

use crate::infer::sender_properties::SenderProperties;

/// A change that removes a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// The system or software to change, and its end.
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

/// The sizes in bytes of the chunks whose acknowledgement a sender waits for, and of its full segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) bytes: u64,
    pub(crate) segment: u64,
}

/// What is known of a cause in a transfer. Times are in nanoseconds.
pub(crate) struct Evidence<'a> {
    /// The properties of the direction with most bytes.
    pub(crate) properties: &'a SenderProperties,
    /// The base round-trip time.
    pub(crate) rtt: u64,
    /// The time in total, of the longest interval, and of the median one.
    pub(crate) total: u64,
    pub(crate) longest: u64,
    pub(crate) typical: u64,
    /// The number of intervals.
    pub(crate) count: u32,
    /// The shortest and the longest time for which an acknowledgement was delayed, and how many were.
    pub(crate) held: Option<(u64, u64, usize)>,
    /// The largest receive window and the most data in flight, in bytes.
    pub(crate) window: u64,
    pub(crate) max_in_flight: u64,
    /// The initial window in full segments, if it was smaller than RFC 6928 allows.
    pub(crate) initial_window: Option<u64>,
    /// Whether anything was lost.
    pub(crate) has_loss: bool,
}

impl Evidence<'_> {
    /// A time in round trips, rounded; at least one.
    pub(crate) fn round_trips(&self, time: u64) -> u64 {
        (time + self.rtt / 2).checked_div(self.rtt).unwrap_or(0).max(1)
    }
}
