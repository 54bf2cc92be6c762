//! TLS early data, 0-RTT (RFC 8446 §2.3, RFC 8470).
//!
//! A client that resumes a session may send a request in its first flight. It saves a round trip if the server responds
//! before the client's Finished arrives. `tokio-rustls` waits for Finished, so the stream here is our own, on `rustls`
//! itself: it is usable as soon as early data is accepted, and completes the handshake underneath.
//!
//! Early data can be replayed by an attacker. Two measures prevent harm. Sessions are kept in memory and used once
//! ([`configure`]), so that the server refuses the early data of a replayed ClientHello (RFC 8446 §8.1). And an unsafe
//! request gets 425 until the handshake is complete ([`too_early`]).

use std::{
    io::{self, IoSlice, Read, Write},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use futures_util::FutureExt;
use http::{HeaderName, Method, Request};
use rustls::{
    ServerConfig, ServerConnection,
    crypto::ring as provider,
    server::{ResolvesServerCert, ServerSessionMemoryCache},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{activity::Activity, budget::Hold};

/// Maximum early data over TCP, in bytes: room for many requests without bodies.
const MAX_EARLY_DATA: u32 = 16 * 1024;
/// Number of sessions kept, of some hundred bytes each.
const MAX_SESSIONS: usize = 8192;
/// Session tickets sent per connection: as many as clients open connections at once, since each ticket is used once.
const TICKETS_PER_CONNECTION: usize = 6;
/// A client can decrypt a TLS record only when all of it has arrived, and a record of 16 KiB exceeds the initial window
/// of ten segments (RFC 6928) and so takes another round trip. The first records of a connection fit into one segment,
/// as Apache's (`H2TLSWarmUpSize`) and those of Go's `crypto/tls` do.
const SHORT_RECORD: usize = 1300;
const SHORT_UNTIL: usize = 128 * 1024;
/// How many bytes are encrypted ahead of what the kernel takes.
const AHEAD: usize = 64 * 1024;

/// Set by a reverse proxy that forwards early data (RFC 8470 §5.1).
const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// The server's TLS configurations for TCP and for QUIC: single-use sessions with early data, and HTTP/2 preferred over
/// HTTP/1.1.
pub fn configure(certificates: Arc<dyn ResolvesServerCert>) -> Result<(ServerConfig, ServerConfig), rustls::Error> {
    let mut tcp = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    // No stateless tickets: they could be used twice.
    tcp.session_storage = ServerSessionMemoryCache::new(MAX_SESSIONS);
    tcp.send_tls13_tickets = TICKETS_PER_CONNECTION;
    tcp.send_half_rtt_data = true;
    tcp.max_early_data_size = MAX_EARLY_DATA;
    tcp.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut quic = tcp.clone();
    quic.session_storage = ServerSessionMemoryCache::new(MAX_SESSIONS);
    // QUIC has limits of its own, and allows no other value (RFC 9001 §4.6.1).
    quic.max_early_data_size = u32::MAX;
    quic.alpn_protocols = vec![b"h3".to_vec()];
    Ok((tcp, quic))
}

/// Whether a connection's handshake is complete.
#[derive(Clone)]
pub enum HandshakeState {
    /// It is, or there is no TLS.
    Complete,
    /// Complete once this is set.
    Tls(Arc<AtomicBool>),
    /// Complete once this is ready.
    Quic(Arc<Awaited<quinn::ZeroRttAccepted>>),
}

/// Whether a future is ready, asked by several threads. Who asks in the same moment as another waits for its answer; a
/// `Shared` future would say "not yet" to one of them, and so refuse its request.
pub struct Awaited<F>(Mutex<Option<F>>);

impl<F: Future + Unpin> Awaited<F> {
    fn new(future: F) -> Self {
        Self(Mutex::new(Some(future)))
    }

    fn is_ready(&self) -> bool {
        let mut future = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        future.take_if(|future| future.now_or_never().is_some());
        future.is_none()
    }
}

impl HandshakeState {
    /// Of a QUIC connection.
    pub(crate) fn quic(accepted: quinn::ZeroRttAccepted) -> Self {
        Self::Quic(Arc::new(Awaited::new(accepted)))
    }

    /// Whether the handshake is complete, which proves that the client is live.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Complete => true,
            Self::Tls(done) => done.load(Ordering::Acquire),
            Self::Quic(accepted) => accepted.is_ready(),
        }
    }
}

/// Whether a request must be refused with 425 (Too Early): it may be a replay, and is not safe to serve twice.
pub fn too_early<B>(request: &Request<B>, handshake: &HandshakeState) -> bool {
    let safe = matches!(request.method(), &Method::GET | &Method::HEAD | &Method::OPTIONS)
        || request.method().as_str() == "PROPFIND";
    let passed_on = request.headers().get(&EARLY_DATA).is_some_and(|early| early == "1");
    !safe && (passed_on || !handshake.is_complete())
}

