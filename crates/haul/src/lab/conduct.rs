//! Conducting an experiment, from its text to its table.
//!
//! What is wrong with the request is told before anything is begun, and what the machine lacks before
//! anything is measured; then no folder stays behind. Once there is a sample it is not given up for
//! anything: whatever ends the run, what was measured until then is kept, and shown even where it
//! cannot be kept.

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use lab::{
    experiment::{Experiment, Plan, Selection, nearest},
    live::{Live, Stage},
    machine,
    results::{self, Calibration, Host, Outcome, SampleLog},
    run::{Halt, Run},
    servers::{self, Server},
    summarize::{Circumstances, summarize},
    testbed,
};
use link::{calibrate::calibrate, sandbox};
use report::live::Door;
use units::Span;

use super::{
    REPORT, RunOptions, capture_reports,
    interrupt::ask_to_end,
    live::{self, Telling},
    progress::Progress,
    read, save_report, show, usage,
};
use crate::say;

/// How an experiment is conducted, whatever it is.
#[derive(clap::Args)]
pub(crate) struct How {
    /// The most time for one sample
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = crate::patience)]
    patience: Span,

    /// Seed of everything random: the files' bytes, the order of the contenders
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Serve a page on loopback that shows its results as they come, and say at which address
    #[arg(long)]
    open: bool,

    #[command(flatten)]
    json: super::Json,
}

/// Runs an experiment that is called by its name.
pub(super) fn run(name: &str, options: &RunOptions) -> Result<ExitCode, Box<dyn Error>> {
    let (mut experiment, plan) = plan(name, options)?;
    experiment.tls &= !options.plain;
    let server = choose_server(&experiment, options.server.as_deref())?;
    conduct(&experiment, &plan, server.as_ref(), options.quick, &options.place.runs, &options.how)
}

