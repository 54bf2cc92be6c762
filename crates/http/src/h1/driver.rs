//! The I/O of one HTTP/1.1 connection, in both directions at once.
//!
//! Responses must be read while requests are written: a server whose responses are not read stops reading, and both
//! ends wait for each other. Hence one task with one place, `step`, where it waits for whatever comes first. The reader
//! of a response sets the pace: while it lags, nothing is read from the network, and TCP's window stops the server.

mod in_flight_limit;
mod read;
mod requeue;
#[cfg(test)]
mod tests;
mod timeouts;
mod write;

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    time::{Instant, Sleep, timeout},
};
use transport::Io;

use self::{
    in_flight_limit::InFlightLimit,
    read::{Reader, deliver},
    write::Sending,
};
use super::{
    exchange::{Exchanges, LAST_WORD},
    head,
};
use crate::{
    Cause, RequestLine, Timeouts,
    messages::{ConnectionEvent, ConnectionId, Job, JobId, PROGRESS, Recall},
    method::is_safe,
};

/// The size of the write buffer, in addition to the kernel's.
const AHEAD: usize = 128 * 1024;

/// Serves `jobs` on a connection until it ends, and sends its last event.
pub(crate) async fn run(
    io: Box<dyn Io>,
    id: ConnectionId,
    timeouts: Timeouts,
    jobs: mpsc::UnboundedReceiver<Job>,
    recalls: mpsc::UnboundedReceiver<Recall>,
    events: mpsc::UnboundedSender<ConnectionEvent>,
) {
    let mut driver = Driver::new(io, id, timeouts, jobs, recalls, events);
    let cause = driver.serve().await;
    driver.end(cause).await;
}

struct Driver {
    io: Box<dyn Io>,
    id: ConnectionId,
    timeouts: Timeouts,
    /// None once the dispatcher has dropped its handle.
    jobs: Option<mpsc::UnboundedReceiver<Job>>,
    recalls: mpsc::UnboundedReceiver<Recall>,
    events: mpsc::UnboundedSender<ConnectionEvent>,
    exchanges: Exchanges,
    /// Jobs not started.
    waiting: VecDeque<Job>,
    /// Jobs in flight, oldest first; the same as in `exchanges`.
    in_flight: VecDeque<InFlight>,
    sending: Option<Sending>,
    out: BytesMut,
    /// Bytes written since the connection began.
    written: u64,
    unflushed: bool,
    /// Bytes acknowledged by the server's kernel at the last look.
    acknowledged: u64,
    reader: Reader,
    /// Start no more jobs: unwanted responses of recalled jobs follow those in flight.
    ending: bool,
    /// When the current response began.
    begun: Instant,
    /// When the response's reader was last checked.
    looked: Instant,
    /// The last job reported as slow.
    reported_slow: Option<JobId>,
    /// How long a response may delay those behind it.
    patience: Duration,
    /// When there was progress, or a wait began.
    moved: Instant,
    /// Targets of bytes in flight, for responses and for requests.
    inward: InFlightLimit,
    outward: InFlightLimit,
    /// Bytes of a response since the last progress; its first byte always counts.
    uncounted: usize,
    alarm: Pin<Box<Sleep>>,
}

/// A job in flight.
struct InFlight {
    id: JobId,
    asked: RequestLine,
    timeouts: Timeouts,
    /// None once its response has begun.
    job: Option<Job>,
    /// The offset of its first byte among all bytes written.
    start: u64,
    /// The offset of its end, once known.
    end: Option<u64>,
    behind: u32,
    follows: bool,
    /// Whether it is a range of a large file (`Class::Part`).
    is_part: bool,
}

/// What happened first.
enum Step {
    Wrote(usize),
    Read(usize),
    Room,
    Chunk(Option<io::Result<Bytes>>),
    Job(Option<Box<Job>>),
    Recall(Recall),
    Unwanted,
    Late,
}

impl Driver {
    fn new(
        io: Box<dyn Io>,
        id: ConnectionId,
        timeouts: Timeouts,
        jobs: mpsc::UnboundedReceiver<Job>,
        recalls: mpsc::UnboundedReceiver<Recall>,
        events: mpsc::UnboundedSender<ConnectionEvent>,
    ) -> Self {
        let now = Instant::now();
        Self {
            io,
            id,
            timeouts,
            jobs: Some(jobs),
            recalls,
            events,
            exchanges: Exchanges::default(),
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            sending: None,
            out: BytesMut::new(),
            written: 0,
            unflushed: false,
            acknowledged: 0,
            reader: Reader::None,
            ending: false,
            moved: now,
            begun: now,
            looked: now,
            reported_slow: None,
            patience: Self::PATIENCE,
            inward: InFlightLimit::default(),
            outward: InFlightLimit::default(),
            uncounted: PROGRESS,
            alarm: Box::pin(tokio::time::sleep_until(now)),
        }
    }

