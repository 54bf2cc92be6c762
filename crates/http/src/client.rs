//! The client: what callers hold.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use tokio::sync::{mpsc, oneshot};
use tower_service::Service;

use crate::{
    Body, Choice, Error, Incoming, Knowledge, Origin, Pipelining, Timeouts,
    connect::{ConnectSettings, Connected, Connector, Facts, Offer, SettingsError},
    dispatch::{self, Demand},
};

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
    pub choice: Choice,
    /// The bounds on all waits.
    pub timeouts: Timeouts,
}

impl Default for Settings {
    /// Six connections, as browsers have for HTTP/1.1.
    fn default() -> Self {
        Self {
            connect: ConnectSettings::default(),
            versions: Versions::default(),
            pipelining: Pipelining::default(),
            connections: 6,
            choice: Choice::default(),
            timeouts: Timeouts::default(),
        }
    }
}

/// Which version of HTTP is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Versions {
    /// HTTP/1.1, which pipelines over several congestion windows; HTTP/2 with servers that are known to pipeline
    /// badly, if they have it.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, in the clear by prior knowledge (RFC 9113 §3.3).
    Http2,
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

/// Whoever makes connections.
pub(crate) trait Dial: Send + Sync + 'static {
    fn dial<'a>(
        &'a self,
        origin: &'a Origin,
        offer: Offer,
        within: Duration,
    ) -> BoxFuture<'a, Result<Connected, Error>>;
}

impl Dial for Connector {
    fn dial<'a>(
        &'a self,
        origin: &'a Origin,
        offer: Offer,
        within: Duration,
    ) -> BoxFuture<'a, Result<Connected, Error>> {
        Box::pin(self.connect(origin, offer, within))
    }
}

/// What a client's parts share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) dialer: Box<dyn Dial>,
    knowledge: Mutex<HashMap<Origin, Knowledge>>,
    facts: Mutex<HashMap<Origin, Facts>>,
}

impl Client {
    /// A client; an error if a file that the settings name cannot be used.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        let connector = Connector::new(settings.connect.clone())?;
        Ok(Self::with(settings, connector))
    }

    /// A client whose connections are made otherwise.
    pub(crate) fn with(settings: Settings, dialer: impl Dial) -> Self {
        let dialer = Box::new(dialer);
        let shared = Shared { settings, dialer, knowledge: Mutex::default(), facts: Mutex::default() };
        Self { inner: Arc::new(Inner { shared: Arc::new(shared), origins: Mutex::default() }) }
    }

    /// Sends a request, with its options in its extensions ([`crate::Options`]), and waits for its answer's head.
    /// Dropping the future cancels the request.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let origin = Origin::of(request.uri())?;
        let (reply, answer) = oneshot::channel();
        self.demand(&origin, Demand::Request(Box::new(request), reply));
        answer.await.unwrap_or(Err(Error::Shutdown))
    }

    /// Opens connections before they are needed, up to `count`.
    pub fn warm(&self, origin: &Origin, count: usize) {
        self.demand(origin, Demand::Warm(count));
    }

    /// How the last connection to an origin came about.
    pub fn facts(&self, origin: &Origin) -> Option<Facts> {
        lock(&self.inner.shared.facts).get(origin).cloned()
    }

    /// What is known of an origin's pipelining.
    pub fn knowledge(&self, origin: &Origin) -> Knowledge {
        lock(&self.inner.shared.knowledge).get(origin).copied().unwrap_or_default()
    }

    /// Tells what is known from earlier. It counts for origins that were not asked yet.
    pub fn remember(&self, origin: Origin, known: Knowledge) {
        lock(&self.inner.shared.knowledge).insert(origin, known);
    }

    fn demand(&self, origin: &Origin, demand: Demand) {
        let mut origins = lock(&self.inner.origins);
        let driver = origins.entry(origin.clone()).or_insert_with(|| {
            let (demands, taken) = mpsc::unbounded_channel();
            let (shared, known) = (self.inner.shared.clone(), self.knowledge(origin));
            tokio::spawn(dispatch::run(shared, origin.clone(), known, taken));
            demands
        });
        let _ = driver.send(demand);
    }
}

impl Service<Request<Body>> for Client {
    type Response = Response<Incoming>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Response<Incoming>, Error>>;

    /// Always ready: requests wait in the queue of their origin, bound late.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move { client.send(request).await })
    }
}

impl Shared {
    /// What is offered to a server for the next connection.
    pub(crate) fn offer(&self, origin: &Origin) -> Offer {
        match self.settings.versions {
            Versions::Http1 => Offer::Http1,
            Versions::Http2 => Offer::Http2,
            Versions::Auto => {
                let known = lock(&self.knowledge).get(origin).copied().unwrap_or_default();
                let seconds = dispatch::now().seconds;
                // In the clear there is no choice to offer.
                if known.is_banned(seconds) && origin.is_tls() { Offer::Both } else { Offer::Http1 }
            }
        }
    }

    pub(crate) fn learn(&self, origin: &Origin, known: Knowledge) {
        lock(&self.knowledge).insert(origin.clone(), known);
    }

    pub(crate) fn note(&self, origin: &Origin, facts: Facts) {
        lock(&self.facts).insert(origin.clone(), facts);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What is kept under these locks is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
