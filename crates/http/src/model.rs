//! The engine against a model server with faults: nothing is lost, mixed or done twice, and all of it ends.
//!
//! The whole client is driven, over pipes in memory and on a clock that jumps to the next thing to happen. The
//! server's faults are drawn from a seed; what it did is compared with what the client was told.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::BytesMut;
use futures_util::future::{BoxFuture, join_all};
use http::{Method, Request, StatusCode, Version};
use http_body_util::BodyExt;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::{
    Body, Class, Client, Error, Expected, Journey, Options, Origin, Pipelining, Settings,
    client::Dial,
    connect::{Connected, Facts, Io, Offer, TcpInfo},
    credentials::Authenticator,
};

/// What a server may do wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Close before doing anything.
    Cut,
    /// Do it, and close without an answer.
    CutAfter,
    /// Answer in part, and close.
    CutAmid,
    /// Never answer this one or any other.
    Silence,
    /// Never answer this one, but those behind it.
    Skip,
    /// Answer the next one first.
    Swap,
    /// Answer with what is not HTTP.
    Noise,
    /// Answer twice.
    Echo,
    /// Say 408, and close.
    TimeOut,
    /// Answer, and say that it was the last.
    Farewell,
    /// Take a while.
    Slow,
}

const FAULTS: [Fault; 11] = [
    Fault::Cut,
    Fault::CutAfter,
    Fault::CutAmid,
    Fault::Silence,
    Fault::Skip,
    Fault::Swap,
    Fault::Noise,
    Fault::Echo,
    Fault::TimeOut,
    Fault::Farewell,
    Fault::Slow,
];

/// What the server holds, and how it behaves.
struct Model {
    files: BTreeMap<String, Vec<u8>>,
    /// How often each POST took effect.
    posts: HashMap<String, u32>,
    random: ChaCha8Rng,
    /// One request in so many goes wrong.
    one_in: u32,
    /// How many connections are refused.
    refusals: u32,
    requests: u64,
}

#[derive(Clone)]
struct Server(Arc<Mutex<Model>>);

impl Dial for Server {
    fn dial<'a>(&'a self, origin: &'a Origin, _: Offer, _: Duration) -> BoxFuture<'a, Result<Connected, Error>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(40)).await;
            let refused = {
                let mut model = self.0.lock().unwrap();
                model.refusals = model.refusals.saturating_sub(1);
                model.refusals > 0
            };
            if refused {
                let cause = std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into();
                return Err(Error::Connect { origin: origin.clone(), cause });
            }
            let (near, far) = tokio::io::duplex(3000);
            tokio::spawn(serve(far, self.0.clone()));
            Ok(Connected { io: Box::new(near), version: Version::HTTP_11, facts: nothing_special() })
        })
    }
}

impl Io for DuplexStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }
}

fn nothing_special() -> Facts {
    let (peer, none) = (([127, 0, 0, 1], 80).into(), Duration::ZERO);
    Facts { peer, proxy: None, look_up: none, tcp: none, tunnel: None, tls: None }
}

