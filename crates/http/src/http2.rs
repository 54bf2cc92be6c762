//! HTTP/2: many exchanges at once on one connection (RFC 9113), by the crate `h2`.
//!
//! `h2` speaks the protocol. This module decides what matters on a long link: how much may be in flight, how long to
//! wait, and what a broken stream or connection means for each request on it.
//!
//! # Windows
//! A receive window limits the bytes in flight, and so a stream's rate to window ÷ RTT. `h2` extends a window when a
//! third of it has been used and released, so in the worst case two thirds are in flight: for a rate `r` over a round
//! trip `t` a window must be at least 1.5 × `r` × `t`. The defaults of 4 MiB per stream and 16 MiB per connection carry
//! 112 Mbit/s and 447 Mbit/s at 200 ms. A window is also the maximum that a stream holds in memory, because it is
//! extended only for what the reader has taken: a slow reader stops its server, and all readers together hold no more
//! than the connection's window. The price: four readers that leave large bodies unread block all others on their
//! connection. A caller with many open bodies must read them all, or set a wider window.
//!
//! The server's windows limit uploads in the same way. They are reported to the dispatcher ([`Windows`]), because 64
//! KiB per stream, a common setting, is 2.6 Mbit/s at 200 ms: more streams or more connections help then, and if the
//! connection's window is as narrow, only connections do.
//!
//! # Outcomes
//! Each job is settled exactly once. Its response goes to its reader, complete or with an error at its end; or the job
//! goes back to the dispatcher, alone if only its stream ended, with all others if the connection did. A reader that is
//! dropped resets its stream and disturbs no other.
//!
//! # One task
//! The exchanges are futures within the connection's task, not tasks of their own: they share wake-ups, need no channel
//! back, and end with the connection.

mod exchange;
mod frame_tap;
mod liveness;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::{
    future::poll_fn,
    io,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use futures_util::StreamExt;
use h2::client::{self, SendRequest};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::timeout,
};
use transport::Io;

use self::{
    exchange::Begun,
    frame_tap::{FrameTap, Tapped},
    liveness::Liveness,
};
use crate::{
    Cause, Error, RequestLine, Step, Timeouts,
    connection_messages::{ConnectionEvent, ConnectionId, Job},
    streams::{
        self, CountGuard,
        connection::Exchanges,
        head,
        stall_timer::{Alarm, Traffic},
    },
};

/// The maximum size of a response header, in bytes.
const HEADER_LIST: u32 = 64 * 1024;
/// The write buffer of a stream, in bytes.
const SEND_BUFFER: usize = 128 * 1024;
/// How long, and for how many at most, a reset stream is remembered: its data still arrives for a round trip and a
/// queue's length, and would otherwise count as a protocol error.
const REMEMBERED: (Duration, usize) = (Duration::from_secs(30), 1024);
/// The number of streams before the server has sent its limit (recommended by RFC 9113 §6.5.2).
const STREAMS: usize = 100;

/// Flow control windows of HTTP/2 connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Settings {
    /// The receive window of a stream in bytes: 1.5 × rate × RTT or more, and the memory that a slow reader holds.
    pub stream_window: u32,
    /// The receive window of a connection in bytes.
    pub connection_window: u32,
}

impl Default for Http2Settings {
    /// 4 MiB and 16 MiB, for 112 Mbit/s per stream at 200 ms.
    fn default() -> Self {
        Self { stream_window: 4 << 20, connection_window: 16 << 20 }
    }
}

/// The windows of an HTTP/2 server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// The window of a new stream, in bytes (SETTINGS_INITIAL_WINDOW_SIZE, RFC 9113 §6.9.2).
    pub stream: u32,
    /// The widest window of the connection so far, in bytes (§6.9).
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
    events: mpsc::UnboundedSender<ConnectionEvent>,
) {
    let (io, tap) = Tapped::new(io);
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
    let traffic = Traffic::new(settings.stream_window, settings.connection_window);
    let exchanges = Exchanges::new(id, timeouts, traffic, jobs, events);
    let mut connection = Connection { exchanges, told: None };
    let cause = match timeout(timeouts.connect, handshake).await {
        Ok(Ok((sender, h2))) => connection.serve(sender, h2, tap).await,
        Ok(Err(error)) => end_of_connection(&error),
        Err(_) => Cause::TimedOut(Step::Send, timeouts.connect),
    };
    connection.exchanges.close(cause).await;
}

struct Connection {
    exchanges: Exchanges,
    /// The limits last reported to the dispatcher.
    told: Option<(usize, Windows)>,
}

