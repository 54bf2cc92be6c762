//! Hostile clients and servers: unsafe requests in early data, two lengths, a ClientHello of several packets, endless
//! frames.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h3::error::{Code, StreamError};
use haul_http::Origin;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response, StatusCode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use transport::Offer;

use crate::common::{LIMIT, Running};
use crate::{open, secure, trusting};

/// A TLS client that sends anything as early data.
async fn rude(server: &Running, config: &Arc<rustls::ClientConfig>, early: &[u8]) -> (String, bool) {
    let connector = TlsConnector::from(config.clone()).early_data(true);
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, server.connect().await).await.unwrap();
    let resumes = stream.get_ref().1.is_handshaking();
    stream.write_all(early).await.unwrap();
    let mut answer = String::new();
    let read = async {
        stream.flush().await.unwrap();
        let _ = stream.read_to_string(&mut answer).await;
    };
    timeout(LIMIT, read).await.unwrap();
    (answer, resumes && stream.get_ref().1.is_early_data_accepted())
}

fn client_config(server: &Running, protocol: &[u8]) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    let pem = &server.certificate.as_ref().unwrap().pem;
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.enable_early_data = true;
    config.alpn_protocols = vec![protocol.to_vec()];
    Arc::new(config)
}

fn text(method: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("{method} /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

#[tokio::test]
async fn unsafe_request_before_handshake_end_gets_425() {
    let server = secure();
    let config = client_config(&server, b"http/1.1");
    let (answer, accepted) = rude(&server, &config, &text("PUT", "", "first")).await;
    assert!(answer.starts_with("HTTP/1.1 201 ") && !accepted, "{answer}");
    for method in ["PUT", "DELETE", "MKCOL", "LOCK"] {
        let (answer, accepted) = rude(&server, &config, &text(method, "", "early")).await;
        assert!(answer.starts_with("HTTP/1.1 425 ") && accepted, "{method}: {answer}");
    }
    let (answer, accepted) = rude(&server, &config, &text("GET", "", "")).await;
    assert!(answer.ends_with("first") && accepted, "{answer}");
    // Early data from a proxy may be replayed, although the proxy's own handshake is complete.
    let (answer, _) = rude(&server, &client_config(&server, b"http/1.1"), &text("PUT", "Early-Data: 1\r\n", "x")).await;
    assert!(answer.starts_with("HTTP/1.1 425 "), "{answer}");
    assert_eq!(server.read("file").unwrap(), b"first");
}

/// Forwards a connection and records the server's bytes.
struct Watched(TcpStream, Arc<Mutex<Vec<u8>>>);

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.0).poll_read(context, into);
        self.1.lock().unwrap().extend_from_slice(&into.filled()[before..]);
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[tokio::test]
async fn first_tls_records_fit_into_one_packet() {
    let server = secure();
    let large = vec![b'x'; 1_000_000];
    server.write("file", &large);
    let seen = Arc::default();
    let watched = Watched(server.connect().await, Arc::clone(&seen));
    let connector = TlsConnector::from(client_config(&server, b"http/1.1"));
    let name = ServerName::try_from("localhost").unwrap();
    let mut answer = Vec::new();
    let all = async {
        let mut stream = connector.connect(name, watched).await.unwrap();
        stream.write_all(&text("GET", "", "")).await.unwrap();
        stream.read_to_end(&mut answer).await.unwrap();
    };
    timeout(LIMIT, all).await.unwrap();
    assert!(answer.ends_with(&large));
    // RFC 8446 §5.1: five bytes, the last two of which are the length of the rest.
    let bytes = seen.lock().unwrap();
    let (mut records, mut rest) = (Vec::new(), &bytes[..]);
    while let [_, _, _, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        records.push(5 + length);
        rest = &after[length..];
    }
    let short = records.iter().take_while(|length| **length <= 1400).sum::<usize>();
    assert!((128 * 1024..200_000).contains(&short) && records.iter().any(|length| *length > 4000), "{records:?}");
}

fn quic_config(tls: Arc<rustls::ClientConfig>) -> quinn::ClientConfig {
    quinn::ClientConfig::new(Arc::new(quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap()))
}

/// Sends a request over HTTP/3 as early data; returns the status, and whether early data was accepted.
async fn rude_quic(server: SocketAddr, config: &quinn::ClientConfig, method: Method) -> (StatusCode, bool) {
    let request = Request::builder().method(method).uri("https://localhost/file").body(()).unwrap();
    let (answer, accepted) = raw_quic(server, config, request, "").await;
    (answer.unwrap().status(), accepted)
}

/// Sends this head and body over HTTP/3, unchanged.
async fn raw_quic(
    server: SocketAddr,
    config: &quinn::ClientConfig,
    head: Request<()>,
    body: &'static str,
) -> (Result<Response<()>, StreamError>, bool) {
    let endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let connecting = endpoint.connect_with(config.clone(), server, "localhost").unwrap();
    let (connection, accepted) = match connecting.into_0rtt() {
        Ok((connection, accepted)) => (connection, Some(accepted)),
        Err(connecting) => (connecting.await.unwrap(), None),
    };
    let http3 = h3_quinn::Connection::new(connection.clone());
    let (mut driver, mut sender) = h3::client::builder().build::<_, _, Bytes>(http3).await.unwrap();
    let driver = tokio::spawn(async move { driver.wait_idle().await });
    let mut stream = sender.send_request(head).await.unwrap();
    if !body.is_empty() {
        stream.send_data(body.into()).await.unwrap();
    }
    stream.finish().await.unwrap();
    let answer = stream.recv_response().await;
    let accepted = match accepted {
        Some(accepted) => accepted.await,
        None => false,
    };
    // The tickets arrive after the handshake.
    sleep(Duration::from_millis(400)).await;
    drop(driver);
    (answer, accepted)
}

#[tokio::test]
async fn unsafe_http3_request_before_handshake_end_gets_425() {
    let server = secure();
    server.write("file", "first");
    let config = quic_config(client_config(&server, b"h3"));
    let ask = async |method| timeout(LIMIT, rude_quic(server.address, &config, method)).await.unwrap();
    assert_eq!(ask(Method::GET).await, (StatusCode::OK, false));
    assert_eq!(ask(Method::DELETE).await, (StatusCode::TOO_EARLY, true));
    assert_eq!(ask(Method::GET).await, (StatusCode::OK, true));
    assert!(server.read("file").is_some());
}

/// RFC 9114 §4.1.2.
#[tokio::test]
async fn request_with_two_lengths_is_malformed() {
    let server = secure();
    let put = async |lengths: [&str; 2]| {
        // Not as early data.
        let config = quic_config(client_config(&server, b"h3"));
        let mut head = Request::put("https://localhost/file").body(()).unwrap();
        head.headers_mut().extend(lengths.map(|length| (CONTENT_LENGTH, length.parse().unwrap())));
        timeout(LIMIT, raw_quic(server.address, &config, head, "five!")).await.unwrap().0
    };
    for lengths in [["5", "6"], ["5", "five"]] {
        let refused = put(lengths).await;
        let Err(StreamError::RemoteTerminate { code, .. }) = refused else { panic!("{lengths:?}: {refused:?}") };
        assert_eq!(code, Code::H3_MESSAGE_ERROR, "{lengths:?}");
        assert_eq!((server.read("file"), server.unfinished()), (None, 0));
    }
    assert_eq!(put(["5", "5"]).await.unwrap().status(), 201);
    assert_eq!(server.read("file").unwrap(), b"five!");
}

/// Carries one client's packets to a server and back, the client's first packet at once, the second when the server has
/// finished with the first.
async fn first_alone(server: SocketAddr) -> SocketAddr {
    let (inside, outside) =
        (UdpSocket::bind("127.0.0.1:0").await.unwrap(), UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let address = inside.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut up, mut down) = ([0; 2048], [0; 2048]);
        let (mut client, mut coming) = (None, 0);
        loop {
            tokio::select! {
                Ok((size, from)) = inside.recv_from(&mut up) => {
                    (client, coming) = (Some(from), coming + 1);
                    if coming == 2 {
                        sleep(Duration::from_millis(100)).await;
                    }
                    outside.send_to(&up[..size], server).await.unwrap();
                }
                Ok(size) = outside.recv(&mut down) => {
                    inside.send_to(&down[..size], client.unwrap()).await.unwrap();
                }
            }
        }
    });
    address
}

