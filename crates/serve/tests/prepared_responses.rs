//! Prepared responses: simple requests take the fast path; from the first other request on, hyper answers.

use std::{
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Response, StatusCode, request::Parts};
use serve::{Config, Delay, PreparedResponse, Responder, Server, SimpleRequest};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(10);

/// Responds with the target, and with the path taken as `x-way`.
struct Both;

impl Responder for Both {
    fn respond(&self, request: &Parts) -> Response<Bytes> {
        let body = request.uri.path().to_owned();
        let response = Response::builder().header("x-way", "long").extension(Delay(delay(&body)));
        response.body(body.into()).unwrap()
    }

    fn prepared(&self, question: &SimpleRequest<'_>) -> Option<PreparedResponse> {
        assert_eq!(question.host, "a");
        let body = question.target.to_owned();
        let head = format!("HTTP/1.1 200 OK\r\nx-way: short\r\ncontent-length: {}\r\n\r\n", body.len());
        let missing = question.field("x-missing").is_some();
        let delay = delay(question.target);
        (!missing).then(|| PreparedResponse { status: StatusCode::OK, head: head.into(), body: body.into(), delay })
    }
}

const SLOW: Duration = Duration::from_millis(40);

/// The delay of a response.
fn delay(path: &str) -> Duration {
    if path == "/slow" { SLOW } else { Duration::ZERO }
}

/// A connection to a server with this responder.
async fn connect() -> TcpStream {
    connect_to(Both).await
}

async fn connect_to(responder: impl Responder) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::with_responder(Arc::new(responder), &Config::default(), vec![listener]).unwrap();
    tokio::spawn(server.run(std::future::pending()));
    TcpStream::connect(address).await.unwrap()
}

/// The paths that these requests take if sent in pieces of this size; the last one is for `last`.
async fn ways(bytes: &str, piece: usize, last: &str) -> Vec<(String, String)> {
    let mut stream = connect().await;
    for piece in bytes.as_bytes().chunks(piece) {
        stream.write_all(piece).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut told = Vec::new();
    let end = format!("\r\n\r\n{last}");
    while !told.ends_with(end.as_bytes()) {
        assert_ne!(timeout(LIMIT, stream.read_buf(&mut told)).await.unwrap().unwrap(), 0, "{told:?}");
    }
    let told = String::from_utf8(told).unwrap();
    let way = |answer: &str| {
        let (head, rest) = answer.split_once("\r\n\r\n").unwrap();
        let way = head.lines().find_map(|line| line.strip_prefix("x-way: ")).unwrap();
        (way.to_owned(), rest.to_owned())
    };
    told.split("HTTP/1.1 200 OK\r\n").skip(1).map(way).collect()
}

fn told<const N: usize>(ways: [(&str, &str); N]) -> Vec<(String, String)> {
    ways.map(|(way, path)| (way.to_owned(), path.to_owned())).into()
}

#[tokio::test]
async fn simple_requests_take_the_fast_path_until_another_arrives() {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let post = "POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyz";
    let bytes = get("/a") + &get("/b?q") + post + &get("/d");
    let expected = told([("short", "/a"), ("short", "/b?q"), ("long", "/c"), ("long", "/d")]);
    for piece in [1, 7, 4000] {
        assert_eq!(ways(&bytes, piece, "/d").await, expected, "{piece}");
    }
}

#[tokio::test]
async fn other_requests_leave_the_fast_path() {
    for request in [
        "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nx-missing: 1\r\n\r\n",
        "GET http://a/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n",
    ] {
        assert_eq!(ways(request, 4000, "/a").await, told([("long", "/a")]), "{request}");
    }
    let crowded = format!("GET /a HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: 1\r\n".repeat(80));
    assert_eq!(ways(&crowded, 4000, "/a").await, told([("long", "/a")]));
    // HTTP/2 by prior knowledge: the server's preface is a SETTINGS frame (RFC 9113 §3.4), whose type is 4.
    let mut stream = connect().await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut frame = [0; 9];
    timeout(LIMIT, stream.read_exact(&mut frame)).await.unwrap().unwrap();
    assert_eq!(frame[3], 4);
}

#[tokio::test]
async fn response_waits_for_its_delay_on_both_paths() {
    for (field, way) in [("", "short"), ("x-missing: 1\r\n", "long")] {
        let start = Instant::now();
        let request = format!("GET /slow HTTP/1.1\r\nHost: a\r\n{field}\r\n");
        assert_eq!(ways(&request, 4000, "/slow").await, told([(way, "/slow")]));
        assert!(start.elapsed() >= SLOW, "{way}");
    }
}

#[tokio::test]
async fn malformed_request_is_refused() {
    for request in [
        "GET /a\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nx: 1\r\n 2\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ] {
        let mut stream = connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut told = String::new();
        timeout(LIMIT, stream.read_to_string(&mut told)).await.unwrap().unwrap();
        assert!(told.starts_with("HTTP/1.1 400"), "{told}");
    }
}

/// Responds with 20,000 bytes.
struct Long;

impl Responder for Long {
    fn respond(&self, _: &Parts) -> Response<Bytes> {
        Response::new(vec![b'x'; 20_000].into())
    }
}

#[tokio::test]
async fn http2_sends_a_long_body_in_short_frames() {
    let mut stream = connect_to(Long).await;
    // The preface, empty SETTINGS, and a GET of `/` by the static table of HPACK (RFC 7541 appendix A).
    let begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a";
    stream.write_all(begin).await.unwrap();
    let mut lengths = Vec::new();
    let mut is_last = false;
    while !is_last {
        let mut head = [0; 9];
        timeout(LIMIT, stream.read_exact(&mut head)).await.unwrap().unwrap();
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        timeout(LIMIT, stream.read_exact(&mut vec![0; length])).await.unwrap().unwrap();
        if head[3] == 0 {
            lengths.push(length);
            is_last = head[4] & 1 == 1;
        }
    }
    assert_eq!(lengths.iter().sum::<usize>(), 20_000);
    // The first flight of a connection, 10 segments, has room for three of them, and a client can use these.
    assert!(lengths.iter().all(|length| *length <= 4096), "{lengths:?}");
}
