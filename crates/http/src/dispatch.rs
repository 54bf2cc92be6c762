//! The driver of one origin: carries out what its scheduler decides.
//!
//! One task per origin owns its scheduler, the jobs that wait and the handles of its connections. Callers and
//! connections talk to it by channels, so that no lock is held anywhere and every decision sees one state.

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
    Asked, Body, Cause, Class, Error, Incoming, Options, Origin, Settings, Step,
    client::Shared,
    h1, http2, http3,
    identity::Marks,
    messages::{CallBack, ConnectionId, Job, JobId, Report, Sent},
    method::{is_idempotent, is_safe},
    pipelining_history::PipeliningHistory,
    scheduler::{Action, Limits, Moment, Scheduler, Shape},
};

/// A request, and where its answer goes.
pub(crate) struct Asking {
    pub(crate) request: Box<Request<Body>>,
    pub(crate) reply: oneshot::Sender<Result<Response<Incoming>, Error>>,
    /// What goes right behind it.
    pub(crate) follower: Option<Box<Asking>>,
}

/// What callers ask of an origin's driver.
pub(crate) enum Demand {
    Request(Asking),
    /// Have so many connections open.
    Warm(usize),
    /// Say when all requests so far are settled.
    Settle(oneshot::Sender<()>),
}

/// More than this is large, whatever its caller says.
const BIG: u64 = 4 * 1024 * 1024;
/// How often at most idle connections are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A connection attempt's outcome.
type Opened = (ConnectionId, Result<Dialed, ConnectError>);

/// The way to a connection. It ends when this is gone and all it was given is done.
pub(crate) struct ConnectionHandle {
    pub(crate) jobs: mpsc::UnboundedSender<Job>,
    call_backs: mpsc::UnboundedSender<CallBack>,
}

/// Has a connection serve the jobs that it is given.
pub(crate) fn start_connection(
    dialed: Dialed,
    id: ConnectionId,
    settings: &Settings,
    reports: &mpsc::UnboundedSender<Report>,
) -> ConnectionHandle {
    let (jobs, taken) = mpsc::unbounded_channel();
    let (call_backs, called_back) = mpsc::unbounded_channel();
    let (timeouts, reports) = (settings.timeouts, reports.clone());
    match dialed {
        Dialed::Quic(quic) => {
            let quic_settings = settings.connect.quic;
            drop(tokio::spawn(http3::run(*quic, id, quic_settings, timeouts, taken, reports)));
        }
        Dialed::Stream(connected) => {
            if let Some(confirmation) = connected.confirmation {
                let reports = reports.clone();
                drop(tokio::spawn(async move {
                    if let Ok(tls) = confirmation.await {
                        let _ = reports.send(Report::Confirmed { connection: id, tls: Box::new(tls) });
                    }
                }));
            }
            match connected.version {
                Version::HTTP_2 => {
                    drop(tokio::spawn(http2::run(connected.io, id, settings.http2, timeouts, taken, reports)));
                }
                _ => drop(tokio::spawn(h1::run(connected.io, id, timeouts, taken, called_back, reports))),
            }
        }
    }
    ConnectionHandle { jobs, call_backs }
}

struct Dispatch {
    shared: Arc<Shared>,
    origin: Origin,
    scheduler: Scheduler,
    jobs: HashMap<JobId, Job>,
    lines: HashMap<ConnectionId, ConnectionHandle>,
    /// Why the last attempt to connect failed.
    failure: Option<ConnectError>,
    last_job: u64,
    /// Who waits until everything up to a request is settled.
    settling: Vec<(JobId, oneshot::Sender<()>)>,
    reports: mpsc::UnboundedSender<Report>,
    opened: mpsc::UnboundedSender<Opened>,
}

/// Serves an origin until nobody can ask for more and all is done.
pub(crate) async fn run(
    shared: Arc<Shared>,
    origin: Origin,
    known: PipeliningHistory,
    mut demands: mpsc::UnboundedReceiver<Demand>,
) {
    let limits = Limits {
        connections: shared.settings.connections.max(1),
        pipelining: shared.settings.pipelining,
        choice: shared.settings.choice,
        shares: shared.settings.versions.share(),
    };
    let (reports, mut reported) = mpsc::unbounded_channel();
    let (opened, mut opens) = mpsc::unbounded_channel();
    let mut dispatch = Dispatch {
        shared,
        origin,
        scheduler: Scheduler::new(limits, known),
        jobs: HashMap::new(),
        lines: HashMap::new(),
        failure: None,
        last_job: 0,
        settling: Vec::new(),
        reports,
        opened,
    };
    let (mut demanded, idle) = (true, dispatch.shared.settings.timeouts.idle);
    let mut clock = tokio::time::interval((idle / 4).max(LOOK));
    while demanded || !dispatch.scheduler.is_at_rest() {
        let wake = dispatch.scheduler.wake();
        tokio::select! {
            biased;
            Some(report) = reported.recv() => dispatch.report(report),
            Some(opened) = opens.recv() => dispatch.open(opened),
            demand = demands.recv(), if demanded => {
                demanded = demand.is_some();
                if let Some(demand) = demand {
                    dispatch.demand(demand);
                }
            }
            _ = clock.tick() => dispatch.scheduler.tick(idle, now()),
            () = sleep_until(wake.unwrap_or_else(Instant::now).into()), if wake.is_some() => {
                dispatch.scheduler.tick(idle, now());
            }
        }
        if !demanded {
            dispatch.scheduler.retire_all();
            dispatch.jobs.clear();
        }
        dispatch.act();
        dispatch.settle();
    }
}

