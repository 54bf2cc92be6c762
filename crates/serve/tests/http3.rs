//! HTTP/3 and early data, between our server and our engine; and what a rude client is refused.

mod common;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use common::{LIMIT, Running, start};
use haul_http::connect::{ConnectSettings, Connector, EarlyData, Facts, Offer, TlsSettings};
use haul_http::credentials::Authenticator;
use haul_http::{Alternative, Body, Client, Lone, Origin, Settings, Versions};
use http::{Method, Request, StatusCode, Version};
use http_body_util::BodyExt;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serve::Tls;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

fn secure() -> Running {
    start(|config| config.tls = Some(Tls::SelfSigned))
}

fn origin(server: &Running) -> Origin {
    Origin::of(&format!("https://{}/", server.address).parse().unwrap()).unwrap()
}

/// Trusts this server, through a file that lives as long as the value beside.
fn settings(server: &Running) -> (ConnectSettings, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, &server.certificate.as_ref().unwrap().pem).unwrap();
    let tls = TlsSettings { authorities: vec![file], ..TlsSettings::default() };
    (ConnectSettings { tls, ..ConnectSettings::default() }, folder)
}

fn connector(server: &Running) -> Connector {
    Connector::new(settings(server).0).unwrap()
}

async fn open(connector: &Connector, origin: &Origin, offer: Offer, early: bool) -> Lone {
    Lone::open(connector, origin, offer, early, &Settings::default()).await.unwrap()
}

fn request(method: Method, server: &Running, path: &str, body: impl Into<Body>) -> Request<Body> {
    let url = format!("https://{}{path}", server.address);
    Request::builder().method(method).uri(url).body(body.into()).unwrap()
}

async fn ask(lone: &Lone, request: Request<Body>) -> (StatusCode, Vec<u8>) {
    let answer = timeout(LIMIT, lone.send(request)).await.expect("an answer in time").unwrap();
    let status = answer.status();
    (status, timeout(LIMIT, answer.into_body().collect()).await.unwrap().unwrap().to_bytes().to_vec())
}

fn early(facts: &Facts) -> EarlyData {
    facts.tls.as_ref().unwrap().early
}

#[tokio::test]
async fn files_go_both_ways_over_http3() {
    let server = secure();
    let connector = connector(&server);
    let lone = open(&connector, &origin(&server), Offer::Http3, false).await;
    assert_eq!(lone.version(), Version::HTTP_3);
    assert_eq!((lone.facts().round_trips(), early(&lone.facts())), (1, EarlyData::None));
    let large: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
    let put = |path: &str, bytes: &[u8]| request(Method::PUT, &server, path, bytes.to_vec());
    assert_eq!(ask(&lone, put("/large", &large)).await.0, 201);
    assert_eq!(server.read("large").unwrap(), large);
    let get = |path: &str| request(Method::GET, &server, path, Body::empty());
    let small = futures_util::future::join_all((0..5).map(|_| ask(&lone, get("/large")))).await;
    assert!(small.iter().all(|(status, body)| *status == 200 && *body == large));
    assert_eq!(ask(&lone, put("/empty", b"")).await.0, 201);
    assert_eq!(ask(&lone, get("/empty")).await, (StatusCode::OK, Vec::new()));
    let head = ask(&lone, request(Method::HEAD, &server, "/large", Body::empty())).await;
    assert_eq!(head, (StatusCode::OK, Vec::new()));
    assert_eq!(ask(&lone, get("/none")).await.0, 404);
    assert!(server.logged("HTTP/3").await.contains("/large"));
}

#[tokio::test]
async fn a_resumed_session_saves_round_trips_and_safe_requests_save_all() {
    let server = secure();
    server.write("file", "x");
    let origin = origin(&server);
    let get = || request(Method::GET, &server, "/file", Body::empty());
    for (offer, full, saved) in [(Offer::Http1, 2, 1), (Offer::Http2, 2, 1), (Offer::Http3, 1, 0)] {
        let connector = connector(&server);
        for (wish, resumed, trips, came) in [
            (true, false, full, EarlyData::None),
            (false, true, full, EarlyData::None),
            (true, true, saved, EarlyData::Accepted),
        ] {
            let lone = open(&connector, &origin, offer, wish).await;
            assert_eq!(lone.facts().round_trips(), trips, "{offer:?} {wish}");
            assert_eq!(early(&lone.facts()) == EarlyData::Pending, wish && resumed, "{offer:?}");
            assert_eq!(ask(&lone, get()).await, (StatusCode::OK, b"x".to_vec()));
            assert!(timeout(LIMIT, lone.confirmed()).await.unwrap());
            assert_eq!((early(&lone.facts()), lone.facts().round_trips()), (came, trips), "{offer:?}");
            assert_eq!(lone.facts().tls.unwrap().resumed, resumed, "{offer:?} {wish}");
            // What changes something waits for the handshake, and is done.
            assert!(ask(&lone, request(Method::PUT, &server, "/put", "y")).await.0.is_success());
        }
    }
}

