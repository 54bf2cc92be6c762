//! The client.

mod shared;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode, Uri,
    header::{ALT_SVC, LOCATION, USER_AGENT},
    request::Parts,
};
use tokio::sync::{Notify, mpsc, oneshot};
use tower_service::Service;
use transport::{ConnectSettings, Connector, Dial, Facts, Offer, Paths, SettingsError};

use crate::{
    AltSvc, BandwidthLimit, Body, Cookies, Error, Http2Settings, IdleChoice, Incoming, Options, Origin, Pipelining,
    PipeliningHistory, Redirect, RequestLine, ResponseInfo, Timeouts, Windows,
    auth::{Attempt, Authenticator, take_userinfo},
    digest::Checked,
    dispatch::{self, Command, PendingRequest},
    follow_up::{FollowUp, FollowUpResponse},
    method::is_safe,
};

/// A response; its body fails if a digest does not match.
pub type Answer = Response<Checked<Incoming>>;

/// The `User-Agent`.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("longhaul/", env!("CARGO_PKG_VERSION")));

/// Settings of a client.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How to make connections.
    pub connect: ConnectSettings,
    /// The versions of HTTP to use.
    pub versions: Versions,
    /// When to pipeline requests over HTTP/1.1.
    pub pipelining: Pipelining,
    /// Maximum number of connections to an origin.
    pub connections: usize,
    /// How many connections more there may be while as many wait because nobody reads their response.
    pub unread_connections: usize,
    /// Which idle connection to use.
    pub choice: IdleChoice,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// How long a request may go unanswered in all, in the queue and over all its repetitions. A timeout that is reached
    /// then is the last one. `None`: a request is repeated a few times, whatever that takes.
    pub patience: Option<Duration>,
    /// Flow control over HTTP/2.
    pub http2: Http2Settings,
    /// Whether safe requests may leave before the TLS or QUIC handshake is done, where a session allows it (RFC 8470).
    /// Anybody who records them can replay them.
    pub early_data: bool,
    /// Whether to keep cookies, in memory.
    pub cookies: bool,
    /// Extra headers for requests to this origin, and to no other, wherever redirects lead.
    pub headers: Option<(Origin, HeaderMap)>,
    /// A bandwidth limit for bodies.
    pub bandwidth_limit: Option<Arc<BandwidthLimit>>,
}

impl Default for Settings {
    /// Six connections, as in browsers over HTTP/1.1.
    fn default() -> Self {
        Self {
            connect: ConnectSettings::default(),
            versions: Versions::default(),
            pipelining: Pipelining::default(),
            connections: 6,
            unread_connections: 0,
            choice: IdleChoice::default(),
            timeouts: Timeouts::default(),
            patience: None,
            http2: Http2Settings::default(),
            early_data: true,
            cookies: false,
            headers: None,
            bandwidth_limit: None,
        }
    }
}

impl Settings {
    /// Adds the user's headers for this origin, and the `User-Agent`. The request's own headers win.
    fn adorn(&self, origin: &Origin, headers: &mut HeaderMap) {
        for (name, value) in self.headers.iter().filter(|(whose, _)| whose == origin).flat_map(|(_, headers)| headers) {
            headers.entry(name).or_insert_with(|| value.clone());
        }
        headers.entry(USER_AGENT).or_insert(AGENT);
    }
}

/// The versions of HTTP to use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Versions {
    /// HTTP/1.1, which pipelines over several congestion windows; HTTP/2 with servers that are known to pipeline badly,
    /// if they support it.
    #[default]
    Auto,
    /// As `Auto`, but HTTP/3 with servers that are known to support it: for few and small exchanges, where the saved
    /// handshake counts. Large ones are faster over the several windows of HTTP/1.1.
    Brief,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, in the clear by prior knowledge (RFC 9113 §3.3).
    Http2,
    /// HTTP/3, whether or not the server announces it; HTTP/2 or HTTP/1.1 where UDP does not get through, and through a
    /// proxy.
    Http3,
}

