//! Which idle connection to take.
//!
//! Idle connections to one server look alike and are not: each has a congestion window of its own at the server,
//! as wide as what it once carried in one go. On a long link, a narrow one costs a round trip for every doubling. A
//! client cannot see the server's window, but it can remember what it saw: **the most bytes that came in one burst**
//! (Patrick McManus, "Firefox Idle Connection Selection via CWND", 2011; Bugzilla 624739). A burst is what moved
//! between the first request on an idle connection and the last answer before it was idle again, so that a pipeline
//! counts as one.
//!
//! For what we send, the window is our own, and Linux tells it (`TCP_INFO`).
//!
//! Linux servers with `net.ipv4.tcp_slow_start_after_idle` at 1, the default, halve the window for every
//! retransmission timeout of idleness, down to the initial window (`tcp_cwnd_restart`, after RFC 2861): there,
//! warmth fades, and [`Choice::FadingBurst`] counts with it.

use std::time::{Duration, Instant};

use transport::Io;

/// How an idle connection is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// The one that has been idle for longest: Firefox's until 4.0.
    Oldest,
    /// The one that was used last: what most pools do.
    Newest,
    /// The one that has carried the largest burst, however long ago.
    LargestBurst,
    /// The one whose window is likely to be widest now: the largest burst, halved for each retransmission timeout
    /// that it has been idle.
    #[default]
    FadingBurst,
}

/// An own sending window, as the kernel tells it, and how much to have under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// The congestion window in bytes.
    pub(crate) bytes: u64,
    /// The retransmission timeout.
    pub(crate) rto: Duration,
    /// The round trip, smoothed, and the least of late.
    pub(crate) rtt: Duration,
    pub(crate) least_rtt: Option<Duration>,
    /// How much to ask for, and to send, before what was is done; 0 if that is not known.
    pub(crate) ahead: Moved,
}

/// What is remembered of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct History {
    burst: Moved,
    largest: Moved,
    idle_since: Option<Instant>,
    window: Option<Window>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// The window that every connection has, fresh or faded: ten segments (RFC 6928) of an Ethernet's size.
pub(crate) const INITIAL_WINDOW: u64 = 14_600;
/// Linux's least retransmission timeout; what is used where the kernel's own is not known.
const LEAST_RTO: Duration = Duration::from_millis(200);

impl Window {
    pub(crate) fn of(io: &dyn Io, ahead: Moved) -> Option<Self> {
        let tcp = io.tcp_info()?;
        Some(Self { bytes: tcp.cwnd(), rto: tcp.rto, rtt: tcp.rtt, least_rtt: tcp.min_rtt, ahead })
    }
}

impl History {
    /// A request is put on it; `idle` if it had none before.
    pub(crate) fn begins(&mut self, idle: bool) {
        if idle {
            self.burst = Moved::default();
        }
        self.idle_since = None;
    }

    /// An exchange has ended.
    pub(crate) fn moved(&mut self, sent: u64, received: u64) {
        self.burst.sent += sent;
        self.burst.received += received;
        self.largest.sent = self.largest.sent.max(self.burst.sent);
        self.largest.received = self.largest.received.max(self.burst.received);
    }

    /// Whether an exchange has ended on it.
    pub(crate) fn is_used(&self) -> bool {
        self.largest != Moved::default()
    }

    /// What the kernel says of our sending on it.
    pub(crate) fn sees(&mut self, window: Option<Window>) {
        self.window = window.or(self.window);
    }

    /// The congestion window that is likely to be used next, in bytes: ours, as the kernel says, or the server's, as
    /// the largest burst shows.
    pub(crate) fn window(&self, sending: bool) -> u64 {
        match (sending, self.window) {
            (true, Some(window)) => window.bytes,
            (true, None) => self.largest.sent,
            (false, _) => self.largest.received,
        }
    }

    /// How many bytes to have under way; none if that is not known.
    pub(crate) fn ahead(&self, sending: bool) -> Option<u64> {
        let Moved { sent, received } = self.window?.ahead;
        Some(if sending { sent } else { received }).filter(|bytes| *bytes > 0)
    }

    /// The shortest round trip; zero if that is not known.
    pub(crate) fn least_rtt(&self) -> Duration {
        self.window.and_then(|window| window.least_rtt).unwrap_or_default()
    }

    /// It has nothing more to do.
    pub(crate) fn rests(&mut self, now: Instant) {
        self.idle_since = Some(now);
    }

    /// For how long it has been idle, if it is.
    pub(crate) fn idle(&self, now: Instant) -> Option<Duration> {
        self.idle_since.map(|since| now.saturating_duration_since(since))
    }

    /// The window it is likely to have for what comes next.
    fn width(&self, sending: bool, fades: bool, now: Instant) -> u64 {
        let seen = self.window(sending);
        if !fades {
            return seen;
        }
        let rto = self.window.map_or(LEAST_RTO, |window| window.rto).max(LEAST_RTO);
        let idle = self.idle_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let halvings = (idle.as_nanos() / rto.as_nanos()).min(63) as u32;
        (seen >> halvings).max(seen.min(INITIAL_WINDOW))
    }
}

impl Choice {
    /// The best of some idle connections for a request that mostly sends, or mostly receives.
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
            history.begins(number == 0);
            history.moved(100, *bytes);
        }
        history.rests(now.checked_sub(ago).unwrap());
        history
    }

    #[test]
    fn each_choice_has_its_own_favourite() {
        let now = Instant::now();
        let ago = Duration::from_millis;
        // The seed's: the small image's connection went idle first, the large one's in between.
        let idle = [
            ("first", used(now, &[3_000], ago(900))),
            ("large", used(now, &[2_000_000], ago(500))),
            ("last", used(now, &[30_000], ago(10))),
        ];
        let pick = |choice: Choice, now| choice.among(idle.iter().map(|(name, history)| (*name, history)), false, now);
        assert_eq!(pick(Choice::Oldest, now), Some("first"));
        assert_eq!(pick(Choice::Newest, now), Some("last"));
        assert_eq!(pick(Choice::LargestBurst, now), Some("large"));
        assert_eq!(pick(Choice::FadingBurst, now), Some("large"));
        // After a minute all windows have fallen to the initial one, and the freshest is the surest.
        assert_eq!(pick(Choice::FadingBurst, now + Duration::from_mins(1)), Some("last"));
    }

    #[test]
    fn a_pipeline_is_one_burst_and_requests_in_turn_are_not() {
        let now = Instant::now();
        let pipelined = used(now, &[10_000; 5], Duration::ZERO);
        let mut in_turn = History::default();
        for _ in 0..5 {
            in_turn.begins(true);
            in_turn.moved(100, 10_000);
        }
        assert_eq!((pipelined.largest.received, in_turn.largest.received), (50_000, 10_000));
    }

    #[test]
    fn for_uploads_the_kernel_knows() {
        let now = Instant::now();
        let mut wide = used(now, &[10], Duration::from_secs(1));
        wide.window = Some(Window {
            bytes: 500_000,
            rto: Duration::from_secs(1),
            rtt: Duration::ZERO,
            least_rtt: None,
            ahead: Moved::default(),
        });
        let mut busy = used(now, &[10], Duration::ZERO);
        busy.largest.sent = 100_000;
        let idle = [("wide", wide), ("busy", busy)];
        let pick = |sending| Choice::FadingBurst.among(idle.iter().map(|(n, h)| (*n, h)), sending, now);
        assert_eq!((pick(true), pick(false)), (Some("wide"), Some("busy")));
    }
}
