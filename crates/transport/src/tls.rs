//! TLS: trusted authorities, the client certificate, ALPN and session resumption.
//!
//! A full handshake costs one round trip with TLS 1.3 and two with TLS 1.2, and transfers a certificate chain; a
//! resumed one saves the chain, and in TLS 1.2 a round trip. So all connections of a connector share one store of
//! tickets, whatever their protocol, except QUIC, whose tickets carry transport parameters and have a store of their
//! own. Two connectors never share a store: a session stands for the user who began it. Early data saves TLS 1.3's
//! round trip too (`early_data`).
//!
//! Servers are checked against the system's authorities and those in the settings. A TLS proxy is checked the same way,
//! but never gets the client certificate, and `unverified` does not apply to it: what the user grants to an origin is
//! not granted to the proxy. The same holds for other hosts where the settings are for one ([`TlsSettings::only`]),
//! because a redirect can lead anywhere, and requests to a host may carry its password.

mod early_data;
mod pem;
mod pinned;
mod quic_resumption;
mod unverified;

use std::{
    fmt, io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{
    CertificateError, ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore,
    client::{Resumption, WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::{CryptoProvider, ring},
    pki_types::ServerName,
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::sync::OnceCell;
use tokio_rustls::{TlsConnector, client::TlsStream};

pub use self::early_data::Confirmation;
pub(crate) use self::quic_resumption::CountingVerifier;
use self::{early_data::Early, pem::Roots, pinned::PinnedVerifier, unverified::NoVerifier};
use crate::{
    error::{Cause, SettingsError, explain, rustls_error},
    facts::{EarlyData, TlsFacts},
    io::Io,
    offer::Offer,
    origin::Origin,
    tcp_info::TcpInfo,
};

/// How to make TLS connections.
///
/// The system's authorities are always trusted: on Linux those where OpenSSL looks, or those in `SSL_CERT_FILE` (a
/// file) or `SSL_CERT_DIR` (folders) if these variables are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// PEM files of certificates to trust besides the system's.
    pub authorities: Vec<PathBuf>,
    /// The only host, at any port, that `authorities` and `unverified` apply to; all hosts if `None`. Other hosts are
    /// then checked against the system's authorities alone. `authorities` always apply to proxies, which the user names
    /// too.
    pub only: Option<String>,
    /// The client certificate, for one origin.
    pub identity: Option<Identity>,
    /// Accept any certificate from an origin: anybody on the path can then read and change everything. Only for a
    /// diagnosis, and never with a password.
    pub unverified: bool,
    /// Always do a full handshake: resume no session.
    pub fresh: bool,
}

/// A client certificate and its key. Both may be in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The only origin that gets to see it. A certificate reveals a name, and more; other origins that ask, such as the
    /// target of a redirect, get none.
    pub origin: Origin,
    /// A PEM file: the certificate, then the chain to its authority.
    pub certificate: PathBuf,
    /// A PEM file: the private key, not encrypted (PKCS #8, PKCS #1 or SEC 1).
    pub key: PathBuf,
}

/// The settings, and the TLS sessions.
pub(crate) struct Tls {
    provider: Arc<CryptoProvider>,
    named: Roots,
    only: Option<String>,
    identity: Option<(Identity, Arc<CertifiedKey>)>,
    unverified: bool,
    fresh: bool,
    ready: OnceCell<Configs>,
    /// For hosts that the settings do not apply to.
    others: OnceCell<Configs>,
}

/// Indexed by [`Offer`].
type Offers = [Arc<ClientConfig>; 4];

/// The number of servers whose sessions are kept for QUIC; rustls keeps as many for TCP.
const QUIC_SESSIONS: usize = 256;

/// Ready rustls configurations.
pub(crate) struct Configs {
    /// They differ in ALPN; HTTP/3's also in its session store and its [`CountingVerifier`].
    origins: Offers,
    /// The same with the client certificate, for its origin. They have their own sessions: rustls keeps tickets per
    /// host name, and a session with a client certificate at one port must not be used at another.
    known: Option<(Origin, Offers)>,
    proxies: Arc<ClientConfig>,
    roots: Roots,
    /// Counts the certificates checked over QUIC; none if no authority is trusted.
    counting: Option<Arc<CountingVerifier>>,
}

impl Tls {
    /// Reads the files in the settings. The system's authorities are read later ([`Tls::ready`]): that takes
    /// milliseconds, which `http` need not spend, and `https` spends during the TCP handshake.
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self, SettingsError> {
        let provider = Arc::new(ring::default_provider());
        Ok(Self {
            named: Roots::from_files(&settings.authorities)?,
            identity: settings
                .identity
                .as_ref()
                .map(|files| Ok((files.clone(), certified(files, &provider)?)))
                .transpose()?,
            only: settings.only.clone(),
            unverified: settings.unverified,
            fresh: settings.fresh,
            ready: OnceCell::new(),
            others: OnceCell::new(),
            provider,
        })
    }

    /// Reads the system's authorities, unless an earlier connection has done so.
    pub(crate) async fn prepare(&self, origin: &Origin) -> Result<(), Cause> {
        self.ready(self.is_for(origin)).await.map(drop)
    }

    /// Whether the settings apply to this origin.
    fn is_for(&self, origin: &Origin) -> bool {
        self.only.as_ref().is_none_or(|host| host == origin.host())
    }

    /// Does the handshake with an origin. If `early` is set and a session allows early data, it returns before the
    /// handshake, which the first write and read then drive; it must end within `early`, and resolves the confirmation.
    pub(crate) async fn connect_origin<S: Io + 'static>(
        &self,
        origin: &Origin,
        offer: Offer,
        early: Option<Duration>,
        io: S,
    ) -> Result<(Box<dyn Io>, TlsFacts, Option<Confirmation>), Cause> {
        let ready = self.ready(self.is_for(origin)).await?;
        // What is chosen by the handshake cannot be spoken before it.
        let early = early.filter(|_| offer != Offer::Both);
        let begin = Instant::now();
        let config = ready.config(origin, offer, early.is_some());
        let stream = self.handshake(ready, &config, early.is_some(), origin, io).await?;
        let told = facts(&stream, offer, begin.elapsed());
        if let Some(within) = early.filter(|_| told.early == EarlyData::Pending) {
            let (stream, confirmation) = Early::new(stream, offer, begin, within);
            return Ok((Box::new(stream), told, Some(confirmation)));
        }
        Ok((Box::new(stream), told, None))
    }

    /// The configuration for QUIC, and the count of certificates checked so far.
    pub(crate) async fn quic_config(
        &self,
        origin: &Origin,
        early: bool,
    ) -> Result<(Arc<ClientConfig>, Arc<CountingVerifier>), Cause> {
        let ready = self.ready(self.is_for(origin)).await?;
        let untrusting = || Cause::Tls(format!("no certificate authority is trusted ({})", ready.roots));
        let counting = ready.counting.clone().ok_or_else(untrusting)?;
        Ok((ready.config(origin, Offer::Http3, early), counting))
    }

    /// Does the handshake with a proxy.
    pub(crate) async fn connect_proxy<S: Io>(&self, proxy: &Origin, io: S) -> Result<(TlsStream<S>, TlsFacts), Cause> {
        let ready = self.ready(true).await?;
        let begin = Instant::now();
        let stream = self.handshake(ready, &ready.proxies, false, proxy, io).await?;
        let told = facts(&stream, Offer::Http1, begin.elapsed());
        Ok((stream, told))
    }

    /// The configurations: with the settings if they apply (`granted`), or else with the defaults.
    pub(crate) async fn ready(&self, granted: bool) -> Result<&Configs, Cause> {
        let make = async || {
            let named = if granted { self.named.clone() } else { Roots::none() };
            let roots = tokio::task::spawn_blocking(|| named.with_system_roots())
                .await
                .map_err(|error| Cause::Tls(format!("cannot read the system's authorities: {error}")))?;
            self.configure(roots, granted && self.unverified)
                .map_err(|error| Cause::Tls(format!("cannot set up TLS: {error}")))
        };
        if granted { &self.ready } else { &self.others }.get_or_try_init(make).await
    }

    fn configure(&self, roots: Roots, unverified: bool) -> Result<Configs, rustls::Error> {
        // None if no authority is trusted; then every handshake fails.
        let strict: Option<Arc<dyn ServerCertVerifier>> =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots.trusted.clone()), self.provider.clone())
                .build()
                .ok()
                .map(|verifier| Arc::new(PinnedVerifier::new(verifier, roots.named.clone())) as _);
        let verifier = if unverified { Some(Arc::new(NoVerifier(self.provider.clone())) as _) } else { strict.clone() };
        let counting = verifier.clone().map(|verifier| Arc::new(CountingVerifier::new(verifier)));
        let checked = |verifier: &Option<Arc<dyn ServerCertVerifier>>| -> Result<_, rustls::Error> {
            let begin =
                ClientConfig::builder_with_provider(self.provider.clone()).with_safe_default_protocol_versions()?;
            Ok(match verifier {
                Some(verifier) => begin.dangerous().with_custom_certificate_verifier(verifier.clone()),
                None => begin.with_root_certificates(RootCertStore::empty()),
            })
        };
        let offers = |mut config: ClientConfig| {
            let mut sessions = Resumption::in_memory_sessions(QUIC_SESSIONS);
            if self.fresh {
                sessions = Resumption::disabled();
                config.resumption = sessions.clone();
            }
            [Offer::Http1, Offer::Http2, Offer::Both, Offer::Http3].map(|offer| {
                let mut config = config.clone();
                config.alpn_protocols = offer.alpn().iter().map(|protocol| protocol.to_vec()).collect();
                if let (Offer::Http3, Some(counting)) = (offer, &counting) {
                    config.resumption = sessions.clone();
                    config.dangerous().set_certificate_verifier(counting.clone());
                }
                Arc::new(config)
            })
        };
        let origins = offers(checked(&verifier)?.with_no_client_auth());
        let known = match &self.identity {
            Some((identity, ours)) => {
                let resolver = Arc::new(SingleCertAndKey::from(ours.clone()));
                Some((identity.origin.clone(), offers(checked(&verifier)?.with_client_cert_resolver(resolver))))
            }
            None => None,
        };
        let mut proxies = checked(&strict)?.with_no_client_auth();
        proxies.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Configs { origins, known, proxies: Arc::new(proxies), roots, counting })
    }

    async fn handshake<S: Io>(
        &self,
        ready: &Configs,
        config: &Arc<ClientConfig>,
        early: bool,
        server: &Origin,
        io: S,
    ) -> Result<TlsStream<S>, Cause> {
        let name = ServerName::try_from(server.host().to_owned()).map_err(|_| invalid_name(server))?;
        TlsConnector::from(config.clone())
            .early_data(early)
            .connect(name, io)
            .await
            .map_err(|error| self.cause(ready, server, error))
    }

    /// Why a handshake failed, with the files involved.
    fn cause(&self, ready: &Configs, server: &Origin, error: io::Error) -> Cause {
        use rustls::Error::{AlertReceived, InvalidCertificate};
        let Some(tls) = rustls_error(&error) else {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                return Cause::Tls("the server closed the connection during the TLS handshake".into());
            }
            return Cause::Io(Arc::new(error));
        };
        let told = explain(tls);
        Cause::Tls(match (tls, &self.identity) {
            (InvalidCertificate(CertificateError::UnknownIssuer), _) => format!("{told} ({})", ready.roots),
            (AlertReceived(_), Some((identity, _))) if identity.origin == *server => {
                format!("{told}; it was offered the client certificate {}", identity.certificate.display())
            }
            _ => told,
        })
    }
}

