//! One connection in the hands of its caller.
//!
//! A [`crate::Client`] decides where a request goes. Whoever replays what others decided, or measures what a connection
//! of one kind costs, decides that themselves: they open a connection and send on it what they will. Nothing is tried
//! again, with one exception: what a server did not take as early data goes behind the handshake.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use http::{Request, Response, Version};
use tokio::sync::{mpsc, oneshot, watch};
use transport::{Connector, Dial, Dialed, Facts, Offer};

use crate::{
    Asked, Body, Cause, Error, Incoming, Options, Origin, Settings,
    dispatch::{ConnectionHandle, start_connection},
    messages::{ConnectionId, Job, JobId, Report, Sent},
    method::{is_idempotent, is_safe},
};

/// A connection. When it is dropped, what it has begun is finished, and it ends.
pub struct SingleConnection {
    line: ConnectionHandle,
    version: Version,
    facts: Arc<Mutex<Facts>>,
    /// Whether its handshake is done.
    confirmed: watch::Receiver<bool>,
    jobs: AtomicU64,
}

impl SingleConnection {
    /// Opens a connection to an origin, as `offer` says, with the settings' timeouts and windows. If `early`, it does
    /// not wait for TLS's or QUIC's handshake where the connector has a session that allows early data; [`SingleConnection::facts`]
    /// tell whether it did.
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
        let (reports, reported) = mpsc::unbounded_channel();
        let (confirm, confirmed) = watch::channel(!dialed.is_pending());
        let (version, facts) = (dialed.version(), Arc::new(Mutex::new(dialed.facts().clone())));
        let line = start_connection(dialed, ConnectionId(1), settings, &reports);
        tokio::spawn(listen(reported, line.jobs.downgrade(), confirm, facts.clone()));
        Self { line, version, facts, confirmed, jobs: AtomicU64::new(0) }
    }

    /// What is spoken.
    pub fn version(&self) -> Version {
        self.version
    }

    /// How it came about, as far as that is known by now: [`SingleConnection::confirmed`] waits until all is.
    pub fn facts(&self) -> Facts {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the handshake is done; whether it is. It ends with the connection.
    pub async fn confirmed(&self) -> bool {
        self.confirmed.clone().wait_for(|confirmed| *confirmed).await.is_ok()
    }

    /// Sends a request and waits for its answer's head. Over HTTP/1.1, requests that are sent before others are
    /// answered are pipelined. What is not safe, or is to go late ([`Options::late`]), waits for the handshake.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, Error> {
        let late = request.extensions().get::<Options>().is_some_and(|options| options.late);
        if late || !is_safe(request.method()) {
            // A connection that has ended says so below.
            self.confirmed().await;
        }
        let id = JobId(self.jobs.fetch_add(1, Ordering::Relaxed) + 1);
        let asked = Asked::of(&request);
        let (reply, answer) = oneshot::channel();
        let job = Job { id, request, reply, sendings: 0, follows: false, marks: None };
        let ended = || Error::Exchange { asked: asked.clone(), cause: Cause::Closed };
        self.line.jobs.send(job).map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

/// Hears what the connection reports, until it ends.
async fn listen(
    mut reports: mpsc::UnboundedReceiver<Report>,
    jobs: mpsc::WeakUnboundedSender<Job>,
    confirm: watch::Sender<bool>,
    facts: Arc<Mutex<Facts>>,
) {
    while let Some(report) = reports.recv().await {
        match report {
            Report::Confirmed { tls, .. } => {
                let mut facts = facts.lock().unwrap_or_else(PoisonError::into_inner);
                if facts.quic {
                    facts.tcp = tls.handshake;
                }
                facts.tls = Some(*tls);
                confirm.send_replace(true);
            }
            Report::Returned { job, sent: Sent::Nothing, cause, .. } if !*confirm.borrow() => match jobs.upgrade() {
                Some(jobs) => drop(jobs.send(*job)),
                None => fail(*job, Sent::Nothing, cause),
            },
            Report::Returned { job, sent, cause, .. } => fail(*job, sent, cause),
            Report::Closed { cause, unanswered, .. } => {
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
    let asked = Asked::of(&job.request);
    let decided = sent == Sent::Nothing || is_idempotent(asked.method());
    let error = if decided { Error::Exchange { asked, cause } } else { Error::Undecided { asked, cause } };
    let _ = job.reply.send(Err(error));
}
