//! What becomes of requests that come back without an answer.
//!
//! What was answered stands. Every other request comes back with what is known of its fate (`Sent`), and:
//! - what never left, or what the server says it did nothing with, is sent again, whatever it is;
//! - what may be repeated is sent again, a few times; the one that the connection died of, perhaps, alone. Whether it
//!   did shows on a connection that has done nothing for others, or that fell silent;
//! - what may not be is failed, as undecided;
//! - and so is a large request that changes something, was sent whole and is not answered in time. The server is at
//!   work, perhaps, and would be given all of it again, and again: whoever asked can look.

use http::StatusCode;

use super::{Action, Moment, Scheduler, Shared, connection::Waiting};
use crate::{
    Cause, Class, Step,
    messages::{ConnectionId, JobId, Sent},
    pipelining_history::Fault,
};

/// So many connections that did nothing else may die of a request before it is given up.
const MOST_BLAMES: u32 = 4;
/// So often may it come back for no fault of its own.
const MOST_RETURNS: u32 = 64;
/// HTTP_1_1_REQUIRED (RFC 9113 §7).
const HTTP_1_1_REQUIRED: u32 = 13;

impl Scheduler {
    /// A request came back, and its connection goes on.
    pub(crate) fn returned(&mut self, connection: ConnectionId, job: JobId, sent: Sent, cause: &Cause, now: Moment) {
        self.note_http11_required(cause);
        let released = self.connections.get_mut(&connection).and_then(|conn| conn.release(job));
        if let Some(mut waiting) = released {
            waiting.blames += u32::from(sent == Sent::Something && !was_our_own(cause));
            // Its answer could not be told from another's.
            waiting.shape.pipelinable &= !matches!(cause, Cause::Unexpected(_));
            self.again(waiting, sent, cause);
        }
        self.plan(now);
    }

    /// The connection takes no more requests, and ends when what it has begun is done.
    pub(crate) fn draining(&mut self, connection: ConnectionId, cause: &Cause, now: Moment) {
        self.note_http11_required(cause);
        if let Some(conn) = self.connections.get_mut(&connection) {
            conn.retiring = true;
        }
        self.plan(now);
    }

    /// A connection has ended, with these jobs unanswered.
    pub(crate) fn closed(
        &mut self,
        connection: ConnectionId,
        cause: &Cause,
        unanswered: &[(JobId, Sent)],
        now: Moment,
    ) {
        let conn = self.connections.remove(&connection);
        self.note_http11_required(cause);
        let Some(mut conn) = conn else { return };
        if conn.depth > 1 && !conn.is_multiplexed() && !unanswered.is_empty() {
            if let Some(fault) = fault(cause) {
                self.pipelining_history.failed(fault, self.limits.pipelining, now.seconds);
            }
        } else if matches!(cause, Cause::Protocol(_)) && !conn.is_multiplexed() {
            // What is sent without being asked for today is another request's answer tomorrow.
            self.pipelining_history.failed(Fault::Mixed, self.limits.pipelining, now.seconds);
        }
        if allows_nothing(cause) {
            self.blame_queue(cause);
        }
        // The oldest one is what the connection died of, perhaps; backwards, so that the order stays.
        let oldest = unanswered.first().filter(|(_, sent)| *sent == Sent::Something && !was_our_own(cause));
        let oldest = oldest.map(|(job, _)| *job);
        let blamed = !conn.history.is_used() || matches!(cause, Cause::TimedOut(..));
        for (job, sent) in unanswered.iter().rev() {
            if let Some(mut waiting) = conn.release(*job) {
                // Where something was answered, it goes on: there is an end to it.
                waiting.returns -= u32::from(conn.company.is_some() && waiting.returns > 0);
                if Some(*job) == oldest {
                    waiting.blames += u32::from(blamed);
                    waiting.shape.pipelinable = false;
                }
                self.again(waiting, *sent, cause);
            }
        }
        // Its handshake has failed: the next one may, too, and not for ever.
        if conn.early && !was_our_own(cause) {
            self.open_failed(connection, cause, now);
            if self.opening() > 0 {
                return;
            }
        }
        self.plan(now);
    }

    /// Puts a request back in front of the queue, or fails it.
    fn again(&mut self, mut waiting: Waiting, sent: Sent, cause: &Cause) {
        waiting.returns += 1;
        if allows_nothing(cause) {
            waiting.blames += MOST_BLAMES / 2;
        }
        if waiting.shape.follows {
            return self.fail(&waiting, cause, false);
        }
        let undecided = sent == Sent::Something && (!waiting.shape.repeatable || may_be_at_work(&waiting, cause));
        if undecided || waiting.blames >= MOST_BLAMES || waiting.returns >= MOST_RETURNS {
            self.fail(&waiting, cause, undecided);
        } else {
            self.queue.push_front(waiting);
        }
    }

    /// The server allowed nothing on a connection: whatever waits for one waits once more, and no more.
    fn blame_queue(&mut self, cause: &Cause) {
        for mut waiting in std::mem::take(&mut self.queue) {
            waiting.blames += MOST_BLAMES / 2;
            if waiting.blames >= MOST_BLAMES {
                self.fail(&waiting, cause, false);
            } else {
                self.queue.push_back(waiting);
            }
        }
    }

    /// Fails a request, and what would have gone behind it.
    pub(super) fn fail(&mut self, waiting: &Waiting, cause: &Cause, undecided: bool) {
        for job in [waiting.shape.id].into_iter().chain(waiting.shape.follower) {
            self.actions.push(Action::Fail { job, cause: Shared(cause.clone()), undecided });
        }
    }

    /// A server that wants HTTP/1.1 gets nothing else from now on.
    fn note_http11_required(&mut self, cause: &Cause) {
        if !matches!(cause, Cause::Http2 { code: HTTP_1_1_REQUIRED, .. }) {
            return;
        }
        self.serial_only = true;
        for (id, conn) in &mut self.connections {
            if conn.is_multiplexed() && !conn.retiring {
                conn.retiring = true;
                self.actions.push(Action::Retire(*id));
            }
        }
    }
}

/// Whether the server may still be working on a request that it got whole, and that is too much to be sent twice.
fn may_be_at_work(waiting: &Waiting, cause: &Cause) -> bool {
    let shape = &waiting.shape;
    shape.class == Class::Large && !shape.safe && matches!(cause, Cause::TimedOut(Step::FirstByte, _))
}

/// What the end of a pipeline says about the server.
fn fault(cause: &Cause) -> Option<Fault> {
    match cause {
        Cause::Protocol(_) => Some(Fault::Mixed),
        Cause::TimedOut(Step::FirstByte, _) | Cause::Refused(StatusCode::REQUEST_TIMEOUT) => Some(Fault::Dropped),
        Cause::Io(_) | Cause::Closed | Cause::TimedOut(..) | Cause::Tls(_) | Cause::Unexpected(_) => Some(Fault::Cut),
        _ => None,
    }
}

/// Whether the server let no request go out on the connection for as long as we wait.
fn allows_nothing(cause: &Cause) -> bool {
    matches!(cause, Cause::TimedOut(Step::Streams, _))
}

/// Whether we ended the connection for a reason that lies with us.
fn was_our_own(cause: &Cause) -> bool {
    matches!(cause, Cause::Retired(_))
}
