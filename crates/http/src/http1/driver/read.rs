//! Reading responses, at the pace of their readers.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use http::Response;
use tokio::time::Instant;
use tokio_util::{io::poll_read_buf, sync::PollSender};

use super::{Driver, Unread, head};
use crate::{
    Cause, Incoming, ResponseInfo,
    body::Piece,
    connection_messages::{ConnectionEvent, ConnectionId, Job, JobId, PROGRESS, ResponseHead, Sent},
    http1::exchange::Event,
    pool::{ByteCounts, Window},
};

/// The size of reads from the network.
const READ: usize = 64 * 1024;
/// The number of pieces that a reader may lag behind.
const MAX_PIECES_AHEAD: usize = 4;
/// An unwanted body up to this length is read to its end, to keep the connection open.
const MAX_DISCARD: u64 = 64 * 1024;

/// The reader of the current response.
pub(super) enum Reader {
    None,
    /// A reader, and a piece that it has no room for yet.
    Active(PollSender<Piece>, Option<Piece>),
    /// The caller dropped the response, whose rest is still to come.
    Dropped,
}

impl Driver {
    /// Delivers what was received before the connection failed. A server that rejects a body early responds and closes:
    /// writing then fails while the response waits to be read.
    pub(super) fn drain_input(&mut self) -> Result<(), Cause> {
        let mut context = Context::from_waker(Waker::noop());
        while !matches!(self.reader, Reader::Active(_, Some(_)))
            && let Poll::Ready(Ok(1..)) = self.poll_read(&mut context)
        {
            self.deliver_events()?;
        }
        Ok(())
    }

    /// Delivers what was received, as far as the reader has room.
    pub(super) fn deliver_events(&mut self) -> Result<(), Cause> {
        while !matches!(self.reader, Reader::Active(_, Some(_))) {
            let event = self.exchanges.next();
            if let Some(believed) = self.exchanges.unmarked() {
                let _ = self.channels.events.send(ConnectionEvent::Unmarked(believed));
            }
            let Some(event) = event? else { break };
            self.take_event(event)?;
        }
        Ok(())
    }

    pub(super) fn take_event(&mut self, event: Event) -> Result<(), Cause> {
        match event {
            Event::Head { job, response, length } => self.deliver_head(job, response, length)?,
            Event::UnverifiedRefusal => {
                self.timers.response_began_at = Instant::now();
                self.reader = Reader::Dropped;
                self.check_discard()?;
            }
            Event::Data(bytes) => self.read_piece(Piece::Data(compact(bytes)))?,
            Event::Trailers(trailers) => self.read_piece(Piece::Trailers(trailers))?,
            Event::End { job, received } => {
                self.read_piece(Piece::End)?;
                self.complete(job, received)?;
            }
        }
        Ok(())
    }

    /// Delivers a response header to the oldest job.
    fn deliver_head(&mut self, id: JobId, mut response: Response<()>, length: Option<u64>) -> Result<(), Cause> {
        let (written, last) = (self.output.written, self.exchanges.is_closing());
        let Some(first) = self.in_flight.front_mut() else { return Ok(()) };
        // A refusal may come before the request is complete. A success cannot; it belongs to another request.
        let whole = first.end.is_some_and(|end| end <= written);
        if first.start >= written || (response.status().is_success() && !whole) {
            return Err(Cause::Protocol("a response came before its request was sent".into()));
        }
        let Some(job) = first.job.take() else { return Ok(()) };
        let version = response.version();
        let head = ResponseHead { version, length, keep: head::keep(response.headers()), last };
        let sendings = job.sendings + 1;
        let info = ResponseInfo { connection: self.id.0, version, sendings, behind: first.behind };
        response.extensions_mut().insert(info);
        self.timers.response_began_at = Instant::now();
        let (reader, body) = if let Some(whole) = self.exchanges.take_whole() {
            (Reader::None, Incoming::whole(compact(whole)))
        } else {
            let (sender, body) = Incoming::channel(length, MAX_PIECES_AHEAD);
            (Reader::Active(PollSender::new(sender), None), body)
        };
        let is_wanted = job.reply.send(Ok(response.map(|()| body))).is_ok();
        self.reader = if is_wanted { reader } else { Reader::Dropped };
        self.check_discard()?;
        let _ = self.channels.events.send(ConnectionEvent::Head { connection: self.id, job: id, head });
        Ok(())
    }

