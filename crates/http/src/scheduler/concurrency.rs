//! How many connections are used at once.
//!
//! Several connections open their windows in a fraction of the round trips that one takes, and on a quick link that is
//! all the time there is. On a slow one the windows are wide enough at once, and each connection only adds what it
//! keeps under way to the queue before the link: uploads over six connections made a round trip of 200 ms one of 1.0 s
//! at 1 Mbit/s and one of 0.35 s at 4 Mbit/s, for everybody on that link, and over two one of 0.61 s and 0.22 s. They
//! took equally long.
//!
//! Such a queue shows in the round trip that the kernel measures (`TCP_INFO`): smoothed, beside the least. While it
//! stands, half as many connections are used, down to two, so that what is small still passes what is large; when it is
//! gone, one more at a time. A queue of a moment is none: on 100 Mbit/s, a hundred and fifty packets are 18 ms. Nor is
//! one their number's doing before which each moves more in a round trip than any begins with: their windows have
//! opened wide, and fewer would open as far.

use std::{
    cmp::Reverse,
    time::{Duration, Instant},
};

use super::{Scheduler, Shape, connection::Connection};
use crate::{
    Class,
    messages::ConnectionId,
    pool::{INITIAL_WINDOW, Window},
};

/// What a round trip may take beyond half as long again as the least.
const BEARABLE: Duration = Duration::from_millis(50);
const FEWEST: usize = 2;
/// After so many round trips without a queue, one more connection is used.
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
    pub(super) fn see(&mut self, window: Option<Window>, now: Instant) {
        let Some(Window { bytes, rtt, least_rtt: Some(least), ahead, .. }) = window else { return };
        let since = self.changed.map(|changed| now.saturating_duration_since(changed));
        let queued = rtt > least * 3 / 2 + BEARABLE;
        // What is to be under way is two to four times what a round trip without a queue moves.
        let sent = bytes as f64 * least.div_duration_f64(rtt);
        if queued && (ahead.received > 4 * WIDE || sent > WIDE as f64) {
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
    pub(super) fn may_carry(&self, id: ConnectionId, shape: &Shape) -> bool {
        let concurrency = self.concurrency.count();
        if concurrency >= self.limits.connections {
            return true;
        }
        let counts = |conn: &Connection| {
            let goes_on = !conn.retiring && conn.more != Some(0) && !conn.slow.is_some_and(|slow| slow.stalled);
            goes_on && !conn.jobs.is_empty()
        };
        let is_large = |conn: &Connection| conn.jobs.iter().any(|waiting| waiting.shape.class != Class::Small);
        let mut busy: Vec<_> = self.connections.iter().filter(|(_, conn)| counts(conn)).collect();
        if shape.class != Class::Small {
            let mut large: Vec<_> = busy.iter().filter(|(_, conn)| is_large(conn)).collect();
            large.sort_by_key(|(id, conn)| (Reverse(conn.history.ahead(shape.sending)), **id));
            let most = (concurrency - 1).max(1);
            match large.iter().position(|(one, _)| **one == id) {
                Some(at) => return at < most,
                None if large.len() >= most => return false,
                None => {}
            }
        }
        busy.sort_by_key(|(id, conn)| (is_large(conn), **id));
        busy.len() < concurrency || busy[..concurrency].iter().any(|(one, _)| **one == id)
    }
}
