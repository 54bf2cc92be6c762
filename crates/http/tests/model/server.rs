//! The server of the model: right at heart, and wrong as its dice say.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use http::Version;
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::{Instant, timeout},
};
use transport::{ConnectError, Connected, Dial, Dialed, Facts, Offer, Origin};

use super::http2;

/// Requests that come within this time are worked on together.
const TOGETHER: Duration = Duration::from_millis(10);

/// What a server may do wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
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

/// What tells the server's files apart beside their lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validators {
    ETags,
    /// Times in whole seconds, of which many files have the same.
    Times,
    None,
}

impl Validators {
    /// A file's entity tag and time.
    pub(crate) fn of(self, path: &str) -> (Option<String>, Option<SystemTime>) {
        let time = || SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + path.len() as u64);
        match self {
            Self::ETags => (Some(format!("\"{path}\"")), None),
            Self::Times => (None, Some(time())),
            Self::None => (None, None),
        }
    }

    fn head(self, path: &str) -> String {
        match self.of(path) {
            (Some(etag), _) => format!("ETag: {etag}\r\n"),
            (_, Some(time)) => format!("Last-Modified: {}\r\n", httpdate::fmt_http_date(time)),
            _ => String::new(),
        }
    }
}

/// What the server holds, and how it behaves.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub(crate) struct Model {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// How often each POST took effect.
    pub(crate) posts: HashMap<String, u32>,
    pub(crate) random: ChaCha8Rng,
    /// One request in so many goes wrong.
    pub(crate) one_in: u32,
    /// How many connections are refused.
    pub(crate) refusals: u32,
    pub(crate) requests: u64,
    /// After so many requests by HTTP/2, it wants HTTP/1.1.
    pub(crate) http2_until: u64,
    /// When it first said so.
    pub(crate) said_so: Option<Instant>,
    /// Whether it was asked by HTTP/2 again after that.
    pub(crate) asked_again: bool,
    /// It never answers.
    pub(crate) silent: bool,
    /// It ends each connection after its first answer.
    pub(crate) hangs_up: bool,
    /// What it takes seconds for.
    pub(crate) slow: Option<String>,
    pub(crate) validators: Validators,
    /// It works on GETs that came together in any order, and answers so.
    pub(crate) shuffles: bool,
    /// How many connections were begun.
    pub(crate) dials: u32,
}

impl Model {
    /// A server that does all right, and holds nothing.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            files: BTreeMap::new(),
            posts: HashMap::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
            one_in: 0,
            refusals: 0,
            requests: 0,
            http2_until: u64::MAX,
            said_so: None,
            asked_again: false,
            silent: false,
            hangs_up: false,
            slow: None,
            validators: Validators::ETags,
            shuffles: false,
            dials: 0,
        }
    }

    /// What goes wrong with the next request, and how long it takes at least.
    pub(crate) fn draw(&mut self) -> (Option<Fault>, Duration) {
        self.requests += 1;
        let faulty = self.one_in > 0 && self.random.random_ratio(1, self.one_in);
        let fault = faulty.then(|| FAULTS[self.random.random_range(0..FAULTS.len())]);
        (fault, Duration::from_millis(self.random.random_range(0..30)))
    }
}

#[derive(Clone)]
pub(crate) struct Server(pub(crate) Arc<Mutex<Model>>);

impl Dial for Server {
    fn dial<'a>(
        &'a self,
        origin: &'a Origin,
        offer: Offer,
        _: bool,
        _: Option<&'a Origin>,
        _: Duration,
    ) -> BoxFuture<'a, Result<Dialed, ConnectError>> {
        Box::pin(async move {
            {
                let mut model = self.0.lock().unwrap();
                model.dials += 1;
                let knows = model.said_so.is_some_and(|said| said.elapsed() > Duration::from_millis(10));
                model.asked_again |= offer == Offer::Http2 && knows;
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
            let refused = {
                let mut model = self.0.lock().unwrap();
                model.refusals = model.refusals.saturating_sub(1);
                model.refusals > 0
            };
            if refused {
                let cause = std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into();
                return Err(ConnectError { origin: origin.clone(), cause });
            }
            let (near, far) = tokio::io::duplex(3000);
            let version = if offer == Offer::Http2 {
                tokio::spawn(http2::serve(far, self.0.clone()));
                Version::HTTP_2
            } else {
                tokio::spawn(serve(far, self.0.clone()));
                Version::HTTP_11
            };
            let (io, facts) = (Box::new(near), nothing_special());
            Ok(Dialed::Stream(Box::new(Connected { io, version, facts, confirmation: None })))
        })
    }

    fn takes_quic(&self, _: &Origin) -> bool {
        false
    }
}

