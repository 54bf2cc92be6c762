//! Where a request goes, when to open a connection, and when to recall the requests behind a slow response.
//!
//! # While connections are opening
//! Connections that start together open at nearly the same time. The first would take all that fits into a pipeline,
//! and the others would find the queue empty: each round trip would then move one initial window instead of six. So
//! while any connection is opening, a pipeline takes no more than two initial windows, one in flight and one behind it,
//! or what its connection can have in flight. As responses come it takes more, so a connection that never opens costs
//! little.
//!
//! # Head-of-line blocking
//! Nothing can overtake a response in HTTP/1.1. A connection whose response turns out large, or does not come, takes no
//! more requests, and those behind are recalled as soon as another connection can take them: requests that were not
//! sent in any case, and, if nothing moves, also safe requests that were sent, which are then sent twice. Firefox did
//! the same, with the same limits ("too large" above 300,000 bytes, "reschedule" after 1.5 s).

use std::{collections::VecDeque, time::Duration};

use super::{
    Action, Moment, RequestProfile, Scheduler, Shared,
    connection::{Connection, State, Waiting},
};
use crate::{Cause, Class, connection_messages::ConnectionId, pool::History};

/// How far to look into the queue for a request that can go now.
const LOOK_AHEAD: usize = 64;
/// The number of overtaking requests after which a connection is reserved for a request.
pub(super) const MAX_PASSED: u32 = 32;
/// How long a limit of the server's connections is remembered.
const CEILING_LASTS: Duration = Duration::from_secs(30);

/// Where requests may go, at a first look: most of a long queue needs no second one.
#[derive(Debug, Clone, Copy, Default)]
struct Places {
    /// There is a connection for a request of its own.
    is_free: bool,
    /// There is a pipeline that may get deeper.
    is_on_a_pipeline: bool,
}

impl Places {
    fn may_take(self, profile: &RequestProfile) -> bool {
        self.is_free || (self.is_on_a_pipeline && may_share(profile))
    }
}

/// Whether a request may go onto a pipeline.
fn may_share(profile: &RequestProfile) -> bool {
    profile.is_pipelinable && profile.class != Class::Large
}

impl Scheduler {
    /// Sends the requests that can go, and opens connections for the others.
    pub(super) fn plan(&mut self, now: Moment) {
        self.retire_stale(now);
        let mut at = 0;
        let mut places = self.places(now);
        while at < self.queue.len().min(LOOK_AHEAD) {
            let profile = &self.queue[at].profile;
            let found = if places.may_take(profile) { self.place(profile, now) } else { None };
            debug_assert!(places.may_take(profile) || self.place(profile, now).is_none(), "a place was overlooked");
            if let Some(connection) = found {
                self.queue.iter_mut().take(at).for_each(|waiting| waiting.passed += 1);
                if let Some(waiting) = self.queue.remove(at) {
                    self.send(connection, waiting, now);
                }
                places = self.places(now);
            } else {
                self.reserve(at, now);
                at += 1;
            }
        }
        self.awaits_first(now);
        for _ in self.opening()..self.queue.len() {
            if !self.may_open(now) || self.awaits_first(now) {
                break;
            }
            self.open(Duration::ZERO);
        }
        self.recall(now);
    }

    /// Closes idle connections that the server is about to close.
    fn retire_stale(&mut self, now: Moment) {
        for (id, conn) in self.connections.iter_mut() {
            if !conn.retiring && conn.jobs.is_empty() && conn.is_stale(now.instant) {
                conn.retiring = true;
                self.actions.push(Action::Retire(id));
            }
        }
    }

