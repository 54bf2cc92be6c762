//! Making a connection: the look-up, TCP, perhaps a proxy, TLS, and the choice of protocol.
//!
//! On a long link this is the dearest thing an engine does: a look-up, a round trip for TCP, one or two for TLS,
//! one for a proxy, and only then the first request. So each step is timed ([`Facts`]), sessions are resumed, and
//! addresses that lead nowhere are overtaken. What is made is a byte stream ([`Io`]) that still answers for its
//! TCP connection: the kernel's view of it ([`TcpInfo`]) is what the pool and the planner decide by.
//!
//! ```text
//! origin → proxy? → look-up → eyeballs: TCP → [TLS to the proxy → CONNECT] → TLS: session, ALPN → Connected
//! ```
//!
//! One bound lies over all steps together, and the error names the step that it fell upon. Whoever drops the
//! future leaves nothing behind but a look-up that ends by itself.

mod eyeballs;
mod proxy;
mod reach;
mod tcp;
mod tcp_info;
mod tls;

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration, time::Instant};

use http::Version;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time,
};

pub(crate) use self::tls::{explain, rustls_error};
pub use self::{
    proxy::Proxies,
    tcp::{Keepalive, Tcp},
    tcp_info::TcpInfo,
    tls::{Identity, TlsFacts, TlsSettings},
};
use crate::{Cause, Error, Origin, Step};

/// How connections are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectSettings {
    /// The sockets.
    pub tcp: Tcp,
    /// Whom to trust, and who we are.
    pub tls: TlsSettings,
    /// Through whom.
    pub proxies: Proxies,
}

/// Why settings cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file of certificates, or of a key.
    #[error("cannot use {}: {why}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A variable of the environment. Its value is not told: it may hold a password.
    #[error("cannot use the environment's {variable}: {why}")]
    Variable {
        /// The variable's name.
        variable: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// What to speak with an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Offer {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; without TLS, by prior knowledge (RFC 9113 §3.3).
    Http2,
    /// Either, as the server chooses by ALPN. Without TLS there is no such choice, and it is HTTP/1.1.
    Both,
}

impl Offer {
    /// What is offered by ALPN (RFC 7301; RFC 9113 §3.2).
    fn alpn(self) -> &'static [&'static [u8]] {
        match self {
            Self::Http1 => &[b"http/1.1"],
            Self::Http2 => &[b"h2"],
            Self::Both => &[b"h2", b"http/1.1"],
        }
    }

    /// What is spoken once the server has answered. HTTP/2 over TLS needs its consent; HTTP/1.1 does not.
    fn agreed(self, tls: Option<&TlsFacts>) -> Result<Version, Cause> {
        match (self, tls.map(|tls| tls.alpn.as_deref())) {
            (_, Some(Some("h2"))) | (Self::Http2, None) => Ok(Version::HTTP_2),
            (Self::Http2, Some(_)) => Err(Cause::Tls("the server does not speak HTTP/2".into())),
            _ => Ok(Version::HTTP_11),
        }
    }
}

/// A byte stream to a server that can be asked about the TCP connection beneath.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {
    /// The kernel's view of the connection, if it gives one. Through a proxy, it is the connection to the proxy.
    fn tcp_info(&self) -> Option<TcpInfo>;

    /// Has the connection end by a reset when it is dropped (`SO_LINGER` of zero; RFC 9293 §3.10.4, ABORT). What the
    /// kernel has not sent by then is forgotten: else it would go on trying, and what was given up would arrive late.
    fn abort(&self);
}

impl Io for TcpStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        TcpInfo::of(self).ok()
    }

    fn abort(&self) {
        // At worst it ends as it would have.
        let _ = self.set_zero_linger();
    }
}

impl Io for Box<dyn Io> {
    fn tcp_info(&self) -> Option<TcpInfo> {
        (**self).tcp_info()
    }

    fn abort(&self) {
        (**self).abort();
    }
}

