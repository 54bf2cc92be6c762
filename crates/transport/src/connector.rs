//! Runs the steps from an origin to a connection, under one timeout.

use std::{fmt, sync::Arc, time::Duration, time::Instant};

use http::Version;
use tokio::time;

use crate::{
    error::{Cause, ConnectError, SettingsError, Step},
    facts::Facts,
    fast_open::{self, FastOpen, Paths},
    io::Io,
    offer::Offer,
    origin::Origin,
    proxy::Proxies,
    quic::{self, Quic, QuicSettings},
    resolve,
    tcp::Tcp,
    tls::{Confirmation, Tls, TlsSettings},
};

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

/// Makes connections, all by the same settings, and keeps the TLS sessions that spare later ones a full handshake.
/// It is one user's: two users need two of them.
pub struct Connector {
    tcp: Tcp,
    tls: Tls,
    proxies: Proxies,
    fast_open: FastOpen,
    paths: Arc<Paths>,
    quic: QuicSettings,
}

impl Connector {
    /// Reads the files that the settings name. The system's authorities are read with the first TLS connection.
    pub fn new(settings: ConnectSettings) -> Result<Self, SettingsError> {
        let ConnectSettings { tcp, tls, proxies, fast_open, quic } = settings;
        Ok(Self { tls: Tls::new(&tls)?, tcp, proxies, fast_open, paths: Arc::default(), quic })
    }

    /// What is known of the ways to servers: whether they bear data in a SYN.
    pub fn paths(&self) -> &Arc<Paths> {
        &self.paths
    }

    /// Makes a connection within `timeout`.
    pub async fn connect(&self, origin: &Origin, offer: Offer, timeout: Duration) -> Result<Connected, ConnectError> {
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
    ) -> Result<Connected, ConnectError> {
        let mut step = Step::Resolve;
        within(origin, timeout, &mut step, async |step| self.steps(origin, offer, early.then_some(timeout), step).await)
            .await
    }

    /// Makes a QUIC connection within `timeout`, to another host and port than the origin's if `at` says so (RFC 7838).
    pub async fn connect_quic(
        &self,
        origin: &Origin,
        at: Option<&Origin>,
        early: bool,
        timeout: Duration,
    ) -> Result<Quic, ConnectError> {
        let mut step = Step::Resolve;
        within(origin, timeout, &mut step, async |step| {
            if !self.takes_quic(origin) {
                return Err(Cause::Tls("HTTP/3 needs https and no proxy".into()));
            }
            let (addresses, look_up) = resolve::look_up(at.unwrap_or(origin), &self.tcp).await?;
            *step = Step::Quic;
            let how = quic::How { tls: &self.tls, tcp: &self.tcp, settings: self.quic, early };
            how.connect(origin, addresses, look_up).await
        })
        .await
    }

    /// Whether QUIC can lead to an origin: it has TLS within, and no proxy of ours passes it on.
    pub fn takes_quic(&self, origin: &Origin) -> bool {
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
        let (addresses, look_up) = resolve::look_up(whom, &self.tcp).await?;
        *step = if proxy { Step::Proxy } else { Step::Connect };
        let (peer, io, tcp) = if proxy || self.fast_open == FastOpen::Off {
            let (peer, stream, took) = resolve::connect(addresses, &self.tcp).await?;
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
) -> Result<T, ConnectError> {
    time::timeout(timeout, steps(step))
        .await
        .unwrap_or_else(|_| Err(Cause::TimedOut(*step, timeout)))
        .map_err(|cause| ConnectError { origin: origin.clone(), cause })
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tcp, tls, proxies, fast_open, quic, .. } = self;
        let mut told = f.debug_struct("Connector");
        told.field("tcp", tcp).field("tls", tls).field("proxies", proxies).field("fast_open", fast_open);
        told.field("quic", quic).finish_non_exhaustive()
    }
}
