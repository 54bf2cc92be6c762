//! What is known of a server's pipelining.
//!
//! Most servers pipeline well, some badly, and a box on the way may ruin what the server does right. Nobody knows
//! before trying, so trying is made cheap, as Firefox did until 54: one pipeline of two requests tests a server; its
//! success allows deeper ones; what goes wrong is paid in points, and too many points ban pipelining there for a
//! while. Points decay, so that nothing is for ever. All of it is kept per origin and may be kept across runs.
//!
//! The weights follow the last Firefox code that had them (`nsHttpConnectionMgr`, before bug 1340655): what can hand
//! one request another's answer weighs days, what merely costs time weighs minutes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How boldly requests are pipelined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pipelining {
    /// One request at a time on a connection.
    Off,
    /// After a test, and deeper with every success.
    #[default]
    Safe,
    /// At once and deep; only what could mix answers up is held against a server.
    Aggressive,
}

/// Something that happened on a pipeline, or to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An answer to another request, in the wrong order, or without a request; or what is not HTTP.
    Mixed,
    /// The server speaks HTTP/1.0, which has no pipelines.
    Old,
    /// A request on the pipeline was never answered.
    Dropped,
    /// The connection was closed or reset with requests unanswered; or an answer was not what the caller expected,
    /// which may have changed.
    Cut,
    /// An answer came that was too large for those behind it.
    Large,
}

/// Points at which a server is banned, and below which it is tested again.
const BAN: f64 = 1000.0;
const PARDON: f64 = 500.0;
/// One point is forgiven in this time.
const FORGIVEN: Duration = Duration::from_secs(16);
/// The depth of a test, and of the first pipelines after one.
const TEST_DEPTH: u32 = 2;
const FIRST_DEPTH: u32 = 32;
/// The deepest. A pipeline of small files on a long link is bounded by their bytes before.
const DEEPEST: u32 = 256;

/// What is known of one origin. Times are seconds of any clock that goes on between runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PipeliningHistory {
    /// The deepest pipeline that is allowed; 0 if none was tried.
    depth: u32,
    banned: bool,
    points: f64,
    at: f64,
}

impl PipeliningHistory {
    /// How many requests may be on one connection, and on how many connections more than one.
    pub(crate) fn allowed(&self, mode: Pipelining, now: f64) -> (u32, usize) {
        let banned = self.banned && self.points_at(now) > PARDON;
        match (mode, banned) {
            (Pipelining::Off, _) | (_, true) => (1, usize::MAX),
            (Pipelining::Aggressive, false) => (DEEPEST, usize::MAX),
            (Pipelining::Safe, false) if self.is_tested() => (self.depth, usize::MAX),
            (Pipelining::Safe, false) => (TEST_DEPTH, 1),
        }
    }

    /// Whether pipelines are not to be tried now, for what happened.
    pub fn is_banned(&self, now: f64) -> bool {
        self.banned && self.points_at(now) > PARDON
    }

    /// Whether a pipeline has succeeded.
    pub fn is_tested(&self) -> bool {
        self.depth > TEST_DEPTH && !self.banned
    }

    /// The last answer of a pipeline came, with so many requests under way when its request was sent.
    pub(crate) fn succeeded(&mut self, depth: u32, now: f64) {
        self.forgive(now);
        if self.banned || depth < TEST_DEPTH {
            return;
        }
        self.depth = self.depth.max(FIRST_DEPTH).max((depth * 2).min(DEEPEST));
    }

    /// Something went wrong.
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
        // Whoever stumbles walks slower.
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
    fn a_server_is_tested_by_one_pipeline_of_two_and_trusted_more_each_time() {
        let mut known = PipeliningHistory::default();
        assert_eq!(known.allowed(Pipelining::Safe, 0.0), (2, 1));
        known.succeeded(1, 0.0);
        assert_eq!(known.allowed(Pipelining::Safe, 0.0), (2, 1), "one request alone proves nothing");
        known.succeeded(2, 0.0);
        assert_eq!(known.allowed(Pipelining::Safe, 0.0), (32, usize::MAX));
        known.succeeded(32, 0.0);
        assert_eq!(known.allowed(Pipelining::Safe, 0.0).0, 64);
    }

    #[test]
    fn what_mixes_answers_bans_for_a_day_and_what_cuts_does_not() {
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
        fn depth_and_points_stay_in_bounds(steps in prop::collection::vec((0u8..7, 0f64..1e4, any::<bool>()), 0..60)) {
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