/// A connection, ready for its first request.
pub struct Connected {
    /// The bytes.
    pub io: Box<dyn Io>,
    /// What is spoken: HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// How it came about.
    pub facts: Facts,
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected").field("version", &self.version).field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// How a connection came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Whom the TCP connection is with: the origin, or the proxy.
    pub peer: SocketAddr,
    /// The proxy, if it goes through one; without credentials.
    pub proxy: Option<Origin>,
    /// How long the look-up of the name took; nothing for an address.
    pub look_up: Duration,
    /// How long the TCP handshake took that succeeded, about one RTT. Attempts that it overtook are not in it.
    pub tcp: Duration,
    /// How long the proxy took to open the tunnel, its own TLS handshake included.
    pub tunnel: Option<Duration>,
    /// The TLS handshake with the origin.
    pub tls: Option<TlsFacts>,
}

/// Makes connections, all by the same settings, and keeps the TLS sessions that spare later ones a full handshake.
/// It is one user's: two users need two of them.
pub struct Connector {
    tcp: Tcp,
    tls: tls::Tls,
    proxies: Proxies,
}

impl Connector {
    /// Reads the files that the settings name. The system's authorities are read with the first TLS connection.
    pub fn new(settings: ConnectSettings) -> Result<Self, SettingsError> {
        Ok(Self { tls: tls::Tls::new(&settings.tls)?, tcp: settings.tcp, proxies: settings.proxies })
    }

    /// Makes a connection within `timeout`.
    pub async fn connect(&self, origin: &Origin, offer: Offer, timeout: Duration) -> Result<Connected, Error> {
        let mut step = Step::Resolve;
        time::timeout(timeout, self.steps(origin, offer, &mut step))
            .await
            .unwrap_or_else(|_| Err(Cause::TimedOut(step, timeout)))
            .map_err(|cause| Error::Connect { origin: origin.clone(), cause })
    }

    /// All steps, each named in `step` before it begins. Up to the tunnel's end, a proxy is the step.
    async fn steps(&self, origin: &Origin, offer: Offer, step: &mut Step) -> Result<Connected, Cause> {
        let proxy = self.proxies.of(origin);
        let whom = proxy.map_or(origin, |proxy| &proxy.at);
        let blame = |cause| match proxy {
            Some(proxy) => proxy.cause(cause),
            None => cause,
        };
        let meanwhile = async { if origin.is_tls() || whom.is_tls() { self.tls.prepare().await } else { Ok(()) } };
        let reach = async { self.reach(whom, step, proxy.is_some()).await.map_err(blame) };
        let ((mut io, mut facts), ()) = tokio::try_join!(reach, meanwhile)?;
        if let Some(proxy) = proxy {
            let begin = Instant::now();
            if whom.is_tls() {
                io = Box::new(self.tls.with_proxy(whom, io).await.map_err(blame)?.0);
            }
            io = proxy.tunnel(io, origin).await?;
            (facts.proxy, facts.tunnel) = (Some(whom.clone()), Some(begin.elapsed()));
        }
        if origin.is_tls() {
            *step = Step::Tls;
            let (tls, told) = self.tls.with_origin(origin, offer, io).await?;
            (io, facts.tls) = (Box::new(tls), Some(told));
        }
        Ok(Connected { io, version: offer.agreed(facts.tls.as_ref())?, facts })
    }

    /// A TCP connection to the origin or to a proxy.
    async fn reach(&self, whom: &Origin, step: &mut Step, proxy: bool) -> Result<(Box<dyn Io>, Facts), Cause> {
        *step = if proxy { Step::Proxy } else { Step::Resolve };
        let (addresses, look_up) = reach::look_up(whom, &self.tcp).await?;
        *step = if proxy { Step::Proxy } else { Step::Connect };
        let (peer, stream, tcp) = reach::connect(addresses, &self.tcp).await?;
        Ok((Box::new(stream), Facts { peer, proxy: None, look_up, tcp, tunnel: None, tls: None }))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tcp, tls, proxies } = self;
        f.debug_struct("Connector").field("tcp", tcp).field("tls", tls).field("proxies", proxies).finish()
    }
}
