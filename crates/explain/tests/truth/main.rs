//! Ground truth: the tests cause something, and `explain` must find it.
//!
//! Each file of `tests/scenarios` runs between two real kernels over a cable, and is captured at the client, in the middle
//! and at the server; the file also contains the expected conclusion. Scenarios wait rather than compute, so they run
//! concurrently, and those with a wrong result run again alone, up to three times ([`runs`]). A scenario fails if it did
//! not happen as described. Whether `explain` found the causes is judged over all scenarios together ([`scores`]).
//!
//! The fixes that findings print run once as well ([`fixes`]).
//!
//! To examine one: `cargo test -p explain --test truth -- NAME`, with `SCENARIO_CAPTURES=FOLDER` to keep the captures of
//! its first run in `FOLDER/1/NAME`.

mod fixes;
mod path;
mod programs;
mod runs;
mod scenario;
mod scores;
mod testbed;
mod verdict;

use std::{
    collections::BTreeMap,
    error::Error,
    fs, io,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex},
};

use explain::{Transfer, replica::WhatIf};
use libtest_mimic::{Arguments, Trial};
use link::sandbox;
use runs::{Pair, Play};
use scenario::{After, Scenario};
use scores::Scores;

/// The number of concurrent scenarios.
const AT_ONCE: usize = 16;

/// The work of a trial: a scenario, or the fixes.
type Job = Arc<dyn Fn(&Path) -> Result<Play, Box<dyn Error>> + Send + Sync>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let sandbox = sandbox::enter();
    if let Err(error) = &sandbox {
        eprintln!("SKIPPED: the scenarios: {error}");
    }
    let kept = std::env::var_os("SCENARIO_CAPTURES").map(PathBuf::from);
    let captures = kept.unwrap_or_else(|| sandbox.as_ref().map_or_else(|_| PathBuf::new(), |one| one.scratch().into()));
    let jobs = match jobs() {
        Ok(jobs) => jobs,
        Err(error) => {
            eprintln!("cannot list the scenarios: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ledger = Arc::new(Mutex::new(Scores::default()));
    let run = |arguments: &Arguments, names: &[String], number: usize| {
        let trials = names.iter().filter_map(|name| {
            let captures = captures.join(number.to_string()).join(name);
            Some(trial(name, Arc::clone(jobs.get(name)?), captures, &ledger).with_ignored_flag(sandbox.is_err()))
        });
        // Whether it went well is for the ledger to say, when all plays are over.
        let _ = libtest_mimic::run(arguments, trials.collect());
        ledger.lock().expect("nobody panics with it").open()
    };
    let names: Vec<String> = jobs.keys().cloned().collect();
    let mut open = run(&arguments, &names, 1);
    arguments.test_threads = Some(1);
    for number in 2..=runs::MOST {
        if !open.is_empty() {
            open = run(&arguments, &open, number);
        }
    }
    let cleared = ledger.lock().expect("nobody panics with it").settle();
    if cleared { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The scenarios and the fixes, by name.
fn jobs() -> io::Result<BTreeMap<String, Job>> {
    let mut jobs: BTreeMap<String, Job> = BTreeMap::new();
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios"))? {
        let file = file?.path();
        let name = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let job = {
            let name = name.clone();
            move |captures: &Path| {
                let (scenario, afters) = scenario::read(&file)?;
                play(&name, &scenario, &afters, captures)
            }
        };
        jobs.insert(name, Arc::new(job));
    }
    jobs.insert("fixes".to_owned(), Arc::new(|_: &Path| fixes::run().map(|()| Play::default())));
    Ok(jobs)
}

/// A play as libtest shows it; what it tells goes into the ledger, and so does a panic.
fn trial(name: &str, job: Job, captures: PathBuf, ledger: &Arc<Mutex<Scores>>) -> Trial {
    let (label, ledger) = (name.to_owned(), Arc::clone(ledger));
    Trial::test(name, move || {
        let play = panic::catch_unwind(AssertUnwindSafe(|| job(&captures).map_err(|error| error.to_string())));
        let play = play.unwrap_or_else(|_| Err("it panicked".to_owned()));
        let failed = play.as_ref().err().cloned();
        ledger.lock().expect("nobody panics with it").enter(&label, play);
        failed.map_or(Ok(()), |error| Err(error.into()))
    })
}

/// Plays a scenario and what comes after it: what is concluded.
fn play(name: &str, scenario: &Scenario, afters: &[After], captures: &Path) -> Result<Play, Box<dyn Error>> {
    let played = testbed::play(scenario, captures)?;
    let (verdicts, clocks) = verdict::judge(name, scenario, &played)?;
    let before = verdict::explained(&played.captures[0])?;
    let before = verdict::transfer(&before, scenario)?;
    let mut pairs = Vec::new();
    for (number, After { what_if, scenario }) in afters.iter().enumerate() {
        let played = testbed::play(scenario, &captures.join(number.to_string()))?;
        let after = verdict::explained(&played.captures[0])?;
        let measured = verdict::transfer(&after, scenario)?.duration.as_secs_f64();
        let predicted = predict(before, what_if)?;
        pairs.push(Pair { scenario: name.to_owned(), what_if: what_if.clone(), predicted, measured });
    }
    Ok(Play { verdicts, clocks, pairs })
}

/// How long a transfer would take otherwise, in seconds; none where explain declines to say.
fn predict(before: &Transfer, what_if: &str) -> Result<Option<f64>, Box<dyn Error>> {
    let what_if: WhatIf = what_if.parse()?;
    let Some(Ok(predicted)) = before.what_if(&what_if, None) else { return Ok(None) };
    Ok(Some(predicted.duration.as_secs_f64()))
}