impl Dispatch {
    fn demand(&mut self, demand: Demand) {
        let asking = match demand {
            Demand::Warm(connections) => return self.scheduler.warm(connections),
            Demand::Settle(settled) => return self.settling.push((JobId(self.last_job), settled)),
            Demand::Request(asking) => asking,
        };
        let (request, reply) = (*asking.request, asking.reply);
        let mut shape = shape(self.next_job(), &request);
        let marks = Some(shape.marks);
        self.jobs.insert(shape.id, Job { id: shape.id, request, reply, sendings: 0, follows: false, marks });
        if let Some(Asking { request, reply, .. }) = asking.follower.map(|follower| *follower) {
            let id = self.next_job();
            shape.follower = Some(id);
            let marks = Some(Marks::of(&request));
            self.jobs.insert(id, Job { id, request: *request, reply, sendings: 0, follows: true, marks });
        }
        self.scheduler.submit(shape, now());
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
        self.shared.note(&self.origin, dialed.facts().clone());
        let line = start_connection(dialed, id, &self.shared.settings, &self.reports);
        self.lines.insert(id, line);
    }

    fn report(&mut self, report: Report) {
        let now = now();
        match report {
            Report::Head { connection, job, told } => self.scheduler.head(connection, job, &told, now),
            Report::Done { connection, job, sent, received, window } => {
                self.scheduler.done(connection, job, (sent, received), window, now);
            }
            Report::Abandoned { connection, job } => self.scheduler.dropped(connection, job, now),
            Report::Confirmed { connection, tls } => {
                self.shared.confirm(&self.origin, *tls);
                self.scheduler.confirmed(connection, now);
            }
            Report::Draining { connection, cause } => self.scheduler.draining(connection, &cause, now),
            Report::Unmarked(believed) => self.scheduler.unmarked(believed),
            Report::Stalled { connection, job } => self.scheduler.stalled(connection, job, now),
            Report::Returned { connection, job, sent, cause } => {
                let id = job.id;
                self.jobs.insert(id, *job);
                self.scheduler.returned(connection, id, sent, &cause, now);
            }
            Report::Streams { connection, limit, windows } => {
                self.shared.see(&self.origin, windows);
                self.scheduler.streams(connection, limit, now);
            }
            Report::Closed { connection, cause, unanswered } => {
                self.lines.remove(&connection);
                if matches!(cause, Cause::TimedOut(Step::Quic, _)) {
                    self.shared.lost_quic(&self.origin);
                }
                let fates: Vec<(JobId, Sent)> = unanswered.iter().map(|(job, sent)| (job.id, *sent)).collect();
                self.jobs.extend(unanswered.into_iter().map(|(job, _)| (job.id, job)));
                self.scheduler.closed(connection, &cause, &fates, now);
            }
        }
        self.shared.learn(&self.origin, self.scheduler.pipelining_history());
    }

    /// Carries out what was decided.
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
                    Action::Retire(connection) => drop(self.lines.remove(&connection)),
                    Action::CallBack { connection, behind, sent } => {
                        if let Some(line) = self.lines.get(&connection) {
                            let _ = line.call_backs.send(CallBack { behind, sent });
                        }
                    }
                    Action::Fail { job, cause, undecided } => {
                        let Some(job) = self.jobs.remove(&job) else { continue };
                        let asked = Asked::of(&job.request);
                        let error = match self.failure.take_if(|_| self.lines.is_empty() && !undecided) {
                            // Why nothing can be asked there at all.
                            Some(failure) => self.failure.insert(failure).clone().into(),
                            None if undecided => Error::Undecided { asked, cause: cause.0 },
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
        if job.sendings > 0 {
            self.shared.sign_again(&self.origin, &mut job.request);
        }
        let refused = match self.lines.get(&connection) {
            Some(line) => line.jobs.send(job).err().map(|error| error.0),
            None => Some(job),
        };
        // The connection has ended, and its report, which knows nothing of this job, is on the way.
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

/// What the scheduler needs to know of a request.
fn shape(id: JobId, request: &Request<Body>) -> Shape {
    let options = request.extensions().get::<Options>().cloned().unwrap_or_default();
    let repeatable = is_idempotent(request.method()) && request.body().is_repeatable();
    let comes = options.expected.length.or_else(|| range_length(request.headers())).unwrap_or(0);
    let bytes = request.body().length().unwrap_or(0) + comes;
    let consented = is_safe(request.method()) || options.pipeline;
    Shape {
        id,
        repeatable,
        pipelinable: repeatable && consented && !options.alone && *request.method() != Method::CONNECT,
        safe: is_safe(request.method()),
        early: is_safe(request.method()) && request.body().is_repeatable() && !options.late,
        sending: request.body().length().is_none_or(|length| length > 4096),
        class: if bytes > BIG { Class::Large } else { options.class },
        bytes,
        marks: Marks::of(request),
        follower: None,
        follows: false,
    }
}

/// How much a range asks for, if it is one and has an end.
fn range_length(headers: &HeaderMap) -> Option<u64> {
    let (first, last) = headers.get(RANGE)?.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
}

pub(crate) fn now() -> Moment {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    Moment { instant: Instant::now(), seconds }
}
