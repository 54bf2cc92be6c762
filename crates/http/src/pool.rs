//! Which idle connection to use.
//!
//! Idle connections to one server differ: each has its own congestion window at the server, as wide as what it once
//! carried in one go. On a long link, a narrow window costs a round trip per doubling. A client cannot see the server's
//! window, but it can remember **the largest burst that it received** (Patrick McManus, "Firefox Idle Connection
//! Selection via CWND", 2011; Bugzilla 624739). A burst is everything between the first request on an idle connection
//! and the last response before it is idle again, so a pipeline counts as one burst.
//!
//! For uploads the window is our own, and Linux reports it (`TCP_INFO`).
//!
//! Linux servers with `net.ipv4.tcp_slow_start_after_idle` at 1, the default, halve the window for each retransmission
//! timeout of idle time, down to the initial window (`tcp_cwnd_restart`, after RFC 2861). [`IdleChoice::FadingBurst`]
//! takes that into account.

use std::time::{Duration, Instant};

use transport::Io;

/// How to choose an idle connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IdleChoice {
    /// The longest idle one, as in Firefox until 4.0.
    Oldest,
    /// The most recently used one, as in most pools.
    Newest,
    /// The one with the largest burst, however long ago.
    LargestBurst,
    /// The one with the widest expected window: the largest burst, halved for each retransmission timeout of idle time.
    #[default]
    FadingBurst,
}

/// The kernel's congestion window for our sending, and how much to have in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// The congestion window in bytes.
    pub(crate) bytes: u64,
    /// The retransmission timeout.
    pub(crate) rto: Duration,
    /// The smoothed RTT, and the recent minimum.
    pub(crate) rtt: Duration,
    pub(crate) min_rtt: Option<Duration>,
    /// How much to have in flight, in each direction; 0 if unknown.
    pub(crate) in_flight_target: ByteCounts,
}

/// The history of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct History {
    burst: ByteCounts,
    largest: ByteCounts,
    idle_since: Option<Instant>,
    window: Option<Window>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ByteCounts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The initial window: ten segments (RFC 6928) of Ethernet's MSS.
pub(crate) const INITIAL_WINDOW: u64 = 14_600;
/// Linux's minimum retransmission timeout; the default where the actual one is unknown.
const MIN_RTO: Duration = Duration::from_millis(200);

impl Window {
    pub(crate) fn of(io: &dyn Io, in_flight_target: ByteCounts) -> Option<Self> {
        let tcp = io.tcp_info()?;
        Some(Self { bytes: tcp.cwnd(), rto: tcp.rto, rtt: tcp.rtt, min_rtt: tcp.min_rtt, in_flight_target })
    }
}

impl History {
    /// A request is sent on it; `idle` if it had none before.
    pub(crate) fn request_sent(&mut self, idle: bool) {
        if idle {
            self.burst = ByteCounts::default();
        }
        self.idle_since = None;
    }

    /// An exchange has ended.
    pub(crate) fn exchange_ended(&mut self, sent: u64, received: u64) {
        self.burst.sent += sent;
        self.burst.received += received;
        self.largest.sent = self.largest.sent.max(self.burst.sent);
        self.largest.received = self.largest.received.max(self.burst.received);
    }

    /// Whether an exchange has ended on it.
    pub(crate) fn is_used(&self) -> bool {
        self.largest != ByteCounts::default()
    }

    /// Records the kernel's window.
    pub(crate) fn record_window(&mut self, window: Option<Window>) {
        self.window = window.or(self.window);
    }

    /// The congestion window in bytes: ours, from the kernel, or the server's, estimated from the largest burst.
    pub(crate) fn window(&self, sending: bool) -> u64 {
        match (sending, self.window) {
            (true, Some(window)) => window.bytes,
            (true, None) => self.largest.sent,
            (false, _) => self.largest.received,
        }
    }

    /// How many bytes to have in flight; `None` if unknown.
    pub(crate) fn in_flight_target(&self, sending: bool) -> Option<u64> {
        let ByteCounts { sent, received } = self.window?.in_flight_target;
        Some(if sending { sent } else { received }).filter(|bytes| *bytes > 0)
    }

    /// The minimum RTT; zero if unknown.
    pub(crate) fn min_rtt(&self) -> Duration {
        self.window.and_then(|window| window.min_rtt).unwrap_or_default()
    }

