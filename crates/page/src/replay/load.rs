//! The client's side of a replay: a page load over Longhaul's engine.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use haul_http::{Body, Client, Expected, Options, Pipelining, Settings, Versions, auth::Authenticator};
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt;
use tokio::{sync::mpsc, task::JoinSet};
use transport::{ConnectSettings, Connector, FastOpen, SettingsError};

use super::{
    handler::WHICH,
    order::{Action, Order},
    protocol::{Http, Protocol, Session},
};
use crate::Spec;

/// Browsers' connections to a host over HTTP/1.1.
const SIX: usize = 6;

/// Loads a page again and again, as its first load did, over one way.
pub struct Replay {
    spec: Arc<Spec>,
    over: Protocol,
    settings: Settings,
    connector: Arc<Connector>,
    /// Requests that are told apart from others like them by a header.
    twins: Vec<bool>,
}

/// A page's load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// From the first request's being wanted to the last response's last byte.
    pub took: Duration,
    /// The requests, in the order of the spec.
    pub timings: Vec<Timing>,
}

/// When what happened to a request, counted from the load's beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// It could be sent. It may then have waited for a connection, or for others on it.
    pub wanted: Duration,
    /// The head of its response came.
    pub head: Duration,
    /// The last byte came.
    pub end: Duration,
}

/// Why a page could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The engine cannot be set so.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A request of the spec is none that can be sent.
    #[error("cannot send request `{id}` of the page: {why}")]
    Request {
        /// Its id.
        id: String,
        /// What is wrong with it.
        why: http::Error,
    },
    /// No answer, or half of one.
    #[error("request `{id}` of the page failed: {error}")]
    Failed {
        /// Its id.
        id: String,
        /// Why.
        error: haul_http::Error,
    },
    /// Another answer than the page has.
    #[error("request `{id}` of the page: status {status} and {bytes} bytes, expected {expected}")]
    Wrong {
        /// Its id.
        id: String,
        /// The answer's status.
        status: StatusCode,
        /// How long its body was.
        bytes: u64,
        /// What was recorded.
        expected: String,
    },
}

/// What became known of a request.
enum Event {
    Computed(usize),
    Received(usize, u64),
    Ended(usize),
    Failed(Box<ReplayError>),
}

impl Replay {
    /// A page to be loaded from the server at `server`, which answers for all its hosts. Under TLS, whoever
    /// `authorities` (PEM files) have signed is trusted beside the system's.
    pub fn new(
        spec: Arc<Spec>,
        over: Protocol,
        server: SocketAddr,
        authorities: Vec<PathBuf>,
    ) -> Result<Self, ReplayError> {
        let mut connect = ConnectSettings::default();
        connect.tcp.instead = Some(server);
        connect.tls.authorities = authorities;
        connect.tls.fresh = over.tls == Some(Session::Full);
        connect.fast_open = if over.fast_open { FastOpen::On } else { FastOpen::Off };
        let settings = Settings {
            connect,
            versions: match over.http {
                Http::Recorded | Http::Six => Versions::Http1,
                Http::Two => Versions::Http2,
                Http::Three => Versions::Http3,
            },
            pipelining: if over.pipelining { Pipelining::Aggressive } else { Pipelining::Off },
            connections: SIX,
            early_data: over.tls == Some(Session::Early),
            ..Settings::default()
        };
        let connector = Arc::new(Connector::new(settings.connect.clone())?);
        let asked = |request: &'_ crate::Request| (request.host.clone(), request.path.clone(), request.method.clone());
        let mut times = HashMap::new();
        for request in &spec.requests {
            *times.entry(asked(request)).or_insert(0) += 1;
        }
        let twins = spec.requests.iter().map(|request| times[&asked(request)] > 1).collect();
        Ok(Self { spec, over, settings, connector, twins })
    }

    /// Loads the page once, over connections of its own. Every answer is checked for its status and length.
    ///
    /// Each exchange is bounded by the engine's timeouts, the computations by the spec; whoever has less time drops
    /// the future, and the load ends with it.
    pub async fn load(&self) -> Result<Load, ReplayError> {
        let mut clients = Clients::new(self);
        let (events, mut happened) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let mut timings = vec![Timing::default(); self.spec.requests.len()];
        let start = Instant::now();
        let (mut order, mut actions) = Order::new(&self.spec, self.over.http == Http::Recorded);
        loop {
            for action in actions {
                let events = events.clone();
                match action {
                    Action::Compute(who, time) => drop(tasks.spawn(async move {
                        pass(time).await;
                        let _ = events.send(Event::Computed(who));
                    })),
                    Action::Send(who) => {
                        timings[who].wanted = start.elapsed();
                        let request = self.request(who)?;
                        let client = clients.of(self.spec.requests[who].connection).clone();
                        let spec = self.spec.clone();
                        tasks.spawn(async move {
                            let ended = fetch(&client, request, &spec, who, &events).await;
                            let _ = events.send(ended.map_or_else(|error| Event::Failed(error.into()), Event::Ended));
                        });
                    }
                }
            }
            if order.is_done() {
                let took = timings.iter().map(|timing| timing.end).max().unwrap_or_default();
                return Ok(Load { took, timings });
            }
            // We hold a sender ourselves, so there is always another event to wait for, or none will ever come.
            let Some(event) = happened.recv().await else { unreachable!("the channel is open") };
            let now = start.elapsed();
            actions = match event {
                Event::Computed(who) => order.computed(who),
                Event::Received(who, bytes) => {
                    let timing = &mut timings[who];
                    timing.head = if timing.head.is_zero() { now } else { timing.head };
                    order.received(who, bytes)
                }
                Event::Ended(who) => {
                    timings[who].end = now;
                    clients.asked(self.spec.requests[who].connection);
                    order.ended(who)
                }
                Event::Failed(error) => return Err(*error),
            };
        }
    }

