//! TLS, passwords, and configuration errors.

mod common;

use std::io::Write;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::{Running, finish, start};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serve::{Config, Server, Tls};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Connects, trusting the server's own certificate and nothing else.
async fn connect_tls(server: &Running, protocol: &[u8]) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    let pem = &server.certificate.as_ref().unwrap().pem;
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, server.connect().await).await.unwrap()
}

#[tokio::test]
async fn tls_server_speaks_http1_and_http2() {
    let server = start(|config| config.tls = Some(Tls::SelfSigned));
    server.write("file", "x");
    let request = || http::Request::get("https://localhost/file").body(Empty::<bytes::Bytes>::new()).unwrap();

    let stream = connect_tls(&server, b"h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(client.send_request(request()).await.unwrap().status(), 200);

    let stream = connect_tls(&server, b"http/1.1").await;
    let (mut client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut named = request();
    named.headers_mut().insert(http::header::HOST, http::HeaderValue::from_static("localhost"));
    let answer = client.send_request(named).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_11));

    // A cleartext request gets no file and harms nothing.
    assert_ne!(server.ask("GET /file", b"").await.status(), 200);
    let mut silent = server.connect().await;
    silent.shutdown().await.unwrap();
    assert_eq!(finish(silent).await.status(), 0);
}

#[tokio::test]
async fn certificate_from_files_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let server = start(|config| config.tls = Some(Tls::Files { certificate, key }));
    connect_tls(&server, b"h2").await;
}

fn passwords() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "ann:{}", bcrypt::hash("s3cret", 4).unwrap()).unwrap();
    file
}

#[tokio::test]
async fn request_without_password_reads_and_changes_nothing() {
    let file = passwords();
    let server = start(|config| config.auth = Some(file.path().into()));
    server.write("file", "x");
    let basic = |text: &str| format!("Authorization: Basic {}", BASE64_STANDARD.encode(text));
    for wrong in
        [String::new(), basic("ann:wrong"), basic("bob:s3cret"), basic("ann"), "Authorization: Basic ???".into()]
    {
        for (request, body) in [("GET /file", ""), ("GET /missing", ""), ("PUT /file", "y"), ("OPTIONS /", "")] {
            let answer = server.ask(&format!("{request}\n{wrong}"), body.as_bytes()).await;
            assert_eq!(answer.status(), 401, "{request} {wrong}");
            assert!(answer.header("www-authenticate").unwrap().starts_with("Basic "));
        }
    }
    assert_eq!(server.read("file").unwrap(), b"x");
    assert_eq!(server.ask(&format!("PUT /file\n{}", basic("ann:s3cret")), b"y").await.status(), 204);
    let line = server.logged("\" 204 ").await;
    assert!(line.starts_with("127.0.0.1 - ann ["), "{line}");
    assert!(!server.log().contains("s3cret") && !server.log().contains(&BASE64_STANDARD.encode("ann:s3cret")));
}

#[tokio::test]
async fn cross_site_request_reads_and_changes_nothing() {
    let server = start(|_| {});
    server.write("file", "x");
    for (headers, status) in [("Origin: http://evil.example", 403), ("Sec-Fetch-Site: cross-site", 403)] {
        assert_eq!(server.ask(&format!("PUT /file\n{headers}"), b"y").await.status(), status, "{headers}");
    }
    let mut rebound = server.connect().await;
    let words = b"GET /file HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    rebound.write_all(words).await.unwrap();
    assert_eq!(finish(rebound).await.status(), 421);
    assert_eq!(server.read("file").unwrap(), b"x");

    // With passwords any `Host` is accepted.
    let file = passwords();
    let server = start(|config| config.auth = Some(file.path().into()));
    let mut named = server.connect().await;
    named.write_all(words).await.unwrap();
    assert_eq!(finish(named).await.status(), 401);
}

fn refusal(change: impl FnOnce(&mut Config)) -> String {
    let root = tempfile::tempdir().unwrap();
    let mut config = Config { root: root.path().into(), listen: vec![([127, 0, 0, 1], 0).into()], ..Config::default() };
    change(&mut config);
    Server::bind(config).err().expect("refused").to_string()
}

#[tokio::test]
async fn configuration_errors_are_one_sentence() {
    let file = passwords();
    let open = refusal(|config| {
        config.listen = vec![([0, 0, 0, 0], 0).into()];
        config.auth = Some(file.path().into());
    });
    assert!(open.starts_with("passwords would be sent in cleartext to 0.0.0.0:"), "{open}");
    assert!(refusal(|config| config.root = "/nowhere".into()).starts_with("cannot serve /nowhere: "));
    assert!(refusal(|config| config.root = "/proc/version".into()).starts_with("cannot serve /proc/version: "));
    assert!(refusal(|config| config.listen.clear()).contains("no address"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let held = std::net::TcpListener::bind(taken).unwrap();
    assert!(refusal(|config| config.listen = vec![taken]).contains(&taken.to_string()));
    drop(held);
}
