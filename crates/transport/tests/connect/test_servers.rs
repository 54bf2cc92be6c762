//! Certificate authorities, TLS servers and proxies for tests. All end with the test's runtime.

use std::{net::SocketAddr, path::PathBuf, pin::pin, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::TlsAcceptor;
use transport::{Cause, ConnectError, ConnectSettings, Connector, Identity, Origin, Proxies, TlsSettings};

/// A timeout that no step over loopback reaches, even on a slow machine.
pub(crate) const AMPLE: std::time::Duration = std::time::Duration::from_mins(1);
/// A short timeout, for peers that do not respond.
pub(crate) const BRIEF: std::time::Duration = std::time::Duration::from_millis(300);

/// A listener that reports its first bytes and never responds.
pub(crate) async fn mute() -> (SocketAddr, mpsc::UnboundedReceiver<()>) {
    let (tell, told) = mpsc::unbounded_channel();
    let address = serve(move |mut stream| {
        let tell = tell.clone();
        async move {
            let mut buffer = [0; 4096];
            while let Ok(1..) = stream.read(&mut buffer).await {
                let _ = tell.send(());
            }
        }
    });
    (address.await, told)
}

/// The outcome of a future that such a listener keeps waiting: in real time until the listener has received something,
/// then with a paused clock.
pub(crate) async fn outwaited<T>(mut told: mpsc::UnboundedReceiver<()>, waiting: impl Future<Output = T>) -> T {
    let mut waiting = pin!(waiting);
    tokio::select! {
        _ = &mut waiting => panic!("it did not wait"),
        heard = told.recv() => assert!(heard.is_some()),
    }
    tokio::time::pause();
    let outcome = waiting.await;
    tokio::time::resume();
    outcome
}

/// A certificate authority, and the folder of its files.
pub(crate) struct Authority {
    pub(crate) folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("the test's authority")
    }

    /// Authorities may have the same name.
    pub(crate) fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Trusts this authority.
    pub(crate) fn settings(&self) -> ConnectSettings {
        let tls = TlsSettings { authorities: vec![self.file()], ..TlsSettings::default() };
        ConnectSettings { tls, ..ConnectSettings::default() }
    }

    pub(crate) fn connector(&self) -> Connector {
        Connector::new(self.settings()).unwrap()
    }

    pub(crate) fn certificate(&self, name: &str, year: i32) -> (CertificateDer<'static>, KeyPair) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().der().clone(), key)
    }

    /// A client certificate for `origin` in `client.pem`, its key in `client.key`.
    pub(crate) fn identity(&self, origin: &Origin) -> Identity {
        let (certificate, key) = self.certificate("a.client", 2049);
        let (folder, origin) = (self.folder.path(), origin.clone());
        let identity = Identity { origin, certificate: folder.join("client.pem"), key: folder.join("client.key") };
        let pem = format!("some words before\n{}", pem(&certificate));
        std::fs::write(&identity.certificate, pem).unwrap();
        std::fs::write(&identity.key, key.serialize_pem()).unwrap();
        identity
    }
}

pub(crate) fn pem(certificate: &CertificateDer<'_>) -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let text = BASE64_STANDARD.encode(certificate);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// A name for loopback that only the tests' proxies resolve: `localhost` itself is reached without a proxy.
pub(crate) const FAR: &str = "far.test";

/// A TLS server that sends one byte, `.`, and waits.
pub(crate) struct Server<'a> {
    pub(crate) authority: &'a Authority,
    pub(crate) name: &'a str,
    /// The last year in which its certificate is valid.
    pub(crate) year: i32,
    pub(crate) versions: &'a [&'static SupportedProtocolVersion],
    pub(crate) alpn: &'a [&'a str],
    /// The authority of the client certificates that it requires.
    pub(crate) clients: Option<&'a Authority>,
}

impl<'a> Server<'a> {
    pub(crate) fn new(authority: &'a Authority) -> Self {
        let alpn = &["h2", "http/1.1"];
        Self { authority, name: "localhost", year: 2049, versions: rustls::ALL_VERSIONS, alpn, clients: None }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let (certificate, key) = self.authority.certificate(self.name, self.year);
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(self.versions)
            .unwrap();
        let config = match self.clients {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.issuer.der().clone()).unwrap();
                let provider = Arc::new(ring::default_provider());
                let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                config.with_client_cert_verifier(clients)
            }
        };
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let mut config = config.with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = self.alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Starts it. Returns its origin, at `localhost`, whatever its certificate says.
    pub(crate) async fn start(self) -> Origin {
        origin("https", self.listen().await)
    }

    /// Starts it. Returns its origin as seen through a proxy.
    pub(crate) async fn start_far(self) -> Origin {
        far("https", self.listen().await)
    }

    async fn listen(self) -> SocketAddr {
        let acceptor = self.acceptor();
        serve(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut tls) = acceptor.accept(stream).await else { return };
                let _ = tls.write_all(b".").await;
                hold(tls).await;
            }
        })
        .await
    }
}

/// Serves every connection on IPv4 loopback with `each`, until the runtime ends.
pub(crate) async fn serve<F: Future<Output = ()> + Send + 'static>(
    each: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(each(stream));
        }
    });
    address
}

/// Keeps a connection open without sending, until the peer closes it.
pub(crate) async fn hold(mut io: impl AsyncRead + AsyncWrite + Unpin) {
    let _ = tokio::io::copy(&mut io, &mut tokio::io::sink()).await;
}

pub(crate) fn origin(scheme: &str, address: SocketAddr) -> Origin {
    at(scheme, "localhost", address)
}

/// The same, as seen through a proxy.
pub(crate) fn far(scheme: &str, address: SocketAddr) -> Origin {
    at(scheme, FAR, address)
}

fn at(scheme: &str, host: &str, address: SocketAddr) -> Origin {
    Origin::of(&format!("{scheme}://{host}:{}/", address.port()).parse().unwrap()).unwrap()
}

/// The target of a proxy's tunnel.
pub(crate) async fn tunnel(target: &str) -> std::io::Result<TcpStream> {
    TcpStream::connect(target.replace(FAR, "127.0.0.1")).await
}

/// This proxy for every origin.
pub(crate) fn through(url: &str) -> Proxies {
    Proxies::from_environment(|name| (name == "ALL_PROXY").then(|| url.to_owned())).unwrap()
}

pub(crate) fn cause<T: std::fmt::Debug>(result: Result<T, ConnectError>) -> Cause {
    match result {
        Err(ConnectError { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}
