//! HTTP/2: many exchanges at once on one connection (RFC 9113), by the crate `h2`.
//!
//! `h2` speaks the protocol. What is here decides what a long link needs: how much may be under way, how long to
//! wait, and what a broken stream or connection means for each request on it.
//!
//! # Windows
//! A receiver's window bounds what may be under way to it, and so a stream's rate to window ÷ RTT. `h2` gives a
//! window back when a third of it has been used and taken, so in the worst moment two thirds are under way: for a
//! rate `r` over a round trip `t` a window must be at least 1.5 × `r` × `t`. The defaults of 4 MiB for a stream and
//! 16 MiB for the connection carry 112 Mbit/s and 447 Mbit/s at 200 ms. A window is also what a stream holds in
//! memory at the worst, since it is given back only for what the reader has taken: a slow reader stops its server,
//! and no more than the connection's window waits for all readers together. The price is that four readers who
//! leave large bodies untouched hold up all others on their connection; whoever holds many bodies open must read
//! them all, or ask for a wider window.
//!
//! The server's windows bound what we send in the same way. They are told to the driver ([`Windows`]), because 64 KiB
//! per stream, a common setting, is 2.6 Mbit/s at 200 ms: there, more streams or more connections help, and if the
//! connection's window is as narrow, only connections do.
//!
//! # Fates
//! Each job given to the connection is settled exactly once. Its answer goes to its reader, whole or with an error
//! in place of its end; or the job goes back to the driver, alone if only its stream ended, with the others when the
//! connection did. A reader that goes away resets its stream and disturbs no other.
//!
//! # One task
//! The exchanges are futures within the connection's task, not tasks: they share a wake-up, need no channel back,
//! and are gone when it is.

mod ear;
mod exchange;
mod liveness;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use h2::client::{self, SendRequest};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::timeout,
};

use self::{
    ear::{Ear, Overheard},
    exchange::{Begun, Common},
    liveness::Liveness,
};
use crate::{
    Asked, Cause, Error, Step, Timeouts,
    connect::Io,
    streams::{
        self, Count, Outcome,
        clock::{Alarm, Traffic},
        head,
    },
    wire::{ConnectionId, Job, Report, Sent},
};

/// The most that the head of an answer may be, in bytes.
const HEADER_LIST: u32 = 64 * 1024;
/// How much of a body waits in memory for the network to take it, per stream and in bytes.
const SEND_BUFFER: usize = 128 * 1024;
/// How long, and for how many at most, a stream that we reset is remembered: what was under way to it still comes
/// for a round trip and a queue's length, and would otherwise count as the server's mistake.
const REMEMBERED: (Duration, usize) = (Duration::from_secs(30), 1024);
/// How many streams are opened before the server has said how many it allows (RFC 9113 §6.5.2 asks for as many).
const STREAMS: usize = 100;

/// How HTTP/2 connections are set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Settings {
    /// The bytes that may be under way to each stream: 1.5 × rate × RTT or more, and what a slow reader holds.
    pub stream_window: u32,
    /// The same for all streams of a connection together.
    pub connection_window: u32,
}

impl Default for Http2Settings {
    /// 4 MiB and 16 MiB, for 112 Mbit/s per stream at 200 ms.
    fn default() -> Self {
        Self { stream_window: 4 << 20, connection_window: 16 << 20 }
    }
}

/// How much an HTTP/2 server lets be sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// The window of a new stream, in bytes (SETTINGS_INITIAL_WINDOW_SIZE, RFC 9113 §6.9.2).
    pub stream: u32,
    /// The widest that the connection's window was seen, in bytes (§6.9).
    pub connection: u32,
    /// The largest payload of a frame, in bytes (SETTINGS_MAX_FRAME_SIZE).
    pub frame: u32,
}

impl Default for Windows {
    /// What holds until the server says otherwise (RFC 9113 §6.5.2, §6.9.2).
    fn default() -> Self {
        Self { stream: 65_535, connection: 65_535, frame: 16_384 }
    }
}

