//! A connection whose SYN carries the first write.
//!
//! Nothing is sent before the first write, which goes into the SYN. The stream keeps a copy of what was written until
//! the SYN is known to have worked: it was acknowledged, and, on a path where this has not worked before, a response
//! came. If that takes longer than the wait in the path's history, a plain connection to any of the host's addresses is
//! made as well, and gets the copy. The first to respond becomes the connection, and the other is closed. So the data
//! may arrive twice, as data in a SYN may anyway (RFC 7413 §2.1). Hence the writer must allow it ([`Io::repeatable`]);
//! otherwise the handshake is a plain one.
//!
//! One task at a time polls all of this, as for every connection of the engine.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

use super::{
    path_history::{Event, Plan},
    paths::PathHandle,
    race::{self, Fast, Move, decide},
};
use crate::{happy_eyeballs, io::Io, resolve::combined_error, tcp::Tcp, tcp_info::TcpInfo};

/// The maximum size of the copy. On a path not known to work, a longer request relies on its connection once the
/// handshake is done.
const KEPT: usize = 64 * 1024;

/// The plain connection.
enum Plain {
    No,
    Connecting(BoxFuture<'static, happy_eyeballs::Outcome<TcpStream>>),
    /// Open after this time, with so many bytes of the copy written.
    Open(TcpStream, Duration, usize),
    Failed(io::Error),
}

/// A connection that begins with its first write.
pub(super) struct FastStream {
    /// The connection with data in its SYN, while it may still win.
    fast: Option<TcpStream>,
    plain: Plain,
    /// The winner.
    settled: Option<TcpStream>,
    /// What was written so far; once there is a winner, what it still has to send.
    copy: Vec<u8>,
    /// Whether everything written may arrive twice; `None` until the writer says so.
    repeatable: Option<bool>,
    /// Whether silence after the handshake is normal.
    trusted: bool,
    /// The wait for a SYN-ACK; starts with the SYN, or with that of another attempt on the path.
    alarm: Option<Pin<Box<Sleep>>>,
    /// When the SYN with data was sent.
    sent: Option<Instant>,
    /// The path, whose history records the outcome.
    path: PathHandle,
    /// All addresses of the host, for the plain connection.
    addresses: Vec<SocketAddr>,
    tcp: Tcp,
}

impl FastStream {
    /// Wraps a socket whose SYN waits for data.
    pub(super) fn new(fast: TcpStream, path: PathHandle, addresses: Vec<SocketAddr>, tcp: Tcp) -> Self {
        Self {
            fast: Some(fast),
            plain: Plain::No,
            settled: None,
            copy: Vec::new(),
            repeatable: None,
            trusted: false,
            alarm: None,
            sent: None,
            path,
            addresses,
            tcp,
        }
    }

