//! TLS: whom to trust, who we are, and what to speak inside.
//!
//! A full handshake costs a round trip with TLS 1.3 and two with TLS 1.2, and a certificate chain to carry and
//! check; a resumed one spares the chain, and in TLS 1.2 a round trip. So the tickets of all connections of one
//! connector go into one store, whatever they speak inside, but for QUIC, whose tickets tell more and have a store of
//! their own. No two connectors share a store: a session stands for whoever began it, and a connector is one user.
//! Early data spares TLS 1.3's round trip too (`early`).
//!
//! A server is checked against the system's authorities and those named beside them. A proxy that is itself
//! reached by TLS is checked the same way, but it is never shown the client's certificate, and never excused from
//! the check: what was granted to the origin was not granted to it. The same holds for other hosts, where the settings
//! are for one ([`TlsSettings::only`]): a redirect leads anywhere, and what is known of a host there may be a password.

mod early;
mod pem;
mod pinned;
mod resumption;
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

pub use self::early::Confirmation;
pub(crate) use self::resumption::Counted;
use self::{early::Early, pem::Roots, pinned::Pinned, unverified::Unverified};
use crate::{
    error::{Cause, SettingsError, explain, rustls_error},
    facts::{EarlyData, TlsFacts},
    io::Io,
    offer::Offer,
    origin::Origin,
    tcp_info::TcpInfo,
};

/// How TLS connections are made.
///
/// Trusted are the system's authorities: on Linux where OpenSSL would look, or, if the variables `SSL_CERT_FILE`
/// (a file) or `SSL_CERT_DIR` (folders) are set, those there instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// PEM files of certificates to trust besides the system's.
    pub authorities: Vec<PathBuf>,
    /// The one host, at whatever port, that `authorities` and `unverified` are for; if none, they are for all. Others
    /// are then checked by the system's authorities alone, but for proxies, whom the user has named as well.
    pub only: Option<String>,
    /// Who we are, for the one server that it is meant for.
    pub identity: Option<Identity>,
    /// Take any certificate from an origin: whoever is on the way can then read and change everything. Meant for
    /// one command and one look, and for nothing that carries a password.
    pub unverified: bool,
    /// Shake hands in full each time, as if no server had been visited before.
    pub fresh: bool,
}

/// A client certificate and its key. Both may be in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Who may see it. It tells a name, and more, to whoever is shown it; another origin that asks, such as one that a
    /// redirect leads to, gets none.
    pub origin: Origin,
    /// A PEM file: our certificate, then those that lead to its authority.
    pub certificate: PathBuf,
    /// A PEM file: the private key, not encrypted (PKCS #8, PKCS #1 or SEC 1).
    pub key: PathBuf,
}

/// What the settings name, and the sessions.
pub(crate) struct Tls {
    provider: Arc<CryptoProvider>,
    named: Roots,
    only: Option<String>,
    identity: Option<(Identity, Arc<CertifiedKey>)>,
    unverified: bool,
    fresh: bool,
    ready: OnceCell<Ready>,
    /// For hosts that the settings are not for.
    others: OnceCell<Ready>,
}

/// By [`Offer`].
type Offers = [Arc<ClientConfig>; 4];

/// How many servers' sessions are kept for QUIC: as many as rustls keeps for TCP.
const QUIC_SESSIONS: usize = 256;

/// What handshakes are made with.
struct Ready {
    /// They differ in ALPN, and HTTP/3's in its sessions and its [`Counted`] checks.
    origins: Offers,
    /// The same with our identity, for its origin. Their sessions are their own: tickets are kept by a host's name, and
    /// what was proved at one of its ports is not to be shown at another.
    known: Option<(Origin, Offers)>,
    proxies: Arc<ClientConfig>,
    roots: Roots,
    /// The certificates checked over QUIC, if anybody is trusted.
    counted: Option<Arc<Counted>>,
}

