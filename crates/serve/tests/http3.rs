//! HTTP/3 and early data, between our server and our engine; and what a rude client is refused.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{LIMIT, Running, start};
use haul_http::connect::{ConnectSettings, Connector, EarlyData, Facts, Offer, TlsSettings};
use haul_http::credentials::Authenticator;
use haul_http::{Body, Client, Lone, Origin, Settings, Versions};
use http::{Method, Request, StatusCode, Version};
use http_body_util::BodyExt;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serve::Tls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
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