pub(crate) fn nothing_special() -> Facts {
    let (peer, none) = (([127, 0, 0, 1], 80).into(), Duration::ZERO);
    Facts { peer, proxy: None, lookup: none, tcp: none, tunnel: None, tls: None, quic: false }
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
    let mut mixed = false;
    let mut held_back: Vec<Vec<u8>> = Vec::new();
    loop {
        let next = timeout(TOGETHER, read(&mut stream, &mut buffer)).await;
        let shuffles = model.lock().unwrap().shuffles;
        if !held_back.is_empty() && !matches!(&next, Ok(Some((method, ..))) if method == "GET") {
            held_back.shuffle(&mut model.lock().unwrap().random);
            if stream.write_all(&std::mem::take(&mut held_back).concat()).await.is_err() {
                return;
            }
        }
        let Ok(next) = next else { continue };
        let Some((method, path, body)) = next else { return };
        let (fault, delay) = model.lock().unwrap().draw();
        tokio::time::sleep(delay).await;
        // Nobody can tell whether a skipped PUT that others follow took effect: it is not done to them here. Nor
        // whether an answer is that of the PUT before it or of a look, or which look's it is once two of them have been
        // mixed up.
        let fault = fault.filter(|fault| match (method.as_str(), fault) {
            ("GET", _) => true,
            ("PROPFIND", Fault::Skip | Fault::Swap) => !std::mem::replace(&mut mixed, true),
            (_, fault) => !matches!(fault, Fault::Skip | Fault::Swap | Fault::Echo),
        });
        match fault {
            Some(Fault::Cut) => return,
            Some(Fault::TimeOut) => {
                let _ = stream.write_all(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n").await;
                return;
            }
            _ if model.lock().unwrap().silent => tokio::time::sleep(Duration::from_hours(1)).await,
            _ if model.lock().unwrap().slow.as_ref() == Some(&path) => tokio::time::sleep(Duration::from_secs(8)).await,
            Some(Fault::Slow) => tokio::time::sleep(Duration::from_secs(5)).await,
            _ => {}
        }
        let answer = apply(&mut model.lock().unwrap(), &method, &path, body, fault == Some(Fault::Farewell));
        if shuffles && method == "GET" && matches!(fault, None | Some(Fault::Skip | Fault::Slow)) {
            held_back.extend((fault != Some(Fault::Skip)).then_some(answer));
            continue;
        }
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
        if stream.write_all(&out).await.is_err()
            || matches!(fault, Some(Fault::CutAmid | Fault::Farewell))
            || model.lock().unwrap().hangs_up
        {
            return;
        }
    }
}

/// Does what is asked: the status, and what is there.
pub(crate) fn take_effect(model: &mut Model, method: &str, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
    match method {
        "PUT" => {
            let new = model.files.insert(path.to_owned(), body).is_none();
            (if new { 201 } else { 204 }, Vec::new())
        }
        "POST" => {
            *model.posts.entry(path.to_owned()).or_default() += 1;
            (200, Vec::new())
        }
        "PROPFIND" => model.files.get(path).map_or((404, Vec::new()), |file| (207, file.clone())),
        "GET" => model.files.get(path).map_or((404, Vec::new()), |file| (200, file.clone())),
        other => panic!("a method that was not sent: {other}"),
    }
}

fn apply(model: &mut Model, method: &str, path: &str, body: Vec<u8>, last: bool) -> Vec<u8> {
    let (status, body) = take_effect(model, method, path, body);
    let close = if last { "Connection: close\r\n" } else { "" };
    let etag = if method == "GET" { model.validators.head(path) } else { String::new() };
    let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    [format!("HTTP/1.1 {status} X\r\n{close}{etag}{length}\r\n").as_bytes(), &body].concat()
}