impl Tls {
    /// Reads the files that are named. The system's authorities wait for the first handshake: reading them takes
    /// milliseconds, which `http` need not spend, and `https` can while TCP shakes hands ([`Tls::ready`]).
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self, SettingsError> {
        let provider = Arc::new(ring::default_provider());
        Ok(Self {
            named: Roots::named(&settings.authorities)?,
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

    /// Makes all ready for handshakes with an origin, the first time.
    pub(crate) async fn prepare(&self, origin: &Origin) -> Result<(), Cause> {
        self.ready(self.is_for(origin)).await.map(drop)
    }

    /// Whether the settings are for this origin.
    fn is_for(&self, origin: &Origin) -> bool {
        self.only.as_ref().is_none_or(|host| host == origin.host())
    }

    /// Shakes hands with an origin. The answer to the offer is in the facts, or there is none. If `early` and a session
    /// allows it, the handshake is left to the first write and the first read, for so long, and its end is told in time.
    pub(crate) async fn with_origin<S: Io + 'static>(
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
        let stream = self.shake(ready, &config, early.is_some(), origin, io).await?;
        let told = facts(&stream, offer, begin.elapsed());
        if let Some(within) = early.filter(|_| told.early == EarlyData::Pending) {
            let (stream, confirmation) = Early::new(stream, offer, begin, within);
            return Ok((Box::new(stream), told, Some(confirmation)));
        }
        Ok((Box::new(stream), told, None))
    }

    /// What QUIC shakes hands with, and the certificates that were checked so far.
    pub(crate) async fn over_quic(
        &self,
        origin: &Origin,
        early: bool,
    ) -> Result<(Arc<ClientConfig>, Arc<Counted>), Cause> {
        let ready = self.ready(self.is_for(origin)).await?;
        let nobody = || Cause::Tls(format!("no authority is trusted here ({})", ready.roots));
        let counted = ready.counted.clone().ok_or_else(nobody)?;
        Ok((ready.config(origin, Offer::Http3, early), counted))
    }

    /// Shakes hands with a proxy.
    pub(crate) async fn with_proxy<S: Io>(&self, proxy: &Origin, io: S) -> Result<(TlsStream<S>, TlsFacts), Cause> {
        let ready = self.ready(true).await?;
        let begin = Instant::now();
        let stream = self.shake(ready, &ready.proxies, false, proxy, io).await?;
        let told = facts(&stream, Offer::Http1, begin.elapsed());
        Ok((stream, told))
    }

    /// What handshakes are made with: as the settings have it if `granted`, or as usual.
    async fn ready(&self, granted: bool) -> Result<&Ready, Cause> {
        let make = async || {
            let named = if granted { self.named.clone() } else { Roots::none() };
            let roots = tokio::task::spawn_blocking(|| named.and_the_systems())
                .await
                .map_err(|error| Cause::Tls(format!("cannot read the system's authorities: {error}")))?;
            self.configure(roots, granted && self.unverified)
                .map_err(|error| Cause::Tls(format!("cannot set up TLS: {error}")))
        };
        if granted { &self.ready } else { &self.others }.get_or_try_init(make).await
    }

    fn configure(&self, roots: Roots, unverified: bool) -> Result<Ready, rustls::Error> {
        // There is none where there is nobody to trust; then nobody is reached.
        let strict: Option<Arc<dyn ServerCertVerifier>> =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots.trusted.clone()), self.provider.clone())
                .build()
                .ok()
                .map(|verifier| Arc::new(Pinned::new(verifier, roots.named.clone())) as _);
        let verifier = if unverified { Some(Arc::new(Unverified(self.provider.clone())) as _) } else { strict.clone() };
        let counted = verifier.clone().map(|verifier| Arc::new(Counted::new(verifier)));
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
                if let (Offer::Http3, Some(counted)) = (offer, &counted) {
                    config.resumption = sessions.clone();
                    config.dangerous().set_certificate_verifier(counted.clone());
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
        Ok(Ready { origins, known, proxies: Arc::new(proxies), roots, counted })
    }

    async fn shake<S: Io>(
        &self,
        ready: &Ready,
        config: &Arc<ClientConfig>,
        early: bool,
        whom: &Origin,
        io: S,
    ) -> Result<TlsStream<S>, Cause> {
        let name = ServerName::try_from(whom.host().to_owned()).map_err(|_| nameless(whom))?;
        TlsConnector::from(config.clone())
            .early_data(early)
            .connect(name, io)
            .await
            .map_err(|error| self.cause(ready, whom, error))
    }

    /// Why a handshake failed, with the files that have to do with it.
    fn cause(&self, ready: &Ready, whom: &Origin, error: io::Error) -> Cause {
        use rustls::Error::{AlertReceived, InvalidCertificate};
        let Some(tls) = rustls_error(&error) else {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                return Cause::Tls("the server closed the connection in the TLS handshake".into());
            }
            return Cause::Io(Arc::new(error));
        };
        let told = explain(tls);
        Cause::Tls(match (tls, &self.identity) {
            (InvalidCertificate(CertificateError::UnknownIssuer), _) => format!("{told} ({})", ready.roots),
            (AlertReceived(_), Some((identity, _))) if identity.origin == *whom => {
                format!("{told}; it was offered the client certificate {}", identity.certificate.display())
            }
            _ => told,
        })
    }
}

impl Ready {
    /// What handshakes with an origin are made with.
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

/// That no certificate can be for an origin.
pub(crate) fn nameless(whom: &Origin) -> Cause {
    Cause::Tls(format!("no certificate can be for the name {}", whom.host()))
}

fn certified(files: &Identity, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, SettingsError> {
    let (chain, key) = (pem::certificates(&files.certificate)?, pem::key(&files.key)?);
    CertifiedKey::from_der(chain, key, provider).map(Arc::new).map_err(|error| {
        let certificate = files.certificate.display();
        let why = match error {
            rustls::Error::InconsistentKeys(_) => format!("it is not the key of the certificate in {certificate}"),
            other => format!("it cannot be used with the certificate in {certificate}: {other}"),
        };
        SettingsError::Pem { path: files.key.clone(), why }
    })
}

fn facts<S>(stream: &TlsStream<S>, offer: Offer, handshake: Duration) -> TlsFacts {
    let (_, tls) = stream.get_ref();
    let suite = tls.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or("unknown");
    // It is left for later only where a session of TLS 1.3 is resumed with early data.
    let pending = tls.is_handshaking();
    let alpn = tls.alpn_protocol().or_else(|| offer.alpn().first().copied().filter(|_| pending));
    TlsFacts {
        handshake: if pending { Duration::ZERO } else { handshake },
        version: if pending || tls.protocol_version() == Some(ProtocolVersion::TLSv1_3) { "1.3" } else { "1.2" },
        // rustls marks the suites of TLS 1.3 in their names, IANA does not.
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