    /// Drives both connections until there is a winner.
    fn poll_settle(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.settled.is_none() {
            let Some(alarm) = &mut self.alarm else { return Poll::Pending };
            let late = alarm.as_mut().poll(context).is_ready();
            // Another connection may have proven the path meanwhile.
            self.trusted |= late && self.path.plan() == Plan::Data { proven: true };
            let fast = self.poll_fast(context)?;
            let plain = self.poll_plain(context);
            match decide(fast, plain, late, self.trusted) {
                Move::Wait => return Poll::Pending,
                Move::Begin => self.begin_plain(),
                Move::TakeFast(learned) => {
                    self.path.record(learned);
                    if let Some(fast) = &self.fast {
                        self.path.record_tcp_info(fast);
                    }
                    (self.settled, self.plain) = (self.fast.take(), Plain::No);
                    self.copy = Vec::new();
                }
                Move::TakePlain(learned) => {
                    if let Plain::Open(stream, took, given) = std::mem::replace(&mut self.plain, Plain::No) {
                        // Nothing is learned from an attempt that lost because another one's wait was over.
                        let has_waited = |sent: Instant| sent.elapsed() >= self.path.wait();
                        if self.fast.is_none() || self.sent.is_none_or(has_waited) {
                            self.path.record(learned);
                        }
                        self.path.round_trip(took);
                        (self.settled, self.fast) = (Some(stream), None);
                        self.copy.drain(..given);
                    }
                }
                Move::Lost => {
                    // The next attempt reports its own error.
                    self.path.record(Event::Forgotten);
                    let Plain::Failed(error) = &self.plain else { return Poll::Pending };
                    return Poll::Ready(Err(io::Error::new(error.kind(), error.to_string())));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn begin_plain(&mut self) {
        let (addresses, tcp) = (self.addresses.clone(), self.tcp.clone());
        self.plain =
            Plain::Connecting(Box::pin(async move { happy_eyeballs::run(addresses, |to| tcp.connect(to)).await }));
    }

    /// The progress of the connection with data in its SYN.
    fn poll_fast(&mut self, context: &mut Context<'_>) -> io::Result<Fast> {
        let Some(fast) = &self.fast else { return Ok(Fast::Failed) };
        let info = loop {
            if fast.poll_write_ready(context).is_pending() {
                return Ok(Fast::Silent);
            }
            let info = TcpInfo::of(fast)?;
            if !info.connecting {
                break info;
            }
            // It was writable for the SYN only; clear the readiness and wait for the handshake.
            let _ = fast.try_io(Interest::WRITABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        };
        if fast.take_error()?.is_some() {
            self.fast = None;
            return Ok(Fast::Failed);
        }
        let accepted = info.syn_data_accepted;
        Ok(if info.bytes_received.unwrap_or(1) > 0 || fast.poll_read_ready(context).is_ready() {
            Fast::Answered { accepted }
        } else {
            Fast::Open { accepted }
        })
    }

    /// The progress of the plain connection. It gets the copy as soon as it is open, unless the other's SYN was never
    /// answered: then it wins at once.
    fn poll_plain(&mut self, context: &mut Context<'_>) -> race::Plain {
        if let Plain::Connecting(connecting) = &mut self.plain
            && let Poll::Ready(outcome) = connecting.as_mut().poll(context)
        {
            self.plain = match outcome {
                Ok((_, stream, took)) => Plain::Open(stream, took, 0),
                Err(failures) => Plain::Failed(combined_error(&failures)),
            };
        }
        match &mut self.plain {
            Plain::No => race::Plain::No,
            Plain::Connecting(_) => race::Plain::Silent,
            Plain::Failed(_) => race::Plain::Failed,
            Plain::Open(stream, _, given) => {
                while *given < self.copy.len() {
                    match Pin::new(&mut *stream).poll_write(context, &self.copy[*given..]) {
                        Poll::Ready(Ok(wrote)) => *given += wrote,
                        Poll::Ready(Err(error)) => {
                            self.plain = Plain::Failed(error);
                            return race::Plain::Failed;
                        }
                        Poll::Pending => break,
                    }
                }
                if stream.poll_read_ready(context).is_ready() { race::Plain::Answered } else { race::Plain::Open }
            }
        }
    }

    /// Sends the rest of the copy on the winner.
    fn poll_settled(&mut self, context: &mut Context<'_>) -> Poll<io::Result<&mut TcpStream>> {
        ready!(self.poll_settle(context))?;
        let Some(stream) = &mut self.settled else { return Poll::Pending };
        while !self.copy.is_empty() {
            let wrote = ready!(Pin::new(&mut *stream).poll_write(context, &self.copy))?;
            self.copy.drain(..wrote);
        }
        Poll::Ready(Ok(stream))
    }

    /// A write before there is a winner. `None`: there is one now, and nothing was written.
    fn poll_early(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<Option<usize>>> {
        if self.alarm.is_none() {
            // The runtime must find the new socket writable first, or the SYN would leave without its data.
            if self.fast.as_ref().is_some_and(|fast| fast.poll_write_ready(context).is_pending()) {
                return Poll::Pending;
            }
            // Without the writer's consent, connect plainly, as if the other had failed; also if the path has meanwhile
            // turned out not to work.
            let plan = self.path.plan();
            self.trusted |= plan == Plan::Data { proven: true };
            if self.repeatable != Some(true) || !matches!(plan, Plan::Data { .. }) {
                (self.fast, self.path.declined) = (None, true);
            }
            if let Some(fast) = &mut self.fast {
                match ready!(Pin::new(fast).poll_write(context, bytes)) {
                    Ok(wrote) => {
                        self.copy.extend_from_slice(&bytes[..wrote]);
                        self.alarm = Some(Box::pin(sleep_until(self.path.deadline())));
                        self.sent = Some(Instant::now());
                        return Poll::Ready(Ok(Some(wrote)));
                    }
                    Err(_) => self.fast = None,
                }
            }
            self.alarm = Some(Box::pin(sleep_until(Instant::now())));
        }
        if self.repeatable != Some(true) || self.copy.len() + bytes.len() > KEPT {
            self.trusted = true;
        }
        if self.poll_settle(context)?.is_ready() {
            return Poll::Ready(Ok(None));
        }
        // The handshake is done, without a response yet.
        match &mut self.fast {
            Some(fast) if !self.copy.is_empty() && !TcpInfo::of(fast)?.connecting => {
                let wrote = ready!(Pin::new(fast).poll_write(context, bytes))?;
                self.copy.extend_from_slice(&bytes[..wrote]);
                Poll::Ready(Ok(Some(wrote)))
            }
            _ => Poll::Pending,
        }
    }
}

impl Drop for FastStream {
    /// An attempt that is given up has no outcome, and must not hold up others.
    fn drop(&mut self) {
        if self.settled.is_none() && self.sent.is_some() {
            self.path.end_trial();
        }
    }
}

impl Io for FastStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        let plain = if let Plain::Open(stream, ..) = &self.plain { Some(stream) } else { None };
        TcpInfo::of(self.settled.as_ref().or(self.fast.as_ref()).or(plain)?).ok()
    }

    fn abort(&self) {
        let plain = if let Plain::Open(stream, ..) = &self.plain { Some(stream) } else { None };
        self.settled.iter().chain(&self.fast).chain(plain).for_each(Io::abort);
    }

    fn repeatable(&mut self, yes: bool) {
        self.repeatable = Some(self.repeatable.unwrap_or(true) && yes);
    }
}

impl AsyncRead for FastStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = ready!(self.get_mut().poll_settled(context))?;
        Pin::new(stream).poll_read(context, into)
    }
}

impl AsyncWrite for FastStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.settled.is_none()
            && let Some(wrote) = ready!(this.poll_early(context, bytes))?
        {
            return Poll::Ready(Ok(wrote));
        }
        let stream = ready!(this.poll_settled(context))?;
        Pin::new(stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // Before there is a winner, the kernel has everything that was written.
        if this.settled.is_some() { this.poll_settled(context).map_ok(|_| ()) } else { Poll::Ready(Ok(())) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.alarm.is_none() {
            return Poll::Ready(Ok(()));
        }
        let stream = ready!(this.poll_settled(context))?;
        Pin::new(stream).poll_shutdown(context)
    }
}