    /// Closes the connection if an unwanted response is long.
    fn check_discard(&self) -> Result<(), Cause> {
        let far = self.exchanges.left().is_none_or(|left| left > MAX_DISCARD);
        if matches!(self.reader, Reader::Dropped) && far {
            return Err(Cause::Retired("the caller dropped the response"));
        }
        Ok(())
    }

    /// Delivers a piece to the reader, or keeps it until there is room.
    fn read_piece(&mut self, piece: Piece) -> Result<(), Cause> {
        if let Reader::Active(sender, waiting) = &mut self.reader {
            *waiting = Some(piece);
            // Without a waker: the driver polls again where it waits.
            let waker = Waker::noop();
            if let Poll::Ready(found) = deliver(sender, waiting, &mut Context::from_waker(waker)) {
                self.update_reader(found)?;
            } else {
                self.timers.unread = Some(Unread { since: Instant::now(), is_reported: false });
            }
        }
        Ok(())
    }

    pub(super) fn update_reader(&mut self, is_open: bool) -> Result<(), Cause> {
        if !is_open {
            // Of a complete response, whose reader did not wait to be told of its end, there is no rest.
            self.reader = if self.exchanges.is_receiving() { Reader::Dropped } else { Reader::None };
            self.check_discard()?;
        }
        Ok(())
    }

    /// An exchange is complete.
    fn complete(&mut self, job: JobId, received: u64) -> Result<(), Cause> {
        let Some(mut first) = self.in_flight.pop_front() else { return Ok(()) };
        if matches!(self.reader, Reader::Dropped) {
            self.reader = Reader::None;
        }
        // Its unverified response was not delivered.
        let back = first.job.take();
        let Some(end) = first.end else {
            // A response before the request is complete: usually an error; the rest is not worth sending.
            if let Some(job) = back {
                let _ = self.channels.events.send(return_unverified(self.id, job));
            }
            return Err(Cause::Retired("the server responded before the request was complete"));
        };
        (self.timers.progress_at, self.timers.uncounted) = (Instant::now(), PROGRESS);
        let (connection, sent) = (self.id, end - first.start);
        self.limits.sent.count(sent, &*self.io);
        let in_flight_target = ByteCounts { sent: self.limits.sent.target(), received: self.limits.received.target() };
        let look = || Window::of(&*self.io, in_flight_target);
        let window = self.limits.window.get(self.output.written, self.timers.progress_at, look);
        let window = window.map(|window| Window { in_flight_target, ..window });
        if self.in_flight.is_empty() {
            self.limits.received.pause();
            self.limits.sent.pause();
        }
        let _ = self.channels.events.send(match back {
            Some(job) => return_unverified(connection, job),
            None => ConnectionEvent::Done { connection, job, sent, received, window },
        });
        if self.is_draining && self.in_flight.is_empty() {
            return Err(Cause::Retired("the requests behind a slow response moved to another connection"));
        }
        Ok(())
    }

    pub(super) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let buffer = self.exchanges.buffer();
        buffer.reserve(READ);
        poll_read_buf(Pin::new(&mut self.io), context, buffer)
    }
}

/// A small piece must not keep its whole buffer alive.
fn compact(bytes: Bytes) -> Bytes {
    if bytes.len() < READ / 4 { Bytes::copy_from_slice(&bytes) } else { bytes }
}

/// Returns a job whose response may be another's.
fn return_unverified(connection: ConnectionId, mut job: Job) -> ConnectionEvent {
    job.sendings += 1;
    let cause = Cause::Unexpected("the refusal may belong to another request");
    ConnectionEvent::Returned { connection, job: Box::new(job), sent: Sent::Something, cause }
}

/// Delivers the waiting piece once the reader has room. Returns whether there still is a reader.
pub(super) fn deliver(
    sender: &mut PollSender<Piece>,
    waiting: &mut Option<Piece>,
    context: &mut Context<'_>,
) -> Poll<bool> {
    let reserved = ready!(sender.poll_reserve(context));
    let piece = waiting.take();
    Poll::Ready(match (reserved, piece) {
        (Ok(()), Some(piece)) => sender.send_item(piece).is_ok(),
        (Ok(()), None) => true,
        (Err(_), _) => false,
    })
}
