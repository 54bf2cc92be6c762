//! Early data: requests in the first flight, before the handshake is done (RFC 8446 §2.3, RFC 8470).
//!
//! A client that resumes a TLS 1.3 session may send data with its ClientHello, encrypted with a key of that session.
//! This saves the handshake's round trip. The price: anybody who recorded the flight can replay it, so **only requests
//! with safe methods may be in it** (RFC 8470 §4). This stream does not know methods; its writer is responsible for
//! that until the [`Confirmation`].
//!
//! A server may reject early data. `tokio-rustls` then sends it again after the handshake, once. The writer does not
//! notice; [`TlsFacts::early`] shows it.

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

/// Resolves to the outcome of a handshake in progress; to an error if it failed.
pub type Confirmation = oneshot::Receiver<TlsFacts>;

/// A TLS connection that may be written to before its handshake is done.
pub(super) struct Early<S> {
    stream: TlsStream<S>,
    offer: Offer,
    begin: Instant,
    /// The handshake's deadline.
    deadline: Pin<Box<Sleep>>,
    /// Sends the confirmation; none afterwards.
    confirm: Option<oneshot::Sender<TlsFacts>>,
    /// Whether the first read has yielded to a write.
    yielded: bool,
}

impl<S: Io> Early<S> {
    /// The handshake must be done `within` this time.
    pub(super) fn new(stream: TlsStream<S>, offer: Offer, begin: Instant, within: Duration) -> (Self, Confirmation) {
        let (confirm, confirmation) = oneshot::channel();
        let deadline = Box::pin(sleep(within));
        (Self { stream, offer, begin, deadline, confirm: Some(confirm), yielded: false }, confirmation)
    }

    fn confirm_if_done(&mut self) {
        let tls = self.stream.get_ref().1;
        if !tls.is_handshaking()
            && let Some(confirm) = self.confirm.take()
        {
            let early = if tls.is_early_data_accepted() { EarlyData::Accepted } else { EarlyData::Rejected };
            let _ = confirm.send(TlsFacts { early, ..facts(&self.stream, self.offer, self.begin.elapsed()) });
        }
    }
}

impl<S: Io> AsyncRead for Early<S> {
    /// Drives the handshake: nothing can be read before it is done.
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.confirm.is_some() {
            // Lets an immediate write travel in one flight with the ClientHello.
            if !std::mem::replace(&mut self.yielded, true) {
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
        self.confirm_if_done();
        wrote
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.confirm_if_done();
        if self.confirm.is_some() && flushed.is_pending() && self.deadline.as_mut().poll(context).is_ready() {
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
