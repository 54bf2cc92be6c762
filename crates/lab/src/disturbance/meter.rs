//! Measures what the machine does to a sample while its clock runs.

use std::{
    io,
    process::Command,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use link::{cable::CableError, host::Host, lateness::Lateness};

use super::{
    Machine, PressureSource,
    cgroup::Limits,
    processors::Processors,
    tasks::{Tasks, WATCHER, is_real_time},
};
use crate::{spawn::Spawn, testbed::Testbed};

/// The watcher looks again after this many times as long as a look took, so that it uses 0.5 % of a processor.
const REST: u32 = 200;

/// The first look comes after this time, for the sake of short samples.
const FIRST_LOOK: Duration = Duration::from_millis(10);

/// A measurement in progress.
pub(crate) struct Meter<'a> {
    testbed: &'a Testbed,
    watched: Option<Watched>,
    lateness: [Lateness; 2],
    processors: Processors,
    limits: Limits,
    began: Instant,
}

/// The threads of a sample, and the thread that watches them.
struct Watched {
    tasks: Arc<Tasks>,
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Queue>,
}

/// How often more threads wanted a processor than there are.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    looks: u32,
    full: u32,
}

impl<'a> Meter<'a> {
    /// Starts to measure. Without `tasks`, the waits of threads remain unknown.
    pub(crate) fn start(testbed: &'a Testbed, tasks: Option<Arc<Tasks>>) -> Result<Self, CableError> {
        let watched = tasks.and_then(|tasks| Watched::start(tasks).ok());
        let lateness = testbed.lateness()?;
        let (processors, limits) = (Processors::read(), Limits::read());
        if let Some(watched) = &watched {
            watched.tasks.begin();
        }
        Ok(Self { testbed, watched, lateness, processors, limits, began: Instant::now() })
    }

    /// Ends the measurement.
    pub(crate) fn stop(self) -> Result<Machine, CableError> {
        let took = self.began.elapsed();
        let (processors, limits) = (Processors::read(), Limits::read());
        let totals = self.watched.as_ref().map(|watched| {
            watched.tasks.look();
            watched.tasks.totals()
        });
        let queue = self.watched.map(Watched::stop).unwrap_or_default();
        let [up, down] = self.testbed.lateness()?;
        let (up, down) = (up.since(&self.lateness[0]), down.since(&self.lateness[1]));
        let mut both = up.clone();
        both.merge(&down);
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let seconds = |time: Duration| time.as_secs_f64();
        let psi = processors.pressure.zip(self.processors.pressure).map(|(now, then)| now.saturating_sub(then));
        let share = f64::from(queue.full) / f64::from(queue.looks.max(1));
        let (pressure_s, source) = match psi {
            Some(pressure) => (seconds(pressure), PressureSource::Psi),
            None => (share * seconds(took), PressureSource::RunQueue),
        };
        let busy = processors.busy.saturating_sub(self.processors.busy);
        Ok(Machine {
            client_wait_s: totals.map(|totals| seconds(totals.client.all)),
            client_longest_wait_s: totals.map(|totals| seconds(totals.client.longest)),
            server_wait_s: totals.map(|totals| seconds(totals.server.all)),
            server_longest_wait_s: totals.map(|totals| seconds(totals.server.longest)),
            others_s: totals.map(|totals| seconds(busy.saturating_sub(totals.ran))),
            own_s: totals.map(|totals| seconds(totals.ran)),
            to_server_s: totals.map(|totals| seconds(totals.to_server_ran)),
            real_time: is_real_time(),
            stolen_s: seconds(processors.stolen.saturating_sub(self.processors.stolen)),
            throttled_s: seconds(limits.since(&self.limits)),
            pressure_s,
            pressure_source: source,
            late_p50_us: us(both.quantile(0.5)),
            late_p99_us: us(both.quantile(0.99)),
            late_max_us: us(both.max()),
            late_round_trip_us: us(up.mean() + down.mean()),
            ..Machine::default()
        })
    }
}

impl Watched {
    fn start(tasks: Arc<Tasks>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let watched = tasks.clone();
        let thread = thread::Builder::new().name(WATCHER.to_owned()).spawn(move || watch(&watched, &stopped))?;
        Ok(Self { tasks, stop, thread })
    }

    fn stop(self) -> Queue {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(tasks: &Tasks, stopped: &mpsc::Receiver<()>) -> Queue {
    let processors = thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    let mut queue = Queue::default();
    let mut rest = FIRST_LOOK;
    while stopped.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
        let start = Instant::now();
        // The watcher itself is running.
        let others = Processors::read().running.saturating_sub(1);
        queue.looks += 1;
        queue.full += u32::from(others > processors);
        tasks.look();
        rest = (start.elapsed() * REST).max(FIRST_LOOK);
    }
    queue
}

/// A host whose threads and programs have their waits counted when they end.
pub(crate) struct MeteredHost<'a> {
    pub(crate) host: &'a Host,
    pub(crate) tasks: Option<Arc<Tasks>>,
}

impl Spawn for MeteredHost<'_> {
    fn prepare(&self, command: &mut Command) {
        self.host.attach(command);
    }

    fn thread(&self, name: &str, f: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        let tasks = self.tasks.clone();
        self.host.thread(name, move || {
            f();
            if let Some(tasks) = tasks {
                tasks.end_thread();
            }
        })
    }

    fn ended(&self, process: i32) {
        if let Some(tasks) = &self.tasks {
            tasks.ended(process);
        }
    }

    fn end_programs(&self, grace: Duration) {
        Spawn::end_programs(self.host, grace);
    }
}
