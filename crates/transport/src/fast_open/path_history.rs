//! The history of a path to a server: whether data in a SYN gets through, and is worth it.
//!
//! Most paths support data in a SYN, or ignore the request for it; some lose the SYN, and some lose everything after
//! it. Only an attempt shows which. So attempts are cheap, and their outcome is kept for each pair of a network and a
//! server:
//!
//! | state | next state | when |
//! |---|---|---|
//! | unknown: requests a cookie | granted | the kernel holds one |
//! | | no cookie | two requests brought none |
//! | | blackholed | a SYN with the request is not answered, and a plain one is |
//! | granted: sends data, watches for silence | works | it is acknowledged with the SYN, and a response comes |
//! | | refused | it is ignored twice in a row |
//! | | blackholed | its SYN is not answered, or silence follows, and a plain connection is answered |
//! | works: sends data, trusts the path | blackholed | two SYNs in a row are not answered (one may just be lost) |
//! | | refused | it is ignored twice in a row |
//! | no cookie, refused, blackholed: connects plainly | unknown | the pause is over |
//!
//! Failures that only forgo the gain (no cookie; data ignored) and failures that cost a wait (SYN unanswered; silence)
//! have states of their own, but the same pause: ten minutes, doubled with each failure since the last success, up to
//! two days. Linux did something similar until 2021, for all servers at once and with one hour; now its timer
//! (`net.ipv4.tcp_fastopen_blackhole_timeout_sec`) is 0, which leaves it to programs.
//!
//! There are two requests because Linux makes the second with the experimental option (kind 254, magic 0xF989) if the
//! first (kind 34) brought nothing. This overcomes a box that strips only one of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The pause after a failure: the first, and the longest.
pub(super) const FIRST: Duration = Duration::from_mins(10);
const LONGEST: Duration = Duration::from_hours(48);
/// The number of requests without a cookie, or of SYNs with ignored data, that make a failure.
const ENOUGH: u32 = 2;
/// The wait for a SYN-ACK: twice the RTT within these bounds, and the Connection Attempt Delay of RFC 8305 if the RTT
/// is unknown.
const MIN_WAIT: Duration = Duration::from_millis(50);
const MAX_WAIT: Duration = Duration::from_millis(500);
const USUAL_WAIT: Duration = Duration::from_millis(250);

/// How to begin a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// With a plain SYN.
    Plain,
    /// With a SYN that requests a cookie.
    Ask,
    /// With data in the SYN.
    Data {
        /// Whether data in a SYN has worked on this path. If not, silence after the handshake counts against it too.
        proven: bool,
    },
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The kernel holds a cookie for the server.
    Granted,
    /// A cookie was requested and none granted.
    NotGranted,
    /// The kernel no longer has the cookie.
    Forgotten,
    /// The SYN's data was acknowledged with it, and a response came.
    Answered,
    /// The SYN was acknowledged without its data: the cookie has expired, or a box removed the data. The kernel has
    /// retransmitted it; only the gain is lost.
    Ignored,
    /// A SYN with data or with the option was not answered, or refused, and a plain SYN after it was answered.
    Unanswered,
    /// The SYN's data was acknowledged, then silence followed, and a plain connection got a response.
    Swallowed,
}

/// The state of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Not tried, or long ago.
    #[default]
    Unknown,
    /// There is a cookie, not used yet.
    Granted,
    /// Data in a SYN has worked.
    Works,
    /// The server grants no cookie, or a box strips the option.
    NoCookie,
    /// There is a cookie, but data is ignored.
    Refused,
    /// SYNs with data or the option are lost, or the packets after them.
    Blackholed,
}

/// The history of one path. Times are in seconds, of any clock that continues between runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PathHistory {
    state: State,
    /// Requests without a cookie, ignored data or lost SYNs since the state was entered.
    strikes: u32,
    /// Pauses since the last success.
    failures: u32,
    /// When the pause ends.
    until: f64,
    /// The recent minimum RTT in seconds; 0 if unknown.
    rtt: f64,
    /// A hash of the cookie granted on this path; 0 if unknown.
    #[serde(default)]
    pub(super) cookie: u64,
}