impl Connection {
    /// Serves until the end, and gives its reason.
    async fn serve<T: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        mut sender: SendRequest<Bytes>,
        mut h2: client::Connection<T, Bytes>,
        tap: FrameTap,
    ) -> Cause {
        let stall = self.exchanges.common.timeouts.stall;
        let mut liveness = Liveness::new(h2.ping_pong(), tap.clone(), stall);
        let mut no_room = Alarm::new();
        let mut stuck = None;
        loop {
            self.begin_waiting(&mut sender);
            self.tell_limits(&sender, &tap);
            if !self.exchanges.open && self.exchanges.waiting.is_empty() && self.exchanges.running.is_empty() {
                drop(sender);
                let _ = timeout(stall, h2).await;
                return self.exchanges.farewell.take().unwrap_or(Cause::Retired("the connection is no longer needed"));
            }
            // A server that allows no stream gets no jobs from the dispatcher.
            let held = !self.exchanges.waiting.is_empty() || sender.current_max_send_streams() == 0;
            stuck = if held && self.exchanges.running.is_empty() {
                stuck.or(Some(tokio::time::Instant::now() + stall))
            } else {
                None
            };
            // `h2` comes first, so that the branches after it see what it has learnt.
            tokio::select! {
                biased;
                end = &mut h2 => return end.map_or_else(|error| end_of_connection(&error), |()| self.closed()),
                cause = poll_fn(|_| no_more(&mut sender)), if self.exchanges.farewell.is_none() => self.exchanges.drain(cause),
                () = poll_fn(|_| if tap.with(|observed| observed.has_news()) { Poll::Ready(()) } else { Poll::Pending }) => {}
                job = self.exchanges.jobs.recv(), if self.exchanges.open => self.exchanges.take(job),
                () = poll_fn(|context| liveness.poll_dead(context)), if !self.exchanges.running.is_empty() => {
                    tap.with(|observed| observed.given_up = true);
                    return Cause::TimedOut(Step::Receive, liveness.bound());
                }
                Some(outcome) = self.exchanges.running.next() => self.exchanges.settle(outcome),
                () = poll_fn(|context| stuck.map_or(Poll::Pending, |time| no_room.poll_at(time, context))) => {
                    return Cause::TimedOut(Step::Streams, stall);
                }
            }
        }
    }

    /// Starts as many jobs as the server allows.
    fn begin_waiting(&mut self, sender: &mut SendRequest<Bytes>) {
        while self.exchanges.running.len() < sender.current_max_send_streams() && self.exchanges.farewell.is_none() {
            let Some(job) = self.exchanges.waiting.pop_front() else { return };
            if job.reply.is_closed() {
                self.exchanges.over(job.id, 0, 0, false);
            } else if let Poll::Ready(cause) = no_more(sender) {
                self.exchanges.waiting.push_front(job);
                self.exchanges.drain(cause);
            } else {
                self.begin(job, sender);
            }
        }
    }

    fn begin(&mut self, mut job: Job, sender: &SendRequest<Bytes>) {
        let asked = RequestLine::of(&job.request);
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
                let unanswered = CountGuard::increment(&self.exchanges.common.unanswered);
                let begun = Begun { job, stream, response, chunks, unanswered };
                self.exchanges.running.push(Box::pin(exchange::exchange(begun, self.exchanges.common.clone())));
            }
            Err(error) => {
                let _ = job.reply.send(Err(error));
                self.exchanges.over(job.id, 0, 0, false);
            }
        }
    }

    fn closed(&mut self) -> Cause {
        self.exchanges.farewell.take().unwrap_or(Cause::Closed)
    }

    fn tell_limits(&mut self, sender: &SendRequest<Bytes>, tap: &FrameTap) {
        let news = tap.with(|observed| observed.news(self.exchanges.common.traffic.sent()));
        let Some(windows) = news.or(self.told.map(|(_, windows)| windows)) else { return };
        let limit = sender.current_max_send_streams();
        if self.told.replace((limit, windows)) != Some((limit, windows)) {
            self.exchanges.common.report(ConnectionEvent::Streams {
                connection: self.exchanges.common.id,
                limit,
                windows,
            });
        }
    }
}

/// Ready when the connection opens no more streams: after a GOAWAY, or when the stream numbers are used up.
fn no_more(sender: &mut SendRequest<Bytes>) -> Poll<Cause> {
    match sender.poll_ready(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(error)) => Poll::Ready(end_of_connection(&error)),
        _ => Poll::Pending,
    }
}

/// The cause of a connection's end.
fn end_of_connection(error: &h2::Error) -> Cause {
    match (error.get_io(), error.reason()) {
        (Some(io), _) => match io.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code).into(),
            // `h2` reports the server's close so.
            None if matches!(io.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof) => Cause::Closed,
            None => io::Error::new(io.kind(), io.to_string()).into(),
        },
        (None, Some(code)) if error.is_remote() => {
            Cause::Http2 { code: code.into(), said: format!("the server closed the connection ({code:?})") }
        }
        (None, Some(code)) => Cause::Protocol(format!("the server violated the HTTP/2 protocol ({code:?})")),
        (None, None) => Cause::Protocol(error.to_string()),
    }
}
