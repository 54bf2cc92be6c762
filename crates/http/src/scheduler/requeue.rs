//! What becomes of requests that come back without a response.
//!
//! Each comes back with what is known of its fate (`Sent`):
//! - a request that was not sent, or that the server says it did not process, is sent again, whatever it is;
//! - an idempotent request is sent again, a few times; the one that may have broken the connection goes alone. A
//!   request is suspected if its connection has completed nothing else, or if it fell silent;
//! - a request that is not idempotent fails, with an unknown outcome;
//! - so does an unsafe request that was sent whole and got no response in time, if it is large or its caller says so. The
//!   server may still process it, and would get all of it again; the caller can check.
//!
//! A caller may limit its patience. Then a request fails, instead of being sent again, when it has waited for so long in
//! all; and one in the queue, when nothing has been heard of the server for so long.

use http::StatusCode;

use super::{Action, Moment, Scheduler, Shared, connection::Waiting};
use crate::{
    Cause, Step,
    connection_messages::{ConnectionId, JobId, Sent},
    pipelining_history::Fault,
};

/// The number of connections that may break under a request before it fails.
const MAX_BLAMES: u32 = 4;
/// The number of times that a request may come back through no fault of its own.
const MAX_RETURNS: u32 = 64;
/// HTTP_1_1_REQUIRED (RFC 9113 §7).
const HTTP_1_1_REQUIRED: u32 = 13;

impl Scheduler {
    /// A request came back, and its connection continues.
    pub(crate) fn returned(&mut self, connection: ConnectionId, job: JobId, sent: Sent, cause: &Cause, now: Moment) {
        self.note_http11_required(cause);
        let released = self.connections.get_mut(connection).and_then(|conn| conn.release(job));
        if let Some(mut waiting) = released {
            waiting.blames += u32::from(sent == Sent::Something && !was_our_own(cause));
            // Its response could not be distinguished from another's.
            waiting.profile.is_pipelinable &= !matches!(cause, Cause::Unexpected(_));
            self.retry(waiting, sent, cause);
        }
        self.plan(now);
    }

    /// The connection takes no more requests, and ends when those in flight are done.
    pub(crate) fn draining(&mut self, connection: ConnectionId, cause: &Cause, now: Moment) {
        self.note_http11_required(cause);
        if let Some(conn) = self.connections.get_mut(connection) {
            conn.retiring = true;
        }
        self.plan(now);
    }

    /// A connection has ended, with these jobs without a response.
    pub(crate) fn closed(
        &mut self,
        connection: ConnectionId,
        cause: &Cause,
        unanswered: &[(JobId, Sent)],
        now: Moment,
    ) {
        let conn = self.connections.remove(connection);
        self.note_http11_required(cause);
        let Some(mut conn) = conn else { return };
        if conn.depth > 1 && !conn.is_multiplexed() && !unanswered.is_empty() {
            if let Some(fault) = fault(cause) {
                self.pipelining_history.failed(fault, self.limits.pipelining, now.seconds);
            }
        } else if matches!(cause, Cause::Protocol(_)) && !conn.is_multiplexed() {
            // A server that sends unrequested data may give it to another request next time.
            self.pipelining_history.failed(Fault::Mixed, self.limits.pipelining, now.seconds);
        }
        if allows_nothing(cause) {
            self.blame_queue(cause);
        }
        if matches!(cause, Cause::TimedOut(..)) {
            self.fail_long_waiting(cause, now);
        }
        // The oldest may have broken the connection. Backwards, to keep the order.
        let oldest = unanswered.first().filter(|(_, sent)| *sent == Sent::Something && !was_our_own(cause));
        let oldest = oldest.map(|(job, _)| *job);
        let blamed = !conn.history.is_used() || matches!(cause, Cause::TimedOut(..));
        for (job, sent) in unanswered.iter().rev() {
            if let Some(mut waiting) = conn.release(*job) {
                // A connection that completed something has made progress.
                waiting.returns -= u32::from(conn.company.is_some() && waiting.returns > 0);
                if Some(*job) == oldest {
                    waiting.blames += u32::from(blamed);
                    waiting.profile.is_pipelinable = false;
                }
                self.retry(waiting, *sent, cause);
            }
        }
        // Its handshake has failed, which counts as a failed attempt.
        if conn.early && !was_our_own(cause) {
            self.open_failed(connection, cause, now);
            if self.opening() > 0 {
                return;
            }
        }
        self.plan(now);
    }