impl Versions {
    /// Whether one connection is expected to carry all requests, as over HTTP/2 and HTTP/3.
    pub(crate) fn share(self) -> bool {
        matches!(self, Self::Http2 | Self::Http3)
    }
}

/// An HTTP client for one user. Clones share connections, sessions and histories; two clients share nothing.
///
/// It needs a tokio runtime. When the last clone is dropped, its connections end after the requests in flight.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    origins: Mutex<HashMap<Origin, mpsc::UnboundedSender<Command>>>,
}

/// The state that a client's clones and dispatchers share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) dialer: Arc<dyn Dial>,
    authenticator: Mutex<Authenticator>,
    cookies: Mutex<Cookies>,
    pipelining_history: Mutex<HashMap<Origin, PipeliningHistory>>,
    facts: Mutex<HashMap<Origin, Facts>>,
    noted: Notify,
    windows: Mutex<HashMap<Origin, Windows>>,
    paths: Arc<Paths>,
    alt_svc: Mutex<HashMap<Origin, AltSvc>>,
    /// When a request failed because its server was silent or could not be reached, unless one has been answered since.
    away: Mutex<Option<Instant>>,
}

impl Client {
    /// A client with credentials; an error if a file in the settings cannot be used.
    pub fn new(settings: Settings, authenticator: Authenticator) -> Result<Self, SettingsError> {
        let connector = Arc::new(Connector::new(settings.connect.clone())?);
        Ok(Self::over(connector, settings, authenticator))
    }

    /// A client that shares a connector with others of the same user, and so their TLS sessions and path histories.
    /// `settings.connect` is not used.
    pub fn over(connector: Arc<Connector>, settings: Settings, authenticator: Authenticator) -> Self {
        let paths = connector.paths().clone();
        Self::with(settings, authenticator, connector, paths)
    }

    /// A client whose connections come from `dialer`, such as a model of a network in a test.
    pub fn with_dialer(settings: Settings, authenticator: Authenticator, dialer: Arc<dyn Dial>) -> Self {
        Self::with(settings, authenticator, dialer, Arc::default())
    }

    fn with(settings: Settings, authenticator: Authenticator, dialer: Arc<dyn Dial>, paths: Arc<Paths>) -> Self {
        let shared = Shared {
            settings,
            dialer,
            authenticator: authenticator.into(),
            cookies: Mutex::default(),
            pipelining_history: Mutex::default(),
            facts: Mutex::default(),
            noted: Notify::new(),
            windows: Mutex::default(),
            paths,
            alt_svc: Mutex::default(),
            away: Mutex::default(),
        };
        Self { inner: Arc::new(Inner { shared: Arc::new(shared), origins: Mutex::default() }) }
    }

    /// Sends a request, with its options in its extensions ([`crate::Options`]), and waits for the response header.
    /// Dropping the future cancels the request.
    ///
    /// It adds the origin's credentials and cookies, answers a `401` and follows a redirect where that is safe and the
    /// body can be sent again, and checks the digests in the response as its body is read.
    pub async fn send(&self, request: Request<Body>) -> Result<Answer, Error> {
        let (mut parts, mut body) = request.into_parts();
        let first = parts.method.clone();
        if let Some(bandwidth_limit) = &self.inner.shared.settings.bandwidth_limit {
            body = bandwidth_limit.body(body);
        }
        // The user is named by credentials, not by the URL.
        parts.uri = take_userinfo(&parts.uri)?.0;
        let mut lost = 0;
        for followed in 0.. {
            let origin = Origin::of(&parts.uri)?;
            let (response, again) = self.authenticated(&origin, &parts, body, &mut lost).await?;
            let Some(next) = redirect(&parts, &response, followed)? else { return Ok(checked(&parts, response)) };
            // Without a second body, the redirect is the response.
            let keeps = next.method == parts.method;
            let Some(again) = again.filter(|_| keeps).or_else(|| (!keeps).then(Body::empty)) else {
                return Ok(checked(&parts, response));
            };
            body = again;
            next.prune(&first, &mut parts.headers);
            (parts.method, parts.uri) = (next.method, next.uri);
            // It asks about the first URL.
            parts.extensions.remove::<FollowUp>();
        }
        unreachable!("redirects end")
    }

