//! Which request goes where: the decisions for one origin, without sockets and without a clock.
//!
//! Requests are bound late: each waits here until a connection can take it, instead of waiting behind a slow one. In
//! order of preference a request goes
//! 1. to an idle connection, chosen by the pool's [`IdleChoice`];
//! 2. onto a pipeline, the one that will finish it first;
//! 3. into the queue, and a new connection is opened for it if the limit allows.
//!
//! 2 and 3 are not exclusive: a new connection takes round trips to open. The first connection that can take the
//! request gets it.
//!
//! # What may share a pipeline
//! RFC 9112 §9.3.2 lets a client pipeline idempotent requests, and nothing behind a request that is not idempotent
//! until its response has come. We apply that in both directions: a request that is not idempotent goes alone. Unsafe
//! methods are pipelined if the caller allows it, and not among safe ones: a stray response to a `GET` must not tell a
//! `PUT` of success. Large exchanges go alone; but ranges of a large file may queue behind one another, so that a
//! connection never runs dry between two. And two requests never share a connection if their responses could be
//! confused (`response_marks`).
//!
//! A *follow-up* goes right behind its leader, on the same connection, and asks for the leader's outcome in the same
//! round trip ([`crate::FollowUp`]). Its response cannot be confused with a leader's, so it may stand among them. It is
//! sent once and never without its leader; otherwise it fails, and the caller asks again.
//!
//! `plan` decides where requests go, `concurrency` how many connections are used, `first_connection` when one goes
//! ahead of the others, `requeue` what becomes of requests that come back, and `connection` is the state of a
//! connection.

mod concurrency;
mod connection;
mod connection_map;
mod first_connection;
mod plan;
mod requeue;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use http::Version;

use self::{
    concurrency::Concurrency,
    connection::{Connection, Slow, State, Waiting},
    connection_map::ConnectionMap,
    first_connection::FirstConnection,
};
use crate::{
    Cause, Class,
    connection_messages::{ConnectionId, JobId, ResponseHead, Sent},
    pipelining_history::{Fault, Pipelining, PipeliningHistory},
    pool::{IdleChoice, Window},
    response_marks::{Marks, Shown},
};

/// The number of reconnects to a server that was reachable before, with a pause that doubles: six seconds in all.
const RECONNECTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// A larger response delays those behind it.
pub(crate) const LARGE: u64 = 300_000;

/// The scheduler's limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum number of connections.
    pub(crate) connections: usize,
    /// How many connections do not count while they wait for the reader of a response.
    pub(crate) unread_connections: usize,
    pub(crate) pipelining: Pipelining,
    pub(crate) choice: IdleChoice,
    /// Whether one connection is expected to carry all requests.
    pub(crate) shares: bool,
    /// How long a request may go unanswered in all.
    pub(crate) patience: Option<Duration>,
}

/// A request, as far as scheduling is concerned.
#[expect(clippy::struct_excessive_bools, reason = "they are six independent facts")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestProfile {
    pub(crate) id: JobId,
    /// Whether it may be sent twice: it is idempotent, and its body is repeatable.
    pub(crate) is_repeatable: bool,
    /// Whether it may be sent again when the server was silent until the timeout, and may still carry it out.
    pub(crate) repeats_after_silence: bool,
    /// Whether it may share a connection with others.
    pub(crate) is_pipelinable: bool,
    /// Whether its method is safe.
    pub(crate) is_safe: bool,
    /// Whether it may be early data, which anybody on the path can replay (RFC 8470 §4).
    pub(crate) may_be_early_data: bool,
    /// Whether it mostly sends.
    pub(crate) is_sending: bool,
    pub(crate) class: Class,
    /// The size of the exchange, as far as known.
    pub(crate) bytes: u64,
    /// The marks of its response.
    pub(crate) marks: Marks,
    /// Its follow-up.
    pub(crate) follow_up: Option<JobId>,
    /// Whether it is a follow-up.
    pub(crate) is_follow_up: bool,
}

