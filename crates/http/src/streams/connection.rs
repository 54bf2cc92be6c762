//! A connection with many exchanges: waiting jobs, exchanges in flight, and their events.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::mpsc;

use super::{Outcome, stall_timer::Traffic};
use crate::{
    Cause, Timeouts,
    connection_messages::{ConnectionEvent, ConnectionId, Job, JobId, Sent},
};

/// What the exchanges of a connection have in common.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) id: ConnectionId,
    pub(crate) timeouts: Timeouts,
    pub(crate) events: mpsc::UnboundedSender<ConnectionEvent>,
    pub(crate) traffic: Arc<Traffic>,
    /// The number of exchanges without a response header.
    pub(crate) unanswered: Arc<AtomicUsize>,
    /// The cause of the connection's end.
    pub(crate) ended: OnceLock<Cause>,
}

impl SharedState {
    /// Sends an event; a dispatcher that is gone needs none.
    pub(crate) fn report(&self, report: ConnectionEvent) {
        let _ = self.events.send(report);
    }
}

/// The jobs of a connection.
pub(crate) struct Exchanges {
    pub(crate) common: Arc<SharedState>,
    pub(crate) jobs: mpsc::UnboundedReceiver<Job>,
    /// Whether more jobs may come.
    pub(crate) open: bool,
    /// Jobs that cannot start yet.
    pub(crate) waiting: VecDeque<Job>,
    pub(crate) running: FuturesUnordered<Pin<Box<dyn Future<Output = Outcome> + Send>>>,
    /// Why no more jobs start, once that is so.
    pub(crate) farewell: Option<Cause>,
}

impl Exchanges {
    pub(crate) fn new(
        id: ConnectionId,
        timeouts: Timeouts,
        traffic: Traffic,
        jobs: mpsc::UnboundedReceiver<Job>,
        events: mpsc::UnboundedSender<ConnectionEvent>,
    ) -> Self {
        let (traffic, unanswered, ended) = (Arc::new(traffic), Arc::default(), OnceLock::new());
        Self {
            common: Arc::new(SharedState { id, timeouts, events, traffic, unanswered, ended }),
            jobs,
            open: true,
            waiting: VecDeque::new(),
            running: FuturesUnordered::new(),
            farewell: None,
        }
    }

    /// Accepts a job; `None` if there will be no more.
    pub(crate) fn take(&mut self, job: Option<Job>) {
        match (job, &self.farewell) {
            (None, _) => self.open = false,
            (Some(job), None) => self.waiting.push_back(job),
            (Some(job), Some(cause)) => self.give_back(Box::new(job), Sent::Nothing, cause.clone()),
        }
    }

    pub(crate) fn settle(&self, outcome: Outcome) {
        match outcome {
            Outcome::Over { job, sent, received, whole } => self.over(job, sent, received, whole),
            Outcome::Back(job, sent, cause) => self.give_back(job, sent, cause),
        }
    }

    pub(crate) fn over(&self, job: JobId, sent: u64, received: u64, whole: bool) {
        let connection = self.common.id;
        self.common.report(if whole {
            ConnectionEvent::Done { connection, job, sent, received, window: None }
        } else {
            ConnectionEvent::Abandoned { connection, job }
        });
    }

    fn give_back(&self, job: Box<Job>, sent: Sent, cause: Cause) {
        self.common.report(ConnectionEvent::Returned { connection: self.common.id, job, sent, cause });
    }

    /// Starts no more jobs, and returns those not started.
    pub(crate) fn drain(&mut self, cause: Cause) {
        self.jobs.close();
        self.common.report(ConnectionEvent::Draining { connection: self.common.id, cause: cause.clone() });
        for job in std::mem::take(&mut self.waiting) {
            self.give_back(Box::new(job), Sent::Nothing, cause.clone());
        }
        self.farewell = Some(cause);
    }

    /// Returns the jobs without a response; then waits for the readers of complete responses.
    pub(crate) async fn close(mut self, cause: Cause) {
        let _ = self.common.ended.set(cause.clone());
        let mut unanswered = Vec::new();
        poll_fn(|context| {
            while let Poll::Ready(Some(outcome)) = self.running.poll_next_unpin(context) {
                match outcome {
                    Outcome::Back(job, sent, _) => unanswered.push((*job, sent)),
                    over @ Outcome::Over { .. } => self.settle(over),
                }
            }
            if self.common.unanswered.load(Ordering::Relaxed) == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.jobs.close();
        unanswered.extend(self.waiting.drain(..).map(|job| (job, Sent::Nothing)));
        while let Some(job) = self.jobs.recv().await {
            unanswered.push((job, Sent::Nothing));
        }
        self.common.report(ConnectionEvent::Closed { connection: self.common.id, cause, unanswered });
        while self.running.next().await.is_some() {}
    }
}