    /// Sends a request with credentials and cookies, and again after each `401` that can be answered. Returns the
    /// response, and the body for another sending if there is one. `lost` counts the sendings that may have taken
    /// effect without a response.
    async fn authenticated(
        &self,
        origin: &Origin,
        parts: &Parts,
        mut body: Body,
        lost: &mut u32,
    ) -> Result<(Response<Incoming>, Option<Body>), Error> {
        let shared = &self.inner.shared;
        let (mut attempt, mut headers) = (None, parts.headers.clone());
        loop {
            shared.complete(origin, &parts.uri, &mut headers);
            let tried = match attempt.take() {
                Some(tried) => tried,
                None => shared.sign(origin, parts, &mut headers)?,
            };
            let again = body.try_clone();
            let mut request = Request::from_parts(parts.clone(), body);
            *request.headers_mut() = headers;
            let proof = Proof(Arc::new(Mutex::new(tried)));
            request.extensions_mut().insert(proof.clone());
            let mut response = match parts.extensions.get::<FollowUp>().filter(|follow_up| follow_up.is_at(origin)) {
                Some(follow_up) => self.followed(origin, request, follow_up.clone()).await?,
                None => self.once(origin, request).await?,
            };
            if let Some(bandwidth_limit) = &shared.settings.bandwidth_limit {
                response.body_mut().limit(bandwidth_limit.clone());
            }
            if let Some(info) = response.extensions_mut().get_mut::<ResponseInfo>() {
                info.sendings += *lost;
                *lost = info.sendings.saturating_sub(1);
            }
            if shared.settings.cookies {
                lock(&shared.cookies).keep(&parts.uri, response.headers());
            }
            let tried = lock(&proof.0).clone();
            if response.status() != StatusCode::UNAUTHORIZED {
                lock(&shared.authenticator).accepted(origin, &tried, response.headers());
                return Ok((response, again));
            }
            headers = parts.headers.clone();
            let next = shared.answer(origin, parts, &tried, response.headers(), &mut headers)?;
            let Some(again) = again else { return Ok((response, None)) };
            (attempt, body) = (Some(next), again);
        }
    }

    /// Sends a request as it is and waits for the response header: without credentials, cookies, redirects and checks
    /// of digests. Its [`FollowUp`] has to bring its own credentials too.
    pub async fn exchange(&self, mut request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let origin = Origin::of(request.uri())?;
        match request.extensions_mut().remove::<FollowUp>().filter(|follow_up| follow_up.is_at(&origin)) {
            Some(follow_up) => self.followed(&origin, request, follow_up).await,
            None => self.once(&origin, request).await,
        }
    }

    /// Sends a request as it is; after a 425 (Too Early) once more, after the handshake (RFC 8470 §5.2). In cleartext there
    /// is no handshake to wait for.
    async fn once(&self, origin: &Origin, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let may_be_early = origin.is_tls() && is_safe(request.method());
        let again = may_be_early.then(|| request.body().try_clone()).flatten().map(|body| {
            let mut again = Request::new(body);
            again.method_mut().clone_from(request.method());
            again.uri_mut().clone_from(request.uri());
            again.headers_mut().clone_from(request.headers());
            again.extensions_mut().clone_from(request.extensions());
            again.extensions_mut().get_or_insert_default::<Options>().no_early_data = true;
            again
        });
        let answer = self.ask(origin, request).await?;
        match again {
            Some(mut again) if answer.status() == StatusCode::TOO_EARLY => {
                self.inner.shared.sign_again(origin, &mut again, true);
                self.ask(origin, again).await
            }
            _ => Ok(answer),
        }
    }

