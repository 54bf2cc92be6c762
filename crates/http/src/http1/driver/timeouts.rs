//! Timeouts of one connection.
//!
//! Two limits apply to the oldest request's response. The caller's (`Timeouts`) ends the connection. A shorter one of
//! our own ends nothing: it lets the scheduler move the requests behind to another connection.

use std::time::Duration;

use tokio::{sync::mpsc::Sender, time::Instant};
use transport::TcpInfo;

use super::{Driver, read::Reader};
use crate::{Cause, Step as Wait, connection_messages::ConnectionEvent, scheduler::LARGE};

/// How long a response without progress, or a large one, may delay those behind it, as in Firefox; on very long links,
/// this many round trips.
const SLOW_RESPONSE: Duration = Duration::from_millis(1500);
const SLOW_RESPONSE_RTTS: u32 = 4;
/// After this time a connection counts as waiting for its reader.
const UNREAD: Duration = Duration::from_secs(1);

impl Driver {
    /// The next deadline.
    pub(super) fn alarm_at(&self) -> Option<Instant> {
        let deadline = self.deadline().map(|(at, _)| at);
        let others = [self.slow_response_at(), self.reader_check_at(), self.reader_lags_at()];
        deadline.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// When to give up, and with which cause.
    fn deadline(&self) -> Option<(Instant, Cause)> {
        let timed_out = |wait, after| Some((self.timers.progress_at + after, Cause::TimedOut(wait, after)));
        let first = self.in_flight.front()?;
        // A follow-up does not count: its leader has the timeout of a single request.
        let in_company = first.behind > 0 || self.in_flight.iter().skip(1).any(|other| !other.is_follow_up);
        let first = &first.timeouts;
        let unwritten = !self.output.buffer.is_empty() || self.output.is_unflushed;
        if matches!(self.reader, Reader::Active(_, Some(_))) {
            // The reader is slow; only writing can be late.
            return if unwritten { timed_out(Wait::Send, first.stall) } else { None };
        }
        if matches!(self.reader, Reader::Dropped) {
            // Keeping the connection is not worth a longer delay of those behind.
            Some((self.timers.progress_at + self.timers.slow_after, Cause::Retired("the caller dropped the response")))
        } else if self.exchanges.is_answering() {
            timed_out(Wait::Receive, first.stall)
        } else if unwritten || self.output.body.is_some() {
            timed_out(Wait::Send, first.stall)
        } else if in_company {
            timed_out(Wait::FirstByte, first.pipelined.min(first.first_byte))
        } else {
            timed_out(Wait::FirstByte, first.first_byte)
        }
    }

    /// When the requests behind the oldest have waited long enough, unless that was reported.
    fn slow_response_at(&self) -> Option<Instant> {
        let first = self.in_flight.front().filter(|first| self.timers.reported_slow != Some(first.id))?;
        let is_large = !first.is_part
            && first.job.is_none()
            && self.exchanges.left().map_or(self.exchanges.received() > LARGE, |left| left > LARGE);
        Some(if is_large { self.timers.response_began_at } else { self.timers.progress_at } + self.timers.slow_after)
    }

    /// When to check whether a stalled response still has a reader: a dropped reader shows only with the next piece.
    fn reader_check_at(&self) -> Option<Instant> {
        let waits = matches!(self.reader, Reader::Active(_, None)) && self.exchanges.is_answering();
        waits.then(|| self.timers.progress_at.max(self.timers.reader_checked_at) + SLOW_RESPONSE)
    }

    /// When a reader that takes nothing is reported.
    fn reader_lags_at(&self) -> Option<Instant> {
        self.timers.unread.filter(|unread| !unread.is_reported).map(|unread| unread.since + UNREAD)
    }

    /// The reader takes pieces again, or there is none any more.
    pub(super) fn reader_goes_on(&mut self) {
        if self.timers.unread.take().is_some_and(|unread| unread.is_reported) {
            let _ = self.channels.events.send(ConnectionEvent::ReaderLags { connection: self.id, is_lagging: false });
        }
    }

    /// Handles a deadline that may have passed.
    pub(super) fn on_deadline(&mut self) -> Result<(), Cause> {
        let now = Instant::now();
        if self.reader_check_at().is_some_and(|at| at <= now) {
            self.timers.reader_checked_at = now;
            if matches!(&self.reader, Reader::Active(to, None) if to.get_ref().is_none_or(Sender::is_closed)) {
                self.update_reader(false)?;
            }
        }
        if self.reader_lags_at().is_some_and(|at| at <= now)
            && let Some(unread) = &mut self.timers.unread
        {
            unread.is_reported = true;
            let _ = self.channels.events.send(ConnectionEvent::ReaderLags { connection: self.id, is_lagging: true });
        }
        if self.slow_response_at().is_some_and(|at| at <= now) {
            self.timers.slow_after =
                SLOW_RESPONSE.max(self.io.tcp_info().map_or(SLOW_RESPONSE, |tcp| tcp.rtt * SLOW_RESPONSE_RTTS));
            if self.slow_response_at().is_some_and(|at| at <= now)
                && let Some(first) = self.in_flight.front()
            {
                self.timers.reported_slow = Some(first.id);
                let _ = self.channels.events.send(ConnectionEvent::Stalled { connection: self.id, job: first.id });
            }
        }
        match self.deadline() {
            Some((at, cause)) if at <= now => self.on_timeout(cause, now),
            _ => Ok(()),
        }
    }

    /// On a slow link, bytes that were written long ago may have arrived only recently: the timeout starts with their
    /// acknowledgement.
    fn on_timeout(&mut self, cause: Cause, now: Instant) -> Result<(), Cause> {
        let tcp = self.io.tcp_info();
        let acknowledged = tcp.and_then(|tcp| tcp.bytes_acked).unwrap_or(0);
        if acknowledged <= self.timers.acknowledged {
            return Err(cause);
        }
        self.timers.acknowledged = acknowledged;
        let heard = tcp.and_then(|TcpInfo { last_ack, .. }| now.checked_sub(last_ack)).unwrap_or(now);
        self.timers.progress_at = self.timers.progress_at.max(heard);
        match self.deadline() {
            Some((at, cause)) if at <= now => Err(cause),
            _ => Ok(()),
        }
    }

    pub(super) const SLOW_RESPONSE: Duration = SLOW_RESPONSE;
}