    /// Works until the connection ends, and returns the cause.
    async fn serve(&mut self) -> Cause {
        loop {
            if let Err(cause) = self.deliver_events() {
                return cause;
            }
            self.fill();
            if let Err(cause) = self.begin_waiting() {
                return cause;
            }
            if self.in_flight.is_empty() && self.exchanges.is_closing() {
                return Cause::Retired(LAST_WORD);
            }
            let done = self.in_flight.is_empty() && self.waiting.is_empty();
            if done && self.jobs.is_none() {
                let _ = timeout(self.timeouts.stall, self.io.shutdown()).await;
                return Cause::Retired("the connection is no longer needed");
            }
            if let Some(at) = self.alarm_at() {
                self.alarm.as_mut().reset(at);
            }
            let step = match poll_fn(|context| self.step(context)).await {
                Ok(step) => step,
                Err(error) => return self.drain_input().err().unwrap_or_else(|| error.into()),
            };
            if let Err(cause) = self.take(step) {
                return cause;
            }
        }
    }

    /// Handles what happened.
    fn take(&mut self, step: Step) -> Result<(), Cause> {
        match step {
            Step::Wrote(bytes) => {
                self.out.advance(bytes);
                self.written += bytes as u64;
                self.moved = Instant::now();
            }
            Step::Read(0) => {
                let event = self.exchanges.end_of_input()?;
                self.take_event(event)?;
                return Err(Cause::Retired("the server closed the connection"));
            }
            Step::Read(bytes) => {
                self.inward.moves(bytes as u64, &*self.io);
                self.uncounted += bytes;
                if self.uncounted >= PROGRESS {
                    (self.moved, self.uncounted) = (Instant::now(), 0);
                }
            }
            // The server is not to blame for a slow reader.
            Step::Room => self.moved = Instant::now(),
            Step::Chunk(chunk) => self.put(chunk)?,
            Step::Job(None) => self.jobs = None,
            Step::Job(Some(job)) => {
                if self.in_flight.is_empty() {
                    self.moved = Instant::now();
                }
                self.waiting.push_back(*job);
            }
            Step::Unwanted => return Err(Cause::Retired("the caller cancelled the request")),
            Step::Recall(call) => self.recall(call),
            Step::Late => self.late()?,
        }
        Ok(())
    }

    /// Waits for what comes first.
    fn step(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Step>> {
        if !self.out.is_empty() {
            if let Poll::Ready(wrote) = Pin::new(&mut self.io).poll_write(context, &self.out) {
                self.unflushed = true;
                return Poll::Ready(match wrote? {
                    0 => Err(io::ErrorKind::WriteZero.into()),
                    bytes => Ok(Step::Wrote(bytes)),
                });
            }
        } else if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.io).poll_flush(context)
        {
            flushed?;
            self.unflushed = false;
        }
        let mut may_read = true;
        if let Reader::Somebody(sender, waiting @ Some(_)) = &mut self.reader {
            may_read = false;
            if let Poll::Ready(room) = deliver(sender, waiting, context) {
                return Poll::Ready(match self.reader_has(room) {
                    Ok(()) => Ok(Step::Room),
                    Err(_) => Ok(Step::Unwanted),
                });
            }
        }
        if may_read && let Poll::Ready(read) = self.poll_read(context) {
            return Poll::Ready(Ok(Step::Read(read?)));
        }
        if self.out.len() < AHEAD
            && let Some(sending) = &mut self.sending
            && sending.held.is_empty()
            && let Poll::Ready(chunk) = sending.chunks.poll_next_unpin(context)
        {
            return Poll::Ready(Ok(Step::Chunk(chunk)));
        }
        if let Some(jobs) = &mut self.jobs
            && let Poll::Ready(job) = jobs.poll_recv(context)
        {
            return Poll::Ready(Ok(Step::Job(job.map(Box::new))));
        }
        if let Poll::Ready(Some(call)) = self.recalls.poll_recv(context) {
            return Poll::Ready(Ok(Step::Recall(call)));
        }
        // A cancelled unsafe request that was sent whole takes effect anyway: wait for its response, so that whoever
        // undoes it knows when.
        let written = self.written;
        if let [InFlight { job: Some(job), asked, end, .. }] = self.in_flight.make_contiguous()
            && (is_safe(asked.method()) || end.is_none_or(|end| end > written))
            && job.reply.poll_closed(context).is_ready()
        {
            return Poll::Ready(Ok(Step::Unwanted));
        }
        if self.alarm_at().is_some() {
            ready!(self.alarm.as_mut().poll(context));
            return Poll::Ready(Ok(Step::Late));
        }
        Poll::Pending
    }
}