/// Serves jobs on a connection until it ends, or until `jobs` is dropped and all is done.
pub(crate) async fn run(
    io: impl Io + 'static,
    id: ConnectionId,
    settings: Http2Settings,
    timeouts: Timeouts,
    jobs: mpsc::UnboundedReceiver<Job>,
    reports: mpsc::UnboundedSender<Report>,
) {
    let (io, ear) = Overheard::new(io);
    let handshake = client::Builder::new()
        .enable_push(false)
        .initial_window_size(settings.stream_window)
        .initial_connection_window_size(settings.connection_window)
        .max_header_list_size(HEADER_LIST)
        .max_send_buffer_size(SEND_BUFFER)
        .initial_max_send_streams(STREAMS)
        .reset_stream_duration(REMEMBERED.0)
        .max_concurrent_reset_streams(REMEMBERED.1)
        .handshake::<_, Bytes>(io);
    let common = Arc::new(Common {
        id,
        timeouts,
        stream_window: settings.stream_window,
        reports,
        traffic: Arc::new(Traffic::new(settings.stream_window, settings.connection_window)),
        unanswered: Arc::new(AtomicUsize::new(0)),
        ended: OnceLock::new(),
    });
    let mut connection = Connection {
        common,
        jobs,
        open: true,
        waiting: VecDeque::new(),
        exchanges: FuturesUnordered::new(),
        told: None,
        farewell: None,
    };
    let cause = match timeout(timeouts.connect, handshake).await {
        Ok(Ok((sender, h2))) => connection.serve(sender, h2, ear).await,
        Ok(Err(error)) => end_of_connection(&error),
        Err(_) => Cause::TimedOut(Step::Send, timeouts.connect),
    };
    connection.close(cause).await;
}

struct Connection {
    common: Arc<Common>,
    jobs: mpsc::UnboundedReceiver<Job>,
    /// Whether more jobs may come.
    open: bool,
    /// Jobs for which the server has no room yet.
    waiting: VecDeque<Job>,
    exchanges: FuturesUnordered<Pin<Box<dyn Future<Output = Outcome> + Send>>>,
    /// What the driver was told last of the server's limits.
    told: Option<(usize, Windows)>,
    /// Why no more are begun, once that is so.
    farewell: Option<Cause>,
}