impl RequestProfile {
    /// The profile of this request's follow-up.
    pub(crate) fn follow_up(&self, id: JobId) -> Self {
        Self {
            id,
            is_repeatable: false,
            repeats_after_silence: false,
            is_pipelinable: true,
            is_safe: true,
            may_be_early_data: false,
            is_sending: false,
            class: Class::Small,
            bytes: 0,
            marks: self.marks.of_follow_up(),
            follow_up: None,
            is_follow_up: true,
        }
    }
}

/// What the dispatcher has to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Open a connection, after a pause.
    Open(ConnectionId, Duration),
    Send(ConnectionId, JobId),
    /// Give the connection no more jobs, so that it ends when its jobs are done.
    Retire(ConnectionId),
    /// Recall the requests behind one: those that were not sent, and, if `sent`, also safe ones that were.
    Recall {
        connection: ConnectionId,
        behind: JobId,
        sent: bool,
    },
    /// Fail a request; `outcome_unknown` if it may have taken effect.
    Fail {
        job: JobId,
        cause: Shared,
        outcome_unknown: bool,
    },
}

/// A cause that equals any other, so that tests compare only actions.
#[derive(Debug, Clone)]
pub(crate) struct Shared(pub(crate) Cause);

impl PartialEq for Shared {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Shared {}

#[derive(Debug)]
pub(crate) struct Scheduler {
    limits: Limits,
    pipelining_history: PipeliningHistory,
    connections: ConnectionMap,
    concurrency: Concurrency,
    first_connection: FirstConnection,
    queue: VecDeque<Waiting>,
    actions: Vec<Action>,
    /// Number of connections opened so far.
    opened: u64,
    /// The number of connections at which the server, or a box before it, refused more, and when.
    ceiling: Option<(usize, Instant)>,
    /// Failed attempts to connect since the last success; none before the first.
    failures: Option<u32>,
    /// The server requires HTTP/1.1 (HTTP_1_1_REQUIRED).
    serial_only: bool,
    /// The marks that the server's responses are believed to show.
    shown: Shown,
    /// When the server was heard last.
    heard: Option<Instant>,
}

impl Scheduler {
    pub(crate) fn new(limits: Limits, pipelining_history: PipeliningHistory) -> Self {
        Self {
            limits,
            pipelining_history,
            connections: ConnectionMap::default(),
            concurrency: Concurrency::new(limits.connections),
            first_connection: FirstConnection::default(),
            queue: VecDeque::new(),
            actions: Vec::new(),
            opened: 0,
            ceiling: None,
            failures: None,
            serial_only: false,
            shown: Shown::ALL,
            heard: None,
        }
    }

    /// Takes the actions due.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    pub(crate) fn pipelining_history(&self) -> PipeliningHistory {
        self.pipelining_history
    }

    /// Whether the server requires HTTP/1.1.
    pub(crate) fn is_serial_only(&self) -> bool {
        self.serial_only
    }

