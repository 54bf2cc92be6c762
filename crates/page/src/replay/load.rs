//! The client's side of a replay: a page load over Longhaul's engine.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use haul_http::{Body, Client, Expected, Options, Pipelining, Settings, Versions, auth::Authenticator};
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt;
use tokio::{sync::mpsc, task::JoinSet};
use transport::{ConnectSettings, Connector, FastOpen, Origin, SettingsError};

use super::{
    clients::Clients,
    handler::WHICH,
    order::{Action, Order},
    protocol::{Http, Protocol, Session},
};
use crate::{RepeatView, Spec};

/// The number of connections that browsers open to a host over HTTP/1.1.
const SIX: usize = 6;

/// The congestion window that Chromium's QUIC connections begin with: 32 segments, three times what RFC 9002 §7.2 recommends.
/// So a hundred requests leave in one round trip.
const QUIC_WINDOW: u64 = 32 * 1460;

/// Loads a page several times over one protocol.
pub struct Replay {
    spec: Arc<Spec>,
    over: Protocol,
    settings: Settings,
    connector: Arc<Connector>,
    /// The index in the server's page of a request that needs [`WHICH`] because an equal one exists.
    twins: Vec<Option<usize>>,
}

/// A finished load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// From when the first request was wanted to the last byte of the last response that the `load` event waits for.
    pub took: Duration,
    /// The requests, in the order of the spec.
    pub timings: Vec<Timing>,
}

/// The times of a request, from the beginning of the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// When it could be sent. It may then have waited for a connection.
    pub wanted: Duration,
    /// When the head of its response arrived.
    pub head: Duration,
    /// When the last byte arrived.
    pub end: Duration,
}

/// Why a page could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The engine rejected the settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A request of the spec cannot be sent.
    #[error("cannot send request `{id}` of the page: {why}")]
    Request {
        /// Its id.
        id: String,
        /// What is wrong with it.
        why: http::Error,
    },
    /// The response is missing or incomplete.
    #[error("request `{id}` of the page failed: {error}")]
    Failed {
        /// Its id.
        id: String,
        /// Why.
        error: haul_http::Error,
    },
    /// The response differs from the page's.
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

/// An event of a request.
enum Event {
    /// One of the computations is done.
    Computed,
    Received(usize, u64),
    Ended(usize),
    Failed(Box<ReplayError>),
}

impl Replay {
    /// Prepares loads of a page from the server at `server`, which answers for all its hosts. TLS trusts `authorities`
    /// (PEM files) besides those of the system.
    pub fn new(
        spec: Arc<Spec>,
        over: Protocol,
        server: SocketAddr,
        authorities: Vec<PathBuf>,
    ) -> Result<Self, ReplayError> {
        let mut connect = ConnectSettings::default();
        connect.tcp.instead = Some(server);
        connect.tls.authorities = authorities;
        connect.tls.fresh = over.tls == Some(Session::Full) && !over.resumes_own_sessions();
        connect.quic.initial_window = QUIC_WINDOW;
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
            early_data: over.tls == Some(Session::Early) || over.resumes_own_sessions(),
            ..Settings::default()
        };
        let connector = Arc::new(Connector::new(settings.connect.clone())?);
        let asked = |request: &'_ crate::Request| (request.host.clone(), request.path.clone(), request.method.clone());
        let mut times = HashMap::new();
        for request in &spec.requests {
            *times.entry(asked(request)).or_insert(0) += 1;
        }
        let is_twin = |request: &crate::Request| times[&asked(request)] > 1;
        let twins = spec.requests.iter().enumerate().map(|(index, request)| is_twin(request).then_some(index));
        let twins = twins.collect();
        Ok(Self { spec, over, settings, connector, twins })
    }

    /// A second visit to the page, with what the first one left: cookies, tickets, and the cache.
    #[must_use]
    pub fn with_warm_cache(&self, view: RepeatView) -> Self {
        let RepeatView { spec, origins } = view;
        let twins = origins.into_iter().map(|origin| self.twins.get(origin).copied().flatten()).collect();
        let (over, settings, connector) = (self.over, self.settings.clone(), self.connector.clone());
        Self { spec: Arc::new(spec), over, settings, connector, twins }
    }

    /// Loads the page once, over new connections. Checks status and length of every response.
    ///
    /// The engine's timeouts limit each exchange, and the spec limits the computations. For a shorter limit, drop the
    /// future, which ends the load.
    pub async fn load(&self) -> Result<Load, ReplayError> {
        let mut clients = self.clients().await?;
        let (events, mut happened) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let mut timings = vec![Timing::default(); self.spec.requests.len()];
        let start = Instant::now();
        let (mut order, mut actions) = Order::new(&self.spec, self.over.http == Http::Recorded);
        // What happened while a connection was opened.
        let mut unread = VecDeque::new();
        // When computations will be done. Of those that are done together, the one of the earlier request comes first.
        let mut computations = BTreeSet::new();
        let mut now = Duration::ZERO;
        loop {
            for action in actions {
                let events = events.clone();
                match action {
                    Action::Compute(what, time) => {
                        computations.insert((now + time, what));
                        tasks.spawn(async move {
                            transport::sleep(time).await;
                            let _ = events.send(Event::Computed);
                        });
                    }
                    Action::Send(who) => {
                        timings[who].wanted = start.elapsed();
                        let request = self.request(who)?;
                        let client = clients.of(&self.spec, who).clone();
                        let spec = self.spec.clone();
                        let opening = self.opening(&client, request.uri());
                        tasks.spawn(async move {
                            let ended = fetch(&client, request, &spec, who, &events).await;
                            let _ = events.send(ended.map_or_else(|error| Event::Failed(error.into()), Event::Ended));
                        });
                        if let Some((client, origin)) = opening {
                            self.block(&client, &origin, who, &mut happened, &mut unread).await;
                        }
                    }
                }
            }
            if order.is_done() {
                let ends: Vec<Duration> = timings.iter().map(|timing| timing.end).collect();
                return Ok(Load { took: self.spec.load_event(&ends), timings });
            }
            let event = match unread.pop_front() {
                Some(event) => event,
                None => next(&mut happened).await,
            };
            now = start.elapsed();
            actions = match event {
                Event::Computed => computations.pop_first().map_or_else(Vec::new, |(_, what)| order.computed(what)),
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

    /// The clients of a load.
    async fn clients(&self) -> Result<Clients, ReplayError> {
        let mut connectors = [self.connector.clone(), self.connector.clone()];
        if self.over.resumes_own_sessions() {
            for connector in &mut connectors {
                let own = Connector::new(self.settings.connect.clone())?;
                own.prepare().await;
                *connector = Arc::new(own);
            }
        }
        let over = |is_foreign, settings| {
            let connector = connectors[usize::from(is_foreign)].clone();
            Client::over(connector, settings, Authenticator::default())
        };
        Ok(Clients::new(&self.spec, self.over.http, &self.settings, over))
    }

    /// The client and the origin of a request that has to open its connection while nothing else is done.
    fn opening(&self, client: &Client, uri: &http::Uri) -> Option<(Client, Origin)> {
        let origin = Origin::of(uri).ok().filter(|_| self.over.serial)?;
        client.facts(&origin).is_none().then(|| (client.clone(), origin))
    }

    /// Waits until the connection of a request is open, and leaves unread what happens meanwhile, as a program with
    /// blocking sockets. With Fast Open the server answers the request together with the SYN, so that the beginning of
    /// its response says the same.
    async fn block(
        &self,
        client: &Client,
        origin: &Origin,
        who: usize,
        happened: &mut mpsc::UnboundedReceiver<Event>,
        unread: &mut VecDeque<Event>,
    ) {
        let opened = client.met(origin);
        tokio::pin!(opened);
        let mut is_open = false;
        while !is_open {
            let event = tokio::select! {
                _ = &mut opened, if !self.over.fast_open => return,
                event = next(happened) => event,
            };
            is_open = match &event {
                Event::Received(request, _) | Event::Ended(request) => *request == who,
                Event::Failed(_) => true,
                Event::Computed => false,
            };
            unread.push_back(event);
        }
    }

    /// A request for the engine, which adds the framing fields.
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
        // A 304 needs a conditional request (RFC 9110 §15.4.5), or the engine would reject it; the recording may lack
        // the precondition.
        let is_conditional = [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE]
            .iter()
            .any(|condition| request.headers().contains_key(condition));
        if page.response.status == StatusCode::NOT_MODIFIED && !is_conditional {
            request.headers_mut().insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"1\""));
        }
        if let Some(origin) = self.twins[who] {
            request.headers_mut().insert(WHICH, origin.into());
        }
        let length = (page.response.status == StatusCode::OK).then(|| page.response.body.len());
        request
            .extensions_mut()
            .insert(Options { expected: Expected { length, ..Expected::default() }, ..Options::default() });
        Ok(request)
    }
}

