//! Which request goes where: the decisions of one origin, without sockets and without a clock.
//!
//! Requests are bound late: each waits here until some connection can take it, rather than behind a slow one. In
//! the order of preference a request goes
//! 1. onto an idle connection, the one that the pool's [`Choice`] names;
//! 2. behind others on a pipeline, the shortest that takes it;
//! 3. into the queue, and a new connection is opened for it if there may be more.
//!
//! 2 and 3 are not exclusive: a new connection takes round trips to open, and the pipeline is there now. Whoever
//! comes first gets the request.
//!
//! # What may stand behind what
//! RFC 9112 §9.3.2 lets a client pipeline what may be repeated, and nothing behind a request that may not be
//! until that is answered. We hold to it in both directions: a request that may not be repeated goes alone. Methods
//! that change something go onto pipelines by the caller's consent, and not among those that change nothing: a stray answer to a
//! `GET` must not tell a `PUT` of success. Large exchanges go alone.
//!
//! # When a connection ends
//! What was answered stands. Every other request comes back with what is known of its fate (`Sent`), and:
//! - what never left, or what the server says it did nothing with, is sent again, whatever it is;
//! - what may be repeated is sent again, a few times; the one that the connection died of, alone;
//! - what may not be is failed, as undecided.

mod line;

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use http::{StatusCode, Version};

use self::line::{Line, State, Waiting};
use crate::{
    Cause, Class,
    knowledge::{Fault, Knowledge, Pipelining},
    pool::{Choice, History, Window},
    wire::{ConnectionId, JobId, Sent, Told},
};

/// So many connections may die of a request before it is given up.
const MOST_BLAMES: u32 = 4;
/// So often may it come back for no fault of its own.
const MOST_RETURNS: u32 = 64;
/// So many waiting requests are looked at for one that can go now.
const LOOK_AHEAD: usize = 64;
/// So often a server that was there is looked for again, with a pause that doubles: six seconds in all.
const RECONNECTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// A request that so many have passed gets a connection of its own next.
const MOST_PASSED: u32 = 32;
/// How long it is believed that the server takes no more connections.
const CEILING_LASTS: Duration = Duration::from_secs(30);
/// An answer above this holds up those behind it.
const LARGE: u64 = 300_000;

/// What the scheduler may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at a time.
    pub(crate) connections: usize,
    pub(crate) pipelining: Pipelining,
    pub(crate) choice: Choice,
}

/// A request, as far as its way is concerned.
#[expect(clippy::struct_excessive_bools, reason = "they are four independent facts")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) id: JobId,
    /// Whether it may be sent twice: its method allows it, and its body is there again.
    pub(crate) repeatable: bool,
    /// Whether it may share a connection with others.
    pub(crate) pipelinable: bool,
    /// Whether it changes nothing.
    pub(crate) safe: bool,
    /// Whether it mostly sends.
    pub(crate) sending: bool,
    pub(crate) class: Class,
    /// How much it moves, as far as that is known.
    pub(crate) bytes: u64,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make a connection, after a pause.
    Open(ConnectionId, Duration),
    Send(ConnectionId, JobId),
    /// Give the connection no more jobs, so that it ends when it is done.
    Retire(ConnectionId),
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
    knowledge: Knowledge,
    lines: BTreeMap<ConnectionId, Line>,
    queue: VecDeque<Waiting>,
    actions: Vec<Action>,
    /// Connections so far.
    opened: u64,
    /// The server, or something before it, took no more than so many connections; asked again after a while.
    ceiling: Option<(usize, Instant)>,
    /// Attempts to connect that failed since one succeeded; none if none ever did.
    failures: Option<u32>,
}

impl Scheduler {
    pub(crate) fn new(limits: Limits, knowledge: Knowledge) -> Self {
        Self {
            limits,
            knowledge,
            lines: BTreeMap::new(),
            queue: VecDeque::new(),
            actions: Vec::new(),
            opened: 0,
            ceiling: None,
            failures: None,
        }
    }