    /// A request as the engine takes it: what frames it, the engine adds.
    fn request(&self, who: usize) -> Result<Request<Body>, ReplayError> {
        let page = &self.spec.requests[who];
        let scheme = if self.over.is_tls() { "https" } else { "http" };
        let mut request = Request::builder()
            .method(page.method.clone())
            .uri(format!("{scheme}://{}{}", page.host, page.path))
            .body(Body::from(page.body.part(0, usize::MAX)))
            .map_err(|why| ReplayError::Request { id: page.id.clone(), why })?;
        *request.headers_mut() = page.fields();
        for framing in [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
            request.headers_mut().remove(framing);
        }
        // "Not modified" answers nobody who has not asked whether it was (RFC 9110 §15.4.5), and the engine takes it
        // for another request's answer; who recorded the page may not have told.
        if page.response.status == StatusCode::NOT_MODIFIED {
            request.headers_mut().entry(header::IF_NONE_MATCH).or_insert(HeaderValue::from_static("\"1\""));
        }
        if self.twins[who] {
            request.headers_mut().insert(WHICH, who.into());
        }
        let length = (page.response.status == StatusCode::OK).then(|| page.response.body.len());
        request
            .extensions_mut()
            .insert(Options { expected: Expected { length, ..Expected::default() }, ..Options::default() });
        Ok(request)
    }
}

/// Lets so much time pass. The runtime's timer counts in milliseconds and rounds up, which many small computations
/// would add up to something; so the last few are slept through on a thread, to which the kernel is true.
async fn pass(time: Duration) {
    const ROUGH: Duration = Duration::from_millis(3);
    let until = Instant::now() + time;
    if let Some(rough) = time.checked_sub(ROUGH) {
        tokio::time::sleep(rough).await;
    }
    let rest = move || std::thread::sleep(until.saturating_duration_since(Instant::now()));
    let _ = tokio::task::spawn_blocking(rest).await;
}

/// Sends a request, and tells of its answer as it comes.
async fn fetch(
    client: &Client,
    request: Request<Body>,
    spec: &Spec,
    who: usize,
    events: &mpsc::UnboundedSender<Event>,
) -> Result<usize, ReplayError> {
    let page = &spec.requests[who];
    let failed = |error| ReplayError::Failed { id: page.id.clone(), error };
    let answer = client.exchange(request).await.map_err(failed)?;
    let (status, mut bytes) = (answer.status(), 0);
    let _ = events.send(Event::Received(who, 0));
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        bytes += frame.map_err(failed)?.data_ref().map_or(0, |data| data.len() as u64);
        let _ = events.send(Event::Received(who, bytes));
    }
    let length = if page.method == http::Method::HEAD { 0 } else { page.response.body.len() };
    if (status, bytes) == (page.response.status, length) {
        return Ok(who);
    }
    let expected = format!("{} and {length}", page.response.status);
    Err(ReplayError::Wrong { id: page.id.clone(), status, bytes, expected })
}

/// The clients of a load: one for each connection that was recorded, and one for all requests that may take any.
struct Clients {
    /// With the number of requests that it has still to answer for.
    recorded: BTreeMap<u32, (Client, usize)>,
    any: Client,
}

impl Clients {
    fn new(replay: &Replay) -> Self {
        let over = |settings: Settings| Client::over(replay.connector.clone(), settings, Authenticator::default());
        let mut recorded = BTreeMap::new();
        if replay.over.http == Http::Recorded {
            for number in replay.spec.requests.iter().filter_map(|request| request.connection) {
                let alone = || (over(Settings { connections: 1, ..replay.settings.clone() }), 0);
                recorded.entry(number).or_insert_with(alone).1 += 1;
            }
        }
        Self { recorded, any: over(replay.settings.clone()) }
    }

    fn of(&self, connection: Option<u32>) -> &Client {
        connection.and_then(|number| self.recorded.get(&number)).map_or(&self.any, |(client, _)| client)
    }

    /// A request has its answer. A connection that nobody will ask again ends, so that thousands of visitors do not
    /// stay at once.
    fn asked(&mut self, connection: Option<u32>) {
        let Some((number, (_, left))) = connection.and_then(|number| Some((number, self.recorded.get_mut(&number)?)))
        else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            self.recorded.remove(&number);
        }
    }
}
