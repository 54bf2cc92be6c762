//! The I/O of one HTTP/1.1 connection, in both directions at once.
//!
//! Responses must be read while requests are written: a server whose responses are not read stops reading, and both
//! ends wait for each other. So one task waits, in `step`, for whatever comes first. While the reader of a response
//! lags, nothing is read from the network, and TCP's window stops the server.

mod in_flight_limit;
mod kernel_window;
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
    kernel_window::KernelWindow,
    read::{Reader, deliver},
    write::Sending,
};
use super::{
    exchange::{CONNECTION_CLOSE, Exchanges},
    head,
};
use crate::{
    Cause, RequestLine, Timeouts,
    connection_messages::{ConnectionEvent, ConnectionId, Job, JobId, PROGRESS, Recall},
    method::is_safe,
};

/// The size of the write buffer, in addition to the kernel's.
const WRITE_BUFFER: usize = 128 * 1024;

/// Serves `jobs` on a connection until it ends, and sends its last event.
pub(crate) async fn run(
    io: Box<dyn Io>,
    id: ConnectionId,
    timeouts: Timeouts,
    jobs: mpsc::UnboundedReceiver<Job>,
    recalls: mpsc::UnboundedReceiver<Recall>,
    events: mpsc::UnboundedSender<ConnectionEvent>,
) {
    let mut driver = Driver::new(io, id, timeouts, Channels { jobs: Some(jobs), recalls, events });
    let cause = driver.serve().await;
    driver.end(cause).await;
}

struct Driver {
    io: Box<dyn Io>,
    id: ConnectionId,
    timeouts: Timeouts,
    channels: Channels,
    exchanges: Exchanges,
    /// Jobs not started.
    waiting: VecDeque<Job>,
    /// Jobs in flight, oldest first; the same as in `exchanges`.
    in_flight: VecDeque<InFlight>,
    output: Output,
    reader: Reader,
    /// Start no more jobs: unwanted responses of recalled jobs follow those in flight.
    is_draining: bool,
    timers: Timers,
    limits: Limits,
}

/// Channels from and to the dispatcher.
struct Channels {
    /// None once the dispatcher has dropped its handle.
    jobs: Option<mpsc::UnboundedReceiver<Job>>,
    recalls: mpsc::UnboundedReceiver<Recall>,
    events: mpsc::UnboundedSender<ConnectionEvent>,
}

/// What is written, and the body that is being copied.
#[derive(Default)]
struct Output {
    buffer: BytesMut,
    body: Option<Sending>,
    /// Bytes written since the connection began.
    written: u64,
    is_unflushed: bool,
}

/// The state of the timeouts.
struct Timers {
    /// The time of the last progress, or the start of a wait.
    progress_at: Instant,
    /// Bytes of a response since the last progress; its first byte always counts.
    uncounted: usize,
    /// Bytes acknowledged by the server's kernel when last checked.
    acknowledged: u64,
    response_began_at: Instant,
    reader_checked_at: Instant,
    /// Since when a piece waits for its reader, and whether that was reported.
    unread: Option<Unread>,
    /// The last job reported as slow.
    reported_slow: Option<JobId>,
    /// How long a response may delay those behind it.
    slow_after: Duration,
    alarm: Pin<Box<Sleep>>,
}

/// A piece that its reader has no room for.
#[derive(Clone, Copy)]
struct Unread {
    since: Instant,
    is_reported: bool,
}

/// Targets of bytes in flight, and the kernel's limit.
#[derive(Default)]
struct Limits {
    window: KernelWindow,
    received: InFlightLimit,
    sent: InFlightLimit,
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
    is_follow_up: bool,
    /// Whether it is a range of a large file (`Class::Part`).
    is_part: bool,
}

/// What happened first.
enum Step {
    Wrote(usize),
    Read(usize),
    ReaderReady,
    Chunk(Option<io::Result<Bytes>>),
    Job(Option<Box<Job>>),
    Recall(Recall),
    Cancelled,
    Deadline,
}

impl Driver {
    fn new(io: Box<dyn Io>, id: ConnectionId, timeouts: Timeouts, channels: Channels) -> Self {
        let now = Instant::now();
        Self {
            io,
            id,
            timeouts,
            channels,
            exchanges: Exchanges::default(),
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            output: Output::default(),
            reader: Reader::None,
            is_draining: false,
            timers: Timers {
                progress_at: now,
                uncounted: PROGRESS,
                acknowledged: 0,
                response_began_at: now,
                reader_checked_at: now,
                unread: None,
                reported_slow: None,
                slow_after: Self::SLOW_RESPONSE,
                alarm: Box::pin(tokio::time::sleep_until(now)),
            },
            limits: Limits::default(),
        }
    }