    async fn ask(&self, origin: &Origin, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let (asking, answer) = asking(request);
        self.command(origin, Command::Request(asking));
        let answer = self.heard(answer.await.unwrap_or(Err(Error::Shutdown)))?;
        if let Some(alt_svc) = answer.headers().get(ALT_SVC).filter(|_| origin.is_tls()) {
            let mut known = lock(&self.inner.shared.alt_svc);
            known.entry(origin.clone()).or_default().record_header(alt_svc, dispatch::now().seconds);
        }
        Ok(answer)
    }

    /// Sends a request with its follow-up right behind it.
    async fn followed(
        &self,
        origin: &Origin,
        request: Request<Body>,
        FollowUp(follow_up): FollowUp,
    ) -> Result<Response<Incoming>, Error> {
        let shared = &self.inner.shared;
        let (mut parts, body) = follow_up.into_parts();
        shared.complete(origin, &parts.uri, &mut parts.headers);
        let mut headers = std::mem::take(&mut parts.headers);
        let tried = shared.sign(origin, &parts, &mut headers)?;
        parts.headers = headers;
        parts.extensions.insert(Proof(Arc::new(Mutex::new(tried))));
        let (mut asked, answer) = asking(request);
        let what = RequestLine::new(&parts.method, &parts.uri);
        let (behind, follows) = asking(Request::from_parts(parts, body.into()));
        asked.follow_up = Some(Box::new(behind));
        self.command(origin, Command::Request(asked));
        let mut answer = self.heard(answer.await.unwrap_or(Err(Error::Shutdown)))?;
        answer.extensions_mut().insert(FollowUpResponse::by(what, follows));
        Ok(answer)
    }

