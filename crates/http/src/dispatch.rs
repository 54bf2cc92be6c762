//! The dispatcher of one origin: carries out what its scheduler decides.
//!
//! One task per origin owns the scheduler, the waiting jobs and the handles of the connections. Callers and connections
//! talk to it over channels, so there are no locks, and every decision sees one state.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use http::{HeaderMap, Method, Request, Response, Version, header::RANGE};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, sleep_until},
};
use transport::{ConnectError, Dialed, Offer};

use crate::{
    Body, Cause, Class, Error, Incoming, Options, Origin, RequestLine, Settings, Step,
    client::Shared,
    connection_messages::{ConnectionEvent, ConnectionId, Job, JobId, Recall, Sent},
    http1, http2, http3,
    method::{is_idempotent, is_safe},
    pipelining_history::PipeliningHistory,
    response_marks::Marks,
    scheduler::{Action, Limits, Moment, RequestProfile, Scheduler},
};

/// A request, and the channel for its response.
pub(crate) struct PendingRequest {
    pub(crate) request: Box<Request<Body>>,
    pub(crate) reply: oneshot::Sender<Result<Response<Incoming>, Error>>,
    /// Its follow-up.
    pub(crate) follow_up: Option<Box<PendingRequest>>,
}

/// A call to an origin's dispatcher.
pub(crate) enum Command {
    Request(PendingRequest),
    /// Open this many connections in advance.
    Preconnect(usize),
    /// Notify when all requests so far are settled.
    Settle(oneshot::Sender<()>),
}

/// A larger exchange counts as `Class::Large`, whatever its caller says.
const BIG: u64 = 4 * 1024 * 1024;
/// The minimum interval of checks for idle connections.
const LOOK: Duration = Duration::from_secs(1);

/// A connection attempt's outcome.
type Opened = (ConnectionId, Result<Dialed, ConnectError>);

/// A handle of a connection. The connection ends when this is dropped and its jobs are done.
pub(crate) struct ConnectionHandle {
    pub(crate) jobs: mpsc::UnboundedSender<Job>,
    recalls: mpsc::UnboundedSender<Recall>,
}

/// Starts the task of a connection.
pub(crate) fn start_connection(
    dialed: Dialed,
    id: ConnectionId,
    settings: &Settings,
    events: &mpsc::UnboundedSender<ConnectionEvent>,
) -> ConnectionHandle {
    let (jobs, taken) = mpsc::unbounded_channel();
    let (recalls, recalled) = mpsc::unbounded_channel();
    let (timeouts, events) = (settings.timeouts, events.clone());
    match dialed {
        Dialed::Quic(quic) => {
            let quic_settings = settings.connect.quic;
            drop(tokio::spawn(http3::run(*quic, id, quic_settings, timeouts, taken, events)));
        }
        Dialed::Stream(connected) => {
            if let Some(confirmation) = connected.confirmation {
                let events = events.clone();
                drop(tokio::spawn(async move {
                    if let Ok(tls) = confirmation.await {
                        let _ = events.send(ConnectionEvent::Confirmed { connection: id, tls: Box::new(tls) });
                    }
                }));
            }
            match connected.version {
                Version::HTTP_2 => {
                    drop(tokio::spawn(http2::run(connected.io, id, settings.http2, timeouts, taken, events)));
                }
                _ => drop(tokio::spawn(http1::run(connected.io, id, timeouts, taken, recalled, events))),
            }
        }
    }
    ConnectionHandle { jobs, recalls }
}

struct Dispatch {
    shared: Arc<Shared>,
    origin: Origin,
    scheduler: Scheduler,
    jobs: HashMap<JobId, Job>,
    connections: HashMap<ConnectionId, ConnectionHandle>,
    /// The history that was recorded last.
    recorded: PipeliningHistory,
    /// Why the last attempt to connect failed.
    failure: Option<ConnectError>,
    last_job: u64,
    /// Callers that wait until everything up to a request is settled.
    settling: Vec<(JobId, oneshot::Sender<()>)>,
    events: mpsc::UnboundedSender<ConnectionEvent>,
    opened: mpsc::UnboundedSender<Opened>,
}

