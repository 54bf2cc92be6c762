//! The network: connections whose other end gives each request its fate.

use std::{
    collections::HashMap,
    fmt::Write,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use http::Version;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::{sleep, timeout},
};
use transport::{ConnectError, Connected, Dial, Dialed, Facts, Offer, Origin};

use crate::{
    fates::{Fate, Rates},
    random::Random,
    request::{Request, Response},
    server::{Author, Profile, Server},
    weather::{Spell, Weather},
};

/// What fits into a connection in each direction.
const BUFFER: usize = 1 << 16;
/// How long a silent connection stays open at the most.
const SILENCE: Duration = Duration::from_mins(30);
/// How long a connection takes that cannot be made.
const REFUSAL: Duration = Duration::from_millis(50);

/// A network with one server. Clones are the same network.
#[derive(Debug, Clone)]
pub struct Network(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    seed: u64,
    server: Mutex<Server>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rates: Rates,
    weather: Weather,
    /// How often each request came.
    counts: HashMap<String, u64>,
    /// The number of requests that are still to be carried out.
    pending: usize,
    /// Those whose runtime has ended before, and when they are due.
    left: Vec<(Duration, Request, Fate)>,
    /// What happened, if it is to be told.
    trace: Option<String>,
}

/// A request that is to be carried out. If the runtime ends before, the next one does.
struct Pending {
    network: Network,
    due: Duration,
    request: Option<(Request, Fate)>,
}

impl Pending {
    fn new(network: &Network, due: Duration, request: Request, fate: Fate) -> Self {
        network.state().pending += 1;
        Self { network: network.clone(), due, request: Some((request, fate)) }
    }

