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

/// How to make connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectSettings {
    /// TCP sockets.
    pub tcp: Tcp,
    /// Trusted authorities, and the client certificate.
    pub tls: TlsSettings,
    /// Proxies.
    pub proxies: Proxies,
    /// Whether the first request travels in the SYN, where that is known to work; never through a proxy.
    pub fast_open: FastOpen,
    /// Flow control and congestion control over QUIC.
    pub quic: QuicSettings,
}

/// A connection, ready for its first request.
pub struct Connected {
    /// The byte stream.
    pub io: Box<dyn Io>,
    /// HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// How it was made.
    pub facts: Facts,
    /// Resolves when the TLS handshake ends, if it is still in progress. Until then, only requests with safe methods
    /// may be written (RFC 8470 §4).
    pub confirmation: Option<Confirmation>,
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected").field("version", &self.version).field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// Makes connections with the same settings, and keeps their TLS sessions for resumption. Sessions prove an identity,
/// so each user needs a connector of their own.
pub struct Connector {
    tcp: Tcp,
    tls: Tls,
    proxies: Proxies,
    fast_open: FastOpen,
    paths: Arc<Paths>,
    quic: QuicSettings,
}

impl Connector {
    /// Reads the files that the settings name. The system's authorities are read by the first TLS connection.
    pub fn new(settings: ConnectSettings) -> Result<Self, SettingsError> {
        let ConnectSettings { tcp, tls, proxies, fast_open, quic } = settings;
        Ok(Self { tls: Tls::new(&tls)?, tcp, proxies, fast_open, paths: Arc::default(), quic })
    }

    /// Reads the system's authorities now, so that no connection waits for it. An error is left to the first connection.
    pub async fn prepare(&self) {
        let _ = self.tls.ready(true).await;
    }

    /// Which network paths allow data in a SYN.
    pub fn paths(&self) -> &Arc<Paths> {
        &self.paths
    }

    /// Makes a connection within `timeout`.
    pub async fn connect(&self, origin: &Origin, offer: Offer, timeout: Duration) -> Result<Connected, ConnectError> {
        self.connect_early(origin, offer, false, timeout).await
    }

    /// Makes a connection within `timeout`. If `early`, it does not wait for the TLS handshake where a session allows
    /// early data ([`Connected::confirmation`]); the offer must then be a single version.
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

    /// Makes a QUIC connection within `timeout`, to the host and port of `at` if that is given (Alt-Svc, RFC 7838).
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
                return Err(Cause::Tls("HTTP/3 needs https and does not work through a proxy".into()));
            }
            let (addresses, lookup) = resolve::look_up(at.unwrap_or(origin), &self.tcp).await?;
            *step = Step::Quic;
            let connector = quic::QuicConnector { tls: &self.tls, tcp: &self.tcp, settings: self.quic, early };
            connector.connect(origin, addresses, lookup).await
        })
        .await
    }

    /// Whether QUIC can reach an origin: it must be `https`, and not behind a proxy.
    pub fn takes_quic(&self, origin: &Origin) -> bool {
        origin.is_tls() && self.proxies.of(origin).is_none()
    }

    /// All steps, each named in `step` before it begins; with a proxy, `step` is `Proxy` until the tunnel is open. A
    /// handshake that runs on under early data must end within `early`.
    async fn steps(
        &self,
        origin: &Origin,
        offer: Offer,
        early: Option<Duration>,
        step: &mut Step,
    ) -> Result<Connected, Cause> {
        let proxy = self.proxies.of(origin);
        let server = proxy.map_or(origin, |proxy| &proxy.at);
        let blame = |cause| match proxy {
            Some(proxy) => proxy.cause(cause),
            None => cause,
        };
        let prepare =
            async { if origin.is_tls() || server.is_tls() { self.tls.prepare(origin).await } else { Ok(()) } };
        let reach = async { self.reach(server, step, proxy.is_some()).await.map_err(blame) };
        let ((mut io, mut facts), ()) = tokio::try_join!(reach, prepare)?;
        if let Some(proxy) = proxy {
            let begin = Instant::now();
            if server.is_tls() {
                io = Box::new(self.tls.connect_proxy(server, io).await.map_err(blame)?.0);
            }
            io = proxy.tunnel(io, origin).await?;
            (facts.proxy, facts.tunnel) = (Some(server.clone()), Some(begin.elapsed()));
        }
        let mut confirmation = None;
        if origin.is_tls() {
            *step = Step::Tls;
            // A ClientHello may be repeated, and early data has only what may be repeated.
            io.repeatable(true);
            let (tls, tls_facts, end) = self.tls.connect_origin(origin, offer, early, io).await?;
            (io, facts.tls, confirmation) = (tls, Some(tls_facts), end);
        }
        Ok(Connected { io, version: offer.agreed(facts.tls.as_ref())?, facts, confirmation })
    }

    /// A TCP connection to the origin or to a proxy.
    async fn reach(&self, server: &Origin, step: &mut Step, proxy: bool) -> Result<(Box<dyn Io>, Facts), Cause> {
        *step = if proxy { Step::Proxy } else { Step::Resolve };
        let (addresses, lookup) = resolve::look_up(server, &self.tcp).await?;
        *step = if proxy { Step::Proxy } else { Step::Connect };
        let (peer, io, tcp) = if proxy || self.fast_open == FastOpen::Off {
            let (peer, stream, took) = resolve::connect(addresses, &self.tcp).await?;
            (peer, Box::new(stream) as Box<dyn Io>, took)
        } else {
            fast_open::connect(addresses, &self.tcp, &self.paths, self.fast_open == FastOpen::Private).await?
        };
        Ok((io, Facts { peer, proxy: None, lookup, tcp, tunnel: None, tls: None, quic: false }))
    }
}

/// Runs all steps within a timeout; its error names the step that the timeout hit.
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
        let mut debug = f.debug_struct("Connector");
        debug.field("tcp", tcp).field("tls", tls).field("proxies", proxies).field("fast_open", fast_open);
        debug.field("quic", quic).finish_non_exhaustive()
    }
}