    /// Whether no request waits and no connection is open.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.queue.is_empty() && self.connections.is_empty()
    }

    /// The oldest request that is not settled.
    pub(crate) fn oldest(&self) -> Option<JobId> {
        let under_way = self.connections.values().flat_map(|conn| &conn.jobs);
        under_way.chain(&self.queue).map(|waiting| waiting.profile.id).min()
    }

    /// Adds a request.
    pub(crate) fn submit(&mut self, profile: RequestProfile, now: Moment) {
        self.queue.push_back(Waiting::new(profile, now.instant));
        self.plan(now);
    }

    /// Opens connections in advance, up to `count` in all.
    pub(crate) fn preconnect(&mut self, count: usize) {
        while self.connections.len() < count.min(self.limits.connections) {
            self.open(Duration::ZERO);
        }
    }

    /// A connection that is about to open has a handshake in progress.
    pub(crate) fn opens_early(&mut self, connection: ConnectionId) {
        if let Some(conn) = self.connections.get_mut(connection) {
            conn.early = true;
        }
    }

    /// The handshake of such a connection is done.
    pub(crate) fn confirmed(&mut self, connection: ConnectionId, now: Moment) {
        if let Some(conn) = self.connections.get_mut(connection) {
            conn.early = false;
            self.failures = Some(0);
        }
        self.plan(now);
    }

    /// A connection is open. Returns whether it is still wanted.
    pub(crate) fn opened(&mut self, connection: ConnectionId, version: Version, now: Moment) -> bool {
        // A handshake in progress may still fail.
        if self.connections.get(connection).is_none_or(|conn| !conn.early) {
            self.failures = Some(0);
        }
        self.shows(version);
        self.heard = Some(now.instant);
        // It was begun before the server required HTTP/1.1.
        let unwanted = version == Version::HTTP_2 && self.serial_only;
        let Some(conn) = self.connections.get_mut(connection).filter(|conn| !conn.retiring && !unwanted) else {
            self.connections.remove(connection);
            self.plan(now);
            return false;
        };
        conn.state = match version {
            // Until the server says otherwise (RFC 9113 §6.5.2 and RFC 9114 §6.1 recommend at least 100).
            Version::HTTP_2 | Version::HTTP_3 => State::Multiplexed { streams: 100 },
            _ => State::Serial { old: false },
        };
        conn.history.became_idle(now.instant);
        self.plan(now);
        true
    }

    /// An HTTP/2 connection's limit of concurrent requests.
    pub(crate) fn streams(&mut self, connection: ConnectionId, limit: usize, now: Moment) {
        if let Some(Connection { state: State::Multiplexed { streams }, .. }) = self.connections.get_mut(connection) {
            *streams = limit;
        }
        self.plan(now);
    }

    /// A connection attempt failed. If no other connection can serve the queue, its requests fail.
    pub(crate) fn open_failed(&mut self, connection: ConnectionId, cause: &Cause, now: Moment) {
        self.connections.remove(connection);
        self.fail_long_waiting(cause, now);
        // Connections that are retiring cannot serve the queue.
        let others = self.connections.values().filter(|conn| !conn.retiring).count();
        if others > 0 {
            self.ceiling = Some((others, now.instant));
            return;
        }
        // A server that was reachable may be back soon.
        if let Some(failures) = &mut self.failures
            && *failures < RECONNECTS
            && !self.queue.is_empty()
        {
            *failures += 1;
            let pause = FIRST_PAUSE * 2_u32.pow(*failures - 1);
            return self.open(pause);
        }
        for waiting in std::mem::take(&mut self.queue) {
            self.fail(&waiting, cause, false);
        }
    }

    /// A response header came.
    pub(crate) fn head(&mut self, connection: ConnectionId, job: JobId, head: &ResponseHead, now: Moment) {
        self.heard = Some(now.instant);
        let Some(conn) = self.connections.get_mut(connection) else { return };
        let before =
            (conn.more, conn.patience, conn.retiring, conn.state, conn.slow.is_some(), self.pipelining_history);
        if let Some(keep) = head.keep {
            let behind = conn.jobs.iter().skip_while(|waiting| waiting.profile.id != job).skip(1).count();
            conn.more = keep.requests.map(|more| more.saturating_sub(behind as u32)).or(conn.more);
            conn.patience = keep.idle.or(conn.patience);
        }
        conn.retiring |= head.last;
        // A response behind another one proves that pipelining works; a server that closes after its first response
        // does not pipeline.
        if !conn.is_multiplexed() && conn.company == Some(true) {
            self.pipelining_history.succeeded(conn.depth, now.seconds);
        } else if !conn.is_multiplexed() && head.last && conn.company.is_none() && conn.jobs.len() > 1 {
            self.pipelining_history.failed(Fault::Cut, self.limits.pipelining, now.seconds);
        }
        if head.version == Version::HTTP_10 && conn.state == (State::Serial { old: false }) {
            conn.state = State::Serial { old: true };
            self.pipelining_history.failed(Fault::Old, self.limits.pipelining, now.seconds);
        } else if !conn.is_multiplexed() && !conn.is_part(job) && head.length.is_some_and(|length| length > LARGE) {
            conn.slow.get_or_insert(Slow { job, stalled: false, recalled: false });
            if conn.jobs.len() > 1 {
                self.pipelining_history.failed(Fault::Large, self.limits.pipelining, now.seconds);
            }
        }
        // Most headers change nothing that a decision depends on.
        if before != (conn.more, conn.patience, conn.retiring, conn.state, conn.slow.is_some(), self.pipelining_history)
        {
            self.plan(now);
        }
    }

    /// A response did not show all of its marks: rely only on these from now on.
    pub(crate) fn unmarked(&mut self, believed: Shown) {
        self.shown = self.shown.and(believed);
    }

    /// The current response of a connection has delayed those behind it for long.
    pub(crate) fn stalled(&mut self, connection: ConnectionId, job: JobId, now: Moment) {
        if let Some(conn) = self.connections.get_mut(connection).filter(|conn| conn.holds(job)) {
            conn.slow = Some(Slow { job, stalled: true, recalled: false });
        }
        self.plan(now);
    }

    /// The reader of a connection's response has not read for a while, or reads again.
    pub(crate) fn reader_lags(&mut self, connection: ConnectionId, is_lagging: bool, now: Moment) {
        if let Some(conn) = self.connections.get_mut(connection) {
            conn.is_unread = is_lagging;
        }
        self.plan(now);
    }

    /// An exchange is complete.
    pub(crate) fn done(
        &mut self,
        connection: ConnectionId,
        job: JobId,
        bytes: (u64, u64),
        window: Option<Window>,
        now: Moment,
    ) {
        self.heard = Some(now.instant);
        if let Some(conn) = self.connections.get_mut(connection) {
            conn.release(job);
            conn.history.exchange_ended(bytes.0, bytes.1);
            conn.history.record_window(window);
            self.concurrency.record_rtt(window, now.instant);
            if conn.jobs.is_empty() {
                conn.history.became_idle(now.instant);
            }
            conn.company = Some(!conn.jobs.is_empty());
        }
        self.plan(now);
    }

    /// A job is over without a complete exchange.
    pub(crate) fn dropped(&mut self, connection: ConnectionId, job: JobId, now: Moment) {
        if let Some(conn) = self.connections.get_mut(connection) {
            conn.release(job);
            if conn.jobs.is_empty() {
                conn.history.became_idle(now.instant);
            }
        }
        self.plan(now);
    }

    /// The connection ended before it could take the job.
    pub(crate) fn missed(&mut self, connection: ConnectionId, job: JobId, now: Moment) {
        if let Some(conn) = self.connections.get_mut(connection) {
            conn.retiring = true;
        }
        self.returned(connection, job, Sent::Nothing, &Cause::Retired("connections close as soon as they open"), now);
    }

    /// Closes connections that have been idle for too long, and looks at the queue.
    pub(crate) fn tick(&mut self, kept: Duration, now: Moment) {
        for (id, conn) in self.connections.iter_mut() {
            let idle = conn.history.idle(now.instant).is_some_and(|idle| idle >= kept);
            if !conn.retiring && conn.jobs.is_empty() && idle {
                conn.retiring = true;
                self.actions.push(Action::Retire(id));
            }
        }
        self.plan(now);
    }

    /// All clients are gone: drops the queue, and lets connections end.
    pub(crate) fn retire_all(&mut self) {
        self.queue.clear();
        for (id, conn) in self.connections.iter_mut() {
            if !conn.retiring {
                conn.retiring = true;
                self.actions.push(Action::Retire(id));
            }
        }
    }
}

/// A time for the pool, and for histories that outlive the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    /// Seconds since 1970.
    pub(crate) seconds: f64,
}

#[cfg(test)]
mod tests;
