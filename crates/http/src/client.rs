//! The client: what callers hold.

mod shared;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
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
    AltSvc, Body, Budget, Cookies, Error, Http2Settings, IdleChoice, Incoming, Options, Origin, Pipelining,
    PipeliningHistory, Redirect, RequestLine, ResponseInfo, Timeouts, Windows,
    auth::{Attempt, Authenticator, take_userinfo},
    digest::Checked,
    dispatch::{self, Demand, PendingRequest},
    follow_up::{FollowUp, FollowUpResponse},
    method::is_safe,
};

/// What a request is answered with; its body is an error if a digest does not fit.
pub type Answer = Response<Checked<Incoming>>;

/// Who asks, in each request.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("longhaul/", env!("CARGO_PKG_VERSION")));

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How connections are made.
    pub connect: ConnectSettings,
    /// Which protocol is spoken.
    pub versions: Versions,
    /// How boldly requests are pipelined over HTTP/1.1.
    pub pipelining: Pipelining,
    /// Connections to one origin at a time.
    pub connections: usize,
    /// Which idle connection is taken.
    pub choice: IdleChoice,
    /// The bounds on all waits.
    pub timeouts: Timeouts,
    /// How much HTTP/2 servers may send unasked.
    pub http2: Http2Settings,
    /// Whether requests with safe methods may go before TLS's or QUIC's handshake is done, where a session allows it
    /// (RFC 8470). Whoever records them can have the server see them again.
    pub early_data: bool,
    /// Whether cookies are kept, for as long as the client lives.
    pub cookies: bool,
    /// Headers that the user wants in requests to this origin, and to no other, wherever redirects lead.
    pub headers: Option<(Origin, HeaderMap)>,
    /// A bound on the bandwidth of bodies.
    pub budget: Option<Arc<Budget>>,
}

impl Default for Settings {
    /// Six connections, as browsers have for HTTP/1.1.
    fn default() -> Self {
        Self {
            connect: ConnectSettings::default(),
            versions: Versions::default(),
            pipelining: Pipelining::default(),
            connections: 6,
            choice: IdleChoice::default(),
            timeouts: Timeouts::default(),
            http2: Http2Settings::default(),
            early_data: true,
            cookies: false,
            headers: None,
            budget: None,
        }
    }
}

impl Settings {
    /// Adds the user's headers, where they belong, and who we are. What the request has itself stays.
    fn adorn(&self, origin: &Origin, headers: &mut HeaderMap) {
        for (name, value) in self.headers.iter().filter(|(whose, _)| whose == origin).flat_map(|(_, headers)| headers) {
            headers.entry(name).or_insert_with(|| value.clone());
        }
        headers.entry(USER_AGENT).or_insert(AGENT);
    }
}

/// Which version of HTTP is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Versions {
    /// HTTP/1.1, which pipelines over several congestion windows; HTTP/2 with servers that are known to pipeline
    /// badly, if they have it.
    #[default]
    Auto,
    /// As `Auto`, but HTTP/3 with servers that are known to have it: for few and small exchanges, which take little
    /// longer than the handshake that it spares. What moves much wants the several windows of HTTP/1.1.
    Brief,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, in the clear by prior knowledge (RFC 9113 §3.3).
    Http2,
    /// HTTP/3, whether or not the server said that it has it; HTTP/2 or HTTP/1.1 where UDP does not get through, and
    /// through a proxy.
    Http3,
}

impl Versions {
    /// Whether one connection is expected to carry all requests: HTTP/2 and HTTP/3 need no second.
    pub(crate) fn share(self) -> bool {
        matches!(self, Self::Http2 | Self::Http3)
    }
}

/// An HTTP client for one user. Clones share its connections, sessions and knowledge; two clients share nothing.
///
/// It needs a tokio runtime. When the last clone is gone, its connections end as soon as what they have begun is
/// done.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    origins: Mutex<HashMap<Origin, mpsc::UnboundedSender<Demand>>>,
}

/// What a client's parts share.
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
}

impl Client {
    /// A client that can prove who asks; an error if a file that the settings name cannot be used.
    pub fn new(settings: Settings, authenticator: Authenticator) -> Result<Self, SettingsError> {
        let connector = Arc::new(Connector::new(settings.connect.clone())?);
        Ok(Self::over(connector, settings, authenticator))
    }