impl PathHistory {
    /// How to begin the next connection.
    pub fn plan(&self, now: f64) -> Plan {
        match self.state(now) {
            State::Unknown => Plan::Ask,
            State::Granted => Plan::Data { proven: false },
            State::Works => Plan::Data { proven: true },
            State::NoCookie | State::Refused | State::Blackholed => Plan::Plain,
        }
    }

    /// The state now.
    pub fn state(&self, now: f64) -> State {
        // A clock set back must not extend a pause.
        let over = now >= self.until || self.until - now > LONGEST.as_secs_f64();
        match self.state {
            State::NoCookie | State::Refused | State::Blackholed if over => State::Unknown,
            state => state,
        }
    }

    /// How long to wait for a SYN-ACK before a plain SYN follows.
    pub fn wait(&self) -> Duration {
        match Duration::try_from_secs_f64(self.rtt * 2.0) {
            Ok(twice) if !twice.is_zero() => twice.clamp(MIN_WAIT, MAX_WAIT),
            _ => USUAL_WAIT,
        }
    }

    /// Records an RTT. The minimum decays, so that it follows a path that becomes longer.
    pub fn round_trip(&mut self, rtt: Duration) {
        let rtt = rtt.as_secs_f64();
        self.rtt = if self.rtt > 0.0 && self.rtt < rtt { self.rtt + (rtt - self.rtt) / 4.0 } else { rtt };
    }

    /// Records an event. During a pause, events from earlier connections change nothing, except a success.
    pub fn record(&mut self, event: Event, now: f64) {
        let state = self.state(now);
        if self.state != state {
            self.enter(state);
        }
        match (event, state) {
            (Event::Answered, _) => {
                self.failures = 0;
                self.enter(State::Works);
            }
            (_, State::NoCookie | State::Refused | State::Blackholed)
            | (Event::Granted, State::Granted | State::Works) => {}
            (Event::Granted, State::Unknown) => self.enter(State::Granted),
            (Event::Forgotten, _) => self.enter(State::Unknown),
            (Event::NotGranted, _) => self.strike(ENOUGH, State::NoCookie, now),
            (Event::Ignored, _) => self.strike(ENOUGH, State::Refused, now),
            // On a path that has worked, one SYN may just be lost.
            (Event::Unanswered, State::Works) => self.strike(ENOUGH, State::Blackholed, now),
            (Event::Unanswered | Event::Swallowed, _) => self.strike(1, State::Blackholed, now),
        }
    }

    fn enter(&mut self, state: State) {
        (self.state, self.strikes) = (state, 0);
    }