    /// Reserves a connection for a request that many have overtaken: pipelines never become idle by themselves while
    /// requests are waiting.
    fn reserve(&mut self, at: usize, now: Moment) {
        if self.queue[at].passed < MAX_PASSED {
            return;
        }
        let profile = self.queue[at].profile;
        let id = profile.id;
        if self.connections.values().any(|conn| conn.reserved == Some(id)) {
            return;
        }
        let connections =
            self.connections.iter().filter(|(_, conn)| conn.takes_more(now.instant) && conn.reserved.is_none());
        let connections = connections.filter(|(connection, _)| self.may_carry(*connection, &profile));
        let found = connections.min_by_key(|(_, conn)| conn.bytes()).map(|(connection, _)| connection);
        if let Some(conn) = found.and_then(|connection| self.connections.get_mut(connection)) {
            conn.reserved = Some(id);
        }
    }

    /// Recalls the requests behind slow responses, if another connection can take them.
    fn recall(&mut self, now: Moment) {
        if !self.connections.values().any(Connection::is_held_up) {
            return;
        }
        let spare = self.may_open(now) || self.opening() > self.queue.len();
        let held_up = self.connections.iter().filter_map(|(id, conn)| {
            let slow = conn.slow.filter(|slow| !slow.recalled)?;
            Some((id, slow, conn.jobs.iter().skip(1).find(|waiting| !waiting.profile.is_follow_up)?.profile))
        });
        let elsewhere = held_up.filter(|(_, _, next)| spare || self.place(next, now).is_some());
        let called: Vec<_> = elsewhere.map(|(id, slow, _)| (id, slow)).collect();
        for (id, slow) in called {
            if let Some(slow) = self.connections.get_mut(id).and_then(|conn| conn.slow.as_mut()) {
                slow.recalled = true;
            }
            self.actions.push(Action::Recall { connection: id, behind: slow.job, sent: slow.stalled });
        }
    }

    /// The number of connections that are opening.
    pub(super) fn opening(&self) -> usize {
        self.connections.values().filter(|conn| conn.state == State::Opening).count()
    }

    fn may_open(&mut self, now: Moment) -> bool {
        let lasting = self.connections.values().filter(|conn| conn.lasts() && !conn.is_unread).count();
        // Connections that end soon get successors, but not without limit.
        let all = self.connections.values().filter(|conn| !conn.retiring && !conn.is_unread).count();
        let unread = self.connections.values().filter(|conn| conn.is_unread).count();
        // Beyond their limit they count like the others.
        let unread = unread.saturating_sub(self.limits.unread_connections);
        // One multiplexed connection is enough; a second would compete with it.
        let multiplexed = self.connections.values().any(|conn| conn.lasts() && conn.is_multiplexed());
        let most = self.most(now);
        lasting + unread < most && all + unread < 2 * most && !multiplexed
    }

    /// The maximum number of connections.
    fn most(&mut self, now: Moment) -> usize {
        self.ceiling = self.ceiling.filter(|(_, since)| now.instant.saturating_duration_since(*since) < CEILING_LASTS);
        self.ceiling.map_or(self.limits.connections, |(most, _)| most.max(1)).min(self.limits.connections)
    }

    pub(super) fn open(&mut self, pause: Duration) {
        self.opened += 1;
        let id = ConnectionId(self.opened);
        let conn = Connection {
            state: State::Opening,
            jobs: VecDeque::new(),
            history: History::default(),
            depth: 0,
            more: None,
            patience: None,
            reserved: None,
            slow: None,
            company: None,
            is_unread: false,
            retiring: false,
            early: false,
        };
        self.connections.push(id, conn);
        self.actions.push(Action::Open(id, pause));
    }

    /// The places that there are now.
    fn places(&self, now: Moment) -> Places {
        let mut places = Places::default();
        for conn in self.connections.values().filter(|conn| conn.takes_more(now.instant)) {
            places.is_free |= conn.is_free();
            places.is_on_a_pipeline |= !conn.jobs.is_empty() && self.has_depth(conn, now);
        }
        places
    }

