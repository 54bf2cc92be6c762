//! The first connection, where one may be enough.
//!
//! Over HTTP/2 or HTTP/3, one connection carries everything, and handshakes of further ones are wasted. But the version
//! is known only when the connection is open: a server with HTTP/1.1 alone needs several. So one connection goes first,
//! and its version decides about the others. They stop waiting when it takes so long that a packet of its handshake
//! must be lost.

use std::time::{Duration, Instant};

use http::Version;

use super::{Moment, Scheduler};

/// How long other connections wait for the first: until Linux sends the third SYN (RFC 6298 §2.1: after one second, and
/// two more).
const WAIT: Duration = Duration::from_secs(3);

/// The state of the first connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum FirstConnection {
    /// Unknown, or multiplexed: the next connection goes first too.
    #[default]
    Unknown,
    /// It is opening, and others wait for it until then.
    Awaited(Instant),
    /// The wait is over.
    Overdue,
    /// It speaks HTTP/1.1, as others will.
    Serial,
}

impl Scheduler {
    /// Whether further connections must wait for the first.
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

    /// When to look at the queue again, if nothing happens before.
    pub(crate) fn wake(&self) -> Option<Instant> {
        if let FirstConnection::Awaited(until) = self.first_connection { Some(until) } else { None }
    }
}