impl Connection {
    /// Serves until the end, and gives its reason.
    async fn serve<T: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        mut sender: SendRequest<Bytes>,
        mut h2: client::Connection<T, Bytes>,
        ear: Ear,
    ) -> Cause {
        let stall = self.common.timeouts.stall;
        let mut liveness = Liveness::new(h2.ping_pong(), ear.clone(), stall);
        let mut no_room = Alarm::new();
        let mut stuck = None;
        loop {
            self.begin_waiting(&mut sender);
            self.tell_limits(&sender, &ear);
            if !self.open && self.waiting.is_empty() && self.exchanges.is_empty() {
                drop(sender);
                let _ = timeout(stall, h2).await;
                return self.farewell.take().unwrap_or(Cause::Retired("the connection was not needed any more"));
            }
            stuck = if self.waiting.is_empty() || !self.exchanges.is_empty() {
                None
            } else {
                stuck.or(Some(tokio::time::Instant::now() + stall))
            };
            // What `h2` learns in its turn, the ones after it see in theirs.
            tokio::select! {
                biased;
                end = &mut h2 => return end.map_or_else(|error| end_of_connection(&error), |()| self.closed()),
                cause = poll_fn(|_| no_more(&mut sender)), if self.farewell.is_none() => self.drain(cause),
                () = poll_fn(|_| if ear.with(|heard| heard.has_news()) { Poll::Ready(()) } else { Poll::Pending }) => {}
                job = self.jobs.recv(), if self.open => self.take(job),
                () = poll_fn(|context| liveness.poll_dead(context)), if !self.exchanges.is_empty() => {
                    ear.with(|heard| heard.given_up = true);
                    return Cause::TimedOut(Step::Receive, liveness.bound());
                }
                Some(outcome) = self.exchanges.next() => self.settle(outcome),
                () = poll_fn(|context| stuck.map_or(Poll::Pending, |time| no_room.poll_at(time, context))) => {
                    return Cause::Retired("the server allows no requests on the connection");
                }
            }
        }
    }

    fn take(&mut self, job: Option<Job>) {
        match (job, &self.farewell) {
            (None, _) => self.open = false,
            (Some(job), None) => self.waiting.push_back(job),
            (Some(job), Some(cause)) => self.return_job(Box::new(job), Sent::Nothing, cause.clone()),
        }
    }

    /// Begins as many jobs as the server allows.
    fn begin_waiting(&mut self, sender: &mut SendRequest<Bytes>) {
        while self.exchanges.len() < sender.current_max_send_streams() && self.farewell.is_none() {
            let Some(job) = self.waiting.pop_front() else { return };
            if job.reply.is_closed() {
                self.over(job.id, 0, 0, false);
            } else if let Poll::Ready(cause) = no_more(sender) {
                self.waiting.push_front(job);
                self.drain(cause);
            } else {
                self.begin(job, sender);
            }
        }
    }

    fn begin(&mut self, mut job: Job, sender: &SendRequest<Bytes>) {
        let asked = Asked::of(&job.request);
        let begun = head::head(&job.request).and_then(|head| {
            let chunks = streams::open(&mut job.request)
                .map_err(|error| Error::Sending { asked: asked.clone(), source: Arc::new(error) })?;
            let (response, stream) = sender
                .clone()
                .send_request(head, chunks.is_none())
                .map_err(|error| Error::Exchange { asked, cause: Cause::Protocol(error.to_string()) })?;
            Ok((response, stream, chunks))
        });
        match begun {
            Ok((response, stream, chunks)) => {
                let unanswered = Count::one_more(&self.common.unanswered);
                let begun = Begun { job, stream, response, chunks, unanswered };
                self.exchanges.push(Box::pin(exchange::exchange(begun, self.common.clone())));
            }
            Err(error) => {
                let _ = job.reply.send(Err(error));
                self.over(job.id, 0, 0, false);
            }
        }
    }

    fn settle(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Over { job, sent, received, whole } => self.over(job, sent, received, whole),
            Outcome::Back(job, sent, cause) => self.return_job(job, sent, cause),
        }
    }

    /// Begins no more, and lets the driver have what was not begun.
    fn drain(&mut self, cause: Cause) {
        self.jobs.close();
        self.report(Report::Draining { connection: self.common.id, cause: cause.clone() });
        for job in std::mem::take(&mut self.waiting) {
            self.return_job(Box::new(job), Sent::Nothing, cause.clone());
        }
        self.farewell = Some(cause);
    }

    fn closed(&mut self) -> Cause {
        self.farewell.take().unwrap_or(Cause::Closed)
    }

    fn over(&self, job: crate::wire::JobId, sent: u64, received: u64, whole: bool) {
        let connection = self.common.id;
        self.report(if whole {
            Report::Done { connection, job, sent, received, window: None }
        } else {
            Report::Abandoned { connection, job }
        });
    }

    fn return_job(&self, job: Box<Job>, sent: Sent, cause: Cause) {
        self.report(Report::Returned { connection: self.common.id, job, sent, cause });
    }

    /// A driver that is gone needs no reports.
    fn report(&self, report: Report) {
        let _ = self.common.reports.send(report);
    }

    fn tell_limits(&mut self, sender: &SendRequest<Bytes>, ear: &Ear) {
        let news = ear.with(|heard| heard.news(self.common.traffic.sent()));
        let Some(windows) = news.or(self.told.map(|(_, windows)| windows)) else { return };
        let limit = sender.current_max_send_streams();
        if self.told.replace((limit, windows)) != Some((limit, windows)) {
            self.report(Report::Streams { connection: self.common.id, limit, windows });
        }
    }

    /// Hands back what has no answer; then waits for the readers of what has come whole.
    async fn close(mut self, cause: Cause) {
        let _ = self.common.ended.set(cause.clone());
        let mut unanswered = Vec::new();
        poll_fn(|context| {
            while let Poll::Ready(Some(outcome)) = self.exchanges.poll_next_unpin(context) {
                match outcome {
                    Outcome::Back(job, sent, _) => unanswered.push((*job, sent)),
                    over @ Outcome::Over { .. } => self.settle(over),
                }
            }
            if self.common.unanswered.load(Ordering::Relaxed) == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.jobs.close();
        unanswered.extend(self.waiting.drain(..).map(|job| (job, Sent::Nothing)));
        while let Some(job) = self.jobs.recv().await {
            unanswered.push((job, Sent::Nothing));
        }
        self.report(Report::Closed { connection: self.common.id, cause, unanswered });
        while self.exchanges.next().await.is_some() {}
    }
}

/// Whether the connection opens no more streams: a GOAWAY came or was sent, or the numbers of streams are used up.
fn no_more(sender: &mut SendRequest<Bytes>) -> Poll<Cause> {
    match sender.poll_ready(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(error)) => Poll::Ready(end_of_connection(&error)),
        _ => Poll::Pending,
    }
}

/// What an error of the connection says about its end.
fn end_of_connection(error: &h2::Error) -> Cause {
    match (error.get_io(), error.reason()) {
        (Some(io), _) => match io.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code).into(),
            // This is how `h2` calls the end of the server's bytes.
            None if matches!(io.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof) => Cause::Closed,
            None => io::Error::new(io.kind(), io.to_string()).into(),
        },
        (None, Some(code)) if error.is_remote() => {
            Cause::Http2 { code: code.into(), said: format!("the server closed the connection ({code:?})") }
        }
        (None, Some(code)) => Cause::Protocol(format!("what the server sent is not HTTP/2 ({code:?})")),
        (None, None) => Cause::Protocol(error.to_string()),
    }
}