impl Configs {
    /// The configuration for an origin.
    fn config(&self, origin: &Origin, offer: Offer, early: bool) -> Arc<ClientConfig> {
        let known = self.known.as_ref().filter(|(to, _)| to == origin).map(|(_, offers)| offers);
        let config = &known.unwrap_or(&self.origins)[offer as usize];
        if !early {
            return config.clone();
        }
        let mut config = (**config).clone();
        config.enable_early_data = true;
        Arc::new(config)
    }
}

/// The error for a host that no certificate can name.
pub(crate) fn invalid_name(server: &Origin) -> Cause {
    Cause::Tls(format!("{} is not a valid name for a certificate", server.host()))
}

fn certified(files: &Identity, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, SettingsError> {
    let (chain, key) = (pem::certificates(&files.certificate)?, pem::key(&files.key)?);
    CertifiedKey::from_der(chain, key, provider).map(Arc::new).map_err(|error| {
        let certificate = files.certificate.display();
        let why = match error {
            rustls::Error::InconsistentKeys(_) => format!("it does not match the certificate in {certificate}"),
            other => format!("it cannot be used with the certificate in {certificate}: {other}"),
        };
        SettingsError::Pem { path: files.key.clone(), why }
    })
}

fn facts<S>(stream: &TlsStream<S>, offer: Offer, handshake: Duration) -> TlsFacts {
    let (_, tls) = stream.get_ref();
    let suite = tls.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or("unknown");
    // Only a TLS 1.3 session that is resumed with early data returns before the handshake.
    let pending = tls.is_handshaking();
    let alpn = tls.alpn_protocol().or_else(|| offer.alpn().first().copied().filter(|_| pending));
    TlsFacts {
        handshake: if pending { Duration::ZERO } else { handshake },
        version: if pending || tls.protocol_version() == Some(ProtocolVersion::TLSv1_3) { "1.3" } else { "1.2" },
        // rustls adds a prefix to the names of TLS 1.3 suites; IANA does not.
        cipher_suite: suite.replacen("TLS13_", "TLS_", 1),
        resumed: pending || tls.handshake_kind() == Some(HandshakeKind::Resumed),
        alpn: alpn.map(|protocol| String::from_utf8_lossy(protocol).into_owned()),
        early: if pending { EarlyData::Pending } else { EarlyData::None },
    }
}

impl<S: Io> Io for TlsStream<S> {
    fn tcp_info(&self) -> Option<TcpInfo> {
        self.get_ref().0.tcp_info()
    }

    fn abort(&self) {
        self.get_ref().0.abort();
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = self.identity.as_ref().map(|(files, _)| files);
        f.debug_struct("Tls").field("identity", &identity).field("unverified", &self.unverified).finish_non_exhaustive()
    }
}