/// Serves an origin until all clients are gone and all requests are done.
pub(crate) async fn run(
    shared: Arc<Shared>,
    origin: Origin,
    known: PipeliningHistory,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let limits = Limits {
        connections: shared.settings.connections.max(1),
        unread_connections: shared.settings.unread_connections,
        pipelining: shared.settings.pipelining,
        choice: shared.settings.choice,
        shares: shared.settings.versions.share(),
        patience: shared.settings.patience,
    };
    let (events, mut reported) = mpsc::unbounded_channel();
    let (opened, mut opens) = mpsc::unbounded_channel();
    let mut dispatch = Dispatch {
        shared,
        origin,
        scheduler: Scheduler::new(limits, known),
        jobs: HashMap::new(),
        connections: HashMap::new(),
        recorded: known,
        failure: None,
        last_job: 0,
        settling: Vec::new(),
        events,
        opened,
    };
    let (mut has_clients, idle) = (true, dispatch.shared.settings.timeouts.idle);
    let mut clock = tokio::time::interval((idle / 4).max(LOOK));
    while has_clients || !dispatch.scheduler.is_at_rest() {
        let wake = dispatch.scheduler.wake();
        tokio::select! {
            biased;
            Some(report) = reported.recv() => dispatch.report(report),
            Some(opened) = opens.recv() => dispatch.open(opened),
            command = commands.recv(), if has_clients => {
                has_clients = command.is_some();
                if let Some(command) = command {
                    dispatch.command(command);
                }
            }
            _ = clock.tick() => dispatch.scheduler.tick(idle, now()),
            () = sleep_until(wake.unwrap_or_else(Instant::now).into()), if wake.is_some() => {
                dispatch.scheduler.tick(idle, now());
            }
        }
        if !has_clients {
            dispatch.scheduler.retire_all();
            dispatch.jobs.clear();
        }
        dispatch.act();
        dispatch.settle();
    }
}

impl Dispatch {
    fn command(&mut self, command: Command) {
        let pending_request = match command {
            Command::Preconnect(connections) => return self.scheduler.preconnect(connections),
            Command::Settle(settled) => return self.settling.push((JobId(self.last_job), settled)),
            Command::Request(pending_request) => pending_request,
        };
        let (request, reply) = (*pending_request.request, pending_request.reply);
        let mut profile = profile(self.next_job(), &request);
        let marks = Some(profile.marks);
        self.jobs.insert(profile.id, Job { id: profile.id, request, reply, sendings: 0, is_follow_up: false, marks });
        if let Some(PendingRequest { request, reply, .. }) = pending_request.follow_up.map(|follow_up| *follow_up) {
            let id = self.next_job();
            profile.follow_up = Some(id);
            let marks = Some(Marks::of(&request));
            self.jobs.insert(id, Job { id, request: *request, reply, sendings: 0, is_follow_up: true, marks });
        }
        self.scheduler.submit(profile, now());
    }

    fn next_job(&mut self) -> JobId {
        self.last_job += 1;
        JobId(self.last_job)
    }

    fn open(&mut self, (id, outcome): Opened) {
        let dialed = match outcome {
            Ok(dialed) => dialed,
            Err(error) => {
                self.scheduler.open_failed(id, &error.cause, now());
                self.failure = Some(error);
                return;
            }
        };
        self.failure = None;
        if dialed.is_pending() {
            self.scheduler.opens_early(id);
        }
        if !self.scheduler.opened(id, dialed.version(), now()) {
            return;
        }
        self.shared.record_facts(&self.origin, dialed.facts().clone());
        let handle = start_connection(dialed, id, &self.shared.settings, &self.events);
        self.connections.insert(id, handle);
    }

    fn report(&mut self, report: ConnectionEvent) {
        let now = now();
        match report {
            ConnectionEvent::Head { connection, job, head } => self.scheduler.head(connection, job, &head, now),
            ConnectionEvent::Done { connection, job, sent, received, window } => {
                self.scheduler.done(connection, job, (sent, received), window, now);
            }
            ConnectionEvent::Abandoned { connection, job } => self.scheduler.dropped(connection, job, now),
            ConnectionEvent::Confirmed { connection, tls } => {
                self.shared.confirm(&self.origin, *tls);
                self.scheduler.confirmed(connection, now);
            }
            ConnectionEvent::Draining { connection, cause } => self.scheduler.draining(connection, &cause, now),
            ConnectionEvent::Unmarked(believed) => self.scheduler.unmarked(believed),
            ConnectionEvent::Stalled { connection, job } => self.scheduler.stalled(connection, job, now),
            ConnectionEvent::ReaderLags { connection, is_lagging } => {
                self.scheduler.reader_lags(connection, is_lagging, now);
            }
            ConnectionEvent::Returned { connection, job, sent, cause } => {
                let id = job.id;
                self.jobs.insert(id, *job);
                self.scheduler.returned(connection, id, sent, &cause, now);
            }
            ConnectionEvent::Streams { connection, limit, windows } => {
                self.shared.record_windows(&self.origin, windows);
                self.scheduler.streams(connection, limit, now);
            }
            ConnectionEvent::Closed { connection, cause, unanswered } => {
                self.connections.remove(&connection);
                if matches!(cause, Cause::TimedOut(Step::Quic, _)) {
                    self.shared.record_quic_failure(&self.origin);
                }
                let fates: Vec<(JobId, Sent)> = unanswered.iter().map(|(job, sent)| (job.id, *sent)).collect();
                self.jobs.extend(unanswered.into_iter().map(|(job, _)| (job.id, job)));
                self.scheduler.closed(connection, &cause, &fates, now);
            }
        }
        let known = self.scheduler.pipelining_history();
        if known != self.recorded {
            self.recorded = known;
            self.shared.record_pipelining(&self.origin, known);
        }
    }

