//! How many connections are used at once.
//!
//! Several connections open their windows in a fraction of the round trips that one takes; on a fast link that is most
//! of the time. On a slow link the initial windows are wide enough, and each connection only adds its packets in flight
//! to the queue at the bottleneck: uploads over six connections raised an RTT of 200 ms to 1.0 s at 1 Mbit/s and to
//! 0.35 s at 4 Mbit/s, for everybody on that link; over two connections to 0.61 s and 0.22 s. They took equally long.
//!
//! Such a queue shows in the kernel's smoothed RTT, compared with its minimum (`TCP_INFO`). While there is a queue, the
//! number of connections is halved, down to two, so that small exchanges still pass large ones; when it is gone, the
//! number grows by one at a time. Transient queues are ignored: at 100 Mbit/s, 150 packets are 18 ms. So are queues
//! while each connection moves more per round trip than an initial window: their windows have opened wide, and fewer
//! connections would open them as far.

use std::{
    cmp::Reverse,
    time::{Duration, Instant},
};

use super::{RequestProfile, Scheduler, connection::Connection};
use crate::{
    Class,
    connection_messages::ConnectionId,
    pool::{INITIAL_WINDOW, Window},
};

/// The tolerated queueing delay, beyond half of the minimum RTT.
const BEARABLE: Duration = Duration::from_millis(50);
const FEWEST: usize = 2;
/// The number of round trips without a queue after which one more connection is used.
const CALM: u32 = 4;
/// A connection that moves more than this in a round trip has opened its window: none begins with as much (RFC 6928).
const WIDE: u64 = 2 * INITIAL_WINDOW;

/// The connections that are used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Concurrency {
    count: usize,
    most: usize,
    changed: Option<Instant>,
}

impl Concurrency {
    pub(super) fn new(most: usize) -> Self {
        Self { count: most, most, changed: None }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// What a connection's kernel says of its round trips.
    pub(super) fn record_rtt(&mut self, window: Option<Window>, now: Instant) {
        let Some(Window { bytes, rtt, min_rtt: Some(least), in_flight_target, .. }) = window else { return };
        let since = self.changed.map(|changed| now.saturating_duration_since(changed));
        let queued = rtt > least * 3 / 2 + BEARABLE;
        // The target of bytes in flight is two to four times what moves in an RTT without a queue.
        let sent = bytes as f64 * least.div_duration_f64(rtt);
        if queued && (in_flight_target.received > 4 * WIDE || sent > WIDE as f64) {
            return;
        }
        let pause = if queued { rtt } else { rtt * CALM };
        if since.is_some_and(|since| since < pause) {
            return;
        }
        let wanted = if queued { (self.count / 2).max(FEWEST) } else { self.count + 1 };
        let count = wanted.min(self.most);
        if count != self.count {
            (self.count, self.changed) = (count, Some(now));
        }
    }
}

impl Scheduler {
    /// Whether the connection may be given this request, as far as their number goes: an idle one if fewer are busy
    /// than are to be used, and of the busy ones so many, those first that have nothing large on them. What is large
    /// goes to all of them but one, the widest first.
    pub(super) fn may_carry(&self, id: ConnectionId, profile: &RequestProfile) -> bool {
        let concurrency = self.concurrency.count();
        if concurrency >= self.limits.connections {
            return true;
        }
        let counts = |conn: &Connection| {
            let goes_on = !conn.retiring && conn.more != Some(0) && !conn.slow.is_some_and(|slow| slow.stalled);
            goes_on && !conn.is_unread && !conn.jobs.is_empty()
        };
        let is_large = |conn: &Connection| conn.jobs.iter().any(|waiting| waiting.profile.class != Class::Small);
        let mut busy: Vec<_> = self.connections.iter().filter(|(_, conn)| counts(conn)).collect();
        if profile.class != Class::Small {
            let mut large: Vec<_> = busy.iter().copied().filter(|(_, conn)| is_large(conn)).collect();
            large.sort_by_key(|(id, conn)| (Reverse(conn.history.in_flight_target(profile.is_sending)), *id));
            let most = (concurrency - 1).max(1);
            match large.iter().position(|(one, _)| *one == id) {
                Some(at) => return at < most,
                None if large.len() >= most => return false,
                None => {}
            }
        }
        busy.sort_by_key(|(id, conn)| (is_large(conn), *id));
        busy.len() < concurrency || busy[..concurrency].iter().any(|(one, _)| *one == id)
    }
}