    /// The best connection that can take the request now.
    fn place(&self, profile: &RequestProfile, now: Moment) -> Option<ConnectionId> {
        let own = |conn: &Connection| conn.reserved.is_none_or(|job| job == profile.id);
        let takes = |conn: &Connection| conn.takes_more(now.instant) && own(conn) && conn.is_open_to(profile);
        let usable = || self.connections.iter().filter(|(id, conn)| takes(conn) && self.may_carry(*id, profile));
        let idle = usable().filter(|(_, conn)| conn.is_free());
        if let Some(id) =
            self.limits.choice.among(idle.map(|(id, conn)| (id, &conn.history)), profile.is_sending, now.instant)
        {
            return Some(id);
        }
        let waits_longer =
            |waiting: &Waiting| waiting.profile.id < profile.id && waiting.profile.class != profile.class;
        // Otherwise a request that needs an idle connection would never get one.
        if !may_share(profile) || (profile.class == Class::Part && self.queue.iter().any(waits_longer)) {
            return None;
        }
        let others_open = self.opening() > 0;
        let is_like =
            |job: &RequestProfile| job.is_pipelinable && job.class == profile.class && job.is_safe == profile.is_safe;
        let fits =
            |job: &RequestProfile| (job.is_follow_up || is_like(job)) && job.marks.differ(&profile.marks, self.shown);
        let takes = |conn: &Connection| {
            self.may_pipeline(conn, now)
                && conn.has_room(profile, others_open)
                && conn.jobs.iter().all(|job| fits(&job.profile))
        };
        usable()
            .filter(|(_, conn)| takes(conn))
            .min_by_key(|(_, conn)| (conn.delay(profile), conn.jobs.len()))
            .map(|(id, _)| id)
    }

    /// Whether the server is trusted with one more request on this pipeline.
    fn may_pipeline(&self, conn: &Connection, now: Moment) -> bool {
        let pipelines = self.pipelining_history.allowed(self.limits.pipelining, now.seconds).1;
        let is_deep = |conn: &&Connection| conn.jobs.len() > 1 && !conn.is_multiplexed();
        self.has_depth(conn, now) && (is_deep(&conn) || self.connections.values().filter(is_deep).count() < pipelines)
    }

    /// Whether the pipeline may get deeper.
    fn has_depth(&self, conn: &Connection, now: Moment) -> bool {
        let depth = self.pipelining_history.allowed(self.limits.pipelining, now.seconds).0;
        conn.state == (State::Serial { old: false }) && conn.jobs.len() < depth as usize
    }

    /// Sends a request and its follow-up.
    fn send(&mut self, connection: ConnectionId, mut waiting: Waiting, now: Moment) {
        let follow_up = waiting.profile.follow_up.take().map(|job| waiting.profile.follow_up(job));
        self.bind(connection, waiting);
        let Some(follow_up) = follow_up else { return };
        // This is harmless while a server is being tested: the caller asks again if it fails.
        if self
            .connections
            .get(connection)
            .is_some_and(|conn| conn.takes_more(now.instant) && self.has_depth(conn, now))
        {
            self.bind(connection, Waiting::new(follow_up, now.instant));
        } else {
            let cause = Shared(Cause::Retired("the follow-up cannot be pipelined on this connection"));
            self.actions.push(Action::Fail { job: follow_up.id, cause, outcome_unknown: false });
        }
    }

    fn bind(&mut self, connection: ConnectionId, waiting: Waiting) {
        // Releases a reserved connection if another one became idle first.
        for conn in self.connections.values_mut() {
            conn.reserved.take_if(|job| *job == waiting.profile.id);
        }
        let Some(conn) = self.connections.get_mut(connection) else { return };
        let idle = conn.jobs.is_empty();
        conn.history.request_sent(idle);
        conn.jobs.push_back(waiting);
        conn.more = conn.more.map(|more| more.saturating_sub(1));
        let depth = conn.jobs.len() as u32;
        conn.depth = if idle { depth } else { conn.depth.max(depth) };
        self.actions.push(Action::Send(connection, waiting.profile.id));
    }
}