#[tokio::test]
async fn client_hello_of_several_packets_is_answered_after_the_last() {
    let server = secure();
    server.write("file", "x");
    // A browser's takes two packets because of its ML-KEM key share; here the names alone exceed a packet.
    let mut tls = Arc::unwrap_or_clone(client_config(&server, b"h3"));
    tls.alpn_protocols.extend((b'a'..=b't').map(|letter| vec![letter; 100]));
    let config = quic_config(tls.into());
    let answer = timeout(LIMIT, rude_quic(first_alone(server.address).await, &config, Method::GET)).await;
    assert_eq!(answer.expect("an answer in time"), (StatusCode::OK, false));
}

/// The header of a frame (RFC 9114 §7.1) that is a gigabyte long.
fn endless(kind: u8) -> Vec<u8> {
    [&[kind][..], &((1_u64 << 30) | 3 << 62).to_be_bytes()].concat()
}

/// Writes until the other side stops it; returns the error code, and the number of bytes accepted.
async fn pour(stream: &mut quinn::SendStream) -> (u64, usize) {
    let piece = vec![0; 16 * 1024];
    let mut taken = 0;
    loop {
        match timeout(LIMIT, stream.write(&piece)).await.expect("taken or refused in time") {
            Ok(length) => taken += length,
            Err(quinn::WriteError::Stopped(code)) => return (code.into_inner(), taken),
            Err(error) => panic!("{error}"),
        }
        assert!(taken < 64 << 20, "64 MB were taken of a frame that is no DATA");
    }
}

