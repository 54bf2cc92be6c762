//! How many connections are used at once.
//!
//! Several connections open their windows in a fraction of the round trips that one takes, and on a quick link that is
//! all the time there is. On a slow one the windows are wide enough at once, and each connection only adds what it keeps
//! under way to the queue before the link: uploads over six connections made a round trip of 200 ms one of 1.0 s at
//! 1 Mbit/s and one of 0.35 s at 4 Mbit/s, for everybody on that link, and over two one of 0.61 s and 0.22 s. They took
//! equally long.
//!
//! Such a queue shows in the round trip that the kernel measures (`TCP_INFO`): smoothed, beside the least. While it stands,
//! half as many connections are used, down to two, so that what is small still passes what is large; when it is gone, one
//! more at a time. A queue of a moment is none: on 100 Mbit/s, a hundred and fifty packets are 18 ms.

use std::time::{Duration, Instant};

use super::{Scheduler, Shape, line::Line};
use crate::{Class, pool::Window, wire::ConnectionId};

/// What a round trip may take beyond half as long again as the least.
const BEARABLE: Duration = Duration::from_millis(50);
const FEWEST: usize = 2;
/// After so many round trips without a queue, one more connection is used.
const CALM: u32 = 4;

/// The connections that are used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lanes {
    count: usize,
    most: usize,
    changed: Option<Instant>,
}

impl Lanes {
    pub(super) fn new(most: usize) -> Self {
        Self { count: most, most, changed: None }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// What a connection's kernel says of its round trips.
    pub(super) fn see(&mut self, window: Option<Window>, now: Instant) {
        let Some(Window { rtt, least_rtt: Some(least), .. }) = window else { return };
        let since = self.changed.map(|changed| now.saturating_duration_since(changed));
        let queued = rtt > least * 3 / 2 + BEARABLE;
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
    /// Whether the connection may be given this request, as far as their number goes: an idle one if fewer are busy than
    /// are to be used, and of the busy ones so many, those first that have nothing large on them.
    pub(super) fn has_lane(&self, id: ConnectionId, shape: &Shape) -> bool {
        let lanes = self.lanes.count();
        if lanes >= self.limits.connections {
            return true;
        }
        let counts = |line: &Line| {
            let goes_on = !line.retiring && line.more != Some(0) && !line.slow.is_some_and(|slow| slow.stalled);
            goes_on && !line.jobs.is_empty()
        };
        let is_large = |line: &Line| line.jobs.iter().any(|waiting| waiting.shape.class != Class::Small);
        let mut busy: Vec<_> = self.lines.iter().filter(|(_, line)| counts(line)).collect();
        let large = busy.iter().filter(|(_, line)| is_large(line)).count();
        if shape.class != Class::Small && large >= (lanes - 1).max(1) {
            return false;
        }
        busy.sort_by_key(|(id, line)| (is_large(line), **id));
        busy.len() < lanes || busy[..lanes].iter().any(|(one, _)| **one == id)
    }
}
