//! A single connection under the caller's control.
//!
//! A [`crate::Client`] decides where a request goes. A program that replays another client's decisions, or that
//! measures one kind of connection, opens a connection itself and sends on it what it likes. Nothing is retried, with
//! one exception: requests that the server rejects as early data are sent again after the handshake.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use http::{Request, Response, Version};
use tokio::sync::{mpsc, oneshot, watch};
use transport::{Connector, Dial, Dialed, Facts, Offer};

use crate::{
    Body, Cause, Error, Incoming, Options, Origin, RequestLine, Settings,
    connection_messages::{ConnectionEvent, ConnectionId, Job, JobId, Sent},
    dispatch::{ConnectionHandle, start_connection},
    method::{is_idempotent, is_safe},
};

/// A connection. When dropped, it finishes the requests in flight, and closes.
pub struct SingleConnection {
    connection: ConnectionHandle,
    version: Version,
    facts: Arc<Mutex<Facts>>,
    /// Whether its handshake is done.
    confirmed: watch::Receiver<bool>,
    jobs: AtomicU64,
}

impl SingleConnection {
    /// Opens a connection to an origin with the settings' timeouts and windows. If `early`, it does not wait for the
    /// TLS or QUIC handshake where the connector has a session that allows early data; [`SingleConnection::facts`] show
    /// whether that was so.
    pub async fn open(
        connector: &Connector,
        origin: &Origin,
        offer: Offer,
        early: bool,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let dialed = connector.dial(origin, offer, early, None, settings.timeouts.connect).await?;
        Ok(Self::on(dialed, settings))
    }

    fn on(dialed: Dialed, settings: &Settings) -> Self {
        let (events, reported) = mpsc::unbounded_channel();
        let (confirm, confirmed) = watch::channel(!dialed.is_pending());
        let (version, facts) = (dialed.version(), Arc::new(Mutex::new(dialed.facts().clone())));
        let connection = start_connection(dialed, ConnectionId(1), settings, &events);
        tokio::spawn(listen(reported, connection.jobs.downgrade(), confirm, facts.clone()));
        Self { connection, version, facts, confirmed, jobs: AtomicU64::new(0) }
    }

    /// The HTTP version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// How it was made, as far as known; complete after [`SingleConnection::confirmed`].
    pub fn facts(&self) -> Facts {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it accepts no more requests.
    pub fn has_ended(&self) -> bool {
        self.connection.jobs.is_closed()
    }

    /// Waits for the end of the handshake. Returns whether it succeeded.
    pub async fn confirmed(&self) -> bool {
        self.confirmed.clone().wait_for(|confirmed| *confirmed).await.is_ok()
    }

    /// Sends a request and waits for the response header. Over HTTP/1.1, requests that are sent before earlier
    /// responses are pipelined. A request that is not safe, or has [`Options::no_early_data`], waits for the handshake.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let no_early_data = request.extensions().get::<Options>().is_some_and(|options| options.no_early_data);
        if no_early_data || !is_safe(request.method()) {
            // A connection that has ended says so below.
            self.confirmed().await;
        }
        let id = JobId(self.jobs.fetch_add(1, Ordering::Relaxed) + 1);
        let asked = RequestLine::of(&request);
        let (reply, answer) = oneshot::channel();
        let job = Job { id, request, reply, sendings: 0, is_follow_up: false, marks: None };
        let ended = || Error::Exchange { asked: asked.clone(), cause: Cause::Closed };
        self.connection.jobs.send(job).map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

/// Handles the connection's events until it ends.
async fn listen(
    mut events: mpsc::UnboundedReceiver<ConnectionEvent>,
    jobs: mpsc::WeakUnboundedSender<Job>,
    confirm: watch::Sender<bool>,
    facts: Arc<Mutex<Facts>>,
) {
    while let Some(report) = events.recv().await {
        match report {
            ConnectionEvent::Confirmed { tls, .. } => {
                let mut facts = facts.lock().unwrap_or_else(PoisonError::into_inner);
                if facts.quic {
                    facts.tcp = tls.handshake;
                }
                facts.tls = Some(*tls);
                confirm.send_replace(true);
            }
            ConnectionEvent::Returned { job, sent: Sent::Nothing, cause, .. } if !*confirm.borrow() => {
                match jobs.upgrade() {
                    Some(jobs) => drop(jobs.send(*job)),
                    None => fail(*job, Sent::Nothing, cause),
                }
            }
            ConnectionEvent::Returned { job, sent, cause, .. } => fail(*job, sent, cause),
            ConnectionEvent::Closed { cause, unanswered, .. } => {
                for (job, sent) in unanswered {
                    fail(job, sent, cause.clone());
                }
                return;
            }
            _ => {}
        }
    }
}

fn fail(job: Job, sent: Sent, cause: Cause) {
    let asked = RequestLine::of(&job.request);
    let decided = sent == Sent::Nothing || is_idempotent(asked.method());
    let error = if decided { Error::Exchange { asked, cause } } else { Error::OutcomeUnknown { asked, cause } };
    let _ = job.reply.send(Err(error));
}
