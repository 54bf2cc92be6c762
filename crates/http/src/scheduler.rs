//! Which request goes where: the decisions of one origin, without sockets and without a clock.
//!
//! Requests are bound late: each waits here until some connection can take it, rather than behind a slow one. In
//! the order of preference a request goes
//! 1. onto an idle connection, the one that the pool's [`Choice`] names;
//! 2. behind others on a pipeline, the one that will have done it first of those that take it;
//! 3. into the queue, and a new connection is opened for it if there may be more.
//!
//! 2 and 3 are not exclusive: a new connection takes round trips to open, and the pipeline is there now. Whoever
//! comes first gets the request.
//!
//! # What may stand behind what
//! RFC 9112 §9.3.2 lets a client pipeline what may be repeated, and nothing behind a request that may not be
//! until that is answered. We hold to it in both directions: a request that may not be repeated goes alone. Methods
//! that change something go onto pipelines by the caller's consent, and not among those that change nothing: a stray answer to a
//! `GET` must not tell a `PUT` of success. Large exchanges go alone; but parts of something large may wait behind one
//! another, so that no connection is silent between two. And no two requests share a connection whose answers could be
//! mistaken for each other's (`identity`).
//!
//! A *follower* goes right behind its leader, whatever that is, on the same connection: it asks what has become of it,
//! in the same round trip. A server does one after the other what is not safe (RFC 9112 §9.3.2), so what it tells is
//! the state after the leader. Its answer looks like no leader's ([`crate::Follower`]), hence it may stand among them.
//! It is sent once and never without its leader: where it cannot go, or comes back, it has failed, and whoever asked
//! looks again.
//!
//! `plan` decides where requests go, `lanes` how many connections are used, `first` when one goes ahead of the others,
//! `ends` what becomes of requests that come back, and `line` is a connection as it is known here.

mod concurrency;
mod connection;
mod first_connection;
mod plan;
mod requeue;

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use http::Version;

use self::{
    concurrency::Concurrency,
    connection::{Connection, Slow, State, Waiting},
    first_connection::FirstConnection,
};
use crate::{
    Cause, Class,
    identity::{Marks, Shown},
    messages::{ConnectionId, JobId, Sent, Told},
    pipelining_history::{Fault, Pipelining, PipeliningHistory},
    pool::{Choice, Window},
};

/// So often a server that was there is looked for again, with a pause that doubles: six seconds in all.
const RECONNECTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// An answer above this holds up those behind it.
pub(crate) const LARGE: u64 = 300_000;

/// What the scheduler may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at a time.
    pub(crate) connections: usize,
    pub(crate) pipelining: Pipelining,
    pub(crate) choice: Choice,
    /// Whether one connection is expected to carry all requests.
    pub(crate) shares: bool,
}

/// A request, as far as its way is concerned.
#[expect(clippy::struct_excessive_bools, reason = "they are five independent facts")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) id: JobId,
    /// Whether it may be sent twice: its method allows it, and its body is there again.
    pub(crate) repeatable: bool,
    /// Whether it may share a connection with others.
    pub(crate) pipelinable: bool,
    /// Whether it changes nothing.
    pub(crate) safe: bool,
    /// Whether it may go before a handshake is done, where anybody on the way can send it again (RFC 8470 §4).
    pub(crate) early: bool,
    /// Whether it mostly sends.
    pub(crate) sending: bool,
    pub(crate) class: Class,
    /// How much it moves, as far as that is known.
    pub(crate) bytes: u64,
    /// What marks its answer.
    pub(crate) marks: Marks,
    /// What goes right behind it.
    pub(crate) follower: Option<JobId>,
    /// Whether it is what goes right behind another.
    pub(crate) follows: bool,
}

impl Shape {
    /// What goes right behind this one: once, and nowhere else.
    pub(crate) fn follower(&self, id: JobId) -> Self {
        Self {
            id,
            repeatable: false,
            pipelinable: true,
            safe: true,
            early: false,
            sending: false,
            class: Class::Small,
            bytes: 0,
            marks: self.marks.of_look(),
            follower: None,
            follows: true,
        }
    }
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make a connection, after a pause.
    Open(ConnectionId, Duration),
    Send(ConnectionId, JobId),
    /// Give the connection no more jobs, so that it ends when it is done.
    Retire(ConnectionId),
    /// Have a connection give back what stands behind a request: what has not left, and, if `sent`, what has left and
    /// is safe to ask for twice.
    CallBack {
        connection: ConnectionId,
        behind: JobId,
        sent: bool,
    },
    /// Tell the caller that there is no answer; `undecided` if the request may have taken effect.
    Fail {
        job: JobId,
        cause: Shared,
        undecided: bool,
    },
}