/// A TLS connection. Its handshake may be incomplete.
pub struct Stream<S> {
    io: S,
    tls: ServerConnection,
    confirmed: Arc<AtomicBool>,
    /// Bytes encrypted so far, counted up to [`SHORT_UNTIL`].
    sent: usize,
    /// Bytes encrypted, and not taken by the kernel yet.
    pending: usize,
    /// The same, for the budget of the connection that they are held for.
    hold: Option<Hold>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream<S> {
    /// Performs the handshake as far as is needed to read a request.
    pub async fn accept(io: S, config: Arc<ServerConfig>) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut stream = Self { io, tls, confirmed: Arc::default(), sent: 0, pending: 0, hold: None };
        std::future::poll_fn(|context| -> Poll<io::Result<()>> {
            while stream.tls.is_handshaking() && stream.tls.early_data().is_none() {
                if ready!(stream.poll_more(context))? == 0 {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
            }
            let _ = stream.poll_out(context)?;
            Poll::Ready(Ok(()))
        })
        .await?;
        Ok(stream)
    }

    /// Counts what is encrypted, but not sent, for a connection. As its budget is spent, less is encrypted ahead.
    pub(crate) fn counted(self, activity: &Arc<Activity>) -> Self {
        Self { hold: Some(Hold::new(activity, 0)), ..self }
    }

    /// Tells when the handshake is complete.
    pub fn handshake(&self) -> HandshakeState {
        HandshakeState::Tls(self.confirmed.clone())
    }

    /// The protocol negotiated by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// Writes pending output, then reads and processes input. Returns 0 at the end of the input.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let _ = self.poll_out(context)?;
        let read = ready!(unblocked(self.tls.read_tls(&mut Adapter { io: &mut self.io, context })))?;
        if let Err(error) = self.tls.process_new_packets() {
            // Try to send the alert.
            let _ = self.poll_out(context);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        if !self.tls.is_handshaking() {
            self.confirmed.store(true, Ordering::Release);
        }
        Poll::Ready(Ok(read))
    }

    /// Sets how much may be encrypted ahead.
    fn limit(&mut self) {
        if let Some(hold) = &self.hold {
            self.tls.set_buffer_limit(Some(hold.piece().min(AHEAD)));
        }
    }

    /// Encrypts as many bytes as the buffer takes.
    fn encrypt(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit();
        let taken = self.encrypt_records(bytes)?;
        self.pending += taken;
        Ok(taken)
    }

    fn encrypt_records(&mut self, mut bytes: &[u8]) -> io::Result<usize> {
        let all = bytes.len();
        while self.sent < SHORT_UNTIL && !bytes.is_empty() {
            let taken = self.tls.writer().write(&bytes[..bytes.len().min(SHORT_RECORD)])?;
            if taken == 0 {
                return Ok(all - bytes.len());
            }
            self.sent += taken;
            bytes = &bytes[taken..];
        }
        Ok(all - bytes.len() + self.tls.writer().write(bytes)?)
    }

    /// The same for bytes in several places.
    fn encrypt_all(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut short = SHORT_UNTIL.saturating_sub(self.sent);
        if short == 0 {
            self.limit();
            let taken = self.tls.writer().write_vectored(slices)?;
            self.pending += taken;
            return Ok(taken);
        }
        let mut first = Vec::new();
        for slice in slices {
            let part = slice.len().min(short);
            first.extend_from_slice(&slice[..part]);
            short -= part;
        }
        self.encrypt(&first)
    }

    /// Writes pending output.
    fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let out = self.poll_records(context);
        if let Some(hold) = &mut self.hold {
            hold.set(self.pending);
        }
        out
    }

    fn poll_records(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            let wrote = ready!(unblocked(self.tls.write_tls(&mut Adapter { io: &mut self.io, context })))?;
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.pending = self.pending.saturating_sub(wrote);
        }
        self.pending = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let early = self.tls.early_data().map_or(Ok(0), |mut early| early.read(into.initialize_unfilled()))?;
            if early > 0 {
                into.advance(early);
                return Poll::Ready(Ok(()));
            }
            match self.tls.reader().read(into.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    into.advance(read?);
                    return Poll::Ready(Ok(()));
                }
            }
            // The reader reports the end: a close_notify, or a truncated connection.
            if ready!(self.poll_more(context))? == 0 && self.tls.is_handshaking() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let wrote = self.encrypt(bytes)?;
            let out = self.poll_out(context)?;
            if wrote > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(wrote));
            }
            ready!(out);
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let wrote = self.encrypt_all(slices)?;
            let out = self.poll_out(context)?;
            if wrote > 0 || slices.iter().all(|slice| slice.is_empty()) {
                return Poll::Ready(Ok(wrote));
            }
            ready!(out);
        }
    }

    /// Otherwise hyper copies a response before it is sent, and nobody knows how much of it there is (`budget`).
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(context))?;
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tls.send_close_notify();
        ready!(self.poll_out(context))?;
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// Adapts an asynchronous stream to `std::io`: pending becomes `WouldBlock`.
struct Adapter<'a, 'b, S> {
    io: &'a mut S,
    context: &'a mut Context<'b>,
}

impl<S: AsyncRead + Unpin> Read for Adapter<'_, '_, S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut into = ReadBuf::new(into);
        blocked(Pin::new(&mut *self.io).poll_read(self.context, &mut into))?;
        Ok(into.filled().len())
    }
}

impl<S: AsyncWrite + Unpin> Write for Adapter<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        blocked(Pin::new(&mut *self.io).poll_write(self.context, bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        blocked(Pin::new(&mut *self.io).poll_write_vectored(self.context, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        blocked(Pin::new(&mut *self.io).poll_flush(self.context))
    }
}

fn blocked<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(done) => done,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn unblocked<T>(done: io::Result<T>) -> Poll<io::Result<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        done => Poll::Ready(done),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::{Arc, Barrier},
        task::Poll,
        thread,
        time::Duration,
    };

    use super::Awaited;

    #[test]
    fn all_who_ask_in_the_same_moment_hear_that_the_future_is_ready() {
        let slow = poll_fn(|_| {
            thread::sleep(Duration::from_millis(50));
            Poll::Ready(())
        });
        let (awaited, start) = (Arc::new(Awaited::new(slow)), Arc::new(Barrier::new(2)));
        let asking = [(); 2].map(|()| {
            let (awaited, start) = (awaited.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                awaited.is_ready()
            })
        });
        assert!(asking.into_iter().all(|thread| thread.join().unwrap()));
        assert!(!Awaited::new(poll_fn(|_| Poll::<()>::Pending)).is_ready());
    }
}
