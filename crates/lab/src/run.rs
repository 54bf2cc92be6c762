//! Running a plan: one sample after another, each on a testbed of its own.
//!
//! One sample: create a testbed, start the server on its host, create the files of the work, prepare the contender.
//! Then the clock runs until the contender says it is done *and* every byte is in its place. Then requests and
//! connections are counted, and everything is torn down. Contenders take turns ([`Plan::blocks`]). A sample counts if
//! all of that succeeds. A sample that other programs on the machine have disturbed is taken again
//! ([`disturbance`](crate::disturbance)).
//!
//! A failure is either the contender's or the lab's. A contender that fails, or exceeds the time limit, drops out of
//! that cell, and the others go on. If the lab fails (a server does not start, a cable cannot be created, the disk is
//! full), every further sample would fail in the same way, so the run ends there and keeps its results.

pub(crate) mod captures;
mod explain_captures;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant, SystemTime},
};

use link::cable::CableError;

use crate::{
    certs::{CertError, Certificates},
    contenders::{self, Contender, Failure, Pc},
    deadline::Deadline,
    disturbance::{
        meter::{Meter, MeteredHost},
        repeats::{self, Repeats},
        tasks::Tasks,
    },
    experiment::{Block, Cell, Plan},
    process::ProcessError,
    results::{Outcome, Sample, SampleLog, Syns},
    servers::{self, Running, Server, ServerError, Setup},
    testbed::{Testbed, TestbedError},
    work::{Payload, Work, WorkError},
};
use captures::{Captures, NotKept};

/// The folder of the work on the server.
const FOLDER: &str = "work";

/// Time limit for starting a server.
const SERVER_START: Duration = Duration::from_secs(10);

/// The parameters of a run.
pub struct Run<'a> {
    /// What to measure.
    pub plan: &'a Plan,
    /// The server.
    pub server: &'a dyn Server,
    /// Whether to use HTTPS.
    pub tls: bool,
    /// The seed of the files' bytes and the contenders' order.
    pub seed: u64,
    /// The time limit of one sample, the contender's preparation included.
    pub sample_timeout: Duration,
    /// An empty folder on a fast file system, for all files of a sample.
    pub scratch: &'a Path,
    /// The folder for the captures of each cell: of its typical sample, and of the slowest if it is an outlier.
    pub captures: &'a Path,
    /// Cancels the run when it becomes true.
    pub cancel: Arc<AtomicBool>,
}