/// A cause, equal to any other: what is compared in tests is the action.
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
    lines: BTreeMap<ConnectionId, Connection>,
    lanes: Concurrency,
    first: FirstConnection,
    queue: VecDeque<Waiting>,
    actions: Vec<Action>,
    /// Connections so far.
    opened: u64,
    /// The server, or something before it, took no more than so many connections; asked again after a while.
    ceiling: Option<(usize, Instant)>,
    /// Attempts to connect that failed since one succeeded; none if none ever did.
    failures: Option<u32>,
    /// The server has asked for HTTP/1.1 in place of HTTP/2.
    serial_only: bool,
    /// Which marks the server's answers show, as far as is known.
    shown: Shown,
}

impl Scheduler {
    pub(crate) fn new(limits: Limits, pipelining_history: PipeliningHistory) -> Self {
        Self {
            limits,
            pipelining_history,
            lines: BTreeMap::new(),
            lanes: Concurrency::new(limits.connections),
            first: FirstConnection::default(),
            queue: VecDeque::new(),
            actions: Vec::new(),
            opened: 0,
            ceiling: None,
            failures: None,
            serial_only: false,
            shown: Shown::ALL,
        }
    }

    /// What is to be done after the events so far.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    pub(crate) fn pipelining_history(&self) -> PipeliningHistory {
        self.pipelining_history
    }

    /// Whether the server takes nothing but HTTP/1.1.
    pub(crate) fn is_serial_only(&self) -> bool {
        self.serial_only
    }

    /// Whether there is nothing to do and nothing open.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.queue.is_empty() && self.lines.is_empty()
    }

    /// The oldest request that is not settled.
    pub(crate) fn oldest(&self) -> Option<JobId> {
        let under_way = self.lines.values().flat_map(|line| &line.jobs);
        under_way.chain(&self.queue).map(|waiting| waiting.shape.id).min()
    }

    /// A request comes.
    pub(crate) fn submit(&mut self, shape: Shape, now: Moment) {
        self.queue.push_back(Waiting::new(shape));
        self.plan(now);
    }

    /// Opens connections before there are requests for them, up to `count` in all.
    pub(crate) fn warm(&mut self, count: usize) {
        while self.lines.len() < count.min(self.limits.connections) {
            self.open(Duration::ZERO);
        }
    }

    /// A connection that is about to open has a handshake that is still under way.
    pub(crate) fn opens_early(&mut self, connection: ConnectionId) {
        if let Some(line) = self.lines.get_mut(&connection) {
            line.early = true;
        }
    }

    /// The handshake of such a connection is done.
    pub(crate) fn confirmed(&mut self, connection: ConnectionId, now: Moment) {
        if let Some(line) = self.lines.get_mut(&connection) {
            line.early = false;
            self.failures = Some(0);
        }
        self.plan(now);
    }

    /// A connection is open; whether it is still wanted.
    pub(crate) fn opened(&mut self, connection: ConnectionId, version: Version, now: Moment) -> bool {
        // A handshake that is still under way may yet fail.
        if self.lines.get(&connection).is_none_or(|line| !line.early) {
            self.failures = Some(0);
        }
        self.shows(version);
        // One that was begun before the server said that it wants HTTP/1.1.
        let unwanted = version == Version::HTTP_2 && self.serial_only;
        let Some(line) = self.lines.get_mut(&connection).filter(|line| !line.retiring && !unwanted) else {
            self.lines.remove(&connection);
            self.plan(now);
            return false;
        };
        line.state = match version {
            // Until the server says otherwise (RFC 9113 §6.5.2 and RFC 9114 §6.1 recommend at least 100).
            Version::HTTP_2 | Version::HTTP_3 => State::Multiplexed { streams: 100 },
            _ => State::Serial { old: false },
        };
        line.history.rests(now.instant);
        self.plan(now);
        true
    }

    /// An HTTP/2 connection takes so many requests at a time.
    pub(crate) fn streams(&mut self, connection: ConnectionId, limit: usize, now: Moment) {
        if let Some(Connection { state: State::Multiplexed { streams }, .. }) = self.lines.get_mut(&connection) {
            *streams = limit;
        }
        self.plan(now);
    }

    /// No connection came about. Unless others may still serve it, what waits has failed.
    pub(crate) fn open_failed(&mut self, connection: ConnectionId, cause: &Cause, now: Moment) {
        self.lines.remove(&connection);
        // Those that take no more will not serve it, however long they go on.
        let others = self.lines.values().filter(|line| !line.retiring).count();
        if others > 0 {
            self.ceiling = Some((others, now.instant));
            return;
        }
        // A server that was there a moment ago may be back in a moment.
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

    /// An answer has begun.
    pub(crate) fn head(&mut self, connection: ConnectionId, job: JobId, told: &Told, now: Moment) {
        let Some(line) = self.lines.get_mut(&connection) else { return };
        if let Some(keep) = told.keep {
            let behind = line.jobs.iter().skip_while(|waiting| waiting.shape.id != job).skip(1).count();
            line.more = keep.requests.map(|more| more.saturating_sub(behind as u32)).or(line.more);
            line.patience = keep.idle.or(line.patience);
        }
        line.retiring |= told.last;
        // An answer that stood behind another has come; and one that ends what it begins shows that none ever does.
        if !line.is_multiplexed() && line.company == Some(true) {
            self.pipelining_history.succeeded(line.depth, now.seconds);
        } else if !line.is_multiplexed() && told.last && line.company.is_none() && line.jobs.len() > 1 {
            self.pipelining_history.failed(Fault::Cut, self.limits.pipelining, now.seconds);
        }
        if told.version == Version::HTTP_10 && line.state == (State::Serial { old: false }) {
            line.state = State::Serial { old: true };
            self.pipelining_history.failed(Fault::Old, self.limits.pipelining, now.seconds);
        } else if !line.is_multiplexed() && !line.is_part(job) && told.length.is_some_and(|length| length > LARGE) {
            line.slow.get_or_insert(Slow { job, stalled: false, called_back: false });
            if line.jobs.len() > 1 {
                self.pipelining_history.failed(Fault::Large, self.limits.pipelining, now.seconds);
            }
        }
        self.plan(now);
    }

    /// An answer came that did not show all of its marks: from now on no others than these are relied on.
    pub(crate) fn unmarked(&mut self, believed: Shown) {
        self.shown = self.shown.and(believed);
    }

    /// The answer that a connection owes next keeps those behind it waiting, and has done so for long.
    pub(crate) fn stalled(&mut self, connection: ConnectionId, job: JobId, now: Moment) {
        if let Some(line) = self.lines.get_mut(&connection).filter(|line| line.holds(job)) {
            line.slow = Some(Slow { job, stalled: true, called_back: false });
        }
        self.plan(now);
    }

    /// An exchange has ended well.
    pub(crate) fn done(
        &mut self,
        connection: ConnectionId,
        job: JobId,
        moved: (u64, u64),
        window: Option<Window>,
        now: Moment,
    ) {
        if let Some(line) = self.lines.get_mut(&connection) {
            line.release(job);
            line.history.moved(moved.0, moved.1);
            line.history.sees(window);
            self.lanes.see(window, now.instant);
            if line.jobs.is_empty() {
                line.history.rests(now.instant);
            }
            line.company = Some(!line.jobs.is_empty());
        }
        self.plan(now);
    }

    /// A job left its connection without a trace: nobody waits for it, or nothing was sent of it.
    pub(crate) fn dropped(&mut self, connection: ConnectionId, job: JobId, now: Moment) {
        if let Some(line) = self.lines.get_mut(&connection) {
            line.release(job);
            if line.jobs.is_empty() {
                line.history.rests(now.instant);
            }
        }
        self.plan(now);
    }

    /// The connection could not be given the job any more: it has ended, and will say so.
    pub(crate) fn missed(&mut self, connection: ConnectionId, job: JobId, now: Moment) {
        if let Some(line) = self.lines.get_mut(&connection) {
            line.retiring = true;
        }
        self.returned(connection, job, Sent::Nothing, &Cause::Retired("connections close as soon as they open"), now);
    }

    /// Ends connections that have been idle for longer than they are kept, and looks at what waits.
    pub(crate) fn tick(&mut self, kept: Duration, now: Moment) {
        for (id, line) in &mut self.lines {
            let idle = line.history.idle(now.instant).is_some_and(|idle| idle >= kept);
            if !line.retiring && line.jobs.is_empty() && idle {
                line.retiring = true;
                self.actions.push(Action::Retire(*id));
            }
        }
        self.plan(now);
    }

    /// Nobody asks for anything any more: what is under way ends, and nothing else begins.
    pub(crate) fn retire_all(&mut self) {
        self.queue.clear();
        for (id, line) in &mut self.lines {
            if !line.retiring {
                line.retiring = true;
                self.actions.push(Action::Retire(*id));
            }
        }
    }
}

/// A time as the pool needs it, and as knowledge that outlives the program does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    /// Seconds since 1970.
    pub(crate) seconds: f64,
}

#[cfg(test)]
mod tests;
