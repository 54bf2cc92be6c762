//! What is known of the way to a server: whether data in a SYN gets through, and is worth it.
//!
//! Most ways take a SYN with data or ignore the wish; some lose the SYN, and some lose everything after it. Nobody
//! knows before trying, so trying is made cheap, and its outcome is remembered for each pair of a network and a
//! server:
//!
//! | state | is left for | when |
//! |---|---|---|
//! | unknown: a cookie is asked for | granted | the kernel holds one |
//! | | no cookie | two asks brought none |
//! | | blackholed | a SYN that asks is not answered, and a plain one is |
//! | granted: the first data is sent, and doubted | works | it is acknowledged with the SYN, and something comes back |
//! | | refused | it is ignored twice in a row |
//! | | blackholed | its SYN is not answered, or nothing comes after it, and a plain connection is answered |
//! | works: data is sent, and trusted | blackholed | two SYNs in a row are not answered: one may just have been lost |
//! | | refused | it is ignored twice in a row |
//! | no cookie, refused, blackholed: plain connections | unknown | the pause is over |
//!
//! What costs nothing but the gain (no cookie; data ignored) and what costs a wait (a SYN unanswered; silence after
//! it) are kept apart, but for the same length of time: ten minutes, doubled with each failure since the last success,
//! up to two days. Linux did the like until 2021 for all servers of a host at once, with an hour; now its timer
//! (`net.ipv4.tcp_fastopen_blackhole_timeout_sec`) is 0, which leaves it to programs.
//!
//! Two asks, not one: Linux makes the second with the experimental option (kind 254, magic 0xF989) where the first
//! (kind 34) brought nothing, so that a box that strips only one of them is overcome.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a way that failed is left alone, at first and at most.
pub(super) const FIRST: Duration = Duration::from_mins(10);
const LONGEST: Duration = Duration::from_hours(48);
/// So many asks without a cookie, or SYNs with ignored data, in a row are enough.
const ENOUGH: u32 = 2;
/// The bounded wait: twice the RTT within these bounds, and the Connection Attempt Delay of RFC 8305 where the RTT is
/// not known.
const LEAST_WAIT: Duration = Duration::from_millis(50);
const MOST_WAIT: Duration = Duration::from_millis(500);
const USUAL_WAIT: Duration = Duration::from_millis(250);

/// How a connection is to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// By a plain SYN.
    Plain,
    /// By a SYN that asks for a cookie.
    Ask,
    /// By a SYN with data.
    Data {
        /// Whether data in a SYN has been accepted and answered on this way. If not, silence after the handshake is
        /// held against it too.
        proven: bool,
    },
}

/// What became of a beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The kernel holds a cookie for the server.
    Granted,
    /// A cookie was asked for, the handshake was done, and there is none.
    NotGranted,
    /// The kernel's cookie is gone.
    Forgotten,
    /// The data in the SYN was acknowledged with it, and an answer came.
    Answered,
    /// The SYN was answered and its data was not acknowledged: the cookie is not valid any more, or the data was
    /// taken out on the way. The kernel has sent it again, and nothing was lost but the gain.
    Ignored,
    /// A SYN with data, or with the option, was not answered (or refused), and a plain SYN after it was answered.
    Unanswered,
    /// The SYN's data was acknowledged, then nothing came, and a plain connection was answered.
    Swallowed,
}

/// What state a way is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing was tried, or long ago.
    #[default]
    Unknown,
    /// There is a cookie, not tried yet.
    Granted,
    /// Data in a SYN was accepted and answered.
    Works,
    /// The server gives no cookie, or a box takes the option away.
    NoCookie,
    /// There is a cookie, and data is ignored all the same.
    Refused,
    /// A SYN was lost for what it carried, or what came after it was.
    Blackholed,
}

/// What is known of one way. Times are seconds of any clock that goes on between runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    state: State,
    /// Asks without a cookie, ignored data or lost SYNs since the state was entered.
    strikes: u32,
    /// Times it was given up since the last success.
    failures: u32,
    /// When a state that was given up ends.
    until: f64,
    /// The shortest RTT seen lately, in seconds; 0 if none was.
    rtt: f64,
    /// A number made of the cookie that was given on this way, by which it is known again; 0 if that is not known.
    #[serde(default)]
    pub(super) cookie: u64,
}

