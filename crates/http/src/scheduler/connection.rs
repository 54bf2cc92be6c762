//! The scheduler's state of a connection: its requests in flight, and what more it can take.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::RequestProfile;
use crate::{
    Class,
    connection_messages::JobId,
    pool::{History, INITIAL_WINDOW},
};

/// A connection with fewer requests left counts as closed, and a successor is opened.
const LAST_REQUESTS: u32 = 16;
/// A pipeline is full when it holds the connection's target of bytes in flight, or, for uploads, two congestion
/// windows: one in flight, and one behind it. More would wait for this connection while others are idle, and overrun
/// the queue at the bottleneck. These are the limits, except for ranges of a large file.
const MIN_PIPELINE: u64 = 64 * 1024;
const MAX_PIPELINE: u64 = 1024 * 1024;
/// The minimum assumed rate of a connection, in bytes per second (six of them fill 130 Mbit/s): on a long path a window
/// is still opening when its rate is first measured.
const MIN_RATE: f64 = 2_700_000.0;
/// The limit while other connections are opening: two initial windows (RFC 6928); each exchange takes a segment at
/// least.
const YOUNG_PIPELINE: u64 = 2 * INITIAL_WINDOW;
const SEGMENT: u64 = 1460;

/// A request in the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) profile: RequestProfile,
    /// How often it was the oldest request on a connection that broke.
    pub(super) blames: u32,
    pub(super) returns: u32,
    /// How many later requests have overtaken it.
    pub(super) passed: u32,
    /// When it was submitted.
    pub(super) since: Instant,
    /// The timeouts that it has waited for so far.
    pub(super) silence: Duration,
}

impl Waiting {
    pub(super) fn new(profile: RequestProfile, since: Instant) -> Self {
        Self { profile, blames: 0, returns: 0, passed: 0, since, silence: Duration::ZERO }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) state: State,
    pub(super) jobs: VecDeque<Waiting>,
    pub(super) history: History,
    /// The deepest this pipeline has been since it was last idle.
    pub(super) depth: u32,
    /// The number of further requests and the idle time that the server allows, if it said so.
    pub(super) more: Option<u32>,
    pub(super) patience: Option<Duration>,
    /// The request that it is reserved for.
    pub(super) reserved: Option<JobId>,
    /// A response that delays the others.
    pub(super) slow: Option<Slow>,
    /// Whether others were behind the last response; none before the first.
    pub(super) company: Option<bool>,
    /// Whether it waits for the reader of a response.
    pub(super) is_unread: bool,
    pub(super) retiring: bool,
    /// Whether its handshake is still in progress (early data).
    pub(super) early: bool,
}

/// A response that delays those behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slow {
    pub(super) job: JobId,
    /// Whether it does not come, or takes long; otherwise it is only known to be large.
    pub(super) stalled: bool,
    /// Whether those behind it were recalled.
    pub(super) recalled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Opening,
    /// HTTP/1.1, or HTTP/1.0 (`old`) once a response shows it.
    Serial {
        old: bool,
    },
    /// HTTP/2 or HTTP/3, with this limit of concurrent requests.
    Multiplexed {
        streams: usize,
    },
}

impl Connection {
    /// Whether it can take a request now.
    pub(super) fn takes_more(&self, now: Instant) -> bool {
        !self.retiring && self.slow.is_none() && self.more != Some(0) && !self.is_stale(now)
    }

    /// Whether a request would have it, or a stream of it, for itself.
    pub(super) fn is_free(&self) -> bool {
        match self.state {
            State::Multiplexed { streams } => self.jobs.len() < streams,
            State::Serial { .. } => self.jobs.is_empty(),
            State::Opening => false,
        }
    }

    /// Whether requests wait behind a slow response, and were not recalled.
    pub(super) fn is_held_up(&self) -> bool {
        self.jobs.len() > 1 && self.slow.is_some_and(|slow| !slow.recalled)
    }

    /// Whether its handshake allows this request.
    pub(super) fn is_open_to(&self, profile: &RequestProfile) -> bool {
        !self.early || profile.may_be_early_data
    }

    /// Whether the server is about to close it as idle: one second early, or at half the time if that is less. A
    /// request that crosses the server's close is lost.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        let early = |patience: Duration| patience.saturating_sub(Duration::from_secs(1).min(patience / 2));
        let idle = self.history.idle(now);
        self.patience.zip(idle).is_some_and(|(patience, idle)| idle > early(patience))
    }

    /// Whether it has room for this request. One range of a large file may always wait behind another. Ranges fill a
    /// link for long, and a wide window would overrun the queue, so they have a quarter less in flight.
    pub(super) fn has_room(&self, profile: &RequestProfile, others_open: bool) -> bool {
        if profile.class == Class::Part {
            let in_flight_target = self.history.in_flight_target(profile.is_sending).unwrap_or(0);
            let behind: u64 = self.jobs.iter().skip(1).map(|waiting| waiting.profile.bytes).sum();
            !others_open && (self.jobs.len() < 2 || behind + profile.bytes <= in_flight_target / 4 * 3)
        } else if others_open {
            let all = self.jobs.iter().map(|waiting| waiting.profile.bytes).chain([profile.bytes]);
            let most = self.carries(profile.is_sending).clamp(YOUNG_PIPELINE, MAX_PIPELINE);
            all.map(|bytes| bytes.max(SEGMENT)).sum::<u64>() <= most
        } else {
            self.bytes() + profile.bytes <= self.carries(profile.is_sending).clamp(MIN_PIPELINE, MAX_PIPELINE)
        }
    }

    /// The pipeline's capacity in bytes, before the limits.
    fn carries(&self, sending: bool) -> u64 {
        let windows = 2 * self.history.window(sending);
        let Some(in_flight_target) = self.history.in_flight_target(sending) else { return windows };
        let in_flight_target = in_flight_target.max((MIN_RATE * self.history.min_rtt().as_secs_f64()) as u64);
        if sending { in_flight_target.min(windows) } else { in_flight_target }
    }

    /// The bytes that it still has to move.
    pub(super) fn bytes(&self) -> u64 {
        self.jobs.iter().map(|waiting| waiting.profile.bytes).sum()
    }

    /// The time until this request is done, in thousandths of the connection's bytes in flight.
    pub(super) fn delay(&self, profile: &RequestProfile) -> u64 {
        let bytes = self.bytes() + profile.bytes;
        bytes * 1000 / self.history.in_flight_target(profile.is_sending).unwrap_or(0).max(MIN_PIPELINE)
    }

    /// Whether it will last for a while.
    pub(super) fn lasts(&self) -> bool {
        !self.retiring && self.more.is_none_or(|more| more >= LAST_REQUESTS)
    }

    pub(super) fn is_multiplexed(&self) -> bool {
        matches!(self.state, State::Multiplexed { .. })
    }

    pub(super) fn holds(&self, job: JobId) -> bool {
        self.jobs.iter().any(|waiting| waiting.profile.id == job)
    }

    /// Whether the job is a part of something large.
    pub(super) fn is_part(&self, job: JobId) -> bool {
        self.jobs.iter().any(|waiting| waiting.profile.id == job && waiting.profile.class == Class::Part)
    }

    pub(super) fn release(&mut self, job: JobId) -> Option<Waiting> {
        self.slow.take_if(|slow| slow.job == job);
        let at = self.jobs.iter().position(|waiting| waiting.profile.id == job)?;
        self.jobs.remove(at)
    }
}
