//! TLS for a server that answers before the handshake is done (RFC 8446 §2.3, RFC 8470).
//!
//! A client that resumes a session may send a request with its first message, and gains a round trip if it is also
//! answered before the client's last message of the handshake comes. `tokio-rustls` waits for that, so the stream here
//! is our own, on `rustls` itself: it is handed over as soon as early data is accepted, and the rest of the handshake
//! takes place beneath it.
//!
//! What comes early may come from somebody who recorded it. Two things stand against that. Sessions are kept here and
//! each is good for one handshake ([`configure`]), so that a recorded first message is refused its early data by the
//! server that took it before (RFC 8446 §8.1). And a request that is not safe is refused with 425 until the handshake
//! has shown that the client is there now ([`too_early`]).

use std::{
    io::{self, Read, Write},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use futures_util::{FutureExt, future::Shared};
use http::{HeaderName, Method, Request};
use rustls::{
    ServerConfig, ServerConnection,
    crypto::ring as provider,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::ServerSessionMemoryCache,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much a client may send early over TCP, in bytes: many requests without bodies.
const EARLY: u32 = 16 * 1024;
/// Sessions that are kept, of some hundred bytes each.
const SESSIONS: usize = 8192;
/// Tickets for each connection: as many as clients open connections at a time. Each is good for one.
const TICKETS: usize = 6;
/// A client reads nothing of a record before it has all of it, and one of 16 KiB takes a round trip more than its first
/// bytes where the congestion window begins at ten packets (RFC 6928). So the first of a connection fit into a packet;
/// as Apache's do (`H2TLSWarmUpSize`), and those of Go's `crypto/tls` for as long.
const SHORT_RECORD: usize = 1300;
const SHORT_UNTIL: usize = 128 * 1024;

/// Set by a proxy before us that passes on what came to it early (RFC 8470 §5.1).
const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// The TLS settings of a server, for TCP and for QUIC: resumed sessions with early data, each good for once, and
/// HTTP/2 before HTTP/1.1. An error if the key is not the certificate's.
pub fn configure(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<(ServerConfig, ServerConfig), rustls::Error> {
    let mut tcp = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    // Not tickets that hold their session themselves: those could be used twice.
    tcp.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    tcp.send_tls13_tickets = TICKETS;
    tcp.send_half_rtt_data = true;
    tcp.max_early_data_size = EARLY;
    tcp.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut quic = tcp.clone();
    quic.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    // QUIC bounds it itself, and allows no other value (RFC 9001 §4.6.1).
    quic.max_early_data_size = u32::MAX;
    quic.alpn_protocols = vec![b"h3".to_vec()];
    Ok((tcp, quic))
}

/// Whether a connection's handshake is done.
#[derive(Clone)]
pub enum Gate {
    /// It is, or there is none.
    Open,
    /// It is once this is set.
    Tls(Arc<AtomicBool>),
    /// It is once this is ready.
    Quic(Shared<quinn::ZeroRttAccepted>),
}

impl Gate {
    /// The gate of a QUIC connection.
    pub(crate) fn quic(accepted: quinn::ZeroRttAccepted) -> Self {
        Self::Quic(accepted.shared())
    }

    /// Whether the client has shown by now that it is there.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Tls(done) => done.load(Ordering::Acquire),
            Self::Quic(done) => done.clone().now_or_never().is_some(),
        }
    }
}

/// Whether a request must be refused with 425 (Too Early): it may be a recording, and is not safe to answer twice.
pub fn too_early<B>(request: &Request<B>, gate: &Gate) -> bool {
    let safe = matches!(request.method(), &Method::GET | &Method::HEAD | &Method::OPTIONS)
        || request.method().as_str() == "PROPFIND";
    let passed_on = request.headers().get(&EARLY_DATA).is_some_and(|early| early == "1");
    !safe && (passed_on || !gate.is_open())
}

/// A TLS connection with a client. Its handshake may still be under way.
pub struct Stream<S> {
    io: S,
    tls: ServerConnection,
    confirmed: Arc<AtomicBool>,
    /// Bytes that were encrypted, until it does not matter any more how many.
    sent: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream<S> {
    /// Shakes hands, as far as is needed to read a request.
    pub async fn accept(io: S, config: Arc<ServerConfig>) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut stream = Self { io, tls, confirmed: Arc::default(), sent: 0 };
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

    /// Whether its handshake is done.
    pub fn gate(&self) -> Gate {
        Gate::Tls(self.confirmed.clone())
    }

    /// The protocol agreed upon by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// Reads what came, and takes it in; nothing at the end. What there is to say is said first.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let _ = self.poll_out(context)?;
        let read = ready!(unblocked(self.tls.read_tls(&mut Adapter { io: &mut self.io, context })))?;
        if let Err(error) = self.tls.process_new_packets() {
            // The alert, if there is room for it.
            let _ = self.poll_out(context);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        if !self.tls.is_handshaking() {
            self.confirmed.store(true, Ordering::Release);
        }
        Poll::Ready(Ok(read))
    }

    /// Encrypts as much as there is room for.
    fn encrypt(&mut self, mut bytes: &[u8]) -> io::Result<usize> {
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

    /// Writes what there is to say.
    fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            if ready!(unblocked(self.tls.write_tls(&mut Adapter { io: &mut self.io, context })))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
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
            // Its end shows in the reader, as one that was announced or as a cut.
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

/// An asynchronous stream as `rustls` wants it: one that says that it would block.
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

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
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