    /// Works until the connection ends, and returns the cause.
    async fn serve(&mut self) -> Cause {
        loop {
            if let Err(cause) = self.deliver_events() {
                return cause;
            }
            self.copy_body();
            if let Err(cause) = self.start_waiting() {
                return cause;
            }
            if self.in_flight.is_empty() && self.exchanges.is_closing() {
                return Cause::Retired(CONNECTION_CLOSE);
            }
            let done = self.in_flight.is_empty() && self.waiting.is_empty();
            if done && self.channels.jobs.is_none() {
                let _ = timeout(self.timeouts.stall, self.io.shutdown()).await;
                return Cause::Retired("the connection is no longer needed");
            }
            // Later is early enough when it goes off: most deadlines move on long before.
            if let Some(at) = self.alarm_at()
                && (at < self.timers.alarm.deadline() || self.timers.alarm.is_elapsed())
            {
                self.timers.alarm.as_mut().reset(at);
            }
            let step = match poll_fn(|context| self.step(context)).await {
                Ok(step) => step,
                Err(error) => return self.drain_input().err().unwrap_or_else(|| error.into()),
            };
            if let Err(cause) = self.handle(step) {
                return cause;
            }
        }
    }

    /// Handles what happened.
    fn handle(&mut self, step: Step) -> Result<(), Cause> {
        match step {
            Step::Wrote(bytes) => {
                self.output.buffer.advance(bytes);
                self.output.written += bytes as u64;
                self.timers.progress_at = Instant::now();
            }
            Step::Read(0) => {
                let event = self.exchanges.end_of_input()?;
                self.take_event(event)?;
                return Err(Cause::Retired("the server closed the connection"));
            }
            Step::Read(bytes) => {
                self.limits.received.count(bytes as u64, &*self.io);
                self.timers.uncounted += bytes;
                if self.timers.uncounted >= PROGRESS {
                    (self.timers.progress_at, self.timers.uncounted) = (Instant::now(), 0);
                }
            }
            // The server is not to blame for a slow reader.
            Step::ReaderReady => {
                self.timers.progress_at = Instant::now();
                self.reader_goes_on();
            }
            Step::Chunk(chunk) => self.take_chunk(chunk)?,
            Step::Job(None) => self.channels.jobs = None,
            Step::Job(Some(job)) => {
                if self.in_flight.is_empty() {
                    self.timers.progress_at = Instant::now();
                }
                self.waiting.push_back(*job);
            }
            Step::Cancelled => return Err(Cause::Retired("the caller cancelled the request")),
            Step::Recall(call) => self.recall(call),
            Step::Deadline => self.on_deadline()?,
        }
        Ok(())
    }

    /// Waits for what comes first.
    fn step(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Step>> {
        if !self.output.buffer.is_empty() {
            if let Poll::Ready(wrote) = Pin::new(&mut self.io).poll_write(context, &self.output.buffer) {
                self.output.is_unflushed = true;
                return Poll::Ready(match wrote? {
                    0 => Err(io::ErrorKind::WriteZero.into()),
                    bytes => Ok(Step::Wrote(bytes)),
                });
            }
        } else if self.output.is_unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.io).poll_flush(context)
        {
            flushed?;
            self.output.is_unflushed = false;
        }
        let mut may_read = true;
        if let Reader::Active(sender, waiting @ Some(_)) = &mut self.reader {
            may_read = false;
            if let Poll::Ready(room) = deliver(sender, waiting, context) {
                return Poll::Ready(match self.update_reader(room) {
                    Ok(()) => Ok(Step::ReaderReady),
                    Err(_) => Ok(Step::Cancelled),
                });
            }
        }
        if may_read && let Poll::Ready(read) = self.poll_read(context) {
            return Poll::Ready(Ok(Step::Read(read?)));
        }
        if self.output.buffer.len() < WRITE_BUFFER
            && let Some(sending) = &mut self.output.body
            && sending.chunk.is_empty()
            && let Poll::Ready(chunk) = sending.chunks.poll_next_unpin(context)
        {
            return Poll::Ready(Ok(Step::Chunk(chunk)));
        }
        if let Some(jobs) = &mut self.channels.jobs
            && let Poll::Ready(job) = jobs.poll_recv(context)
        {
            return Poll::Ready(Ok(Step::Job(job.map(Box::new))));
        }
        if let Poll::Ready(Some(call)) = self.channels.recalls.poll_recv(context) {
            return Poll::Ready(Ok(Step::Recall(call)));
        }
        // A cancelled unsafe request that was sent whole takes effect anyway: wait for its response, so that whoever
        // undoes it knows when.
        let written = self.output.written;
        if let [InFlight { job: Some(job), asked, end, .. }] = self.in_flight.make_contiguous()
            && (is_safe(asked.method()) || end.is_none_or(|end| end > written))
            && job.reply.poll_closed(context).is_ready()
        {
            return Poll::Ready(Ok(Step::Cancelled));
        }
        if self.alarm_at().is_some() {
            ready!(self.timers.alarm.as_mut().poll(context));
            return Poll::Ready(Ok(Step::Deadline));
        }
        Poll::Pending
    }
}
