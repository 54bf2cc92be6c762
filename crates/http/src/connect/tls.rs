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
};
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
    /// Who we are, for servers that ask. Any origin that asks is shown it.
    pub identity: Option<Identity>,
    /// Take any certificate from an origin: whoever is on the way can then read and change everything. Meant for
    /// one command and one look, and for nothing that carries a password.
    pub unverified: bool,
}

/// A client certificate and its key. Both may be in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
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

/// The settings made ready, and the sessions.
pub(crate) struct Tls {
    /// For each [`Offer`]; they differ in ALPN alone.
    origins: [Arc<ClientConfig>; 3],
    proxies: Arc<ClientConfig>,
    roots: Roots,
    identity: Option<Identity>,
}

impl Tls {
    pub(crate) fn new(settings: &TlsSettings) -> Result<Self, SettingsError> {
        let provider = Arc::new(ring::default_provider());
        let roots = Roots::load(&settings.authorities)?;
        let origin = config(&provider, (!settings.unverified).then_some(&roots), settings.identity.as_ref())?;
        let offering = |alpn: &[&[u8]]| {
            let mut config = origin.clone();
            config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
            Arc::new(config)
        };
        let mut proxies = config(&provider, Some(&roots), None)?;
        proxies.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            origins: [Offer::Http1, Offer::Http2, Offer::Both].map(|offer| offering(offer.alpn())),
            proxies: Arc::new(proxies),
            roots,
            identity: settings.identity.clone(),
        })
    }

    /// Shakes hands with an origin. The answer to the offer is in the facts, or there is none.
    pub(crate) async fn with_origin<S: Io>(
        &self,
        origin: &Origin,
        offer: Offer,
        io: S,
    ) -> Result<(TlsStream<S>, TlsFacts), Cause> {
        self.shake(&self.origins[offer as usize], origin, io).await
    }

    /// Shakes hands with a proxy.
    pub(crate) async fn with_proxy<S: Io>(&self, proxy: &Origin, io: S) -> Result<(TlsStream<S>, TlsFacts), Cause> {
        self.shake(&self.proxies, proxy, io).await
    }

    async fn shake<S: Io>(
        &self,
        config: &Arc<ClientConfig>,
        whom: &Origin,
        io: S,
    ) -> Result<(TlsStream<S>, TlsFacts), Cause> {
        let name = ServerName::try_from(whom.host().to_owned())
            .map_err(|_| Cause::Tls(format!("no certificate can be for the name {}", whom.host())))?;
        let begin = Instant::now();
        let stream = TlsConnector::from(config.clone()).connect(name, io).await.map_err(|error| self.cause(error))?;
        let facts = facts(&stream, begin.elapsed());
        Ok((stream, facts))
    }

    /// Why a handshake failed, with the files that have to do with it.
    fn cause(&self, error: io::Error) -> Cause {
        use rustls::Error::{AlertReceived, InvalidCertificate};
        let Some(tls) = rustls_error(&error) else {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                return Cause::Tls("the server closed the connection in the TLS handshake".into());
            }
            return Cause::Io(Arc::new(error));
        };
        let told = explain(tls);
        Cause::Tls(match (tls, &self.identity) {
            (InvalidCertificate(CertificateError::UnknownIssuer), _) => format!("{told} ({})", self.roots),
            (AlertReceived(_), Some(identity)) => {
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

/// Without roots, whoever answers is trusted.
fn config(
    provider: &Arc<CryptoProvider>,
    roots: Option<&Roots>,
    identity: Option<&Identity>,
) -> Result<ClientConfig, SettingsError> {
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| SettingsError::Tls(error.to_string()))?;
    let config = match roots {
        Some(roots) => config.with_root_certificates(roots.trusted.clone()),
        None => config.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider.clone()))),
    };
    let Some(identity) = identity else { return Ok(config.with_no_client_auth()) };
    let (chain, key) = (pem::certificates(&identity.certificate)?, pem::key(&identity.key)?);
    config.with_client_auth_cert(chain, key).map_err(|error| {
        let why = match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("it is not the key of the certificate in {}", identity.certificate.display())
            }
            other => format!("it cannot be used with the certificate in {}: {other}", identity.certificate.display()),
        };
        SettingsError::Pem { path: identity.key.clone(), why }
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
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("roots", &self.roots).field("identity", &self.identity).finish_non_exhaustive()
    }
}