    /// Carries it out when its time has come.
    async fn carried_out(mut self) -> Response {
        let now = self.network.server().now();
        sleep(self.due.saturating_sub(now)).await;
        let (request, fate) = self.request.take().expect("it is carried out once");
        self.network.carry_out(&request, fate)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut state = self.network.state();
        state.pending -= 1;
        if let Some((request, fate)) = self.request.take() {
            state.left.push((self.due, request, fate));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    /// The network of this seed, from which its rates and its weather are drawn.
    pub fn new(seed: u64, profile: Profile) -> Self {
        let mut random = Random::for_part(seed, "network");
        let (rates, weather) = (Rates::draw(&mut random), Weather::draw(&mut random));
        Self::with(seed, profile, rates, weather)
    }

    /// A network with these faults.
    pub fn with(seed: u64, profile: Profile, rates: Rates, weather: Weather) -> Self {
        let state = State { rates, weather, counts: HashMap::new(), pending: 0, left: Vec::new(), trace: None };
        Self(Arc::new(Inner { seed, server: Server::new(profile).into(), state: state.into() }))
    }

    /// The server, to look at it or to change it as another client does.
    pub fn server(&self) -> MutexGuard<'_, Server> {
        lock(&self.0.server)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    /// For `haul_http::Client::with_dialer`.
    pub fn dialer(&self) -> Arc<dyn Dial> {
        Arc::new(self.clone())
    }

    /// The faults' rates.
    pub fn rates(&self) -> Rates {
        self.state().rates.clone()
    }

    /// No request has a bad fate from now on. Those that are to be carried out late still are ([`Network::pending`]).
    pub fn end_faults(&self) {
        let mut state = self.state();
        (state.rates, state.weather) = (Rates::none(state.rates.usual), Weather::default());
    }

    /// The number of requests that are still to be carried out late.
    pub fn pending(&self) -> usize {
        self.state().pending
    }

    /// The time stops. To be called at the end of a runtime; dropping that ends all programs on it, as a kill does. What has
    /// reached the server is carried out all the same, after [`Network::resume`].
    pub fn suspend(&self) {
        self.server().suspend();
    }

    /// The time goes on. To be called at the beginning of each runtime, the first too.
    pub fn resume(&self) {
        self.server().resume();
        let left = std::mem::take(&mut self.state().left);
        for (due, request, fate) in left {
            tokio::spawn(Pending::new(self, due, request, fate).carried_out());
        }
    }

    /// Keeps what happens from now on for [`Network::trace`].
    pub fn keep_trace(&self) {
        self.state().trace = Some(String::new());
    }

    /// Adds a line to what has happened.
    pub fn note(&self, what: &str) {
        let now = self.server().now();
        if let Some(trace) = &mut self.state().trace {
            let _ = writeln!(trace, "{:9.3} {what}", now.as_secs_f64());
        }
    }

    /// What has happened.
    pub fn trace(&self) -> String {
        self.state().trace.clone().unwrap_or_default()
    }

    fn draw(&self, request: &Request) -> (Fate, Duration) {
        let mut state = self.state();
        let count = state.counts.entry(format!("{} {}", request.method, request.path)).or_default();
        *count += 1;
        let nth = *count;
        state.rates.fate(self.0.seed, request, nth)
    }

    fn spell(&self) -> Option<Spell> {
        let now = self.server().now();
        self.state().weather.at(now)
    }

    fn carry_out(&self, request: &Request, fate: Fate) -> Response {
        let spell = self.spell();
        let answer = match spell {
            Some(Spell::Unavailable) => Response::of(503),
            Some(Spell::FullDisk) if request.method == "PUT" => Response::of(507),
            _ => self.server().answer(Author::Ours, request),
        };
        if self.state().trace.is_some() {
            self.note(&describe(request, &answer, fate));
        }
        answer
    }

    /// A request that is carried out after a time.
    fn after(&self, time: Duration, request: &Request, fate: Fate) -> Pending {
        let due = self.server().now() + time;
        Pending::new(self, due, request.clone(), fate)
    }

    fn later(&self, time: Duration, request: &Request, fate: Fate) {
        tokio::spawn(self.after(time, request, fate).carried_out());
    }

    /// The server's side of a connection.
    async fn serve(self, mut stream: DuplexStream) {
        let mut buffer = BytesMut::new();
        while let Some(request) = Request::read(&mut stream, &mut buffer).await {
            let (fate, delay) = self.draw(&request);
            sleep(delay).await;
            if self.spell() == Some(Spell::Outage) {
                return self.be_silent(stream, &request, Fate::Lost).await;
            }
            let response = match fate {
                Fate::Usual => self.carry_out(&request, fate),
                Fate::Late(time) => self.after(time, &request, fate).carried_out().await,
                Fate::Twice(time) => {
                    let response = self.carry_out(&request, fate);
                    self.later(time, &request, fate);
                    response
                }
                Fate::Lost => return self.be_silent(stream, &request, fate).await,
                Fate::Unanswered => {
                    self.carry_out(&request, fate);
                    return self.be_silent(stream, &request, fate).await;
                }
                Fate::CutBefore => return self.note(&describe(&request, &Response::default(), fate)),
                Fate::CutLate(time) => return self.later(time, &request, fate),
                Fate::CutAfter => return drop(self.carry_out(&request, fate)),
                Fate::Refused(status) => {
                    let response = Response::of(status);
                    self.note(&describe(&request, &response, fate));
                    response
                }
                Fate::GaveUp(time) => {
                    self.later(time, &request, fate);
                    Response::of(504)
                }
            };
            // If the client has gone, what has arrived of other requests is carried out all the same.
            let _ = stream.write_all(&response.message(&request.method)).await;
        }
    }

    /// Nothing is carried out or answered on this connection any more.
    async fn be_silent(&self, mut stream: DuplexStream, request: &Request, fate: Fate) {
        self.note(&describe(request, &Response::default(), fate));
        let mut piece = [0; 4096];
        let drained = async { while stream.read(&mut piece).await.is_ok_and(|read| read > 0) {} };
        let _ = timeout(SILENCE, drained).await;
    }
}

fn describe(request: &Request, response: &Response, fate: Fate) -> String {
    let mut text = format!("    {} {}", request.method, request.path);
    for name in ["destination", "if-match", "if-none-match", "if", "range", "lock-token", "overwrite"] {
        if let Some(value) = request.header(name) {
            let _ = write!(text, " {name}: {value}");
        }
    }
    if request.method == "PUT" {
        let _ = write!(text, " {:?}", String::from_utf8_lossy(&request.body));
    }
    let _ = write!(text, " -> {}", response.status);
    if fate != Fate::Usual {
        let _ = write!(text, " ({fate:?})");
    }
    text
}

impl Dial for Network {
    fn dial<'a>(
        &'a self,
        origin: &'a Origin,
        _: Offer,
        _: bool,
        _: Option<&'a Origin>,
        within: Duration,
    ) -> BoxFuture<'a, Result<Dialed, ConnectError>> {
        Box::pin(async move {
            let (nth, rates, seed) = {
                let mut state = self.state();
                let count = state.counts.entry("connection".into()).or_default();
                *count += 1;
                (*count, state.rates.clone(), self.0.seed)
            };
            let mut random = Random::for_part(seed, &format!("connection {nth}"));
            let failed = |error: io::ErrorKind| {
                let cause = io::Error::from(error).into();
                Err(ConnectError { origin: origin.clone(), cause })
            };
            if self.spell() == Some(Spell::Outage) {
                sleep(within).await;
                return failed(io::ErrorKind::TimedOut);
            }
            if random.below(1000) < rates.unreachable {
                sleep(REFUSAL).await;
                return failed(io::ErrorKind::ConnectionRefused);
            }
            sleep(random.time(rates.usual)).await;
            let (near, far) = tokio::io::duplex(BUFFER);
            tokio::spawn(self.clone().serve(far));
            let (peer, none) = (([127, 0, 0, 1], 80).into(), Duration::ZERO);
            let facts = Facts { peer, proxy: None, lookup: none, tcp: none, tunnel: None, tls: None, quic: false };
            let connected = Connected { io: Box::new(near), version: Version::HTTP_11, facts, confirmation: None };
            Ok(Dialed::Stream(Box::new(connected)))
        })
    }

    fn takes_quic(&self, _: &Origin) -> bool {
        false
    }
}
