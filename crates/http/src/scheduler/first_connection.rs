//! The first connection, where it may be the only one that is needed.
//!
//! Where HTTP/2 or HTTP/3 is asked for, one connection carries everything, and those that are begun beside it are
//! handshakes for nothing. But that it does shows only when it is open: the server may have HTTP/1.1 alone, where
//! several are wanted. So one goes first. When it is open the rest follows from what it is; when it has been on its way
//! for so long that a packet of its handshake must be lost, the others are no longer held back.

use std::time::{Duration, Instant};

use http::Version;

use super::{Moment, Scheduler};

/// How long others wait for the first: as long as it takes Linux to send a SYN for the third time (RFC 6298 §2.1: after
/// one second, and two more).
const WAIT: Duration = Duration::from_secs(3);

/// What is known of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum FirstConnection {
    /// Nothing, or that it multiplexes: the next one goes first as well.
    #[default]
    Unknown,
    /// It is on its way, and others wait for it until then.
    Awaited(Instant),
    /// It has been waited for long enough.
    Overdue,
    /// It carries one request at a time, and so will others.
    Serial,
}

impl Scheduler {
    /// Whether others than those on their way have to wait for what these turn out to be.
    pub(super) fn awaits_first(&mut self, now: Moment) -> bool {
        self.first_connection = match self.first_connection {
            FirstConnection::Serial => FirstConnection::Serial,
            _ if !self.limits.shares || self.serial_only || self.opening() == 0 => FirstConnection::Unknown,
            FirstConnection::Unknown => FirstConnection::Awaited(now.instant + WAIT),
            FirstConnection::Awaited(until) if until <= now.instant => FirstConnection::Overdue,
            first => first,
        };
        matches!(self.first_connection, FirstConnection::Awaited(_))
    }

    /// A connection is open.
    pub(super) fn shows(&mut self, version: Version) {
        let multiplexed = matches!(version, Version::HTTP_2 | Version::HTTP_3);
        self.first_connection = if multiplexed { FirstConnection::Unknown } else { FirstConnection::Serial };
    }

    /// When to look again at what waits, if nothing happens before.
    pub(crate) fn wake(&self) -> Option<Instant> {
        if let FirstConnection::Awaited(until) = self.first_connection { Some(until) } else { None }
    }
}
