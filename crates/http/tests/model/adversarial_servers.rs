//! Servers that keep to the rules, and are unkind.

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

/// What a server does on each connection.
#[derive(Clone)]
struct Manner {
    /// What comes at once for each request, and what comes after a while.
    at_once: &'static str,
    answer: String,
    after: Duration,
    /// Whether the connection ends then.
    closes: bool,
    /// Bytes of a request, if it is not all in its head.
    bytes: usize,
}

impl Manner {
    fn answering(answer: &str) -> Self {
        Self { at_once: "", answer: answer.into(), after: Duration::from_millis(20), closes: false, bytes: 0 }
    }
}

#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
}

struct Server(Manner, Arc<Seen>);

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
        let (manner, seen) = (self.0.clone(), self.1.clone());
        tokio::spawn(async move {
            let open = seen.open.fetch_add(1, Ordering::SeqCst) + 1;
            seen.most_open.fetch_max(open, Ordering::SeqCst);
            let _ = serve(far, manner, &seen).await;
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

async fn serve(mut stream: DuplexStream, manner: Manner, seen: &Seen) -> std::io::Result<()> {
    let (mut unread, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let whole = loop {
            let head = unread.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
            if let Some(head) = head.filter(|head| unread.len() >= head + manner.bytes) {
                break head + manner.bytes;
            }
            match stream.read(&mut piece).await? {
                0 => return Ok(()),
                read => unread.extend_from_slice(&piece[..read]),
            }
        };
        unread.drain(..whole);
        seen.requests.fetch_add(1, Ordering::SeqCst);
        stream.write_all(manner.at_once.as_bytes()).await?;
        sleep(manner.after).await;
        stream.write_all(manner.answer.as_bytes()).await?;
        if manner.closes {
            stream.shutdown().await?;
            while stream.read(&mut piece).await? > 0 {}
            return Ok(());
        }
    }
}

fn client(manner: Manner, pipelining: Pipelining) -> (Client, Arc<Seen>) {
    let seen = Arc::<Seen>::default();
    let settings = Settings { pipelining, ..Settings::default() };
    let server = Arc::new(Server(manner, seen.clone()));
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
        let (client, seen) = client(Manner { closes: true, ..Manner::answering(answer) }, pipelining);
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
        let answer = Manner::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let slow = Manner { at_once, after: Duration::from_secs(45), ..answer.clone() };
        let (slow, seen) = client(slow, Pipelining::Safe);
        fetch(slow).await.unwrap();
        assert_eq!(seen.requests.load(Ordering::SeqCst), 1, "{at_once:?}");

        // A large upload that is not answered is not sent again.
        let never = Manner { at_once, after: Duration::from_hours(1), bytes: 5 << 20, ..answer };
        let (never, seen) = client(never, Pipelining::Safe);
        let error = never.send(request("PUT", vec![0; 5 << 20].into())).await.unwrap_err();
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{at_once:?}: {error}");
        assert_eq!(seen.requests.load(Ordering::SeqCst), 1, "{at_once:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn endless_interim_responses_are_an_error() {
    let endless = Manner::answering(&"HTTP/1.1 102 Processing\r\n\r\n".repeat(1000));
    let (client, _) = client(endless, Pipelining::Safe);
    let error = fetch(client).await.unwrap_err().to_string();
    assert!(error.contains("again and again"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn received_body_is_readable_long_after_the_connection_closed() {
    for length in [100_000, 300_000, 420_000, 450_000, 500_000] {
        let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        let answer = Manner { closes: true, ..Manner::answering(&(head + &"x".repeat(length))) };
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
    let slow = Manner { after: Duration::from_millis(300), ..Manner::answering(answer) };
    let (client, seen) = client(slow, Pipelining::Off);
    join_all((0..200).map(|_| fetch(client.clone()))).await;
    // Those that are open and those that end.
    let most = seen.most_open.load(Ordering::SeqCst);
    assert!(most <= 3 * Settings::default().connections, "{most}");
}

#[tokio::test(start_paused = true)]
async fn suffix_range_is_accepted() {
    let answer = "HTTP/1.1 206 Partial\r\nContent-Range: bytes 95-99/100\r\nContent-Length: 5\r\n\r\nabcde";
    let (client, _) = client(Manner::answering(answer), Pipelining::Safe);
    let mut last = request("GET", Body::empty());
    last.headers_mut().insert(RANGE, "bytes=-5".parse().unwrap());
    assert_eq!(client.send(last).await.unwrap().status(), StatusCode::PARTIAL_CONTENT);
}

#[tokio::test(start_paused = true)]
async fn folded_header_line_is_unfolded() {
    let answer = "HTTP/1.1 200 OK\r\nX-A: one\r\n two\r\nContent-Length: 0\r\n\r\n";
    let (client, _) = client(Manner::answering(answer), Pipelining::Safe);
    let begin = Instant::now();
    let answer = client.send(request("GET", Body::empty())).await.unwrap();
    assert_eq!(answer.headers()["x-a"].to_str().unwrap().split_whitespace().collect::<Vec<_>>(), ["one", "two"]);
    assert!(begin.elapsed() < Duration::from_secs(1));
}
