//! The model server: correct, except for random faults.

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

/// Requests that arrive within this time are processed together.
const BATCH_INTERVAL: Duration = Duration::from_millis(10);

/// What may go wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Close before processing it.
    Close,
    /// Process it, and close without a response.
    CloseAfterProcessing,
    /// Close in the middle of the response.
    TruncateResponse,
    /// Send nothing on this connection any more.
    Silence,
    /// Respond to those behind it, but not to this one.
    OmitResponse,
    /// Respond to the next one first.
    SwapResponses,
    /// Send something that is not HTTP.
    Garbage,
    /// Respond twice.
    RepeatResponse,
    /// Send 408, and close.
    RequestTimeout,
    /// Respond with `Connection: close`.
    LastResponse,
    /// Respond after 5 s.
    Slow,
}

const FAULTS: [Fault; 11] = [
    Fault::Close,
    Fault::CloseAfterProcessing,
    Fault::TruncateResponse,
    Fault::Silence,
    Fault::OmitResponse,
    Fault::SwapResponses,
    Fault::Garbage,
    Fault::RepeatResponse,
    Fault::RequestTimeout,
    Fault::LastResponse,
    Fault::Slow,
];

/// Which validators the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validators {
    ETags,
    /// `Last-Modified`, the same for many files.
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

/// The state and the settings of the server; flat, because every test sets some of them.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub(crate) struct Model {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// How often each POST was processed.
    pub(crate) posts: HashMap<String, u32>,
    pub(crate) random: ChaCha8Rng,
    /// One request in so many has a fault.
    pub(crate) one_in: u32,
    /// The number of connections to refuse.
    pub(crate) refusals: u32,
    pub(crate) requests: u64,
    /// After so many requests over HTTP/2, it requires HTTP/1.1.
    pub(crate) http2_until: u64,
    /// When it first required HTTP/1.1.
    pub(crate) http1_required_at: Option<Instant>,
    /// Whether HTTP/2 was offered again after that.
    pub(crate) http2_offered_again: bool,
    /// It never responds.
    pub(crate) is_silent: bool,
    /// It closes each connection after its first response.
    pub(crate) closes_each: bool,
    /// The path whose response takes 8 s.
    pub(crate) slow: Option<String>,
    pub(crate) validators: Validators,
    /// It processes GETs that arrive together in random order, and responds in that order.
    pub(crate) shuffles: bool,
    /// The number of connection attempts.
    pub(crate) dials: u32,
}

impl Model {
    /// A server without faults and files.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            files: BTreeMap::new(),
            posts: HashMap::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
            one_in: 0,
            refusals: 0,
            requests: 0,
            http2_until: u64::MAX,
            http1_required_at: None,
            http2_offered_again: false,
            is_silent: false,
            closes_each: false,
            slow: None,
            validators: Validators::ETags,
            shuffles: false,
            dials: 0,
        }
    }

    /// The fault of the next request, and its minimum duration.
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
                let knows = model.http1_required_at.is_some_and(|said| said.elapsed() > Duration::from_millis(10));
                model.http2_offered_again |= offer == Offer::Http2 && knows;
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

/// Reads a request; `None` at the end.
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

/// The server's side of a connection. Longer than 60 lines: one case per fault.
async fn serve(mut stream: DuplexStream, model: Arc<Mutex<Model>>) {
    let mut buffer = BytesMut::new();
    let mut held: Option<Vec<u8>> = None;
    let mut mixed = false;
    let mut held_back: Vec<Vec<u8>> = Vec::new();
    loop {
        let next = timeout(BATCH_INTERVAL, read(&mut stream, &mut buffer)).await;
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
        // No client could detect a missing, swapped or repeated response to a PUT, or two mixed-up follow-ups: these
        // faults are not applied to them.
        let fault = fault.filter(|fault| match (method.as_str(), fault) {
            ("GET", _) => true,
            ("PROPFIND", Fault::OmitResponse | Fault::SwapResponses) => !std::mem::replace(&mut mixed, true),
            (_, fault) => !matches!(fault, Fault::OmitResponse | Fault::SwapResponses | Fault::RepeatResponse),
        });
        match fault {
            Some(Fault::Close) => return,
            Some(Fault::RequestTimeout) => {
                let _ = stream.write_all(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n").await;
                return;
            }
            _ if model.lock().unwrap().is_silent => tokio::time::sleep(Duration::from_hours(1)).await,
            _ if model.lock().unwrap().slow.as_ref() == Some(&path) => tokio::time::sleep(Duration::from_secs(8)).await,
            Some(Fault::Slow) => tokio::time::sleep(Duration::from_secs(5)).await,
            _ => {}
        }
        let answer = apply(&mut model.lock().unwrap(), &method, &path, body, fault == Some(Fault::LastResponse));
        if shuffles && method == "GET" && matches!(fault, None | Some(Fault::OmitResponse | Fault::Slow)) {
            held_back.extend((fault != Some(Fault::OmitResponse)).then_some(answer));
            continue;
        }
        let out = match fault {
            Some(Fault::CloseAfterProcessing) => return,
            Some(Fault::Silence) => {
                tokio::time::sleep(Duration::from_hours(1)).await;
                return;
            }
            Some(Fault::OmitResponse) => Vec::new(),
            Some(Fault::Garbage) => b"\x16\x03\x01 this is no HTTP\r\n\r\n".to_vec(),
            // Only if it arrives at once: later, it could not be distinguished from the next response.
            Some(Fault::RepeatResponse) if answer.len() < 1000 => [&answer[..], &answer].concat(),
            Some(Fault::TruncateResponse) => answer[..answer.len() / 2].to_vec(),
            Some(Fault::SwapResponses) if held.is_none() => {
                held = Some(answer);
                continue;
            }
            _ => [&answer[..], &held.take().unwrap_or_default()].concat(),
        };
        if stream.write_all(&out).await.is_err()
            || matches!(fault, Some(Fault::TruncateResponse | Fault::LastResponse))
            || model.lock().unwrap().closes_each
        {
            return;
        }
    }
}

/// Processes a request. Returns the status and the body.
pub(crate) fn process(model: &mut Model, method: &str, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
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
        other => panic!("an unexpected method: {other}"),
    }
}

fn apply(model: &mut Model, method: &str, path: &str, body: Vec<u8>, last: bool) -> Vec<u8> {
    let (status, body) = process(model, method, path, body);
    let close = if last { "Connection: close\r\n" } else { "" };
    let etag = if method == "GET" { model.validators.head(path) } else { String::new() };
    let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    [format!("HTTP/1.1 {status} X\r\n{close}{etag}{length}\r\n").as_bytes(), &body].concat()
}