    /// Puts a request back in front of the queue, or fails it.
    fn retry(&mut self, mut waiting: Waiting, sent: Sent, cause: &Cause) {
        waiting.returns += 1;
        if allows_nothing(cause) {
            waiting.blames += MAX_BLAMES / 2;
        }
        if let Cause::TimedOut(_, after) = cause {
            waiting.silence += *after;
        }
        if waiting.profile.is_follow_up {
            return self.fail(&waiting, cause, false);
        }
        let outcome_unknown =
            sent == Sent::Something && (!waiting.profile.is_repeatable || may_be_at_work(&waiting, cause));
        let is_tried = waiting.blames >= MAX_BLAMES || waiting.returns >= MAX_RETURNS;
        let has_waited = self.limits.patience.is_some_and(|patience| waiting.silence >= patience);
        if outcome_unknown || is_tried || has_waited {
            self.fail(&waiting, cause, outcome_unknown);
        } else {
            self.queue.push_front(waiting);
        }
    }

    /// The server allowed nothing on a connection: whatever waits for one waits once more, and no more.
    fn blame_queue(&mut self, cause: &Cause) {
        for mut waiting in std::mem::take(&mut self.queue) {
            waiting.blames += MAX_BLAMES / 2;
            if waiting.blames >= MAX_BLAMES {
                self.fail(&waiting, cause, false);
            } else {
                self.queue.push_back(waiting);
            }
        }
    }

    /// Fails the requests that have been in the queue for too long since the server was heard.
    pub(super) fn fail_long_waiting(&mut self, cause: &Cause, now: Moment) {
        let Some(patience) = self.limits.patience else { return };
        for waiting in std::mem::take(&mut self.queue) {
            let since = self.heard.map_or(waiting.since, |heard| heard.max(waiting.since));
            if now.instant.duration_since(since) >= patience {
                self.fail(&waiting, cause, false);
            } else {
                self.queue.push_back(waiting);
            }
        }
    }

    /// Fails a request, and what would have gone behind it.
    pub(super) fn fail(&mut self, waiting: &Waiting, cause: &Cause, outcome_unknown: bool) {
        for job in [waiting.profile.id].into_iter().chain(waiting.profile.follow_up) {
            self.actions.push(Action::Fail { job, cause: Shared(cause.clone()), outcome_unknown });
        }
    }

    /// From now on, speaks only HTTP/1.1 to a server that requires it.
    fn note_http11_required(&mut self, cause: &Cause) {
        if !matches!(cause, Cause::Http2 { code: HTTP_1_1_REQUIRED, .. }) {
            return;
        }
        self.serial_only = true;
        for (id, conn) in self.connections.iter_mut() {
            if conn.is_multiplexed() && !conn.retiring {
                conn.retiring = true;
                self.actions.push(Action::Retire(id));
            }
        }
    }
}

/// Whether the server may still carry out a request that must not be carried out twice, or is too large to be sent twice.
fn may_be_at_work(waiting: &Waiting, cause: &Cause) -> bool {
    !waiting.profile.repeats_after_silence && matches!(cause, Cause::TimedOut(Step::FirstByte, _))
}

/// The fault of a pipelining server that this cause shows.
fn fault(cause: &Cause) -> Option<Fault> {
    match cause {
        Cause::Protocol(_) => Some(Fault::Mixed),
        Cause::TimedOut(Step::FirstByte, _) | Cause::Refused(StatusCode::REQUEST_TIMEOUT) => Some(Fault::Dropped),
        Cause::Io(_) | Cause::Closed | Cause::TimedOut(..) | Cause::Tls(_) | Cause::Unexpected(_) => Some(Fault::Cut),
        _ => None,
    }
}

/// Whether the server allowed no request on the connection.
fn allows_nothing(cause: &Cause) -> bool {
    matches!(cause, Cause::TimedOut(Step::Streams, _))
}

/// Whether we closed the connection ourselves.
fn was_our_own(cause: &Cause) -> bool {
    matches!(cause, Cause::Retired(_))
}
