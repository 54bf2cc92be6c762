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
    messages::{ConnectionEvent, ConnectionId, Job},
    streams::{
        self, Count,
        connection::Exchanges,
        head,
        stall_timer::{Alarm, Traffic},
    },
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
    /// What the driver was told last of the server's limits.
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
            // Where the driver knows that nothing is allowed, it gives the connection nothing to wait with.
            let held = !self.exchanges.waiting.is_empty() || sender.current_max_send_streams() == 0;
            stuck = if held && self.exchanges.running.is_empty() {
                stuck.or(Some(tokio::time::Instant::now() + stall))
            } else {
                None
            };
            // What `h2` learns in its turn, the ones after it see in theirs.
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

    /// Begins as many jobs as the server allows.
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
                let unanswered = Count::one_more(&self.exchanges.common.unanswered);
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
        (None, Some(code)) => Cause::Protocol(format!("the server violated the HTTP/2 protocol ({code:?})")),
        (None, None) => Cause::Protocol(error.to_string()),
    }
}
