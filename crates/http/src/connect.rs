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
pub mod fast_open;
mod proxy;
mod quic;
mod reach;
mod tcp;
mod tcp_info;
mod tls;

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration, time::Instant};

use http::Version;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time,
};

pub use self::{
    fast_open::{FastOpen, Paths, listen_fast_open},
    proxy::Proxies,
    quic::QuicSettings,
    tcp::{Keepalive, Tcp},
    tcp_info::{FastOpenFailure, TcpInfo},
    tls::{Confirmation, EarlyData, Identity, TlsFacts, TlsSettings},
};
pub(crate) use self::{
    quic::{Pending, Quic, end as end_of_quic},
    tls::{explain, rustls_error},
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
    /// Whether the first request travels in the SYN, where that is known to work; not through a proxy.
    pub fast_open: FastOpen,
    /// What is different over UDP.
    pub quic: QuicSettings,
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
    /// Either of these, as the server chooses by ALPN. Without TLS there is no such choice, and it is HTTP/1.1.
    Both,
    /// HTTP/3 (RFC 9114), over QUIC: no byte stream, and so none that [`Connector::connect`] makes.
    Http3,
}

impl Offer {
    /// What is offered by ALPN (RFC 7301; RFC 9113 §3.2).
    fn alpn(self) -> &'static [&'static [u8]] {
        match self {
            Self::Http1 => &[b"http/1.1"],
            Self::Http2 => &[b"h2"],
            Self::Both => &[b"h2", b"http/1.1"],
            Self::Http3 => &[b"h3"],
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

    /// Says whether what is written from now on may arrive twice, on this connection and on another. Only what may
    /// is put into a SYN; unless told, nothing is.
    fn repeatable(&mut self, _yes: bool) {}

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

    fn repeatable(&mut self, yes: bool) {
        (**self).repeatable(yes);
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
    /// The end of the TLS handshake, if that was not waited for. Until then, only requests with safe methods may be
    /// written (RFC 8470 §4).
    pub confirmation: Option<Confirmation>,
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
    /// How long the TCP handshake took that succeeded, about one RTT. Attempts that it overtook are not in it. Nothing
    /// if the handshake is to begin with the first write ([`FastOpen`]). Over QUIC, whose one handshake is both this
    /// and that of TLS, that one; nothing while it is not waited for.
    pub tcp: Duration,
    /// How long the proxy took to open the tunnel, its own TLS handshake included.
    pub tunnel: Option<Duration>,
    /// The TLS handshake with the origin.
    pub tls: Option<TlsFacts>,
    /// Whether it goes over QUIC, not TCP.
    pub quic: bool,
}

impl Facts {
    /// How many round trips passed before the first request could leave, but for the look-up's and a proxy's: TCP's
    /// one, and TLS's two before 1.3, one for a resumed session or since 1.3, none with early data; one for QUIC's
    /// handshake, or none.
    pub fn round_trips(&self) -> u32 {
        let tls = self.tls.as_ref().map_or(0, |tls| match (tls.early, tls.version, tls.resumed) {
            (EarlyData::Pending | EarlyData::Accepted, ..) => 0,
            (_, "1.2", false) => 2,
            _ => 1,
        });
        tls + u32::from(!self.quic)
    }
}

/// Makes connections, all by the same settings, and keeps the TLS sessions that spare later ones a full handshake.
/// It is one user's: two users need two of them.
pub struct Connector {
    tcp: Tcp,
    tls: tls::Tls,
    proxies: Proxies,
    fast_open: FastOpen,
    paths: Arc<Paths>,
    quic: QuicSettings,
}

impl Connector {
    /// Reads the files that the settings name. The system's authorities are read with the first TLS connection.
    pub fn new(settings: ConnectSettings) -> Result<Self, SettingsError> {
        let ConnectSettings { tcp, tls, proxies, fast_open, quic } = settings;
        Ok(Self { tls: tls::Tls::new(&tls)?, tcp, proxies, fast_open, paths: Arc::default(), quic })
    }

    /// What is known of the ways to servers: whether they bear data in a SYN.
    pub fn paths(&self) -> &Arc<Paths> {
        &self.paths
    }

    /// Makes a connection within `timeout`.
    pub async fn connect(&self, origin: &Origin, offer: Offer, timeout: Duration) -> Result<Connected, Error> {
        self.connect_early(origin, offer, false, timeout).await
    }

    /// Makes a connection within `timeout`. If `early`, TLS's handshake is not waited for where a session allows early
    /// data; what is offered must then be one version ([`Connected::confirmation`]).
    pub async fn connect_early(
        &self,
        origin: &Origin,
        offer: Offer,
        early: bool,
        timeout: Duration,
    ) -> Result<Connected, Error> {
        let mut step = Step::Resolve;
        within(origin, timeout, &mut step, async |step| self.steps(origin, offer, early.then_some(timeout), step).await)
            .await
    }

    /// Makes a QUIC connection within `timeout`, to another host and port than the origin's if `at` says so (RFC 7838).
    pub(crate) async fn connect_quic(
        &self,
        origin: &Origin,
        at: Option<&Origin>,
        early: bool,
        timeout: Duration,
    ) -> Result<Quic, Error> {
        let mut step = Step::Resolve;
        within(origin, timeout, &mut step, async |step| {
            if !self.takes_quic(origin) {
                return Err(Cause::Tls("HTTP/3 needs https and no proxy".into()));
            }
            let (addresses, look_up) = reach::look_up(at.unwrap_or(origin), &self.tcp).await?;
            *step = Step::Quic;
            let how = quic::How { tls: &self.tls, tcp: &self.tcp, settings: self.quic, early };
            how.connect(origin, addresses, look_up).await
        })
        .await
    }

    /// Whether QUIC can lead to an origin: it has TLS within, and no proxy of ours passes it on.
    pub(crate) fn takes_quic(&self, origin: &Origin) -> bool {
        origin.is_tls() && self.proxies.of(origin).is_none()
    }

    /// All steps, each named in `step` before it begins. Up to the tunnel's end, a proxy is the step. A handshake that
    /// is left to go on may do so for as long as `early` says.
    async fn steps(
        &self,
        origin: &Origin,
        offer: Offer,
        early: Option<Duration>,
        step: &mut Step,
    ) -> Result<Connected, Cause> {
        let proxy = self.proxies.of(origin);
        let whom = proxy.map_or(origin, |proxy| &proxy.at);
        let blame = |cause| match proxy {
            Some(proxy) => proxy.cause(cause),
            None => cause,
        };
        let meanwhile =
            async { if origin.is_tls() || whom.is_tls() { self.tls.prepare(origin).await } else { Ok(()) } };
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
        let mut confirmation = None;
        if origin.is_tls() {
            *step = Step::Tls;
            // Its first message begins nothing, and early data is only what may be repeated.
            io.repeatable(true);
            let (tls, told, end) = self.tls.with_origin(origin, offer, early, io).await?;
            (io, facts.tls, confirmation) = (tls, Some(told), end);
        }
        Ok(Connected { io, version: offer.agreed(facts.tls.as_ref())?, facts, confirmation })
    }

    /// A TCP connection to the origin or to a proxy.
    async fn reach(&self, whom: &Origin, step: &mut Step, proxy: bool) -> Result<(Box<dyn Io>, Facts), Cause> {
        *step = if proxy { Step::Proxy } else { Step::Resolve };
        let (addresses, look_up) = reach::look_up(whom, &self.tcp).await?;
        *step = if proxy { Step::Proxy } else { Step::Connect };
        let (peer, io, tcp) = if proxy || self.fast_open == FastOpen::Off {
            let (peer, stream, took) = reach::connect(addresses, &self.tcp).await?;
            (peer, Box::new(stream) as Box<dyn Io>, took)
        } else {
            fast_open::connect(addresses, &self.tcp, &self.paths, self.fast_open == FastOpen::Private).await?
        };
        Ok((io, Facts { peer, proxy: None, look_up, tcp, tunnel: None, tls: None, quic: false }))
    }
}

/// All steps within a bound; its error names the step that it fell upon.
async fn within<T>(
    origin: &Origin,
    timeout: Duration,
    step: &mut Step,
    steps: impl AsyncFnOnce(&mut Step) -> Result<T, Cause>,
) -> Result<T, Error> {
    time::timeout(timeout, steps(step))
        .await
        .unwrap_or_else(|_| Err(Cause::TimedOut(*step, timeout)))
        .map_err(|cause| Error::Connect { origin: origin.clone(), cause })
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tcp, tls, proxies, fast_open, quic, .. } = self;
        let mut told = f.debug_struct("Connector");
        told.field("tcp", tcp).field("tls", tls).field("proxies", proxies).field("fast_open", fast_open);
        told.field("quic", quic).finish_non_exhaustive()
    }
}
