//! Conducting an experiment, from its text to its table.
//!
//! What is wrong with the request is told before anything is begun, and what the machine lacks before
//! anything is measured; then no folder stays behind. Once there is a sample it is not given up for
//! anything: whatever ends the run, what was measured until then is kept, and shown even where it
//! cannot be kept.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, SystemTime},
};

use lab::{
    assemble::{Circumstances, assemble},
    experiment::{Experiment, Plan, Selection, nearest},
    machine,
    results::{self, Calibration, Outcome},
    run::{Halt, Run},
    servers::{self, Server},
    world,
};
use link::{calibrate::calibrate, sandbox};

use super::{RunOptions, progress::Progress, read, show, usage};
use crate::say;

/// Runs an experiment, shows what it found and keeps it in a folder.
pub(crate) fn conduct(name: &str, options: &RunOptions) -> Result<ExitCode, Box<dyn Error>> {
    let (experiment, plan) = plan(name, options)?;
    let server = choose_server(&experiment, options.server.as_deref())?;
    let started = SystemTime::now();
    let sandbox = sandbox::enter()?;
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = cancel.clone();
    sandbox.on_signal(move |_| flag.store(true, Ordering::Relaxed))?;

    let mut folder = Folder::create(&options.place.runs, &experiment.name, started)?;
    check_lasting(&folder.path)?;
    if let Some(json) = options.json.json.as_deref().filter(|json| *json != Path::new("-")) {
        check_lasting(json)?;
    }
    let scratch =
        world::furnish(&sandbox).map_err(|error| format!("cannot mount a tmpfs on {}: {error}", world::RUN))?;
    machine::check_room(&plan, &scratch)?;
    let mut progress = Progress::new(&plan);
    progress.say("measuring how true the emulator is here");
    let calibration = unless(&cancel, calibrate).ok_or("interrupted before anything was measured")??;
    let host = machine::record(&plan, server.as_ref())?;
    let run = Run {
        plan: &plan,
        server: server.as_ref(),
        tls: !options.plain,
        seed: options.seed,
        patience: options.patience.into(),
        scratch: &scratch,
        captures: &folder.captures(),
        cancel,
    };
    let (outcomes, ended) = run.run(|event| progress.show(&event));
    drop(progress);
    let measured = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Done(samples) if !samples.is_empty()));
    match &ended {
        Err(Halt::Interrupted) if !measured => return Err("interrupted before anything was measured".into()),
        Err(halt) if !measured => return Err(halt.to_string().into()),
        _ => folder.keep(),
    }

    let settings = [
        ("server", server.name().to_owned()),
        ("tls", (!options.plain).to_string()),
        ("seed", options.seed.to_string()),
        ("quick", options.quick.to_string()),
        ("samples", plan.samples.to_string()),
        ("root", sandbox::is_root().to_string()),
    ];
    let circumstances = Circumstances {
        started,
        host,
        calibration: Some(Calibration::from(&calibration)),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        tls: !options.plain,
        seed: options.seed,
    };
    let result = assemble(&experiment, &plan, &outcomes, circumstances);
    let kept = results::write(&folder.path.join("run.json"), &result);
    let kept = kept.and(results::write_samples(&folder.path.join("samples.csv"), &plan, &outcomes));
    let shown = show(&result, &options.json);

    let place = folder.path.display();
    kept.map_err(|error| format!("{error}; what was measured is shown above and nowhere else"))?;
    shown.map_err(|error| format!("{error}; the results are kept in {place}"))?;
    match ended {
        Err(halt) => Err(format!("{halt}; what was measured until then is shown above and kept in {place}").into()),
        Ok(()) if !measured => Err(format!("nothing could be measured; why is shown above and kept in {place}").into()),
        Ok(()) => {
            say(format_args!("kept in {place}"));
            Ok(ExitCode::SUCCESS)
        }
    }
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
        let Some(server) = servers::all().into_iter().find(|server| server.name() == name) else {
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
/// of the one in whose stead root's worlds have another.
fn check_lasting(path: &Path) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match folder.canonicalize() {
        Err(error) => Err(format!("cannot write the results to {}: {error}", path.display())),
        Ok(folder) if sandbox::is_root() && folder.starts_with(world::RUN) => {
            let (path, run) = (path.display(), world::RUN);
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
    /// The folder of all runs, if it was not there before.
    new_runs: Option<PathBuf>,
    keep: bool,
}

impl Folder {
    fn create(runs: &Path, name: &str, started: SystemTime) -> Result<Self, Box<dyn Error>> {
        let new_runs = (!runs.exists()).then(|| runs.to_owned());
        let mut folder = Self { path: PathBuf::new(), new_runs, keep: false };
        folder.path = results::create_folder(runs, name, started)?;
        let captures = folder.captures();
        fs::create_dir(&captures).map_err(|error| format!("cannot make the folder {}: {error}", captures.display()))?;
        Ok(folder)
    }

    fn captures(&self) -> PathBuf {
        self.path.join("captures")
    }

    fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            for made in [Some(&self.captures()), Some(&self.path), self.new_runs.as_ref()].into_iter().flatten() {
                let _ = fs::remove_dir(made);
            }
        }
    }
}
