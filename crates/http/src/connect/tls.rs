//! TLS: whom to trust, who we are, and what to speak inside.
//!
//! A full handshake costs a round trip with TLS 1.3 and two with TLS 1.2, and a certificate chain to carry and
//! check; a resumed one spares the chain, and in TLS 1.2 a round trip. So the tickets of all connections of one
//! connector go into one store, whatever they speak inside. No two connectors share a store: a session stands for
//! whoever began it, and a connector is one user. (Early data would spare TLS 1.3's round trip too. It belongs
//! here, as an argument of the handshake, once the engine knows which requests may be replayed: RFC 8470.)
//!
//! A server is checked against the system's authorities and those named beside them. A proxy that is itself
//! reached by TLS is checked the same way, but it is never shown the client's certificate, and never excused from
//! the check: what was granted to the origin was not granted to it.

mod explain;
mod pem;
mod unverified;

use std::{
    fmt, io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{
    CertificateError, ClientConfig, HandshakeKind, ProtocolVersion,
    crypto::{CryptoProvider, ring},
    pki_types::ServerName,
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::sync::OnceCell;
use tokio_rustls::{TlsConnector, client::TlsStream};

pub(crate) use self::explain::explain;
use self::{pem::Roots, unverified::Unverified};
use super::{Io, Offer, SettingsError, tcp_info::TcpInfo};
use crate::{Cause, Origin};

/// How TLS connections are made.
///
/// Trusted are the system's authorities: on Linux where OpenSSL would look, or, if the variables `SSL_CERT_FILE`
/// (a file) or `SSL_CERT_DIR` (folders) are set, those there instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// PEM files of certificates to trust besides the system's.
    pub authorities: Vec<PathBuf>,
    /// Who we are, for the one server that it is meant for.
    pub identity: Option<Identity>,
    /// Take any certificate from an origin: whoever is on the way can then read and change everything. Meant for
    /// one command and one look, and for nothing that carries a password.
    pub unverified: bool,
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

/// What a TLS handshake came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// How long it took.
    pub handshake: Duration,
    /// `1.3` or `1.2`.
    pub version: &'static str,
    /// By its name in IANA's registry, such as `TLS_AES_128_GCM_SHA256`.
    pub cipher_suite: String,
    /// Whether an earlier session was resumed: no certificate was sent, as it was checked then.
    pub resumed: bool,
    /// The protocol agreed upon by ALPN (RFC 7301), such as `h2`.
    pub alpn: Option<String>,
}

/// What the settings name, and the sessions.
pub(crate) struct Tls {
    provider: Arc<CryptoProvider>,
    named: Roots,
    identity: Option<(Identity, Arc<CertifiedKey>)>,
    unverified: bool,
    ready: OnceCell<Ready>,
}

type Offers = [Arc<ClientConfig>; 3];

/// What handshakes are made with.
struct Ready {
    /// For each [`Offer`]; they differ in ALPN alone.
    origins: Offers,
    /// The same with our identity, for its origin. Their sessions are their own: tickets are kept by a host's name, and
    /// what was proved at one of its ports is not to be shown at another.
    known: Option<(Origin, Offers)>,
    proxies: Arc<ClientConfig>,
    roots: Roots,
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
            unverified: settings.unverified,
            ready: OnceCell::new(),
            provider,
        })
    }

    /// Makes all ready for handshakes, the first time.
    pub(crate) async fn prepare(&self) -> Result<(), Cause> {
        self.ready().await.map(drop)
    }

    /// Shakes hands with an origin. The answer to the offer is in the facts, or there is none.
    pub(crate) async fn with_origin<S: Io>(
        &self,
        origin: &Origin,
        offer: Offer,
        io: S,
    ) -> Result<(TlsStream<S>, TlsFacts), Cause> {
        let ready = self.ready().await?;
        let known = ready.known.as_ref().filter(|(to, _)| to == origin).map(|(_, offers)| offers);
        self.shake(ready, &known.unwrap_or(&ready.origins)[offer as usize], origin, io).await
    }

    /// Shakes hands with a proxy.
    pub(crate) async fn with_proxy<S: Io>(&self, proxy: &Origin, io: S) -> Result<(TlsStream<S>, TlsFacts), Cause> {
        let ready = self.ready().await?;
        self.shake(ready, &ready.proxies, proxy, io).await
    }

    async fn ready(&self) -> Result<&Ready, Cause> {
        let make = async || {
            let named = self.named.clone();
            let roots = tokio::task::spawn_blocking(|| named.and_the_systems())
                .await
                .map_err(|error| Cause::Tls(format!("cannot read the system's authorities: {error}")))?;
            self.configure(roots).map_err(|error| Cause::Tls(format!("cannot set up TLS: {error}")))
        };
        self.ready.get_or_try_init(make).await
    }

    fn configure(&self, roots: Roots) -> Result<Ready, rustls::Error> {
        let trusted = Arc::new(roots.trusted.clone());
        let begin = || ClientConfig::builder_with_provider(self.provider.clone()).with_safe_default_protocol_versions();
        let checked = || -> Result<_, rustls::Error> {
            Ok(if self.unverified {
                let unverified = Unverified(self.provider.clone());
                begin()?.dangerous().with_custom_certificate_verifier(Arc::new(unverified))
            } else {
                begin()?.with_root_certificates(trusted.clone())
            })
        };
        let offers = |config: ClientConfig| {
            [Offer::Http1, Offer::Http2, Offer::Both].map(|offer| {
                let mut config = config.clone();
                config.alpn_protocols = offer.alpn().iter().map(|protocol| protocol.to_vec()).collect();
                Arc::new(config)
            })
        };
        let origins = offers(checked()?.with_no_client_auth());
        let known = match &self.identity {
            Some((identity, ours)) => {
                let resolver = Arc::new(SingleCertAndKey::from(ours.clone()));
                Some((identity.origin.clone(), offers(checked()?.with_client_cert_resolver(resolver))))
            }
            None => None,
        };
        let mut proxies = begin()?.with_root_certificates(trusted.clone()).with_no_client_auth();
        proxies.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Ready { origins, known, proxies: Arc::new(proxies), roots })
    }

    async fn shake<S: Io>(
        &self,
        ready: &Ready,
        config: &Arc<ClientConfig>,
        whom: &Origin,
        io: S,
    ) -> Result<(TlsStream<S>, TlsFacts), Cause> {
        let name = ServerName::try_from(whom.host().to_owned())
            .map_err(|_| Cause::Tls(format!("no certificate can be for the name {}", whom.host())))?;
        let begin = Instant::now();
        let stream = TlsConnector::from(config.clone())
            .connect(name, io)
            .await
            .map_err(|error| self.cause(ready, whom, error))?;
        let facts = facts(&stream, begin.elapsed());
        Ok((stream, facts))
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

/// What rustls said, inside what tokio-rustls says.
pub(crate) fn rustls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
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

fn facts<S>(stream: &TlsStream<S>, handshake: Duration) -> TlsFacts {
    let (_, tls) = stream.get_ref();
    let suite = tls.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()).unwrap_or("unknown");
    TlsFacts {
        handshake,
        version: if tls.protocol_version() == Some(ProtocolVersion::TLSv1_3) { "1.3" } else { "1.2" },
        // rustls marks the suites of TLS 1.3 in their names, IANA does not.
        cipher_suite: suite.replacen("TLS13_", "TLS_", 1),
        resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
        alpn: tls.alpn_protocol().map(|protocol| String::from_utf8_lossy(protocol).into_owned()),
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
