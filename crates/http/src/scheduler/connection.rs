//! A connection as its scheduler knows it: what is on it, and what more it may take.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::Shape;
use crate::{
    Class,
    messages::JobId,
    pool::{History, INITIAL_WINDOW},
};

/// A connection that takes fewer requests than this is as good as closed: its successor is opened.
const LAST_REQUESTS: u32 = 16;
/// A pipeline takes no more when it holds what is to be under way, or, of what is sent, two of our congestion windows:
/// one on its way, and one that waits for the answers. What is bound to a connection beyond that would wait for it
/// though others run idle, and the server, or our own kernel, would overrun the queue before the link. Within these
/// bounds, but for parts.
const LEAST_PIPELINE: u64 = 64 * 1024;
const MOST_PIPELINE: u64 = 1024 * 1024;
/// No connection is held to be slower than this, in bytes per second (six of them fill 130 Mbit/s): on a long way a
/// window opens for longer than it takes to see how far.
const LEAST_RATE: f64 = 2_700_000.0;
/// While other connections are on their way: two initial windows (RFC 6928), in which every exchange takes a segment.
const YOUNG_PIPELINE: u64 = 2 * INITIAL_WINDOW;
const SEGMENT: u64 = 1460;

/// A request in the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) shape: Shape,
    /// How often it was the oldest on a connection that failed.
    pub(super) blames: u32,
    pub(super) returns: u32,
    /// How many went before it that came after it.
    pub(super) passed: u32,
}

impl Waiting {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, blames: 0, returns: 0, passed: 0 }
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
    /// How many more requests the server takes on it, if it said so, and for how long it may be idle.
    pub(super) more: Option<u32>,
    pub(super) patience: Option<Duration>,
    /// It is let run empty for a request that cannot share it.
    pub(super) reserved: Option<JobId>,
    /// What keeps others waiting.
    pub(super) slow: Option<Slow>,
    /// Whether others stood behind what it has answered last, if it has answered.
    pub(super) company: Option<bool>,
    pub(super) retiring: bool,
    /// Its handshake is not done.
    pub(super) early: bool,
}

/// An answer that keeps those behind it waiting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slow {
    pub(super) job: JobId,
    /// It does not come, or has come for long; otherwise it is only known to be large.
    pub(super) stalled: bool,
    /// Those behind it were called back.
    pub(super) recalled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Opening,
    /// HTTP/1.1, or HTTP/1.0 once it has shown itself.
    Serial {
        old: bool,
    },
    /// HTTP/2 or HTTP/3, with so many requests at a time.
    Multiplexed {
        streams: usize,
    },
}

impl Connection {
    /// Whether it takes a request now, as far as the server's own word goes and nothing is in the way.
    pub(super) fn takes_more(&self, now: Instant) -> bool {
        !self.retiring && self.slow.is_none() && self.more != Some(0) && !self.is_stale(now)
    }

    /// Whether its handshake is far enough for a request.
    pub(super) fn is_open_to(&self, shape: &Shape) -> bool {
        !self.early || shape.early
    }

    /// Whether the server is about to end it for being idle. A second early, or at half the time if that is less: a
    /// request that crosses the server's farewell is lost.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        let early = |patience: Duration| patience.saturating_sub(Duration::from_secs(1).min(patience / 2));
        let idle = self.history.idle(now);
        self.patience.zip(idle).is_some_and(|(patience, idle)| idle > early(patience))
    }

    /// Whether it may hold this, too. Of parts, one may always wait behind another; that they are large is no news.
    /// They fill a link for long, where a window that has opened wide would overrun the queue: so they have a quarter
    /// less under way.
    pub(super) fn has_room(&self, shape: &Shape, others_open: bool) -> bool {
        if shape.class == Class::Part {
            let ahead = self.history.ahead(shape.sending).unwrap_or(0);
            let behind: u64 = self.jobs.iter().skip(1).map(|waiting| waiting.shape.bytes).sum();
            !others_open && (self.jobs.len() < 2 || behind + shape.bytes <= ahead / 4 * 3)
        } else if others_open {
            let all = self.jobs.iter().map(|waiting| waiting.shape.bytes).chain([shape.bytes]);
            let most = self.carries(shape.sending).clamp(YOUNG_PIPELINE, MOST_PIPELINE);
            all.map(|bytes| bytes.max(SEGMENT)).sum::<u64>() <= most
        } else {
            self.bytes() + shape.bytes <= self.carries(shape.sending).clamp(LEAST_PIPELINE, MOST_PIPELINE)
        }
    }

    /// How much a pipeline may hold, before its bounds.
    fn carries(&self, sending: bool) -> u64 {
        let windows = 2 * self.history.window(sending);
        let Some(ahead) = self.history.ahead(sending) else { return windows };
        let ahead = ahead.max((LEAST_RATE * self.history.least_rtt().as_secs_f64()) as u64);
        if sending { ahead.min(windows) } else { ahead }
    }

    /// What it has still to move.
    pub(super) fn bytes(&self) -> u64 {
        self.jobs.iter().map(|waiting| waiting.shape.bytes).sum()
    }

    /// How long it will be until this has been moved, too: in thousandths of what the connection has under way at once.
    pub(super) fn delay(&self, shape: &Shape) -> u64 {
        let bytes = self.bytes() + shape.bytes;
        bytes * 1000 / self.history.ahead(shape.sending).unwrap_or(0).max(LEAST_PIPELINE)
    }

    /// Whether it will be there for a while.
    pub(super) fn lasts(&self) -> bool {
        !self.retiring && self.more.is_none_or(|more| more >= LAST_REQUESTS)
    }

    pub(super) fn is_multiplexed(&self) -> bool {
        matches!(self.state, State::Multiplexed { .. })
    }

    pub(super) fn holds(&self, job: JobId) -> bool {
        self.jobs.iter().any(|waiting| waiting.shape.id == job)
    }

    /// Whether the job is a part of something large.
    pub(super) fn is_part(&self, job: JobId) -> bool {
        self.jobs.iter().any(|waiting| waiting.shape.id == job && waiting.shape.class == Class::Part)
    }

    pub(super) fn release(&mut self, job: JobId) -> Option<Waiting> {
        self.slow.take_if(|slow| slow.job == job);
        let at = self.jobs.iter().position(|waiting| waiting.shape.id == job)?;
        self.jobs.remove(at)
    }
}