/// The next event. The load holds a sender itself, so the channel never closes.
async fn next(happened: &mut mpsc::UnboundedReceiver<Event>) -> Event {
    happened.recv().await.unwrap_or_else(|| unreachable!("the channel is open"))
}

/// Sends a request, and reports the progress of its response.
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use transport::EarlyData;

    use super::*;
    use crate::replay::{PageHandler, over_tls};

    /// Two requests to one host: the page's picture, and a font, which is requested without credentials.
    const PAGE: &str = "schema = \"longhaul.page/1\"\n\
        [[request]]\nid = \"picture\"\nhost = \"127.0.0.1\"\npath = \"/picture\"\nresponse = { body = 1 }\n\
        [[request]]\nid = \"font\"\nhost = \"127.0.0.1\"\npath = \"/font\"\nafter = [{ end = \"picture\" }]\n\
        headers = [\"sec-fetch-mode: cors\", \"sec-fetch-site: cross-site\"]\nresponse = { body = 1 }\n";

    #[tokio::test]
    async fn over_quic_connections_without_credentials_resume_the_sessions_of_the_load_only() {
        let folder = tempfile::tempdir().unwrap();
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
        std::fs::write(&certificate, own.cert.pem()).unwrap();
        std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
        let spec = Spec::parse(PAGE, "page.toml".as_ref()).unwrap();
        let spec = Arc::new(over_tls(&spec).into_owned());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let tls = Some(serve::Tls::Files { certificate: certificate.clone(), key });
        let config = serve::Config { tls, ..serve::Config::default() };
        let site = Arc::new(PageHandler::new(&spec).unwrap());
        let server = serve::Server::with_responder(site, &config, vec![listener]).unwrap();
        let server = tokio::spawn(server.run(std::future::pending()));

        let replay = Replay::new(spec.clone(), "h3".parse().unwrap(), address, vec![certificate]).unwrap();
        for load in 0..2 {
            let clients = replay.clients().await.unwrap();
            for (who, early) in [(0, EarlyData::None), (1, EarlyData::Accepted)] {
                let (events, _happened) = mpsc::unbounded_channel();
                let request = replay.request(who).unwrap();
                let origin = Origin::of(request.uri()).unwrap();
                let client = clients.of(&spec, who);
                fetch(client, request, &spec, who, &events).await.unwrap();
                let facts = client.met(&origin).await;
                assert_eq!(facts.tls.map(|tls| tls.early), Some(early), "load {load}, request {who}");
            }
        }
        server.abort();
    }
}