/// A TLS client that sends early whatever it is told to.
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
async fn what_changes_something_is_too_early_before_the_handshake_is_done() {
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
    // What a proxy took early may be a recording, although the proxy itself is there.
    let (answer, _) = rude(&server, &client_config(&server, b"http/1.1"), &text("PUT", "Early-Data: 1\r\n", "x")).await;
    assert!(answer.starts_with("HTTP/1.1 425 "), "{answer}");
    assert_eq!(server.read("file").unwrap(), b"first");
}

/// Passes a connection on, and keeps what comes.
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
async fn the_first_records_of_a_connection_can_be_read_with_the_packet_they_come_in() {
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
    // RFC 8446 §5.1: five bytes, the last two of which say how long the rest is.
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

/// Sends a request over HTTP/3 with the first packet, and tells the status and whether it was taken early.
async fn rude_quic(server: SocketAddr, config: &quinn::ClientConfig, method: Method) -> (StatusCode, bool) {
    let endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
    let connecting = endpoint.connect_with(config.clone(), server, "localhost").unwrap();
    let (connection, accepted) = match connecting.into_0rtt() {
        Ok((connection, accepted)) => (connection, Some(accepted)),
        Err(connecting) => (connecting.await.unwrap(), None),
    };
    let http3 = h3_quinn::Connection::new(connection.clone());
    let (mut driver, mut sender) = h3::client::builder().build::<_, _, bytes::Bytes>(http3).await.unwrap();
    let driver = tokio::spawn(async move { driver.wait_idle().await });
    let request = Request::builder().method(method).uri("https://localhost/file").body(()).unwrap();
    let mut stream = sender.send_request(request).await.unwrap();
    stream.finish().await.unwrap();
    let status = stream.recv_response().await.unwrap().status();
    let accepted = match accepted {
        Some(accepted) => accepted.await,
        None => false,
    };
    // The tickets come behind the handshake.
    sleep(Duration::from_millis(400)).await;
    drop(driver);
    (status, accepted)
}

#[tokio::test]
async fn over_http3_too() {
    let server = secure();
    server.write("file", "first");
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(client_config(&server, b"h3")).unwrap();
    let config = quinn::ClientConfig::new(Arc::new(crypto));
    let ask = async |method| timeout(LIMIT, rude_quic(server.address, &config, method)).await.unwrap();
    assert_eq!(ask(Method::GET).await, (StatusCode::OK, false));
    assert_eq!(ask(Method::DELETE).await, (StatusCode::TOO_EARLY, true));
    assert_eq!(ask(Method::GET).await, (StatusCode::OK, true));
    assert!(server.read("file").is_some());
}

/// Carries one client's packets to a server and back, the first of the client's at once, and the second when the server
/// has done all it does with the first.
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
async fn a_hello_of_several_packets_is_answered_when_its_last_comes() {
    let server = secure();
    server.write("file", "x");
    // A browser's takes two, for its key share of ML-KEM; this one's names alone are longer than a packet.
    let mut tls = Arc::unwrap_or_clone(client_config(&server, b"h3"));
    tls.alpn_protocols.extend((b'a'..=b't').map(|letter| vec![letter; 100]));
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let config = quinn::ClientConfig::new(Arc::new(crypto));
    let answer = timeout(LIMIT, rude_quic(first_alone(server.address).await, &config, Method::GET)).await;
    assert_eq!(answer.expect("an answer in time"), (StatusCode::OK, false));
}

/// A server that was started anew knows no session: what was sent early is sent again, once.
#[tokio::test]
async fn what_is_not_taken_early_goes_behind_the_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    let made = rcgen::generate_simple_self_signed(vec!["127.77.0.1".into()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let files = Tls::Files { certificate: certificate.clone(), key };
    // An address that no other test takes a port of.
    let alone: std::net::SocketAddr = ([127, 77, 0, 1], 0).into();
    for offer in [Offer::Http1, Offer::Http2, Offer::Http3] {
        let tls = files.clone();
        let mut first = start(|config| (config.tls, config.listen) = (Some(tls.clone()), vec![alone]));
        let address = first.address;
        let trusting = TlsSettings { authorities: vec![certificate.clone()], ..TlsSettings::default() };
        let connector = Connector::new(ConnectSettings { tls: trusting, ..ConnectSettings::default() }).unwrap();
        let get = || request(Method::GET, &first, "/file", Body::empty());
        let lone = open(&connector, &origin(&first), offer, true).await;
        assert_eq!(ask(&lone, get()).await.0, 404);
        drop(lone);
        first.stop().await;
        let second = start(|config| (config.tls, config.listen) = (Some(tls), vec![address]));
        second.write("file", "x");
        let lone = open(&connector, &origin(&second), offer, true).await;
        assert_eq!(early(&lone.facts()), EarlyData::Pending);
        let get = || request(Method::GET, &second, "/file", Body::empty());
        let both = tokio::join!(ask(&lone, get()), ask(&lone, get()));
        assert_eq!(both, ((StatusCode::OK, b"x".to_vec()), (StatusCode::OK, b"x".to_vec())), "{offer:?}");
        assert_eq!(early(&lone.facts()), EarlyData::Rejected, "{offer:?}");
        assert!(ask(&lone, request(Method::PUT, &second, "/put", "y")).await.0.is_success());
        assert_eq!(second.log().matches("GET /file").count(), 2);
    }
}

fn client(server: &Running, versions: Versions) -> (Client, tempfile::TempDir) {
    let (connect, folder) = settings(server);
    let settings = Settings { connect, versions, ..Settings::default() };
    (Client::new(settings, Authenticator::default()).unwrap(), folder)
}

#[tokio::test]
async fn a_client_hears_of_http3_and_speaks_it_when_asked_to() {
    let server = secure();
    server.write("file", "x");
    let get = || request(Method::GET, &server, "/file", Body::empty());
    let (tcp, _folder) = client(&server, Versions::Http1);
    let answer = tcp.send(get()).await.unwrap();
    assert_eq!(answer.version(), Version::HTTP_11);
    assert!(tcp.alternative(&origin(&server)).is_offered(0.0));

    // TCP may win the race where the machine is busy; not again and again.
    let speaks = async |versions, known: Option<Alternative>| {
        for _ in 0..20 {
            let (quic, folder) = client(&server, versions);
            if let Some(known) = known.clone() {
                quic.remember_alternative(origin(&server), known);
            }
            if timeout(LIMIT, quic.send(get())).await.unwrap().unwrap().version() == Version::HTTP_3 {
                return (quic, folder);
            }
        }
        panic!("{versions:?} never came by HTTP/3");
    };
    let (quic, _folder) = speaks(Versions::Http3, None).await;
    for _ in 0..2 {
        let answer = timeout(LIMIT, quic.send(get())).await.unwrap().unwrap();
        assert_eq!(answer.version(), Version::HTTP_3);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "x");
    }
    // Who asks for little takes it where it is known.
    let (brief, _folder) = client(&server, Versions::Brief);
    assert_eq!(brief.send(get()).await.unwrap().version(), Version::HTTP_11);
    speaks(Versions::Brief, Some(tcp.alternative(&origin(&server)))).await;

    // A port where nobody speaks QUIC, and TCP does.
    let listen = |address| start(|config| (config.tls, config.listen) = (Some(Tls::SelfSigned), vec![address]));
    let mut deaf = listen(([127, 77, 0, 2], 0).into());
    deaf.stop().await;
    let taken = std::net::UdpSocket::bind(deaf.address).unwrap();
    let deaf = listen(deaf.address);
    let (both, _folder) = client(&deaf, Versions::Http3);
    let get = request(Method::GET, &deaf, "/", Body::empty());
    let answer = timeout(LIMIT, both.send(get)).await.unwrap().unwrap();
    assert_eq!(answer.version(), Version::HTTP_2);
    assert!(both.alternative(&origin(&deaf)).is_avoided(0.0));
    drop(taken);
}