    /// What is to be done after the events so far.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    pub(crate) fn knowledge(&self) -> Knowledge {
        self.knowledge
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
        self.queue.push_back(Waiting { shape, blames: 0, returns: 0, passed: 0 });
        self.plan(now);
    }

    /// Opens connections before there are requests for them, up to `count` in all.
    pub(crate) fn warm(&mut self, count: usize) {
        while self.lines.len() < count.min(self.limits.connections) {
            self.open(Duration::ZERO);
        }
    }

    /// A connection is open; whether it is still wanted.
    pub(crate) fn opened(&mut self, connection: ConnectionId, version: Version, now: Moment) -> bool {
        self.failures = Some(0);
        let Some(line) = self.lines.get_mut(&connection).filter(|line| !line.retiring) else {
            self.lines.remove(&connection);
            return false;
        };
        line.state = match version {
            // Until the server says otherwise (RFC 9113 §6.5.2 recommends at least 100).
            Version::HTTP_2 => State::Multiplexed { streams: 100 },
            _ => State::Serial { old: false },
        };
        line.history.rests(now.instant);
        self.plan(now);
        true
    }

    /// An HTTP/2 connection takes so many requests at a time.
    pub(crate) fn streams(&mut self, connection: ConnectionId, limit: usize, now: Moment) {
        if let Some(Line { state: State::Multiplexed { streams }, .. }) = self.lines.get_mut(&connection) {
            *streams = limit;
        }
        self.plan(now);
    }

    /// No connection came about. Unless others may still serve it, what waits has failed.
    pub(crate) fn open_failed(&mut self, connection: ConnectionId, cause: &Cause, now: Moment) {
        self.lines.remove(&connection);
        if !self.lines.is_empty() {
            self.ceiling = Some((self.lines.len(), now.instant));
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
            self.actions.push(Action::Fail { job: waiting.shape.id, cause: Shared(cause.clone()), undecided: false });
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
        if told.version == Version::HTTP_10 && line.state == (State::Serial { old: false }) {
            line.state = State::Serial { old: true };
            self.knowledge.failed(Fault::Old, self.limits.pipelining, now.seconds);
        } else if line.jobs.len() > 1 && !line.is_multiplexed() && told.length.is_some_and(|length| length > LARGE) {
            self.knowledge.failed(Fault::Large, self.limits.pipelining, now.seconds);
        }
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
            if line.jobs.is_empty() {
                line.history.rests(now.instant);
            }
            if !line.is_multiplexed() && line.depth > 1 {
                let depth = line.depth;
                self.knowledge.succeeded(depth, now.seconds);
            }
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

    /// A request came back, and its connection goes on.
    pub(crate) fn returned(&mut self, connection: ConnectionId, job: JobId, sent: Sent, cause: &Cause, now: Moment) {
        let released = self.lines.get_mut(&connection).and_then(|line| line.release(job));
        if let Some(mut waiting) = released {
            waiting.blames += u32::from(sent == Sent::Something);
            self.again(waiting, sent, cause);
        }
        self.plan(now);
    }

    /// The connection takes no more requests, and ends when what it has begun is done.
    pub(crate) fn draining(&mut self, connection: ConnectionId, now: Moment) {
        if let Some(line) = self.lines.get_mut(&connection) {
            line.retiring = true;
        }
        self.plan(now);
    }

    /// The connection could not be given the job any more: it has ended, and will say so.
    pub(crate) fn missed(&mut self, connection: ConnectionId, job: JobId, now: Moment) {
        if let Some(line) = self.lines.get_mut(&connection) {
            line.retiring = true;
        }
        self.returned(connection, job, Sent::Nothing, &Cause::Retired("connections end as soon as they begin"), now);
    }

    /// A connection has ended, with these jobs unanswered.
    pub(crate) fn closed(
        &mut self,
        connection: ConnectionId,
        cause: &Cause,
        unanswered: &[(JobId, Sent)],
        now: Moment,
    ) {
        let Some(mut line) = self.lines.remove(&connection) else { return };
        if line.depth > 1 && !line.is_multiplexed() && !unanswered.is_empty() {
            if let Some(fault) = fault(cause) {
                self.knowledge.failed(fault, self.limits.pipelining, now.seconds);
            }
        } else if matches!(cause, Cause::Protocol(_)) && !line.is_multiplexed() {
            // What is sent without being asked for today is another request's answer tomorrow.
            self.knowledge.failed(Fault::Mixed, self.limits.pipelining, now.seconds);
        }
        // The oldest one is what the connection died of, perhaps; backwards, so that the order stays.
        let oldest = unanswered.first().filter(|(_, sent)| *sent == Sent::Something && !was_our_own(cause));
        let oldest = oldest.map(|(job, _)| *job);
        for (job, sent) in unanswered.iter().rev() {
            if let Some(mut waiting) = line.release(*job) {
                if Some(*job) == oldest {
                    waiting.blames += 1;
                    waiting.shape.pipelinable = false;
                }
                self.again(waiting, *sent, cause);
            }
        }
        self.plan(now);
    }

    /// Puts a request back in front of the queue, or fails it.
    fn again(&mut self, mut waiting: Waiting, sent: Sent, cause: &Cause) {
        waiting.returns += 1;
        let undecided = sent == Sent::Something && !waiting.shape.repeatable;
        if undecided || waiting.blames >= MOST_BLAMES || waiting.returns >= MOST_RETURNS {
            self.actions.push(Action::Fail { job: waiting.shape.id, cause: Shared(cause.clone()), undecided });
        } else {
            self.queue.push_front(waiting);
        }
    }

    /// Sends what can be sent, and opens what must be opened.
    fn plan(&mut self, now: Moment) {
        self.retire_stale(now);
        let mut at = 0;
        while at < self.queue.len().min(LOOK_AHEAD) {
            if let Some(connection) = self.place(&self.queue[at].shape, now) {
                self.queue.iter_mut().take(at).for_each(|waiting| waiting.passed += 1);
                if let Some(waiting) = self.queue.remove(at) {
                    self.send(connection, waiting);
                }
            } else {
                self.reserve(at, now);
                at += 1;
            }
        }
        let opening = self.lines.values().filter(|line| line.state == State::Opening).count();
        for _ in opening..self.queue.len() {
            let lasting = self.lines.values().filter(|line| line.lasts()).count();
            // One multiplexed connection is enough: a second would only compete with it.
            let multiplexed = self.lines.values().any(|line| line.lasts() && line.is_multiplexed());
            if lasting >= self.most(now) || multiplexed {
                break;
            }
            self.open(Duration::ZERO);
        }
    }

    /// Ends idle connections that the server is about to end.
    fn retire_stale(&mut self, now: Moment) {
        for (id, line) in &mut self.lines {
            if !line.retiring && line.jobs.is_empty() && line.is_stale(now.instant) {
                line.retiring = true;
                self.actions.push(Action::Retire(*id));
            }
        }
    }

    /// Lets a connection run empty for a request that many have passed: pipelines never do by themselves while there
    /// is something to put on them.
    fn reserve(&mut self, at: usize, now: Moment) {
        let waiting = &self.queue[at];
        let id = waiting.shape.id;
        if waiting.passed < MOST_PASSED || self.lines.values().any(|line| line.reserved == Some(id)) {
            return;
        }
        let lines = self.lines.values_mut().filter(|line| line.takes_more(now.instant) && line.reserved.is_none());
        if let Some(line) = lines.min_by_key(|line| line.bytes()) {
            line.reserved = Some(id);
        }
    }

    /// Ends connections that have been idle for longer than they are kept.
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

    /// How many connections may be open at a time.
    fn most(&mut self, now: Moment) -> usize {
        self.ceiling = self.ceiling.filter(|(_, since)| now.instant.saturating_duration_since(*since) < CEILING_LASTS);
        self.ceiling.map_or(self.limits.connections, |(most, _)| most.max(1)).min(self.limits.connections)
    }

    fn open(&mut self, pause: Duration) {
        self.opened += 1;
        let id = ConnectionId(self.opened);
        let line = Line {
            state: State::Opening,
            jobs: VecDeque::new(),
            history: History::default(),
            depth: 0,
            more: None,
            patience: None,
            reserved: None,
            retiring: false,
        };
        self.lines.insert(id, line);
        self.actions.push(Action::Open(id, pause));
    }

    /// The best connection that can take the request now.
    fn place(&self, shape: &Shape, now: Moment) -> Option<ConnectionId> {
        let own = |line: &Line| line.reserved.is_none_or(|job| job == shape.id);
        let usable = || self.lines.iter().filter(|(_, line)| line.takes_more(now.instant) && own(line));
        let free = |line: &Line| match line.state {
            State::Multiplexed { streams } => line.jobs.len() < streams,
            State::Serial { .. } => line.jobs.is_empty(),
            State::Opening => false,
        };
        let idle = usable().filter(|(_, line)| free(line));
        if let Some(id) =
            self.limits.choice.among(idle.map(|(id, line)| (*id, &line.history)), shape.sending, now.instant)
        {
            return Some(id);
        }
        if !shape.pipelinable || shape.class != Class::Small {
            return None;
        }
        let (depth, pipelines) = self.knowledge.allowed(self.limits.pipelining, now.seconds);
        let deep = usable().filter(|(_, line)| line.jobs.len() > 1 && !line.is_multiplexed()).count();
        let takes = |line: &Line| {
            line.state == (State::Serial { old: false })
                && line.jobs.len() < depth as usize
                && line.bytes() + shape.bytes <= line.room(shape.sending)
                && (deep < pipelines || line.jobs.len() > 1)
                && line
                    .jobs
                    .iter()
                    .all(|job| job.shape.pipelinable && job.shape.class == Class::Small && job.shape.safe == shape.safe)
        };
        usable()
            .filter(|(_, line)| takes(line))
            .min_by_key(|(_, line)| (line.bytes(), line.jobs.len()))
            .map(|(id, _)| *id)
    }

    fn send(&mut self, connection: ConnectionId, waiting: Waiting) {
        let Some(line) = self.lines.get_mut(&connection) else { return };
        let idle = line.jobs.is_empty();
        line.history.begins(idle);
        line.reserved = None;
        line.jobs.push_back(waiting);
        line.more = line.more.map(|more| more.saturating_sub(1));
        let depth = line.jobs.len() as u32;
        line.depth = if idle { depth } else { line.depth.max(depth) };
        self.actions.push(Action::Send(connection, waiting.shape.id));
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

/// What the end of a pipeline says about the server.
fn fault(cause: &Cause) -> Option<Fault> {
    match cause {
        Cause::Protocol(_) => Some(Fault::Mixed),
        Cause::TimedOut(crate::Step::FirstByte, _) | Cause::Refused(StatusCode::REQUEST_TIMEOUT) => {
            Some(Fault::Dropped)
        }
        Cause::Io(_) | Cause::Closed | Cause::TimedOut(..) | Cause::Tls(_) | Cause::Unexpected(_) => Some(Fault::Cut),
        _ => None,
    }
}

/// Whether we ended the connection for a reason that lies with us.
fn was_our_own(cause: &Cause) -> bool {
    matches!(cause, Cause::Retired(_))
}

#[cfg(test)]
mod tests;