#[tokio::test]
async fn endless_frames_are_refused_unread() {
    let server = secure();
    let config = quic_config(client_config(&server, b"h3"));
    // HEADERS, and an unknown type.
    for kind in [1, 0x21] {
        let endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
        let connection = endpoint.connect_with(config.clone(), server.address, "localhost").unwrap().await.unwrap();
        let (mut stream, _answer) = connection.open_bi().await.unwrap();
        stream.write_all(&endless(kind)).await.unwrap();
        let (code, _) = timeout(LIMIT, pour(&mut stream)).await.unwrap();
        assert_eq!(code, Code::H3_EXCESSIVE_LOAD.value(), "{kind}");
    }
}

fn quic_server() -> quinn::Endpoint {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.into()], PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap())
        .unwrap();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(tls).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    quinn::Endpoint::server(config, ([127, 0, 0, 1], 0).into()).unwrap()
}

#[tokio::test]
async fn endless_response_frame_is_an_error() {
    let endpoint = quic_server();
    let url = format!("https://{}/", endpoint.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        let (mut stream, _request) = connection.accept_bi().await.unwrap();
        stream.write_all(&endless(0x21)).await.unwrap();
        pour(&mut stream).await.0
    });
    let lone = open(&trusting(), &Origin::of(&url.parse().unwrap()).unwrap(), Offer::Http3, false).await;
    let get = Request::get(&url).body(haul_http::Body::empty()).unwrap();
    let error = timeout(LIMIT, lone.send(get)).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("a frame of 1073741824 bytes"), "{error}");
    assert_eq!(timeout(LIMIT, serving).await.unwrap().unwrap(), Code::H3_EXCESSIVE_LOAD.value());
}

#[tokio::test]
async fn endless_interim_responses_are_an_error() {
    let endpoint = quic_server();
    let url = format!("https://{}/", endpoint.local_addr().unwrap());
    tokio::spawn(async move {
        let quic = h3_quinn::Connection::new(endpoint.accept().await.unwrap().await.unwrap());
        let mut http3 = h3::server::Connection::<_, Bytes>::new(quic).await.unwrap();
        while let Ok(Some(coming)) = http3.accept().await {
            tokio::spawn(async move {
                let (_, mut stream) = coming.resolve_request().await.unwrap();
                let hint = || Response::builder().status(StatusCode::EARLY_HINTS).body(()).unwrap();
                while stream.send_response(hint()).await.is_ok() {}
            });
        }
    });
    let lone = open(&trusting(), &Origin::of(&url.parse().unwrap()).unwrap(), Offer::Http3, false).await;
    let get = Request::get(&url).body(haul_http::Body::empty()).unwrap();
    let error = timeout(LIMIT, lone.send(get)).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("again and again"), "{error}");
}

#[tokio::test]
async fn silent_http3_connections_lock_nobody_out() {
    let server = crate::common::start(|config| {
        config.tls = Some(serve::Tls::SelfSigned);
        config.connections = std::num::NonZeroUsize::new(8);
    });
    server.write("file", "x");
    let config = quic_config(client_config(&server, b"h3"));
    let mut silent = Vec::new();
    for _ in 0..20 {
        let endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
        let connecting = endpoint.connect_with(config.clone(), server.address, "localhost").unwrap();
        silent.push(timeout(LIMIT, connecting).await.unwrap().unwrap());
    }
    let answer = timeout(LIMIT, rude_quic(server.address, &config, Method::GET)).await;
    assert_eq!(answer.expect("an answer in time").0, StatusCode::OK);
}

/// A server that answers each upload with two lengths before it reads it, and returns how the upload ends.
fn rude_server() -> (SocketAddr, mpsc::UnboundedReceiver<Code>) {
    let endpoint = quic_server();
    let address = endpoint.local_addr().unwrap();
    let (codes, ended) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let quic = h3_quinn::Connection::new(endpoint.accept().await.unwrap().await.unwrap());
        let mut http3 = h3::server::Connection::<_, Bytes>::new(quic).await.unwrap();
        while let Ok(Some(coming)) = http3.accept().await {
            let codes = codes.clone();
            tokio::spawn(async move {
                let (_, mut stream) = coming.resolve_request().await.unwrap();
                let answer = Response::builder().header(CONTENT_LENGTH, 5).header(CONTENT_LENGTH, 6);
                stream.send_response(answer.body(()).unwrap()).await.unwrap();
                let error = loop {
                    match stream.recv_data().await {
                        Ok(data) => assert!(data.is_some(), "the upload came whole"),
                        Err(error) => break error,
                    }
                };
                let StreamError::RemoteTerminate { code, .. } = error else { panic!("{error}") };
                codes.send(code).unwrap();
            });
        }
    });
    (address, ended)
}

#[tokio::test]
async fn server_learns_that_its_response_is_malformed() {
    let (address, mut codes) = rude_server();
    let url = format!("https://{address}/");
    let lone = open(&trusting(), &Origin::of(&url.parse().unwrap()).unwrap(), Offer::Http3, false).await;
    // More than the server's window.
    let put = Request::put(&url).body(vec![0; 8 << 20].into()).unwrap();
    let error = timeout(LIMIT, lone.send(put)).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), format!("PUT {url}: the response has two different values of Content-Length"));
    assert_eq!(timeout(LIMIT, codes.recv()).await.unwrap(), Some(Code::H3_MESSAGE_ERROR));
}
