//! Executing an experiment: from its plan to its results.
//!
//! A run calibrates the emulator, records the machine, takes the samples, explains the captures and summarizes. Once
//! there is a sample nothing discards it: whatever ends the run early, [`Executed`] holds the results until then.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, SystemTime},
};

use link::{
    calibrate::{CalibrateError, calibrate},
    sandbox,
};
use units::Span;

use crate::{
    experiment::{Experiment, Plan},
    live::Stage,
    machine,
    results::{Calibration, Host, Outcome, ResultsError, RunFolder, RunResult, SampleLog},
    run::{Event, Halt, Run},
    servers::Server,
    summarize::{Circumstances, summarize},
    testbed::TestbedError,
};

/// A run that is about to start.
pub struct Execution<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The part of it to run.
    pub plan: &'a Plan,
    /// The server.
    pub server: &'a dyn Server,
    /// The time limit of one sample.
    pub sample_timeout: Span,
    /// The seed of everything random.
    pub seed: u64,
    /// Whether the plan is the experiment's quick part.
    pub is_quick: bool,
    /// The command line, for the record.
    pub command: String,
    /// When the run started.
    pub started: SystemTime,
    /// An empty folder on a fast file system.
    pub scratch: &'a Path,
    /// Cancels the run when it becomes true.
    pub cancel: Arc<AtomicBool>,
}

/// Watches a run.
pub trait Observer {
    /// The run enters a stage.
    fn on_stage(&mut self, stage: Stage);

    /// Something has happened to a cell.
    fn on_event(&mut self, event: &Event<'_>);
}

/// A run that took at least one sample, or ran to its end.
pub struct Executed {
    /// The results.
    pub result: RunResult,
    /// Why the run ended early, if it did.
    pub halt: Option<Halt>,
    /// Whether any cell has a result.
    pub is_measured: bool,
}

/// Why a run has no results.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    /// The user cancelled it before the first sample.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// The emulator could not be calibrated.
    #[error(transparent)]
    Calibrate(#[from] CalibrateError),
    /// The machine could not be recorded.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The samples cannot be written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The lab failed before the first sample.
    #[error(transparent)]
    Halt(Halt),
}

impl Execution<'_> {
    /// Runs the plan. `folder` is kept as soon as there is a sample or the run has ended by itself.
    pub fn execute(self, folder: &mut RunFolder, observer: &mut dyn Observer) -> Result<Executed, ExecutionError> {
        observer.on_stage(Stage::Calibrating);
        let calibration = unless(&self.cancel, calibrate).ok_or(ExecutionError::Interrupted)??;
        let host = machine::record(self.plan, self.server)?;
        let run = Run {
            plan: self.plan,
            server: self.server,
            tls: self.experiment.tls,
            seed: self.seed,
            sample_timeout: self.sample_timeout.into(),
            scratch: self.scratch,
            captures: &folder.captures(),
            cancel: self.cancel.clone(),
        };
        let mut log = SampleLog::create(&folder.samples())?;
        observer.on_stage(Stage::Measuring);
        let (outcomes, ended) = run.run(&mut log, |event| observer.on_event(&event));
        observer.on_stage(Stage::Explaining);
        let reasons = run.explain(&outcomes);
        let is_sampled = outcomes.iter().any(|outcome| !outcome.samples().is_empty());
        match &ended {
            Err(Halt::Interrupted) if !is_sampled => return Err(ExecutionError::Interrupted),
            Err(halt) if !is_sampled => return Err(ExecutionError::Halt(halt.clone())),
            _ => folder.keep(),
        }
        let circumstances = Circumstances {
            started: self.started,
            settings: self.settings(&host),
            contenders: machine::contenders(self.plan),
            host,
            calibration: Some(Calibration::from(&calibration)),
            tls: self.experiment.tls,
            seed: self.seed,
            command: self.command,
        };
        let mut result = summarize(self.experiment, self.plan, &outcomes, circumstances);
        for (cell, why) in result.cells.iter_mut().zip(reasons) {
            cell.why = why;
        }
        let has_result = |outcome: &Outcome| matches!(outcome, Outcome::Done(samples) if !samples.is_empty());
        Ok(Executed { result, halt: ended.err(), is_measured: outcomes.iter().any(has_result) })
    }

    /// The settings of the whole run, as `run.json` records them.
    fn settings(&self, host: &Host) -> BTreeMap<String, String> {
        let congestion_control = host.sysctls.get(machine::CONGESTION_CONTROL).cloned();
        let settings = [
            ("server", self.server.name().to_owned()),
            ("tls", self.experiment.tls.to_string()),
            ("seed", self.seed.to_string()),
            ("quick", self.is_quick.to_string()),
            ("samples", self.plan.samples.to_string()),
            ("patience", self.sample_timeout.to_string()),
            ("congestion control", congestion_control.unwrap_or_else(|| "unknown".to_owned())),
            ("root", sandbox::is_root().to_string()),
        ];
        let warmup = (self.plan.warmup > 0).then(|| ("warmup", self.plan.warmup.to_string()));
        settings.into_iter().chain(warmup).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The result of `f`, or nothing if the run is cancelled before `f` returns.
fn unless<T: Send + 'static>(cancelled: &AtomicBool, f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    const POLL: Duration = Duration::from_millis(50);
    let (sender, result) = mpsc::channel();
    thread::spawn(move || sender.send(f()));
    while !cancelled.load(Ordering::Relaxed) {
        match result.recv_timeout(POLL) {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    None
}
