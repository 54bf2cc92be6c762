//! Early data: requests that do not wait for the handshake (RFC 8446 §2.3, RFC 8470).
//!
//! Whoever resumes a session of TLS 1.3 may send data with its first message, encrypted by a key of that session: the
//! handshake's round trip is gone. The price is that anybody who recorded the message can send it again, so that
//! **only requests with safe methods may be in it** (RFC 8470 §4). A stream like this one does not know methods:
//! whoever writes to it before the [`Confirmation`] answers for that.
//!
//! A server need not take it. What it did not take is sent again behind the handshake, once, by `tokio-rustls`, so
//! that the writer never notices; the facts do.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
    time::{Sleep, sleep},
};
use tokio_rustls::client::TlsStream;

use super::facts;
use crate::{
    facts::{EarlyData, TlsFacts},
    io::Io,
    offer::Offer,
    tcp_info::TcpInfo,
};

/// The end of a handshake that is still under way: how it came out. An error if it failed.
pub type Confirmation = oneshot::Receiver<TlsFacts>;

/// A TLS connection in the hands of its writer before its handshake is done.
pub(super) struct Early<S> {
    stream: TlsStream<S>,
    offer: Offer,
    begin: Instant,
    /// When the handshake must be done.
    deadline: Pin<Box<Sleep>>,
    /// Who is told of the handshake's end; none once that is done.
    told: Option<oneshot::Sender<TlsFacts>>,
    /// Whether the first read has let a write go before it.
    waited: bool,
}

impl<S: Io> Early<S> {
    /// Its handshake is to be done `within` this time.
    pub(super) fn new(stream: TlsStream<S>, offer: Offer, begin: Instant, within: Duration) -> (Self, Confirmation) {
        let (told, confirmation) = oneshot::channel();
        let deadline = Box::pin(sleep(within));
        (Self { stream, offer, begin, deadline, told: Some(told), waited: false }, confirmation)
    }

    fn tell_the_end(&mut self) {
        let tls = self.stream.get_ref().1;
        if !tls.is_handshaking()
            && let Some(told) = self.told.take()
        {
            let early = if tls.is_early_data_accepted() { EarlyData::Accepted } else { EarlyData::Rejected };
            let _ = told.send(TlsFacts { early, ..facts(&self.stream, self.offer, self.begin.elapsed()) });
        }
    }
}

impl<S: Io> AsyncRead for Early<S> {
    /// Nothing can be read before the handshake is done, and somebody must drive it.
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.told.is_some() {
            // What is written at once goes in one flight with the first message.
            if !std::mem::replace(&mut self.waited, true) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready!(self.as_mut().poll_flush(context))?;
        }
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: Io> AsyncWrite for Early<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.tell_the_end();
        wrote
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.tell_the_end();
        if self.told.is_some() && flushed.is_pending() && self.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: Io> Io for Early<S> {
    fn tcp_info(&self) -> Option<TcpInfo> {
        self.stream.tcp_info()
    }

    fn abort(&self) {
        self.stream.abort();
    }
}