/// What has just happened, for progress displays.
#[derive(Debug)]
pub enum Event<'a> {
    /// A sample has started.
    Started(&'a Cell),
    /// A sample is finished: its time.
    Finished(&'a Cell, Duration),
    /// A sample was disturbed by the machine, and is taken again.
    Repeated(&'a Cell),
    /// A cell is dropped: the number of samples that will not be taken, and why.
    Dropped(&'a Cell, u32, &'a str),
}

/// Why a run ended before its plan did.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The user cancelled it.
    #[error("interrupted")]
    Interrupted,
    /// The lab failed, in one sentence.
    #[error("{0}")]
    Broken(String),
}

/// Why a sample was not measured.
#[derive(Debug, thiserror::Error)]
enum SampleError {
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    #[error(transparent)]
    Cable(#[from] CableError),
    #[error(transparent)]
    Certificates(#[from] CertError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("cannot create the files of the work: {0}")]
    Layout(WorkError),
    #[error(transparent)]
    Contender(#[from] Failure),
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error("the server exited: {0}")]
    ServerEnded(ProcessError),
    #[error("cannot create the folder {}: {error}", path.display())]
    Folder { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Capture(#[from] NotKept),
}

impl SampleError {
    /// Whether the contender may have caused it.
    fn is_contender_fault(&self) -> bool {
        matches!(self, Self::Contender(_) | Self::Work(_) | Self::ServerEnded(_))
    }
}

/// A run whose samples are being taken.
struct Measuring {
    start: Instant,
    repeats: Repeats,
}

impl Run<'_> {
    /// Runs the plan. Returns one outcome for each cell, and why the run ended early if it did. Each sample is in `log`
    /// as soon as it is taken.
    pub fn run(&self, log: &mut SampleLog, mut watch: impl FnMut(Event<'_>)) -> (Vec<Outcome>, Result<(), Halt>) {
        let contenders: Vec<_> = self.plan.cells.iter().map(contender).collect();
        let mut outcomes: Vec<_> = self
            .plan
            .cells
            .iter()
            .zip(&contenders)
            .map(|(cell, contender)| self.initial_outcome(cell, contender))
            .collect();
        for (cell, outcome) in self.plan.cells.iter().zip(&outcomes) {
            if let Outcome::Skipped(why) = outcome {
                watch(Event::Dropped(cell, self.plan.samples, why));
            }
        }
        let ended = self.run_blocks(&contenders, &mut outcomes, log, watch);
        (outcomes, ended)
    }

    fn run_blocks(
        &self,
        contenders: &[Result<Box<dyn Contender>, String>],
        outcomes: &mut [Outcome],
        log: &mut SampleLog,
        mut watch: impl FnMut(Event<'_>),
    ) -> Result<(), Halt> {
        let mut measuring = Measuring { start: Instant::now(), repeats: Repeats::default() };
        for block in self.plan.blocks(self.seed) {
            let ended = self.run_block(&block, &mut measuring, contenders, outcomes, log, &mut watch);
            let cells = block.rounds.first().into_iter().flatten();
            let kept = cells.map(|cell| self.captures().settle(&self.plan.cells[*cell], outcomes[*cell].samples()));
            let kept = kept.collect::<Result<(), NotKept>>();
            ended?;
            kept.map_err(broken)?;
        }
        Ok(())
    }

    fn run_block(
        &self,
        block: &Block,
        measuring: &mut Measuring,
        contenders: &[Result<Box<dyn Contender>, String>],
        outcomes: &mut [Outcome],
        log: &mut SampleLog,
        watch: &mut impl FnMut(Event<'_>),
    ) -> Result<(), Halt> {
        for (round, cells) in (0..).zip(&block.rounds) {
            for &index in cells {
                let cell = &self.plan.cells[index];
                let (Outcome::Done(samples), Ok(contender)) = (&mut outcomes[index], &contenders[index]) else {
                    continue;
                };
                if self.is_cancelled() {
                    return Err(Halt::Interrupted);
                }
                watch(Event::Started(cell));
                match self.least_disturbed(cell, contender.as_ref(), round, measuring, watch) {
                    Ok(sample) => {
                        let logged = log.append(cell, &sample);
                        watch(Event::Finished(cell, Duration::from_secs_f64(sample.seconds)));
                        samples.push(sample);
                        logged.map_err(broken)?;
                    }
                    Err(_) if self.is_cancelled() => return Err(Halt::Interrupted),
                    Err(error) if error.is_contender_fault() => {
                        let why = error.to_string();
                        watch(Event::Dropped(cell, self.plan.samples - round, &why));
                        outcomes[index] = Outcome::Failed { why, samples: std::mem::take(samples) };
                    }
                    Err(error) => return Err(broken(error)),
                }
            }
        }
        Ok(())
    }

    /// A sample, taken again while the machine disturbs it and it is worth it; the attempt that was disturbed least.
    fn least_disturbed(
        &self,
        cell: &Cell,
        contender: &dyn Contender,
        round: u32,
        measuring: &mut Measuring,
        watch: &mut impl FnMut(Event<'_>),
    ) -> Result<Sample, SampleError> {
        let mut best: Option<Sample> = None;
        let mut repeated = 0;
        loop {
            let start_s = measuring.start.elapsed().as_secs_f64();
            let sample = match (self.sample(cell, contender, round, best.as_ref()), &best) {
                (Ok(sample), _) => Sample { start_s, ..sample },
                // What was measured before counts, whatever became of its repeat.
                (Err(error), Some(best)) if error.is_contender_fault() || self.is_cancelled() => {
                    return Ok(Sample { repeated, ..best.clone() });
                }
                (Err(error), _) => return Err(error),
            };
            let again = measuring.repeats.again(repeated, sample.is_disturbed());
            if best.as_ref().is_none_or(|best| is_better(&sample, best)) {
                best = Some(sample);
            }
            if let Some(best) = best.as_ref().filter(|_| !again || self.is_cancelled()) {
                return Ok(Sample { repeated, ..best.clone() });
            }
            watch(Event::Repeated(cell));
            self.pause(repeats::PAUSE);
            repeated += 1;
        }
    }

    /// Waits, unless the run is cancelled.
    fn pause(&self, time: Duration) {
        let deadline = Deadline::new(time, self.cancel.clone());
        while deadline.check().is_ok() {
            std::thread::sleep(deadline.slice());
        }
    }

    fn captures(&self) -> Captures<'_> {
        Captures::new(self.captures, &self.plan.cells)
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The outcome of a cell before its first sample: skipped, or none yet.
    fn initial_outcome(&self, cell: &Cell, contender: &Result<Box<dyn Contender>, String>) -> Outcome {
        match contender {
            Err(why) => Outcome::Skipped(why.clone()),
            Ok(contender) => {
                let own = own_server(contender.as_ref());
                let obstacle = contenders::obstacle(
                    contender.as_ref(),
                    &cell.workload.work,
                    own.as_deref().unwrap_or(self.server),
                    contender.tls(self.tls),
                    link::sandbox::is_root(),
                );
                obstacle.map_or(Outcome::Done(Vec::new()), Outcome::Skipped)
            }
        }
    }

    /// One sample, in a folder of its own that is removed afterwards. Its capture is kept if it is better than `best`, an
    /// earlier attempt.
    fn sample(
        &self,
        cell: &Cell,
        contender: &dyn Contender,
        round: u32,
        best: Option<&Sample>,
    ) -> Result<Sample, SampleError> {
        let folder = self.scratch.join("sample");
        let made = fs::create_dir_all(&folder);
        made.map_err(|error| SampleError::Folder { path: folder.clone(), error })?;
        let result = self.sample_in(&folder, cell, contender, round, best);
        let _ = fs::remove_dir_all(&folder);
        result
    }

    fn sample_in(
        &self,
        folder: &Path,
        cell: &Cell,
        contender: &dyn Contender,
        round: u32,
        best: Option<&Sample>,
    ) -> Result<Sample, SampleError> {
        let capture = folder.join("client.pcapng");
        let testbed = Testbed::create(&cell.network, contender.needs_pc(), &capture)?;
        let measured = self.measure(&testbed, folder, cell, contender);
        // If the link broke, the contender is not to blame.
        let broken = testbed.check().map_err(SampleError::from);
        let (took, sample) = measured.or_else(|error| broken.and(Err(error)))?;
        let captured = testbed.end()?;
        let rtt = cell.network.rtt();
        let link_round_trips = sample.began.map(|began| captured.round_trips(began, took, rtt)).transpose()?.flatten();
        let sample = Sample { syns: Some(Syns::of(&captured.all.connections)), link_round_trips, ..sample };
        // Only the second of two times counts.
        let work = &cell.workload.work;
        let since = sample.began.filter(|_| work.is_load() || work.is_warm());
        let traffic = since.map(|began| captured.since(began)).transpose()?.unwrap_or(captured.all);
        let sample = Sample {
            round,
            seconds: took.as_secs_f64(),
            bytes: Some(traffic.inbound.bytes + traffic.outbound.bytes),
            connections: Some(traffic.connections.len() as u64),
            ..sample
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let machine = sample.machine.clone().map(|machine| machine.judged(sample.measured(rtt), processors));
        let sample = Sample { machine, ..sample };
        if best.is_none_or(|best| is_better(&sample, best)) {
            self.captures().take(&capture, cell, round)?;
        }
        Ok(sample)
    }

    /// Lets the contender do its work, and checks it against the server's files and log.
    fn measure(
        &self,
        testbed: &Testbed,
        folder: &Path,
        cell: &Cell,
        contender: &dyn Contender,
    ) -> Result<(Duration, Sample), SampleError> {
        let address = testbed.server_address();
        let tls = contender.tls(self.tls);
        let page = if let Work::Load { page } = &cell.workload.work { Some(page) } else { None };
        let hosts = page.map(|page| page.0.hosts()).unwrap_or_default();
        let share = testbed.share_address();
        let addresses: Vec<_> = [Some(address), share].into_iter().flatten().map(|address| address.ip()).collect();
        let certificates = tls.then(|| Certificates::make(folder, &addresses, &hosts)).transpose()?;
        let certificates = certificates.as_ref();
        let setup = Setup {
            host: &testbed.server,
            address,
            certificates,
            http: contender.http(tls),
            asks: contender.signs_in(),
            page,
            scratch: &folder.join("server"),
            deadline: Deadline::new(SERVER_START, self.cancel.clone()),
        };
        let own = own_server(contender);
        let server = own.as_deref().unwrap_or(self.server).start(&setup)?;
        let task =
            Payload::new(cell.workload.work.clone(), self.seed).task(folder, FOLDER).map_err(SampleError::Layout)?;
        let root = server.root().to_owned();
        task.prepare_server(&root, server.owner()).map_err(SampleError::Layout)?;
        let tasks = Tasks::new(server.threads()).map(Arc::new);
        let metered = |host| MeteredHost { host, tasks: tasks.clone() };
        let (client, pc) = (metered(&testbed.client), testbed.pc.as_ref().map(metered));
        let sample = contenders::SampleSetup {
            client: &client,
            pc: pc.as_ref().zip(share).map(|(host, share)| Pc { host, share }),
            address,
            url: format!("{}{FOLDER}/", server.url()),
            certificates,
            task: &task,
            root: &root,
            scratch: folder,
            deadline: Deadline::new(self.sample_timeout, self.cancel.clone()),
        };
        timed(contender, &sample, server, || Meter::start(testbed, tasks.clone()))
    }
}

/// Runs a prepared contender within the clock, and checks its work.
fn timed<'a>(
    contender: &dyn Contender,
    sample: &contenders::SampleSetup<'_>,
    mut server: Running,
    meter: impl FnOnce() -> Result<Meter<'a>, CableError>,
) -> Result<(Duration, Sample), SampleError> {
    let mut prepared = contender.prepare(sample)?;
    server.mark();
    let before = server.processor_time();
    let meter = meter()?;
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok();
    let start = Instant::now();
    let done = prepared.run()?;
    let end = sample.task.wait_done(sample.root, &done, &sample.deadline)?;
    let machine = meter.stop()?;
    let used = server.processor_time().zip(before).map(|(after, before)| after.saturating_sub(before));
    // Locks may be released after the work is done, but before the contender has finished.
    prepared.finish()?;
    let requests = server.requests();
    sample.task.verify_requests(&requests, &done)?;
    server.check().map_err(SampleError::ServerEnded)?;
    server.stop();
    let counts = Sample {
        began,
        methods: Some(requests.methods),
        protocols: Some(requests.protocols),
        server_cpu_s: used.map(|used| used.as_secs_f64()),
        machine: Some(machine),
        deviations: done.deviations.unwrap_or_default(),
        ..Sample::default()
    };
    Ok((done.took.unwrap_or(end - start), counts))
}

/// Whether the machine disturbed an attempt less than the best one before.
fn is_better(sample: &Sample, best: &Sample) -> bool {
    let rank = |sample: &Sample| (sample.is_disturbed(), sample.disturbance());
    rank(sample) < rank(best)
}

/// The server that a contender prescribes.
fn own_server(contender: &dyn Contender) -> Option<Box<dyn Server>> {
    contender.server().and_then(servers::named)
}

/// A failure of the lab.
fn broken(error: impl std::fmt::Display) -> Halt {
    Halt::Broken(error.to_string())
}

/// The contender of a cell, with its parameters.
fn contender(cell: &Cell) -> Result<Box<dyn Contender>, String> {
    let registered = contenders::all().iter().find(|registered| registered.name == cell.row.contender);
    let registered = registered.ok_or_else(|| format!("unknown contender `{}`", cell.row.contender))?;
    registered.with(&cell.row.settings).map_err(|error| error.to_string())
}