/// Reads a request; none at the end.
async fn read(stream: &mut DuplexStream, buffer: &mut BytesMut) -> Option<(String, String, Vec<u8>)> {
    let (head, method, path, length) = loop {
        let mut slots = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut slots);
        if let httparse::Status::Complete(head) = request.parse(buffer).expect("the client speaks HTTP") {
            let length = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
            let length = length.map_or(0, |length| std::str::from_utf8(length.value).unwrap().parse().unwrap());
            break (head, request.method.unwrap().to_owned(), request.path.unwrap().to_owned(), length);
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let _ = buffer.split_to(head);
    while buffer.len() < length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    Some((method, path, buffer.split_to(length).to_vec()))
}

/// The server's side of a connection.
async fn serve(mut stream: DuplexStream, model: Arc<Mutex<Model>>) {
    let mut buffer = BytesMut::new();
    let mut held: Option<Vec<u8>> = None;
    while let Some((method, path, body)) = read(&mut stream, &mut buffer).await {
        let (fault, delay) = {
            let mut model = model.lock().unwrap();
            model.requests += 1;
            let one_in = model.one_in;
            let faulty = one_in > 0 && model.random.random_ratio(1, one_in);
            let fault = faulty.then(|| FAULTS[model.random.random_range(0..FAULTS.len())]);
            (fault, Duration::from_millis(model.random.random_range(0..30)))
        };
        tokio::time::sleep(delay).await;
        // Nobody can tell whether a skipped PUT that others follow took effect: it is not done to them here.
        let fault = fault.filter(|fault| method == "GET" || !matches!(fault, Fault::Skip | Fault::Swap | Fault::Echo));
        match fault {
            Some(Fault::Cut) => return,
            Some(Fault::TimeOut) => {
                let _ = stream.write_all(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n").await;
                return;
            }
            Some(Fault::Slow) => tokio::time::sleep(Duration::from_secs(5)).await,
            _ => {}
        }
        let answer = apply(&mut model.lock().unwrap(), &method, &path, body, fault == Some(Fault::Farewell));
        let out = match fault {
            Some(Fault::CutAfter) => return,
            Some(Fault::Silence) => {
                tokio::time::sleep(Duration::from_hours(1)).await;
                return;
            }
            Some(Fault::Skip) => Vec::new(),
            Some(Fault::Noise) => b"\x16\x03\x01 this is no HTTP\r\n\r\n".to_vec(),
            // One that comes when something else has been asked cannot be told from its answer: this one comes at once.
            Some(Fault::Echo) if answer.len() < 1000 => [&answer[..], &answer].concat(),
            Some(Fault::CutAmid) => answer[..answer.len() / 2].to_vec(),
            Some(Fault::Swap) if held.is_none() => {
                held = Some(answer);
                continue;
            }
            _ => [&answer[..], &held.take().unwrap_or_default()].concat(),
        };
        if stream.write_all(&out).await.is_err() || matches!(fault, Some(Fault::CutAmid | Fault::Farewell)) {
            return;
        }
    }
}

fn apply(model: &mut Model, method: &str, path: &str, body: Vec<u8>, last: bool) -> Vec<u8> {
    let (status, body) = match method {
        "PUT" => {
            let new = model.files.insert(path.to_owned(), body).is_none();
            (if new { 201 } else { 204 }, Vec::new())
        }
        "POST" => {
            *model.posts.entry(path.to_owned()).or_default() += 1;
            (200, Vec::new())
        }
        "GET" => model.files.get(path).map_or((404, Vec::new()), |file| (200, file.clone())),
        other => panic!("a method that was not sent: {other}"),
    };
    let close = if last { "Connection: close\r\n" } else { "" };
    let etag = if method == "GET" { format!("ETag: \"{path}\"\r\n") } else { String::new() };
    let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    [format!("HTTP/1.1 {status} X\r\n{close}{etag}{length}\r\n").as_bytes(), &body].concat()
}

/// What a file holds: nothing like any other.
fn content(path: &str, length: usize) -> Vec<u8> {
    path.bytes().cycle().take(length).collect()
}

#[derive(Debug, Clone)]
struct Ask {
    method: Method,
    length: usize,
    large: bool,
    /// When it is asked, in ms.
    at: u64,
    /// When its caller loses patience.
    cancel: Option<u64>,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let method = prop_oneof![6 => Just(Method::PUT), 6 => Just(Method::GET), 1 => Just(Method::POST)];
    let cancel = prop_oneof![9 => Just(None), 1 => (0u64..400).prop_map(Some)];
    let ask = (method, 0usize..6000, prop::bool::weighted(0.1), 0u64..600, cancel);
    let ask = ask.prop_map(|(method, length, large, at, cancel)| Ask { method, length, large, at, cancel });
    prop::collection::vec(ask, 1..60)
}

/// Asks for all of it, and holds what was told against what was done.
async fn play(asks: Vec<Ask>, pipelining: Pipelining, connections: usize, seed: u64, one_in: u32) {
    let path = |number: usize| format!("/{number}");
    let gets = asks.iter().enumerate().filter(|(_, ask)| ask.method == Method::GET);
    let model = Arc::new(Mutex::new(Model {
        files: gets.map(|(number, ask)| (path(number), content(&path(number), ask.length))).collect(),
        posts: HashMap::new(),
        random: ChaCha8Rng::seed_from_u64(seed),
        one_in,
        refusals: (seed % 3) as u32,
        requests: 0,
    }));
    let settings = Settings { pipelining, connections, ..Settings::default() };
    let client = Client::with(settings, Authenticator::default(), Server(model.clone()));
    let told = join_all(asks.iter().enumerate().map(|(number, ask)| {
        let (client, ask, path) = (client.clone(), ask.clone(), path(number));
        async move {
            tokio::time::sleep(Duration::from_millis(ask.at)).await;
            let exchange = exchange(&client, &ask, &path);
            match ask.cancel {
                Some(after) => tokio::time::timeout(Duration::from_millis(after), exchange).await.ok(),
                None => Some(exchange.await),
            }
        }
    }));
    // An hour on a clock that jumps: every wait has a bound.
    let told = tokio::time::timeout(Duration::from_hours(1), told).await.expect("some request waits for ever");
    let model = model.lock().unwrap();
    for (number, (ask, told)) in asks.iter().zip(&told).enumerate() {
        let path = path(number);
        assert!(!matches!(told, Some(Err(Error::Shutdown))), "no request is forgotten");
        let file = model.files.get(&path);
        match (ask.method.as_str(), told) {
            ("PUT", Some(Ok(status))) => {
                assert!(status.is_success());
                assert!(file == Some(&content(&path, ask.length)), "{path}: an acknowledged upload is not there");
            }
            ("PUT", _) => assert!(file.is_none_or(|file| *file == content(&path, ask.length)), "whole or not at all"),
            ("POST", told) => {
                let times = model.posts.get(&path).copied().unwrap_or_default();
                match told {
                    Some(Ok(_)) => assert_eq!(times, 1, "what may not be repeated was done once"),
                    // With `Exchange`, its answer was begun, and cut.
                    Some(Err(Error::Undecided { .. } | Error::Exchange { .. })) | None => assert!(times <= 1),
                    Some(Err(_)) => assert_eq!(times, 0, "a request that failed for certain had no effect"),
                }
            }
            // What was compared with its content.
            _ => {}
        }
        if one_in == 0 && ask.cancel.is_none() && seed % 3 < 2 {
            assert!(matches!(told, Some(Ok(_))), "without a fault nothing fails: {told:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pipelines_deepen_with_success_and_only_where_wanted() {
    for (pipelining, deepest) in
        [(Pipelining::Off, 0..=0), (Pipelining::Safe, 8..=199), (Pipelining::Aggressive, 199..=199)]
    {
        let model = Model {
            files: BTreeMap::new(),
            posts: HashMap::new(),
            random: ChaCha8Rng::seed_from_u64(1),
            one_in: 0,
            refusals: 0,
            requests: 0,
        };
        let settings = Settings { pipelining, connections: 1, ..Settings::default() };
        let client = Client::with(settings, Authenticator::default(), Server(Arc::new(Mutex::new(model))));
        let answers = join_all((0..200).map(|number| {
            let request = Request::get(format!("http://model/{number}")).body(Body::empty()).unwrap();
            client.send(request)
        }));
        let behind =
            answers.await.into_iter().map(|answer| answer.unwrap().extensions().get::<Journey>().unwrap().behind);
        let behind: Vec<u32> = behind.collect();
        assert!(deepest.contains(behind.iter().max().unwrap()), "{pipelining:?}: {behind:?}");
    }
}

async fn exchange(client: &Client, ask: &Ask, path: &str) -> Result<StatusCode, Error> {
    let body = if ask.method == Method::GET { Body::empty() } else { content(path, ask.length).into() };
    let expected = Expected { etag: Some(format!("\"{path}\"")), length: Some(ask.length as u64) };
    let expected = if ask.method == Method::GET { expected } else { Expected::default() };
    let class = if ask.large { Class::Large } else { Class::Small };
    let request = Request::builder().method(&ask.method).uri(format!("http://model{path}"));
    let request = request.extension(Options { class, pipeline: true, expected, timeouts: None });
    let answer = client.send(request.body(body).unwrap()).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    if ask.method == Method::GET && status == StatusCode::OK {
        assert!(body == content(path, ask.length), "{path} has another's content, or not all of its own");
    }
    Ok(status)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_is_lost_mixed_or_done_twice(
        asks in asks(),
        mode in 0..3,
        connections in 1usize..7,
        seed: u64,
        one_in in prop_oneof![Just(0u32), Just(40), Just(8), Just(3)],
    ) {
        let mode = [Pipelining::Off, Pipelining::Safe, Pipelining::Aggressive][mode as usize];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play(asks, mode, connections, seed, one_in));
    }
}