    fn strike(&mut self, enough: u32, then: State, now: f64) {
        self.strikes += 1;
        if self.strikes >= enough {
            let pause = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
            self.failures = self.failures.saturating_add(1);
            self.until = now + pause.as_secs_f64();
            self.enter(then);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Event; 7] = [
        Event::Granted,
        Event::NotGranted,
        Event::Forgotten,
        Event::Answered,
        Event::Ignored,
        Event::Unanswered,
        Event::Swallowed,
    ];

    fn after(events: &[Event]) -> PathHistory {
        let mut history = PathHistory::default();
        for event in events {
            history.record(*event, 0.0);
        }
        history
    }

    #[test]
    fn cookie_is_requested_twice_before_a_pause() {
        assert_eq!(after(&[]).plan(0.0), Plan::Ask);
        assert_eq!(after(&[Event::NotGranted]).plan(0.0), Plan::Ask);
        let none = after(&[Event::NotGranted; 2]);
        assert_eq!((none.plan(0.0), none.plan(FIRST.as_secs_f64())), (Plan::Plain, Plan::Ask));
    }

    #[test]
    fn new_path_pauses_after_one_lost_syn_and_proven_path_after_two() {
        assert_eq!(after(&[Event::Unanswered]).state(0.0), State::Blackholed);
        assert_eq!(after(&[Event::Granted, Event::Unanswered]).state(0.0), State::Blackholed);
        let proven = [Event::Granted, Event::Answered, Event::Unanswered];
        assert_eq!(after(&proven).plan(0.0), Plan::Data { proven: true });
        assert_eq!(after(&[&proven[..], &[Event::Unanswered]].concat()).state(0.0), State::Blackholed);
        assert_eq!(after(&[&proven[..], &[Event::Answered, Event::Unanswered]].concat()).state(0.0), State::Works);
        assert_eq!(after(&[&proven[..1], &[Event::Swallowed]].concat()).state(0.0), State::Blackholed);
    }

    #[test]
    fn failures_of_parallel_connections_count_once() {
        let (one, six) = (after(&[Event::Unanswered]), after(&[Event::Unanswered; 6]));
        assert_eq!(one, six);
    }

    #[test]
    fn pause_doubles_up_to_a_limit_and_success_resets_it() {
        let (mut history, mut now, mut pauses) = (PathHistory::default(), 0.0, Vec::new());
        for _ in 0..20 {
            history.record(Event::Unanswered, now);
            pauses.push((history.until - now) as u64);
            now = history.until;
        }
        assert_eq!(pauses[..3], [600, 1200, 2400]);
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]) && pauses[19] == LONGEST.as_secs());
        history.record(Event::Granted, now);
        history.record(Event::Answered, now);
        history.record(Event::Swallowed, now);
        assert_eq!((history.until - now) as u64, FIRST.as_secs());
    }

    #[test]
    fn wait_is_twice_the_rtt_within_limits() {
        let wait = |ms: &[u64]| {
            let mut history = PathHistory::default();
            for ms in ms {
                history.round_trip(Duration::from_millis(*ms));
            }
            history.wait().as_millis()
        };
        assert_eq!([wait(&[]), wait(&[1]), wait(&[80]), wait(&[900])], [250, 50, 160, 500]);
        assert!(wait(&[40, 80]) > 80 && wait(&[40, 80]) < 160 && wait(&[80, 40]) == 80);
    }

    proptest! {
        #[test]
        fn any_history_keeps_the_invariants(steps in prop::collection::vec((0..ALL.len(), 0f64..1e6, any::<bool>()), 0..80)) {
            let (mut history, mut now) = (PathHistory::default(), 1e9);
            for (event, later, at_once) in steps {
                now += if at_once { 0.0 } else { later };
                let (before, plan) = (history.state(now), history.plan(now));
                history.record(ALL[event], now);
                let state = history.state(now);
                // It survives serialization.
                prop_assert_eq!(history, serde_json::from_str(&serde_json::to_string(&history).unwrap()).unwrap());
                // A pause is bounded, and only a success ends it early.
                prop_assert!(history.until - now <= LONGEST.as_secs_f64());
                prop_assert_eq!(history.state(now + LONGEST.as_secs_f64() + 1.0) == state,
                    matches!(state, State::Unknown | State::Granted | State::Works));
                if plan == Plan::Plain {
                    prop_assert_eq!(state, if ALL[event] == Event::Answered { State::Works } else { before });
                }
                // Data is sent only with a cookie, and trusted only after an answer.
                if let Plan::Data { proven } = history.plan(now) {
                    prop_assert!(matches!(before, State::Granted | State::Works)
                        || matches!(ALL[event], Event::Granted | Event::Answered));
                    prop_assert!(!proven || before == State::Works || ALL[event] == Event::Answered);
                }
                prop_assert!((MIN_WAIT..=MAX_WAIT).contains(&history.wait()));
            }
        }

        #[test]
        fn clock_set_back_does_not_extend_a_pause(back in 0f64..1e9) {
            let mut history = PathHistory::default();
            history.record(Event::Unanswered, 1e9);
            let now = 1e9 - back;
            let left = (0..400).map(|hours| f64::from(hours) * 3600.0);
            let end = left.into_iter().find(|later| history.plan(now + later) == Plan::Ask);
            prop_assert!(end.is_some_and(|end| end <= LONGEST.as_secs_f64() + 7200.0), "{:?}", end);
        }
    }
}
