//! How well pipelining has worked with a server.
//!
//! Most servers pipeline well, some badly, and a middlebox may break what the server does right. Only an attempt shows
//! which, so attempts are cheap, as in Firefox until 54: one pipeline of two requests tests a server; its success
//! allows deeper ones; each failure costs points, and too many points ban pipelining for a while. Points decay, so no
//! ban is forever. The history is kept per origin, and may be kept between runs.
//!
//! The weights follow the last Firefox code that had them (`nsHttpConnectionMgr`, before bug 1340655): a fault that can
//! give one request another's response costs days, one that only costs time costs minutes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When to pipeline requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pipelining {
    /// Never: one request at a time on a connection.
    Off,
    /// After a test, and deeper with each success.
    #[default]
    Safe,
    /// At once and deep; only faults that could mix responses up count against a server.
    Aggressive,
}

/// A fault on a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A response to another request, in the wrong order, or without a request; or a response that is not HTTP.
    Mixed,
    /// The server speaks HTTP/1.0, which has no pipelines.
    Old,
    /// A request on the pipeline got no response.
    Dropped,
    /// The connection was closed or reset with requests in flight; or a response differed from what the caller
    /// expected, perhaps because the resource has changed.
    Cut,
    /// A large response delayed those behind it.
    Large,
}

/// The points at which pipelining is banned, and below which it is tested again.
const BAN: f64 = 1000.0;
const PARDON: f64 = 500.0;
/// The time in which one point decays.
const FORGIVEN: Duration = Duration::from_secs(16);
/// The depth of a test, and of the first pipelines after one.
const TEST_DEPTH: u32 = 2;
const FIRST_DEPTH: u32 = 32;
/// The deepest. A pipeline of small files on a long link is bounded by their bytes before.
const DEEPEST: u32 = 256;

/// The history of one origin. Times are in seconds, of any clock that continues between runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PipeliningHistory {
    /// The maximum depth of a pipeline; 0 if none was tried.
    depth: u32,
    banned: bool,
    points: f64,
    at: f64,
}

impl PipeliningHistory {
    /// The maximum number of requests on a connection, and the number of connections that may have more than one.
    pub(crate) fn allowed(&self, mode: Pipelining, now: f64) -> (u32, usize) {
        let banned = self.banned && self.points_at(now) > PARDON;
        match (mode, banned) {
            (Pipelining::Off, _) | (_, true) => (1, usize::MAX),
            (Pipelining::Aggressive, false) => (DEEPEST, usize::MAX),
            (Pipelining::Safe, false) if self.is_tested() => (self.depth, usize::MAX),
            (Pipelining::Safe, false) => (TEST_DEPTH, 1),
        }
    }

    /// Whether pipelining is banned now.
    pub fn is_banned(&self, now: f64) -> bool {
        self.banned && self.points_at(now) > PARDON
    }

    /// Whether a pipeline has succeeded.
    pub fn is_tested(&self) -> bool {
        self.depth > TEST_DEPTH && !self.banned
    }

    /// A response on a pipeline of this depth came.
    pub(crate) fn succeeded(&mut self, depth: u32, now: f64) {
        self.forgive(now);
        if self.banned || depth < TEST_DEPTH {
            return;
        }
        self.depth = self.depth.max(FIRST_DEPTH).max((depth * 2).min(DEEPEST));
    }

    /// Records a fault.
    pub(crate) fn failed(&mut self, fault: Fault, mode: Pipelining, now: f64) {
        self.forgive(now);
        if mode == Pipelining::Aggressive && matches!(fault, Fault::Large | Fault::Cut) {
            return;
        }
        self.points += match fault {
            Fault::Mixed => 7000.0,
            Fault::Old => 2000.0,
            Fault::Dropped => 1000.0,
            Fault::Cut => 250.0,
            Fault::Large => 120.0,
        };
        // After a fault, pipelines are shallower.
        if fault != Fault::Large {
            self.depth = (self.depth / 2).max(TEST_DEPTH);
        }
        if self.points >= BAN {
            self.banned = true;
            self.depth = 0;
        }
    }

    fn points_at(&self, now: f64) -> f64 {
        (self.points - (now - self.at).max(0.0) / FORGIVEN.as_secs_f64()).max(0.0)
    }

    fn forgive(&mut self, now: f64) {
        self.points = self.points_at(now);
        self.at = now;
        if self.points <= PARDON {
            self.banned = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pipelines_start_with_two_requests_and_deepen_with_success() {
        let mut known = PipeliningHistory::default();
        assert_eq!(known.allowed(Pipelining::Safe, 0.0), (2, 1));
        known.succeeded(1, 0.0);
        assert_eq!(known.allowed(Pipelining::Safe, 0.0), (2, 1), "a single request is no test");
        known.succeeded(2, 0.0);
        assert_eq!(known.allowed(Pipelining::Safe, 0.0), (32, usize::MAX));
        known.succeeded(32, 0.0);
        assert_eq!(known.allowed(Pipelining::Safe, 0.0).0, 64);
    }

    #[test]
    fn mixed_up_responses_ban_pipelining_for_a_day_and_resets_do_not() {
        let mut known = PipeliningHistory::default();
        known.succeeded(2, 0.0);
        known.failed(Fault::Cut, Pipelining::Safe, 1.0);
        assert!(!known.is_banned(1.0));
        known.failed(Fault::Mixed, Pipelining::Safe, 2.0);
        for mode in [Pipelining::Off, Pipelining::Safe, Pipelining::Aggressive] {
            assert_eq!(known.allowed(mode, 24.0 * 3600.0).0, 1);
        }
        let later = 2.0 + 6_750.0 * 16.0 + 1.0;
        assert_eq!(known.allowed(Pipelining::Safe, later), (2, 1), "it is tested again");
        known.succeeded(2, later);
        assert_eq!(known.allowed(Pipelining::Safe, later).0, 32);
    }

    proptest! {
        #[test]
        fn depth_and_points_stay_within_limits(steps in prop::collection::vec((0u8..7, 0f64..1e4, any::<bool>()), 0..60)) {
            let (mut known, mut now) = (PipeliningHistory::default(), 0.0);
            for (what, later, aggressive) in steps {
                now += later;
                let mode = if aggressive { Pipelining::Aggressive } else { Pipelining::Safe };
                match what {
                    0 => known.succeeded(2, now),
                    1 => known.succeeded(known.allowed(mode, now).0, now),
                    2 => known.failed(Fault::Mixed, mode, now),
                    3 => known.failed(Fault::Old, mode, now),
                    4 => known.failed(Fault::Dropped, mode, now),
                    5 => known.failed(Fault::Cut, mode, now),
                    _ => known.failed(Fault::Large, mode, now),
                }
                let (depth, connections) = known.allowed(mode, now);
                prop_assert!((1..=DEEPEST).contains(&depth) && connections >= 1);
                prop_assert!(known.points >= 0.0 && (!known.is_banned(now) || depth == 1));
            }
        }
    }
}
