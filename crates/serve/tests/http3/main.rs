//! HTTP/3 and early data between this server and our HTTP engine.

#[path = "../common/mod.rs"]
mod common;
mod hostile;

use std::sync::Arc;

use bytes::Bytes;
use haul_http::auth::Authenticator;
use haul_http::{AltSvc, Body, Client, Origin, Settings, SingleConnection, Versions};
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use serve::{Config, Responder, Server, Tls};
use tokio::time::timeout;
use transport::{ConnectSettings, Connector, EarlyData, Facts, Offer, TlsSettings};

use common::{LIMIT, Running, start};

fn secure() -> Running {
    start(|config| config.tls = Some(Tls::SelfSigned))
}

fn origin(server: &Running) -> Origin {
    Origin::of(&format!("https://{}/", server.address).parse().unwrap()).unwrap()
}

/// Client settings that trust this server; the certificate file is deleted with the second value.
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

/// Accepts any certificate.
fn trusting() -> Connector {
    let tls = TlsSettings { unverified: true, ..TlsSettings::default() };
    Connector::new(ConnectSettings { tls, ..ConnectSettings::default() }).unwrap()
}

async fn open(connector: &Connector, origin: &Origin, offer: Offer, early: bool) -> SingleConnection {
    SingleConnection::open(connector, origin, offer, early, &Settings::default()).await.unwrap()
}

fn request(method: Method, server: &Running, path: &str, body: impl Into<Body>) -> Request<Body> {
    let url = format!("https://{}{path}", server.address);
    Request::builder().method(method).uri(url).body(body.into()).unwrap()
}

async fn ask(lone: &SingleConnection, request: Request<Body>) -> (StatusCode, Vec<u8>) {
    let answer = timeout(LIMIT, lone.send(request)).await.expect("an answer in time").unwrap();
    let status = answer.status();
    (status, timeout(LIMIT, answer.into_body().collect()).await.unwrap().unwrap().to_bytes().to_vec())
}

fn early(facts: &Facts) -> EarlyData {
    facts.tls.as_ref().unwrap().early
}

#[tokio::test]
async fn files_are_uploaded_and_downloaded_over_http3() {
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
async fn resumed_session_saves_round_trips_and_early_data_saves_more() {
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
            // An unsafe request waits for the handshake.
            assert!(ask(&lone, request(Method::PUT, &server, "/put", "y")).await.0.is_success());
        }
    }
}

/// Responds with five bytes, and with the `Content-Length`s in the path, separated by slashes.
struct Lengths;

impl Responder for Lengths {
    fn respond(&self, request: &Parts) -> Response<Bytes> {
        let mut answer = Response::new(Bytes::from_static(b"five!"));
        let lengths = request.uri.path()[1..].split('/');
        answer.headers_mut().extend(lengths.map(|length| (CONTENT_LENGTH, length.parse().unwrap())));
        answer
    }
}

#[tokio::test]
async fn response_with_two_lengths_is_malformed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let config = Config { tls: Some(Tls::SelfSigned), ..Config::default() };
    let server = Server::with_responder(Arc::new(Lengths), &config, vec![listener]).unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let lone = open(&trusting(), &Origin::of(&url.parse().unwrap()).unwrap(), Offer::Http3, false).await;
    let get = |path: &str| Request::get(format!("{url}{path}")).body(Body::empty()).unwrap();
    for (path, wrong) in [
        ("/5/6", "has two different values of Content-Length"),
        ("/5/five", "has the Content-Length \"five\", which is not a number"),
    ] {
        let error = timeout(LIMIT, lone.send(get(path))).await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), format!("GET {url}{path}: the response {wrong}"));
    }
    assert_eq!(ask(&lone, get("/5/5")).await, (StatusCode::OK, b"five!".to_vec()), "the connection goes on");
}

/// A restarted server knows no session, so the early data is sent again, once.
#[tokio::test]
async fn refused_early_data_is_sent_after_the_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    let made = rcgen::generate_simple_self_signed(vec!["127.77.0.1".into()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let files = Tls::Files { certificate: certificate.clone(), key };
    // An address that no other test uses.
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
async fn client_learns_alt_svc_and_uses_http3_on_request() {
    let server = secure();
    server.write("file", "x");
    let get = || request(Method::GET, &server, "/file", Body::empty());
    let (tcp, _folder) = client(&server, Versions::Http1);
    let answer = tcp.send(get()).await.unwrap();
    assert_eq!(answer.version(), Version::HTTP_11);
    assert!(tcp.alt_svc(&origin(&server)).is_offered(0.0));

    // On a busy machine TCP may win the race, but not repeatedly.
    let speaks = async |versions, known: Option<AltSvc>| {
        for _ in 0..20 {
            let (quic, folder) = client(&server, versions);
            if let Some(known) = known.clone() {
                quic.remember_alt_svc(origin(&server), known);
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
        assert!(answer.headers()["alt-svc"].to_str().unwrap().starts_with("h3="), "{answer:?}");
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "x");
    }
    // Small requests use HTTP/3 only if it is known to work.
    let (brief, _folder) = client(&server, Versions::Brief);
    assert_eq!(brief.send(get()).await.unwrap().version(), Version::HTTP_11);
    speaks(Versions::Brief, Some(tcp.alt_svc(&origin(&server)))).await;

    // A port with TCP and without QUIC.
    let listen = |address| start(|config| (config.tls, config.listen) = (Some(Tls::SelfSigned), vec![address]));
    let mut deaf = listen(([127, 77, 0, 2], 0).into());
    deaf.stop().await;
    let taken = std::net::UdpSocket::bind(deaf.address).unwrap();
    let deaf = listen(deaf.address);
    let (both, _folder) = client(&deaf, Versions::Http3);
    let get = request(Method::GET, &deaf, "/", Body::empty());
    let answer = timeout(LIMIT, both.send(get)).await.unwrap().unwrap();
    assert_eq!(answer.version(), Version::HTTP_2);
    assert!(both.alt_svc(&origin(&deaf)).is_paused(0.0));
    drop(taken);
}