impl Memory {
    /// How the next connection is to begin.
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
        // A clock set back must not make a while of it longer.
        let over = now >= self.until || self.until - now > LONGEST.as_secs_f64();
        match self.state {
            State::NoCookie | State::Refused | State::Blackholed if over => State::Unknown,
            state => state,
        }
    }

    /// How long a SYN that carries more than a plain one may stay unanswered before a plain one follows.
    pub fn wait(&self) -> Duration {
        match Duration::try_from_secs_f64(self.rtt * 2.0) {
            Ok(twice) if !twice.is_zero() => twice.clamp(LEAST_WAIT, MOST_WAIT),
            _ => USUAL_WAIT,
        }
    }

    /// Takes note of an RTT. Old ones fade, so that a way that has become longer is seen to be.
    pub fn round_trip(&mut self, rtt: Duration) {
        let rtt = rtt.as_secs_f64();
        self.rtt = if self.rtt > 0.0 && self.rtt < rtt { self.rtt + (rtt - self.rtt) / 4.0 } else { rtt };
    }

    /// Takes note of what happened. What a way that was given up still brings, from connections that began before,
    /// changes nothing, but for a success.
    pub fn happened(&mut self, event: Event, now: f64) {
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
            // Where it has worked, one SYN may just have been lost.
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

    fn after(events: &[Event]) -> Memory {
        let mut memory = Memory::default();
        for event in events {
            memory.happened(*event, 0.0);
        }
        memory
    }

    #[test]
    fn a_cookie_is_asked_for_twice_and_then_not_for_a_while() {
        assert_eq!(after(&[]).plan(0.0), Plan::Ask);
        assert_eq!(after(&[Event::NotGranted]).plan(0.0), Plan::Ask);
        let none = after(&[Event::NotGranted; 2]);
        assert_eq!((none.plan(0.0), none.plan(FIRST.as_secs_f64())), (Plan::Plain, Plan::Ask));
    }

    #[test]
    fn a_new_way_is_given_up_at_once_and_a_proven_one_not_for_one_lost_syn() {
        assert_eq!(after(&[Event::Unanswered]).state(0.0), State::Blackholed);
        assert_eq!(after(&[Event::Granted, Event::Unanswered]).state(0.0), State::Blackholed);
        let proven = [Event::Granted, Event::Answered, Event::Unanswered];
        assert_eq!(after(&proven).plan(0.0), Plan::Data { proven: true });
        assert_eq!(after(&[&proven[..], &[Event::Unanswered]].concat()).state(0.0), State::Blackholed);
        assert_eq!(after(&[&proven[..], &[Event::Answered, Event::Unanswered]].concat()).state(0.0), State::Works);
        assert_eq!(after(&[&proven[..1], &[Event::Swallowed]].concat()).state(0.0), State::Blackholed);
    }

    #[test]
    fn many_connections_that_fail_together_fail_once() {
        let (one, six) = (after(&[Event::Unanswered]), after(&[Event::Unanswered; 6]));
        assert_eq!(one, six);
    }

    #[test]
    fn the_pause_doubles_up_to_a_bound_and_a_success_heals() {
        let (mut memory, mut now, mut pauses) = (Memory::default(), 0.0, Vec::new());
        for _ in 0..20 {
            memory.happened(Event::Unanswered, now);
            pauses.push((memory.until - now) as u64);
            now = memory.until;
        }
        assert_eq!(pauses[..3], [600, 1200, 2400]);
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]) && pauses[19] == LONGEST.as_secs());
        memory.happened(Event::Granted, now);
        memory.happened(Event::Answered, now);
        memory.happened(Event::Swallowed, now);
        assert_eq!((memory.until - now) as u64, FIRST.as_secs());
    }

    #[test]
    fn the_wait_follows_the_round_trip_within_bounds() {
        let wait = |ms: &[u64]| {
            let mut memory = Memory::default();
            for ms in ms {
                memory.round_trip(Duration::from_millis(*ms));
            }
            memory.wait().as_millis()
        };
        assert_eq!([wait(&[]), wait(&[1]), wait(&[80]), wait(&[900])], [250, 50, 160, 500]);
        assert!(wait(&[40, 80]) > 80 && wait(&[40, 80]) < 160 && wait(&[80, 40]) == 80);
    }

    proptest! {
        #[test]
        fn no_history_leads_astray(steps in prop::collection::vec((0..ALL.len(), 0f64..1e6, any::<bool>()), 0..80)) {
            let (mut memory, mut now) = (Memory::default(), 1e9);
            for (event, later, at_once) in steps {
                now += if at_once { 0.0 } else { later };
                let (before, plan) = (memory.state(now), memory.plan(now));
                memory.happened(ALL[event], now);
                let state = memory.state(now);
                // It is written down whole.
                prop_assert_eq!(memory, serde_json::from_str(&serde_json::to_string(&memory).unwrap()).unwrap());
                // Given up is for a bounded time, in which nothing but a success counts.
                prop_assert!(memory.until - now <= LONGEST.as_secs_f64());
                prop_assert_eq!(memory.state(now + LONGEST.as_secs_f64() + 1.0) == state,
                    matches!(state, State::Unknown | State::Granted | State::Works));
                if plan == Plan::Plain {
                    prop_assert_eq!(state, if ALL[event] == Event::Answered { State::Works } else { before });
                }
                // Data is sent only with a cookie, and trusted only after an answer.
                if let Plan::Data { proven } = memory.plan(now) {
                    prop_assert!(matches!(before, State::Granted | State::Works)
                        || matches!(ALL[event], Event::Granted | Event::Answered));
                    prop_assert!(!proven || before == State::Works || ALL[event] == Event::Answered);
                }
                prop_assert!((LEAST_WAIT..=MOST_WAIT).contains(&memory.wait()));
            }
        }

        #[test]
        fn a_clock_set_back_does_not_give_a_way_up_for_longer(back in 0f64..1e9) {
            let mut memory = Memory::default();
            memory.happened(Event::Unanswered, 1e9);
            let now = 1e9 - back;
            let left = (0..400).map(|hours| f64::from(hours) * 3600.0);
            let end = left.into_iter().find(|later| memory.plan(now + later) == Plan::Ask);
            prop_assert!(end.is_some_and(|end| end <= LONGEST.as_secs_f64() + 7200.0), "{:?}", end);
        }
    }
}