    /// A client whose connections are made by a connector that others of the same user have too: what is remembered of
    /// ways and of servers' TLS sessions is then theirs together. `settings.connect` is not used.
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
        };
        Self { inner: Arc::new(Inner { shared: Arc::new(shared), origins: Mutex::default() }) }
    }

    /// Sends a request, with its options in its extensions ([`crate::Options`]), and waits for the response header.
    /// Dropping the future cancels the request.
    ///
    /// It adds the origin's credentials and cookies, answers a `401` and follows a redirect where that is safe and the body
    /// can be sent again, and checks the digests in the response as its body is read.
    pub async fn send(&self, request: Request<Body>) -> Result<Answer, Error> {
        let (mut parts, mut body) = request.into_parts();
        let first = parts.method.clone();
        if let Some(budget) = &self.inner.shared.settings.budget {
            body = budget.body(body);
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

    /// Sends a request with credentials and cookies, and again after each `401` that can be answered. Returns the response,
    /// and the body for another sending if there is one. `lost` counts the sendings that may have taken effect without a
    /// response.
    async fn authenticated(
        &self,
        origin: &Origin,
        parts: &Parts,
        mut body: Body,
        lost: &mut u32,
    ) -> Result<(Response<Incoming>, Option<Body>), Error> {
        let shared = &self.inner.shared;
        let target = self::target(&parts.uri);
        let (mut attempt, mut headers) = (None, parts.headers.clone());
        loop {
            shared.complete(origin, &parts.uri, &mut headers);
            let tried = attempt
                .take()
                .unwrap_or_else(|| lock(&shared.authenticator).authorize(origin, &parts.method, &target, &mut headers));
            let again = body.again();
            let mut request = Request::from_parts(parts.clone(), body);
            *request.headers_mut() = headers;
            let proof = Proof(Arc::new(Mutex::new(tried)));
            request.extensions_mut().insert(proof.clone());
            let mut response = match parts.extensions.get::<FollowUp>().filter(|follow_up| follow_up.is_at(origin)) {
                Some(follow_up) => self.followed(origin, request, follow_up.clone()).await?,
                None => self.once(origin, request).await?,
            };
            if let Some(budget) = &shared.settings.budget {
                response.body_mut().limit(budget.clone());
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
            let next = lock(&shared.authenticator).retry(
                origin,
                &parts.method,
                &target,
                &tried,
                response.headers(),
                &mut headers,
            );
            let next = next.map_err(|why| Error::Credentials {
                asked: RequestLine::new(&parts.method, &parts.uri),
                why: why.into(),
            })?;
            let Some(again) = again else { return Ok((response, None)) };
            (attempt, body) = (Some(next), again);
        }
    }

    /// Sends a request as it is and waits for its answer's head, whatever that says: no credentials, no cookies, no
    /// redirects, and digests are not checked.
    pub async fn exchange(&self, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let origin = Origin::of(request.uri())?;
        self.once(&origin, request).await
    }

    /// Sends a request as it is; once more, behind a handshake, if the server found it too early (RFC 8470 §5.2).
    async fn once(&self, origin: &Origin, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let again = request.body().again().filter(|_| is_safe(request.method())).map(|body| {
            let mut again = Request::new(body);
            again.method_mut().clone_from(request.method());
            again.uri_mut().clone_from(request.uri());
            again.headers_mut().clone_from(request.headers());
            again.extensions_mut().clone_from(request.extensions());
            again.extensions_mut().get_or_insert_default::<Options>().late = true;
            again
        });
        let answer = self.ask(origin, request).await?;
        match again {
            Some(again) if answer.status() == StatusCode::TOO_EARLY => self.ask(origin, again).await,
            _ => Ok(answer),
        }
    }

    async fn ask(&self, origin: &Origin, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let (asking, answer) = asking(request);
        self.demand(origin, Demand::Request(asking));
        let answer = answer.await.unwrap_or(Err(Error::Shutdown))?;
        if let Some(alt_svc) = answer.headers().get(ALT_SVC).filter(|_| origin.is_tls()) {
            let mut known = lock(&self.inner.shared.alt_svc);
            known.entry(origin.clone()).or_default().heard(alt_svc, dispatch::now().seconds);
        }
        Ok(answer)
    }

    /// The same, and right behind it what its caller has given it as a follower.
    async fn followed(
        &self,
        origin: &Origin,
        request: Request<Body>,
        FollowUp(follower): FollowUp,
    ) -> Result<Response<Incoming>, Error> {
        let shared = &self.inner.shared;
        let (mut parts, body) = follower.into_parts();
        let target = self::target(&parts.uri);
        shared.complete(origin, &parts.uri, &mut parts.headers);
        lock(&shared.authenticator).authorize(origin, &parts.method, &target, &mut parts.headers);
        let (mut asked, answer) = asking(request);
        let what = RequestLine::new(&parts.method, &parts.uri);
        let (behind, follows) = asking(Request::from_parts(parts, body.into()));
        asked.follower = Some(Box::new(behind));
        self.demand(origin, Demand::Request(asked));
        let mut answer = answer.await.unwrap_or(Err(Error::Shutdown))?;
        answer.extensions_mut().insert(FollowUpResponse::by(what, follows));
        Ok(answer)
    }

    /// Opens connections before they are needed, up to `count`.
    pub fn warm(&self, origin: &Origin, count: usize) {
        let count = if self.inner.shared.settings.versions.share() { count.min(1) } else { count };
        self.demand(origin, Demand::Warm(count));
    }

    /// Waits until every request so far to an origin is settled, those included that nobody waits for any more: what
    /// has left whole and changes something is in the server's hands, and may take effect until it is answered. The
    /// wait ends with the requests' own bounds; whoever has less time bounds it.
    pub async fn settled(&self, origin: &Origin) {
        let (settled, wait) = oneshot::channel();
        self.demand(origin, Demand::Settle(settled));
        let _ = wait.await;
    }

    /// How the last connection to an origin came about.
    pub fn facts(&self, origin: &Origin) -> Option<Facts> {
        lock(&self.inner.shared.facts).get(origin).cloned()
    }

    /// Waits for the first connection to an origin, and tells how it came about. There is none before somebody asks
    /// something or [warms](Self::warm) it, and none ever if that fails: whoever waits also waits for something else.
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

    /// How much an origin's HTTP/2 lets us send unasked: on a long link, a stream carries its window per RTT and no
    /// more.
    pub fn windows(&self, origin: &Origin) -> Option<Windows> {
        lock(&self.inner.shared.windows).get(origin).copied()
    }

    /// What is known of the ways to servers, and what became of data in SYNs. It is there to be kept for other runs.
    pub fn paths(&self) -> &Paths {
        &self.inner.shared.paths
    }

    /// Whether bodies are held up, so that a pause says nothing of the link.
    pub fn is_limited(&self) -> bool {
        self.inner.shared.settings.budget.is_some()
    }

    /// What is known of an origin's pipelining.
    pub fn pipelining_history(&self, origin: &Origin) -> PipeliningHistory {
        lock(&self.inner.shared.pipelining_history).get(origin).copied().unwrap_or_default()
    }

    /// What is known of an origin's HTTP/3.
    pub fn alt_svc(&self, origin: &Origin) -> AltSvc {
        lock(&self.inner.shared.alt_svc).get(origin).cloned().unwrap_or_default()
    }

    /// Tells what is known of an origin's HTTP/3 from earlier.
    pub fn remember_alt_svc(&self, origin: Origin, known: AltSvc) {
        lock(&self.inner.shared.alt_svc).insert(origin, known);
    }

    /// Whether a request to an origin may stand behind others on a connection: HTTP/1.1 is spoken, and the server is
    /// not known to be bad at it.
    pub fn pipelines(&self, origin: &Origin) -> bool {
        let shared = &self.inner.shared;
        let depth = self.pipelining_history(origin).allowed(shared.settings.pipelining, dispatch::now().seconds).0;
        shared.offer(origin) == Offer::Http1 && depth > 1
    }

    /// Tells what is known from earlier. It counts for origins that were not asked yet.
    pub fn remember_pipelining(&self, origin: Origin, known: PipeliningHistory) {
        lock(&self.inner.shared.pipelining_history).insert(origin, known);
    }

    fn demand(&self, origin: &Origin, demand: Demand) {
        let mut origins = lock(&self.inner.origins);
        let driver = origins.entry(origin.clone()).or_insert_with(|| {
            let (demands, taken) = mpsc::unbounded_channel();
            let (shared, known) = (self.inner.shared.clone(), self.pipelining_history(origin));
            tokio::spawn(dispatch::run(shared, origin.clone(), known, taken));
            demands
        });
        let _ = driver.send(demand);
    }
}

/// A request as its origin's driver takes it, and where its answer comes.
fn asking(request: Request<Body>) -> (PendingRequest, oneshot::Receiver<Result<Response<Incoming>, Error>>) {
    let (reply, answer) = oneshot::channel();
    (PendingRequest { request: Box::new(request), reply, follower: None }, answer)
}

/// A request's target as it stands in the request line.
fn target(url: &Uri) -> String {
    url.path_and_query().map_or("/", |target| target.as_str()).to_owned()
}

/// What follows an answer.
fn redirect(parts: &Parts, answer: &Response<Incoming>, followed: u32) -> Result<Option<Redirect>, Error> {
    let location = answer.headers().get(LOCATION).map(HeaderValue::as_bytes);
    let next = crate::redirect(&parts.method, &parts.uri, answer.status(), location, followed);
    next.transpose().map_err(|stop| Error::Redirect(stop.into()))
}

/// The answer, with its digests watched over.
fn checked(parts: &Parts, answer: Response<Incoming>) -> Answer {
    Checked::response(RequestLine::new(&parts.method, &parts.uri), answer)
}

impl Service<Request<Body>> for Client {
    type Response = Answer;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Answer, Error>>;

    /// Always ready: requests wait in the queue of their origin, bound late.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move { client.send(request).await })
    }
}

/// What a request proves who asks by: it goes with the request, and is renewed with each further sending.
#[derive(Debug, Clone)]
struct Proof(Arc<Mutex<Attempt>>);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What is kept under these locks is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
