//! Servers that follow the specification in unusual ways.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use haul_http::{Body, Client, Error, Origin, Pipelining, Settings, auth::Authenticator};
use http::{Request, StatusCode, Version, header::RANGE};
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::{Instant, sleep},
};
use transport::{ConnectError, Connected, Dial, Dialed, Offer};

use super::server::nothing_special;

/// How a server responds, on each connection.
#[derive(Clone)]
struct Script {
    /// Sent at once for each request.
    at_once: &'static str,
    /// Sent after `delay`.
    response: String,
    delay: Duration,
    /// Whether the connection is closed then.
    closes: bool,
    /// The length of each request body.
    body_length: usize,
}

impl Script {
    fn responding(response: &str) -> Self {
        let delay = Duration::from_millis(20);
        Self { at_once: "", response: response.into(), delay, closes: false, body_length: 0 }
    }
}

#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
}

struct Server(Script, Arc<Seen>);

impl Dial for Server {
    fn dial<'a>(
        &'a self,
        _: &'a Origin,
        _: Offer,
        _: bool,
        _: Option<&'a Origin>,
        _: Duration,
    ) -> BoxFuture<'a, Result<Dialed, ConnectError>> {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (script, seen) = (self.0.clone(), self.1.clone());
        tokio::spawn(async move {
            let open = seen.open.fetch_add(1, Ordering::SeqCst) + 1;
            seen.most_open.fetch_max(open, Ordering::SeqCst);
            let _ = serve(far, script, &seen).await;
            seen.open.fetch_sub(1, Ordering::SeqCst);
        });
        let (io, facts) = (Box::new(near), nothing_special());
        let connected = Connected { io, version: Version::HTTP_11, facts, confirmation: None };
        Box::pin(async move { Ok(Dialed::Stream(Box::new(connected))) })
    }

    fn takes_quic(&self, _: &Origin) -> bool {
        false
    }
}

async fn serve(mut stream: DuplexStream, script: Script, seen: &Seen) -> std::io::Result<()> {
    let (mut unread, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let whole = loop {
            let head = unread.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
            if let Some(head) = head.filter(|head| unread.len() >= head + script.body_length) {
                break head + script.body_length;
            }
            match stream.read(&mut piece).await? {
                0 => return Ok(()),
                read => unread.extend_from_slice(&piece[..read]),
            }
        };
        unread.drain(..whole);
        seen.requests.fetch_add(1, Ordering::SeqCst);
        stream.write_all(script.at_once.as_bytes()).await?;
        sleep(script.delay).await;
        stream.write_all(script.response.as_bytes()).await?;
        if script.closes {
            stream.shutdown().await?;
            while stream.read(&mut piece).await? > 0 {}
            return Ok(());
        }
    }
}

fn client(script: Script, pipelining: Pipelining) -> (Client, Arc<Seen>) {
    let seen = Arc::<Seen>::default();
    let settings = Settings { pipelining, ..Settings::default() };
    let server = Arc::new(Server(script, seen.clone()));
    (Client::with_dialer(settings, Authenticator::default(), server), seen)
}

fn request(method: &str, body: Body) -> Request<Body> {
    Request::builder().method(method).uri("https://model/file").body(body).unwrap()
}

async fn fetch(client: Client) -> Result<(), Error> {
    client.send(request("GET", Body::empty())).await?.into_body().collect().await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn connection_close_after_each_response_loses_no_request() {
    for pipelining in [Pipelining::Off, Pipelining::Safe, Pipelining::Aggressive] {
        let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na";
        let (client, seen) = client(Script { closes: true, ..Script::responding(answer) }, pipelining);
        for outcome in join_all((0..300).map(|_| fetch(client.clone()))).await {
            outcome.unwrap();
        }
        let requests = seen.requests.load(Ordering::SeqCst);
        assert_eq!(requests, 300, "{pipelining:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn interim_response_does_not_change_the_timeout() {
    for at_once in ["", "HTTP/1.1 102 Processing\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let answer = Script::responding("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let slow = Script { at_once, delay: Duration::from_secs(45), ..answer.clone() };
        let (slow, seen) = client(slow, Pipelining::Safe);
        fetch(slow).await.unwrap();
        assert_eq!(seen.requests.load(Ordering::SeqCst), 1, "{at_once:?}");

        // A large upload without a response is not sent again.
        let never = Script { at_once, delay: Duration::from_hours(1), body_length: 5 << 20, ..answer };
        let (never, seen) = client(never, Pipelining::Safe);
        let error = never.send(request("PUT", vec![0; 5 << 20].into())).await.unwrap_err();
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{at_once:?}: {error}");
        assert_eq!(seen.requests.load(Ordering::SeqCst), 1, "{at_once:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn endless_interim_responses_are_an_error() {
    let endless = Script::responding(&"HTTP/1.1 102 Processing\r\n\r\n".repeat(1000));
    let (client, _) = client(endless, Pipelining::Safe);
    let error = fetch(client).await.unwrap_err().to_string();
    assert!(error.contains("again and again"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn received_body_is_readable_long_after_the_connection_closed() {
    for length in [100_000, 300_000, 420_000, 450_000, 500_000] {
        let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        let answer = Script { closes: true, ..Script::responding(&(head + &"x".repeat(length))) };
        let (client, _) = client(answer, Pipelining::Safe);
        let body = client.send(request("GET", Body::empty())).await.unwrap().into_body();
        sleep(Duration::from_mins(5)).await;
        let read = body.collect().await.map(|body| body.to_bytes().len());
        assert_eq!(read.unwrap(), length);
    }
}

#[tokio::test(start_paused = true)]
async fn expiring_connections_do_not_raise_the_connection_count() {
    let answer = "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=15, max=5\r\nContent-Length: 1\r\n\r\na";
    let slow = Script { delay: Duration::from_millis(300), ..Script::responding(answer) };
    let (client, seen) = client(slow, Pipelining::Off);
    join_all((0..200).map(|_| fetch(client.clone()))).await;
    // Open connections, and those that are closing.
    let most = seen.most_open.load(Ordering::SeqCst);
    assert!(most <= 3 * Settings::default().connections, "{most}");
}

#[tokio::test(start_paused = true)]
async fn suffix_range_is_accepted() {
    let answer = "HTTP/1.1 206 Partial\r\nContent-Range: bytes 95-99/100\r\nContent-Length: 5\r\n\r\nabcde";
    let (client, _) = client(Script::responding(answer), Pipelining::Safe);
    let mut last = request("GET", Body::empty());
    last.headers_mut().insert(RANGE, "bytes=-5".parse().unwrap());
    assert_eq!(client.send(last).await.unwrap().status(), StatusCode::PARTIAL_CONTENT);
}

#[tokio::test(start_paused = true)]
async fn folded_header_line_is_unfolded() {
    let answer = "HTTP/1.1 200 OK\r\nX-A: one\r\n two\r\nContent-Length: 0\r\n\r\n";
    let (client, _) = client(Script::responding(answer), Pipelining::Safe);
    let begin = Instant::now();
    let answer = client.send(request("GET", Body::empty())).await.unwrap();
    assert_eq!(answer.headers()["x-a"].to_str().unwrap().split_whitespace().collect::<Vec<_>>(), ["one", "two"]);
    assert!(begin.elapsed() < Duration::from_secs(1));
}