/// Runs an experiment, shows what it found and keeps it in a folder.
pub(crate) fn conduct(
    experiment: &Experiment,
    plan: &Plan,
    server: &dyn Server,
    quick: bool,
    runs: &Path,
    options: &How,
) -> Result<ExitCode, Box<dyn Error>> {
    let tls = experiment.tls;
    let started = SystemTime::now();
    let began = Instant::now();
    // Loopback is another one in the sandbox.
    let door = options.open.then(Door::open).transpose();
    let door = door.map_err(|error| format!("cannot listen on 127.0.0.1: {error}"))?;
    let sandbox = sandbox::enter()?;
    let cancel = Arc::new(AtomicBool::new(false));
    let place = Arc::new(Place::default());
    let (asked, of_run) = (cancel.clone(), place.clone());
    let end = move || ask_to_end(&asked, &of_run);
    let on_page = end.clone();
    sandbox.on_signal(move |_| end())?;

    let mut folder = Folder::create(runs, &experiment.name, started, place)?;
    check_lasting(&folder.path)?;
    if let Some(json) = options.json.json.as_deref().filter(|json| *json != Path::new("-")) {
        check_lasting(json)?;
    }
    let scratch =
        testbed::furnish(&sandbox).map_err(|error| format!("cannot mount a tmpfs on {}: {error}", testbed::RUN))?;
    machine::check_room(plan, &scratch)?;
    if let Some(door) = &door {
        say(format_args!("watch it at {}", door.url()));
    }
    let live = Live::new(experiment, plan, tls, started);
    let telling = Telling::start(live, &folder.path, door, began, on_page)
        .map_err(|error| format!("cannot tell of the run: {error}"))?;
    let mut progress = Progress::new(plan);
    progress.say("measuring how true the emulator is here");
    let calibration = unless(&cancel, calibrate).ok_or("interrupted before anything was measured")??;
    let host = machine::record(plan, server)?;
    let run = Run {
        plan,
        server,
        tls,
        seed: options.seed,
        patience: options.patience.into(),
        scratch: &scratch,
        captures: &captures(&folder.path),
        cancel,
    };
    let mut log = SampleLog::create(&samples(&folder.path))?;
    telling.enter(Stage::Measuring);
    let (outcomes, ended) = run.run(&mut log, |event| {
        telling.hear(&event);
        progress.show(&event);
    });
    telling.enter(Stage::Explaining);
    progress.say("looking through the packets for what the time was spent on");
    let reasons = run.explain(&outcomes);
    drop(progress);
    let taken = outcomes.iter().any(|outcome| !outcome.samples().is_empty());
    match &ended {
        Err(Halt::Interrupted) if !taken => return Err("interrupted before anything was measured".into()),
        Err(halt) if !taken => return Err(halt.to_string().into()),
        _ => folder.keep(),
    }

    let settings = settings(options, server, tls, quick, plan.samples, &host);
    let circumstances = Circumstances {
        started,
        host,
        calibration: Some(Calibration::from(&calibration)),
        command: command(),
        settings,
        tls,
        seed: options.seed,
    };
    let mut result = summarize(experiment, plan, &outcomes, circumstances);
    for (cell, why) in result.cells.iter_mut().zip(reasons) {
        cell.why = why;
    }
    let kept = results::write(&folder.path.join("run.json"), &result);
    let shown = show(&result, &options.json);
    capture_reports::write(&folder.path, &result, || ended.is_err());
    let reported = save_report(&folder.path.join(REPORT), &result);
    telling.finish();

    let place = folder.path.display();
    kept.map_err(|error| {
        format!("{error}; the results are shown above and nowhere else, the samples in {place}/samples.csv")
    })?;
    shown.map_err(|error| format!("{error}; the results are kept in {place}"))?;
    reported.map_err(|error| format!("{error}; the results are shown above and kept in {place}"))?;
    match ended {
        Err(halt) => Err(format!("{halt}; what was measured until then is shown above and kept in {place}").into()),
        Ok(()) if !outcomes.iter().any(is_measured) => {
            Err(format!("nothing could be measured; why is shown above and kept in {place}").into())
        }
        Ok(()) => {
            say(format_args!("kept in {place}; {place}/{REPORT} shows it"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What was chosen for the whole run.
fn settings(
    options: &How,
    server: &dyn Server,
    tls: bool,
    quick: bool,
    samples: u32,
    host: &Host,
) -> BTreeMap<String, String> {
    let unknown = || "unknown".to_owned();
    let settings = [
        ("server", server.name().to_owned()),
        ("tls", tls.to_string()),
        ("seed", options.seed.to_string()),
        ("quick", quick.to_string()),
        ("samples", samples.to_string()),
        ("patience", options.patience.to_string()),
        ("congestion control", host.sysctls.get(machine::CONGESTION_CONTROL).cloned().unwrap_or_else(unknown)),
        ("root", sandbox::is_root().to_string()),
    ];
    settings.map(|(name, value)| (name.to_owned(), value)).into()
}

/// What was typed, as a shell takes it.
fn command() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    let quoted = |word: String| {
        if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("haul".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Whether a cell has a result.
fn is_measured(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done(samples) if !samples.is_empty())
}

/// The experiment, and what of it is to be run.
fn plan(name: &str, options: &RunOptions) -> Result<(Experiment, Plan), Box<dyn Error>> {
    let mut experiment = read(name)?;
    for sweep in &options.sweep {
        experiment.sweep(&sweep.contender, &sweep.setting, &sweep.values).map_err(usage)?;
    }
    let plan = experiment.plan(&Selection {
        quick: options.quick,
        networks: options.network.clone(),
        workloads: options.workload.clone(),
        contenders: options.contender.clone(),
        samples: options.samples,
    });
    Ok((experiment, plan.map_err(usage)?))
}

/// The server asked for, or the first of the experiment's that is installed.
fn choose_server(experiment: &Experiment, name: Option<&str>) -> Result<Box<dyn Server>, Box<dyn Error>> {
    let names = name.map_or_else(|| experiment.servers.clone(), |name| vec![name.to_owned()]);
    let mut missing = None;
    for name in &names {
        let Some(server) = servers::named(name) else {
            let all: Vec<_> = servers::all().iter().map(|server| server.name()).collect();
            let advice = match nearest(name, all.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", all.join(", ")),
            };
            return Err(usage(format_args!("there is no server `{name}`; {advice}")));
        };
        match server.missing() {
            None => return Ok(server),
            Some(what) => missing = Some(what),
        }
    }
    Err(missing.map_or_else(|| "the experiment names no server".into(), |missing| missing.to_string().into()))
}

/// Complains of a place for results of which nothing would be left: of a folder that is not there, and
/// of the one in whose stead root's testbeds have another.
fn check_lasting(path: &Path) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match folder.canonicalize() {
        Err(error) => Err(format!("cannot write the results to {}: {error}", path.display())),
        Ok(folder) if sandbox::is_root() && folder.starts_with(testbed::RUN) => {
            let (path, run) = (path.display(), testbed::RUN);
            Err(format!(
                "cannot write the results to {path}: root's runs have a {run} of their own, with which they would vanish; choose another folder"
            ))
        }
        Ok(_) => Ok(()),
    }
}

/// What `f` returns, or nothing if the user does not want to wait for it.
fn unless<T: Send + 'static>(cancelled: &AtomicBool, f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    const SLICE: Duration = Duration::from_millis(50);
    let (answer, result) = mpsc::channel();
    thread::spawn(move || answer.send(f()));
    while !cancelled.load(Ordering::Relaxed) {
        match result.recv_timeout(SLICE) {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    None
}

/// The folder of a run; dropping removes it again, unless there is something to keep.
struct Folder {
    path: PathBuf,
    place: Arc<Place>,
    keep: bool,
}

/// Where a run is kept, for whoever has to clear it away.
#[derive(Default)]
pub(super) struct Place {
    folder: OnceLock<PathBuf>,
    /// The folder of all runs, if it was not there before.
    new_runs: OnceLock<PathBuf>,
}

impl Place {
    /// The run's folder, once it is made.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.get().map(PathBuf::as_path)
    }

    /// Removes what was made for a run that has measured nothing.
    pub(super) fn discard(&self) {
        if let Some(folder) = self.folder() {
            live::clear(folder);
            let _ = fs::remove_file(samples(folder));
            let _ = fs::remove_dir(captures(folder));
            let _ = fs::remove_dir(folder);
        }
        if let Some(runs) = self.new_runs.get() {
            let _ = fs::remove_dir(runs);
        }
    }
}

fn captures(folder: &Path) -> PathBuf {
    folder.join("captures")
}

pub(super) fn samples(folder: &Path) -> PathBuf {
    folder.join("samples.csv")
}

impl Folder {
    fn create(runs: &Path, name: &str, started: SystemTime, place: Arc<Place>) -> Result<Self, Box<dyn Error>> {
        if !runs.exists() {
            let _ = place.new_runs.set(runs.to_owned());
        }
        let mut folder = Self { path: PathBuf::new(), place, keep: false };
        folder.path = results::create_folder(runs, name, started)?;
        let _ = folder.place.folder.set(folder.path.clone());
        let captures = captures(&folder.path);
        fs::create_dir(&captures).map_err(|error| format!("cannot make the folder {}: {error}", captures.display()))?;
        Ok(folder)
    }

    fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            self.place.discard();
        }
    }
}