    /// It becomes idle.
    pub(crate) fn became_idle(&mut self, now: Instant) {
        self.idle_since = Some(now);
    }

    /// For how long it has been idle, if it is.
    pub(crate) fn idle(&self, now: Instant) -> Option<Duration> {
        self.idle_since.map(|since| now.saturating_duration_since(since))
    }

    /// The window expected for the next exchange.
    fn width(&self, sending: bool, fades: bool, now: Instant) -> u64 {
        let seen = self.window(sending);
        if !fades {
            return seen;
        }
        let rto = self.window.map_or(MIN_RTO, |window| window.rto).max(MIN_RTO);
        let idle = self.idle_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let halvings = (idle.as_nanos() / rto.as_nanos()).min(63) as u32;
        (seen >> halvings).max(seen.min(INITIAL_WINDOW))
    }
}

impl IdleChoice {
    /// The best idle connection for a request that mostly sends, or mostly receives.
    pub(crate) fn among<'a, K: Copy>(
        self,
        idle: impl Iterator<Item = (K, &'a History)>,
        sending: bool,
        now: Instant,
    ) -> Option<K> {
        let rank = |history: &History| {
            let since = history.idle_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
            let fresh = u128::MAX - since.as_nanos();
            match self {
                Self::Oldest => (0, since.as_nanos()),
                Self::Newest => (0, fresh),
                // Between equals the freshest: it is the least likely to be closed by now.
                Self::LargestBurst => (history.width(sending, false, now), fresh),
                Self::FadingBurst => (history.width(sending, true, now), fresh),
            }
        };
        idle.max_by_key(|(_, history)| rank(history)).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(now: Instant, exchanges: &[u64], ago: Duration) -> History {
        let mut history = History::default();
        for (number, bytes) in exchanges.iter().enumerate() {
            history.request_sent(number == 0);
            history.exchange_ended(100, *bytes);
        }
        history.became_idle(now.checked_sub(ago).unwrap());
        history
    }

    #[test]
    fn each_idle_choice_prefers_another_connection() {
        let now = Instant::now();
        let ago = Duration::from_millis;
        // The connection of a small image went idle first, that of a large one next.
        let idle = [
            ("first", used(now, &[3_000], ago(900))),
            ("large", used(now, &[2_000_000], ago(500))),
            ("last", used(now, &[30_000], ago(10))),
        ];
        let pick =
            |choice: IdleChoice, now| choice.among(idle.iter().map(|(name, history)| (*name, history)), false, now);
        assert_eq!(pick(IdleChoice::Oldest, now), Some("first"));
        assert_eq!(pick(IdleChoice::Newest, now), Some("last"));
        assert_eq!(pick(IdleChoice::LargestBurst, now), Some("large"));
        assert_eq!(pick(IdleChoice::FadingBurst, now), Some("large"));
        // After a minute all windows have fallen to the initial one, and the freshest is the least likely to be closed.
        assert_eq!(pick(IdleChoice::FadingBurst, now + Duration::from_mins(1)), Some("last"));
    }

    #[test]
    fn pipeline_is_one_burst_and_sequential_requests_are_not() {
        let now = Instant::now();
        let pipelined = used(now, &[10_000; 5], Duration::ZERO);
        let mut in_turn = History::default();
        for _ in 0..5 {
            in_turn.request_sent(true);
            in_turn.exchange_ended(100, 10_000);
        }
        assert_eq!((pipelined.largest.received, in_turn.largest.received), (50_000, 10_000));
    }

    #[test]
    fn uploads_use_the_kernels_congestion_window() {
        let now = Instant::now();
        let mut wide = used(now, &[10], Duration::from_secs(1));
        wide.window = Some(Window {
            bytes: 500_000,
            rto: Duration::from_secs(1),
            rtt: Duration::ZERO,
            min_rtt: None,
            in_flight_target: ByteCounts::default(),
        });
        let mut busy = used(now, &[10], Duration::ZERO);
        busy.largest.sent = 100_000;
        let idle = [("wide", wide), ("busy", busy)];
        let pick = |sending| IdleChoice::FadingBurst.among(idle.iter().map(|(n, h)| (*n, h)), sending, now);
        assert_eq!((pick(true), pick(false)), (Some("wide"), Some("busy")));
    }
}
