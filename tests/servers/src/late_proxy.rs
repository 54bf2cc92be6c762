//! A proxy in front of a real server, whose requests come late.
//!
//! It stands for what networks and servers do to a request that changes something: it is held until its client has given up
//! and carried out then, carried out without an answer, carried out twice, or lost.

use std::{
    fmt::Write,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::Incoming,
    client,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
    server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

/// How long a request is held at most.
const LONGEST: Duration = Duration::from_secs(4);
/// How long to wait for the server.
const PATIENCE: Duration = Duration::from_mins(1);

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passed,
    /// It is passed on, and its connection cut instead of an answer.
    Unanswered,
    /// It is passed on later, and its connection cut then, unless its client has gone before.
    Held,
    /// Its connection is cut at once, and it is passed on later.
    Late,
    /// It is passed on, and once more later. Only an idempotent request may be repeated (RFC 9110 §9.2.2).
    Twice,
    /// Its connection is cut, and it is not passed on.
    Lost,
}

type Answer = Response<Full<Bytes>>;

/// A running proxy.
pub struct LateProxy {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    server: SocketAddr,
    is_late: AtomicBool,
    random: Mutex<StdRng>,
    late: tokio::sync::Mutex<JoinSet<()>>,
    begun: Instant,
    log: Mutex<String>,
}

impl LateProxy {
    /// In front of a server, with faults that this seed repeats as far as the order of requests allows.
    pub async fn start(server: SocketAddr, seed: u64) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let random = Mutex::new(StdRng::seed_from_u64(seed));
        let (is_late, late) = (AtomicBool::new(false), tokio::sync::Mutex::default());
        let (begun, log) = (Instant::now(), Mutex::default());
        let shared = Arc::new(Shared { server, is_late, random, late, begun, log });
        let for_all = shared.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let shared = for_all.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| shared.clone().answer(request));
                    // An error of the service ends the connection without an answer.
                    let _ = server::conn::http1::Builder::new().serve_connection(TokioIo::new(near), service).await;
                });
            }
        });
        Ok(Self { address, shared, accepting })
    }

    /// From now on, some changes come late, or not.
    pub fn be_late(&self, is_late: bool) {
        self.shared.is_late.store(is_late, Ordering::Relaxed);
    }

    /// What has come, what became of it, and when and how the server answered each copy.
    pub fn log(&self) -> String {
        self.shared.log().clone()
    }

    /// Waits until nothing comes late any more.
    pub async fn settle(&self) {
        let mut late = self.shared.late.lock().await;
        while late.join_next().await.is_some() {}
    }
}

impl Drop for LateProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Answer, &'static str> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| "its client has gone")?.to_bytes();
        let mut request = Request::from_parts(parts, Full::new(body.clone()));
        request.headers_mut().remove(TRANSFER_ENCODING);
        if !body.is_empty() {
            request.headers_mut().insert(CONTENT_LENGTH, body.len().into());
        }
        let (fate, pause) = self.draw(&request);
        if fate != Fate::Passed {
            self.note(&request, &format!("{fate:?} {}", pause.as_millis()));
        }
        match fate {
            Fate::Passed => self.pass(request).await,
            Fate::Unanswered => self.pass(request).await.and(Err("its answer is lost")),
            Fate::Held => {
                self.late.lock().await.spawn(self.clone().later(request, pause));
                sleep(pause).await;
                Err("its answer is lost")
            }
            Fate::Late => {
                self.late.lock().await.spawn(self.clone().later(request, pause));
                Err("it is late")
            }
            Fate::Twice => {
                let answer = self.pass(request.clone()).await;
                self.late.lock().await.spawn(self.clone().later(request, pause));
                answer
            }
            Fate::Lost => Err("it is lost"),
        }
    }

    fn draw(&self, request: &Request<Full<Bytes>>) -> (Fate, Duration) {
        let is_change =
            matches!(request.method().as_str(), "PUT" | "DELETE" | "MOVE" | "COPY" | "MKCOL" | "LOCK" | "UNLOCK");
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let fate = match random.random_range(0..20) {
            _ if !is_change || !self.is_late.load(Ordering::Relaxed) => Fate::Passed,
            0 => Fate::Unanswered,
            1 => Fate::Held,
            2 => Fate::Late,
            3 if request.method() != "LOCK" => Fate::Twice,
            4 => Fate::Lost,
            _ => Fate::Passed,
        };
        (fate, random.random_range(Duration::ZERO..LONGEST))
    }

    fn log(&self) -> MutexGuard<'_, String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, request: &Request<Full<Bytes>>, what: &str) {
        let of_interest = ["if", "if-match", "if-none-match", "lock-token", "destination", "overwrite"];
        let headers = request.headers().iter().filter(|(name, _)| of_interest.contains(&name.as_str()));
        let at = self.begun.elapsed().as_millis();
        let mut log = self.log();
        let _ = write!(log, "{at:6} {} {}", request.method(), request.uri().path());
        for (name, value) in headers {
            let _ = write!(log, " {name}: {}", String::from_utf8_lossy(value.as_bytes()));
        }
        let _ = writeln!(log, " -> {what}");
    }

    async fn later(self: Arc<Self>, request: Request<Full<Bytes>>, pause: Duration) {
        sleep(pause).await;
        let _ = self.pass(request).await;
    }

    /// Passes a request on over a connection of its own.
    async fn pass(&self, request: Request<Full<Bytes>>) -> Result<Answer, &'static str> {
        let asked = request.clone();
        let answer = self.exchange(request).await;
        let tag = |answer: &Answer| Some(format!("{:?}", answer.headers().get("etag")?));
        let said = answer.as_ref().map(|answer| format!("{} {}", answer.status(), tag(answer).unwrap_or_default()));
        self.note(&asked, said.as_deref().unwrap_or_else(|why| why));
        answer
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, &'static str> {
        let exchange = async {
            let far = TcpStream::connect(self.server).await.ok()?;
            let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(far)).await.ok()?;
            let connection = tokio::spawn(connection);
            let (mut parts, body) = sender.send_request(request).await.ok()?.into_parts();
            let body = body.collect().await.ok()?.to_bytes();
            connection.abort();
            // Of the connection to the server.
            for name in ["connection", "keep-alive", "transfer-encoding"] {
                parts.headers.remove(name);
            }
            Some(Response::from_parts(parts, Full::new(body)))
        };
        timeout(PATIENCE, exchange).await.ok().flatten().ok_or("the server does not answer")
    }
}