    /// Notes whether there is a server.
    fn heard<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        match &answer {
            Ok(_) => *lock(&self.inner.shared.away) = None,
            Err(error) if error.is_silence() => {
                *lock(&self.inner.shared.away) = Some(tokio::time::Instant::now().into_std());
            }
            Err(_) => {}
        }
        answer
    }

    /// When a request failed because its server was silent or could not be reached, if none has been answered since.
    pub fn away_since(&self) -> Option<Instant> {
        *lock(&self.inner.shared.away)
    }

    /// The timeouts of requests without their own.
    pub fn timeouts(&self) -> Timeouts {
        self.inner.shared.settings.timeouts
    }

    /// How long a request may go unanswered ([`Settings::patience`]).
    pub fn patience(&self) -> Option<Duration> {
        self.inner.shared.settings.patience
    }

    /// Opens connections in advance, up to `count`.
    pub fn preconnect(&self, origin: &Origin, count: usize) {
        let count = if self.inner.shared.settings.versions.share() { count.min(1) } else { count };
        self.command(origin, Command::Preconnect(count));
    }

    /// Waits until every request so far to an origin is settled, including cancelled ones: an unsafe request that was
    /// sent whole may take effect until its response comes. The requests' own timeouts limit the wait.
    pub async fn settled(&self, origin: &Origin) {
        let (settled, wait) = oneshot::channel();
        self.command(origin, Command::Settle(settled));
        let _ = wait.await;
    }

    /// How the latest connection to an origin was made.
    pub fn facts(&self, origin: &Origin) -> Option<Facts> {
        lock(&self.inner.shared.facts).get(origin).cloned()
    }

    /// Waits for the first connection to an origin, and returns how it was made. Without a request, a
    /// [preconnect](Self::preconnect) or a successful connection this waits forever; so also wait for something else.
    pub async fn met(&self, origin: &Origin) -> Facts {
        loop {
            let noted = self.inner.shared.noted.notified();
            tokio::pin!(noted);
            noted.as_mut().enable();
            if let Some(facts) = self.facts(origin) {
                return facts;
            }
            noted.await;
        }
    }

    /// The HTTP/2 windows of an origin. On a long link, a stream carries at most its window per RTT.
    pub fn windows(&self, origin: &Origin) -> Option<Windows> {
        lock(&self.inner.shared.windows).get(origin).copied()
    }

    /// The histories of TCP Fast Open on the paths to servers, to be kept for other runs.
    pub fn paths(&self) -> &Paths {
        &self.inner.shared.paths
    }

    /// Whether the bandwidth is limited, so that a pause says nothing about the link.
    pub fn is_limited(&self) -> bool {
        self.inner.shared.settings.bandwidth_limit.is_some()
    }

    /// The history of pipelining with an origin.
    pub fn pipelining_history(&self, origin: &Origin) -> PipeliningHistory {
        lock(&self.inner.shared.pipelining_history).get(origin).copied().unwrap_or_default()
    }

    /// What is known of an origin's HTTP/3.
    pub fn alt_svc(&self, origin: &Origin) -> AltSvc {
        lock(&self.inner.shared.alt_svc).get(origin).cloned().unwrap_or_default()
    }

    /// Restores what was known of an origin's HTTP/3 in an earlier run.
    pub fn remember_alt_svc(&self, origin: Origin, known: AltSvc) {
        lock(&self.inner.shared.alt_svc).insert(origin, known);
    }

    /// Whether requests to an origin may be pipelined: it speaks HTTP/1.1, and pipelining is not banned there.
    pub fn pipelines(&self, origin: &Origin) -> bool {
        let shared = &self.inner.shared;
        let depth = self.pipelining_history(origin).allowed(shared.settings.pipelining, dispatch::now().seconds).0;
        shared.offer(origin) == Offer::Http1 && depth > 1
    }

    /// Restores the history of an earlier run, for an origin without requests so far.
    pub fn remember_pipelining(&self, origin: Origin, known: PipeliningHistory) {
        lock(&self.inner.shared.pipelining_history).insert(origin, known);
    }

    fn command(&self, origin: &Origin, command: Command) {
        let mut origins = lock(&self.inner.origins);
        let driver = origins.entry(origin.clone()).or_insert_with(|| {
            let (commands, taken) = mpsc::unbounded_channel();
            let (shared, known) = (self.inner.shared.clone(), self.pipelining_history(origin));
            tokio::spawn(dispatch::run(shared, origin.clone(), known, taken));
            commands
        });
        let _ = driver.send(command);
    }
}

/// A request for the dispatcher, and the channel of its response.
fn asking(request: Request<Body>) -> (PendingRequest, oneshot::Receiver<Result<Response<Incoming>, Error>>) {
    let (reply, answer) = oneshot::channel();
    (PendingRequest { request: Box::new(request), reply, follow_up: None }, answer)
}

/// A request's target as it stands in the request line.
fn target(url: &Uri) -> String {
    url.path_and_query().map_or("/", |target| target.as_str()).to_owned()
}

/// The redirect in a response, if any.
fn redirect(parts: &Parts, answer: &Response<Incoming>, followed: u32) -> Result<Option<Redirect>, Error> {
    let location = answer.headers().get(LOCATION).map(HeaderValue::as_bytes);
    let next = crate::redirect(&parts.method, &parts.uri, answer.status(), location, followed);
    next.transpose().map_err(|stop| Error::Redirect(stop.into()))
}

/// The response with a check of its digests.
fn checked(parts: &Parts, answer: Response<Incoming>) -> Answer {
    Checked::response(RequestLine::new(&parts.method, &parts.uri), answer)
}

impl Service<Request<Body>> for Client {
    type Response = Answer;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Answer, Error>>;

    /// Always ready: requests wait in the queue of their origin.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move { client.send(request).await })
    }
}

/// The authentication of a request; it goes with the request, and is renewed for each retry.
#[derive(Debug, Clone)]
struct Proof(Arc<Mutex<Attempt>>);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The data under these locks is consistent at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