    /// Carries out the scheduler's actions.
    fn act(&mut self) {
        loop {
            let actions = self.scheduler.actions();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                match action {
                    Action::Open(id, pause) => self.connect(id, pause),
                    Action::Send(connection, job) => self.send(connection, job),
                    Action::Retire(connection) => drop(self.connections.remove(&connection)),
                    Action::Recall { connection, behind, sent } => {
                        if let Some(handle) = self.connections.get(&connection) {
                            let _ = handle.recalls.send(Recall { behind, sent });
                        }
                    }
                    Action::Fail { job, cause, outcome_unknown } => {
                        let Some(job) = self.jobs.remove(&job) else { continue };
                        let asked = RequestLine::of(&job.request);
                        // What was sent before may have taken effect.
                        let is_unsent = job.sendings == 0 && !outcome_unknown;
                        let error = match self.failure.take_if(|_| self.connections.is_empty() && is_unsent) {
                            // The server cannot be reached at all.
                            Some(failure) => self.failure.insert(failure).clone().into(),
                            None if outcome_unknown => Error::OutcomeUnknown { asked, cause: cause.0 },
                            None => Error::Exchange { asked, cause: cause.0 },
                        };
                        let _ = job.reply.send(Err(error));
                    }
                }
            }
        }
    }

    fn settle(&mut self) {
        if self.settling.is_empty() {
            return;
        }
        let oldest = self.scheduler.oldest();
        let settled = |(last, _): &mut (JobId, _)| oldest.is_none_or(|oldest| oldest > *last);
        for (_, waiting) in self.settling.extract_if(.., settled) {
            let _ = waiting.send(());
        }
    }

    fn send(&mut self, connection: ConnectionId, id: JobId) {
        let Some(mut job) = self.jobs.remove(&id) else { return };
        self.shared.sign_again(&self.origin, &mut job.request, job.sendings > 0);
        let refused = match self.connections.get(&connection) {
            Some(handle) => handle.jobs.send(job).err().map(|error| error.0),
            None => Some(job),
        };
        // The connection has ended, and its last event, without this job, is in the channel.
        if let Some(job) = refused {
            self.jobs.insert(id, job);
            self.scheduler.missed(connection, id, now());
        }
    }

    fn connect(&self, id: ConnectionId, pause: Duration) {
        let (shared, origin, opened) = (self.shared.clone(), self.origin.clone(), self.opened.clone());
        let offer = if self.scheduler.is_serial_only() { Offer::Http1 } else { shared.offer(&origin) };
        tokio::spawn(async move {
            // The timer's shortest sleep is a millisecond or two.
            if !pause.is_zero() {
                sleep(pause).await;
            }
            let connected = tokio::select! {
                connected = shared.dial(&origin, offer) => connected,
                () = opened.closed() => return,
            };
            let _ = opened.send((id, connected));
        });
    }
}

/// The scheduler's view of a request.
fn profile(id: JobId, request: &Request<Body>) -> RequestProfile {
    let options = request.extensions().get::<Options>().cloned().unwrap_or_default();
    let is_repeatable = is_idempotent(request.method()) && request.body().is_repeatable();
    let comes = options.expected.length.or_else(|| range_length(request.headers())).unwrap_or(0);
    let bytes = request.body().length().unwrap_or(0) + comes;
    let is_safe = is_safe(request.method());
    let may_pipeline = is_safe || options.pipeline;
    let class = if bytes > BIG { Class::Large } else { options.class };
    RequestProfile {
        id,
        is_repeatable,
        is_pipelinable: is_repeatable && may_pipeline && !options.no_pipelining && *request.method() != Method::CONNECT,
        repeats_after_silence: is_safe || !(class == Class::Large || options.no_repeat_after_silence),
        is_safe,
        may_be_early_data: is_safe && request.body().is_repeatable() && !options.no_early_data,
        is_sending: request.body().length().is_none_or(|length| length > 4096),
        class,
        bytes,
        marks: Marks::of(request),
        follow_up: None,
        is_follow_up: false,
    }
}

/// The length of a single range with an end.
fn range_length(headers: &HeaderMap) -> Option<u64> {
    let (first, last) = headers.get(RANGE)?.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
}

pub(crate) fn now() -> Moment {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    // The clock of the timers, which a test may pause.
    Moment { instant: tokio::time::Instant::now().into_std(), seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_not_be_carried_out_late_is_not_repeated_after_silence() {
        let repeats = |method: &str, class, no_repeat_after_silence| {
            let options = Options { class, no_repeat_after_silence, ..Options::default() };
            let request = Request::builder().method(method).extension(options).body(Body::empty()).unwrap();
            profile(JobId(1), &request).repeats_after_silence
        };
        assert!(repeats("PUT", Class::Small, false) && !repeats("PUT", Class::Small, true));
        assert!(!repeats("PUT", Class::Large, false));
        assert!(repeats("GET", Class::Large, true), "a safe one");
    }
}
