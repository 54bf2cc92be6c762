//! Running a plan: sample after sample, each in a world of its own.
//!
//! One sample: a world is made, the server started on its host, the work laid out, the contender
//! prepared; then the clock runs until the contender says it is done *and* every byte is where it
//! must be; then the requests and connections are counted and everything is torn down. Rivals take
//! turns ([`Plan::blocks`]). A contender that fails is not asked again for that cell.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use crate::{
    bounds::Bounds,
    certs::{CertError, Certificates},
    contenders::{self, Contender, Failure, Pc},
    experiment::{Cell, Plan},
    process::ProcessError,
    results::{Outcome, Sample},
    servers::{Server, ServerError, Setup},
    work::{Payload, WorkError},
    world::{World, WorldError},
};

/// The folder of the work on the server.
const FOLDER: &str = "work";

/// What a run is done with.
pub struct Run<'a> {
    /// What is measured.
    pub plan: &'a Plan,
    /// Over which server.
    pub server: &'a dyn Server,
    /// Over HTTPS.
    pub tls: bool,
    /// The bytes of the work and the order of the contenders follow from it.
    pub seed: u64,
    /// The most time for one sample, preparation included.
    pub patience: Duration,
    /// An empty folder, quick to write, for all that samples need.
    pub scratch: &'a Path,
    /// The folder that gets one capture for each cell: that of its last sample.
    pub captures: &'a Path,
    /// Becomes true when the user wants no more.
    pub cancel: Arc<AtomicBool>,
}

/// What has just happened, for whoever shows progress.
#[derive(Debug)]
pub enum Event<'a> {
    /// A sample begins.
    Begins(&'a Cell),
    /// It took so long.
    Took(&'a Cell, Duration),
    /// So many samples of it will not be measured, and why.
    Drops(&'a Cell, u32, &'a str),
}

/// Why a sample was not measured.
#[derive(Debug, thiserror::Error)]
enum SampleError {
    #[error(transparent)]
    World(#[from] WorldError),
    #[error(transparent)]
    Certificates(#[from] CertError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Contender(#[from] Failure),
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error("the server ended: {0}")]
    ServerEnded(ProcessError),
    #[error("cannot make {}: {error}", path.display())]
    Folder { path: PathBuf, error: std::io::Error },
}

impl Run<'_> {
    /// Runs the plan to its end or until it is cancelled; one outcome for each cell of the plan.
    pub fn run(&self, mut watch: impl FnMut(Event<'_>)) -> Vec<Outcome> {
        let start = Instant::now();
        let contenders: Vec<_> = self.plan.cells.iter().map(contender).collect();
        let mut outcomes: Vec<_> =
            self.plan.cells.iter().zip(&contenders).map(|(cell, contender)| self.outlook(cell, contender)).collect();
        for (cell, outcome) in self.plan.cells.iter().zip(&outcomes) {
            if let Outcome::Skipped(why) = outcome {
                watch(Event::Drops(cell, self.plan.samples, why));
            }
        }
        for block in self.plan.blocks(self.seed) {
            for (round, cells) in (0..).zip(&block.rounds) {
                for &index in cells {
                    let cell = &self.plan.cells[index];
                    let (Outcome::Done(samples), Ok(contender)) = (&mut outcomes[index], &contenders[index]) else {
                        continue;
                    };
                    if self.is_cancelled() {
                        return outcomes;
                    }
                    watch(Event::Begins(cell));
                    let start_s = start.elapsed().as_secs_f64();
                    match self.sample(cell, contender.as_ref()) {
                        Ok((took, counts)) => {
                            samples.push(Sample { round, start_s, seconds: took.as_secs_f64(), ..counts });
                            watch(Event::Took(cell, took));
                        }
                        Err(_) if self.is_cancelled() => return outcomes,
                        Err(error) => {
                            let why = error.to_string();
                            watch(Event::Drops(cell, self.plan.samples - round, &why));
                            outcomes[index] = Outcome::Failed(why);
                        }
                    }
                }
            }
        }
        outcomes
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// What is known of a cell before it has run.
    fn outlook(&self, cell: &Cell, contender: &Result<Box<dyn Contender>, String>) -> Outcome {
        match contender {
            Err(why) => Outcome::Skipped(why.clone()),
            Ok(contender) => {
                let obstacle = contenders::obstacle(
                    contender.as_ref(),
                    &cell.workload.work,
                    self.server,
                    self.tls,
                    link::sandbox::is_root(),
                );
                obstacle.map_or(Outcome::Done(Vec::new()), Outcome::Skipped)
            }
        }
    }

    /// One sample, in a folder of its own that is removed after.
    fn sample(&self, cell: &Cell, contender: &dyn Contender) -> Result<(Duration, Sample), SampleError> {
        let folder = self.scratch.join("sample");
        let made = fs::create_dir_all(&folder);
        made.map_err(|error| SampleError::Folder { path: folder.clone(), error })?;
        let result = self.sample_in(&folder, cell, contender);
        let _ = fs::remove_dir_all(&folder);
        result
    }

    fn sample_in(
        &self,
        folder: &Path,
        cell: &Cell,
        contender: &dyn Contender,
    ) -> Result<(Duration, Sample), SampleError> {
        let bounds = Bounds::new(self.patience, self.cancel.clone());
        let capture = folder.join("client.pcapng");
        let world = World::make(&cell.network.link, contender.needs_pc(), &capture)?;
        let address = world.server_address();
        let certificates = self.tls.then(|| Certificates::make(folder, &[address.ip()])).transpose()?;
        let certificates = certificates.as_ref();
        let setup = Setup {
            place: &world.server,
            address,
            certificates,
            http: contender.http(self.tls),
            scratch: &folder.join("server"),
            bounds: bounds.clone(),
        };
        let mut server = self.server.start(&setup)?;
        let task = Payload::new(cell.workload.work, self.seed).task(folder, FOLDER)?;
        task.prepare_server(server.root(), server.owner())?;
        let share = world.share_address();
        let sample = contenders::Sample {
            client: &world.client,
            pc: world.pc.as_ref().zip(share).map(|(place, share)| Pc { place, share }),
            url: format!("{}{FOLDER}/", server.url()),
            certificates,
            task: &task,
            scratch: folder,
            bounds: bounds.clone(),
        };
        let mut prepared = contender.prepare(&sample)?;
        server.mark();
        let start = Instant::now();
        let done = prepared.run()?;
        let end = task.wait_done(server.root(), &done, &bounds)?;
        let methods = server.requests().0;
        prepared.finish()?;
        server.check().map_err(SampleError::ServerEnded)?;
        server.stop();
        let seen = world.end()?;
        let name = format!("{}-{}-{}.pcapng", cell.workload.name, cell.network.name, cell.row.name().replace(' ', "-"));
        let kept = self.captures.join(name);
        fs::copy(&capture, &kept).map_err(|error| SampleError::Folder { path: kept, error })?;
        let counts = Sample {
            round: 0,
            start_s: 0.0,
            seconds: 0.0,
            bytes: Some(seen.inbound.bytes + seen.outbound.bytes),
            methods: Some(methods),
            connections: Some(seen.connections.len() as u64),
        };
        Ok((end - start, counts))
    }
}

/// The contender of a cell, with its parameters.
fn contender(cell: &Cell) -> Result<Box<dyn Contender>, String> {
    let registered = contenders::all().iter().find(|registered| registered.name == cell.row.contender);
    let registered = registered.ok_or_else(|| format!("there is no contender `{}`", cell.row.contender))?;
    registered.with(&cell.row.settings).map_err(|error| error.to_string())
}
