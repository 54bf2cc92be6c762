//! Ground truth: the tests cause something, and `explain` must find it.
//!
//! Each file of `tests/scenarios` runs between two real kernels over a cable, and is captured at the client, in the middle
//! and at the server; the file also contains the expected conclusion. Scenarios wait rather than compute, so they run
//! concurrently, and those with a wrong result run again alone, up to three times ([`runs`]). A scenario fails if it did
//! not happen as described. Whether `explain` found the causes is judged over all scenarios together ([`scores`]).
//!
//! The fixes that findings print run once as well ([`fixes`]).
//!
//! To examine one: `cargo test -p longhaul-explain --test truth -- NAME`, with `SCENARIO_CAPTURES=FOLDER` to keep the captures of
//! its first run in `FOLDER/1/NAME`.

mod cut;
mod fixes;
mod path;
mod path_check;
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
use runs::{RunResult, WhatIfResult};
use scenario::{After, Scenario};
use scores::Scores;

/// The number of concurrent scenarios.
const CONCURRENT: usize = 16;

/// The work of a trial: a scenario, or the fixes.
type Job = Arc<dyn Fn(&Path) -> Result<RunResult, Box<dyn Error>> + Send + Sync>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CONCURRENT);
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
    let scores = Arc::new(Mutex::new(Scores::default()));
    let run = |arguments: &Arguments, names: &[String], number: usize| {
        let trials = names.iter().filter_map(|name| {
            let captures = captures.join(number.to_string()).join(name);
            Some(trial(name, Arc::clone(jobs.get(name)?), captures, &scores).with_ignored_flag(sandbox.is_err()))
        });
        // The scores decide whether the tests pass, after all runs.
        let _ = libtest_mimic::run(arguments, trials.collect());
        scores.lock().expect("no panic").to_repeat()
    };
    let names: Vec<String> = jobs.keys().cloned().collect();
    let mut to_repeat = run(&arguments, &names, 1);
    arguments.test_threads = Some(1);
    for number in 2..=runs::MAX_RUNS {
        if !to_repeat.is_empty() {
            to_repeat = run(&arguments, &to_repeat, number);
        }
    }
    let is_good = scores.lock().expect("no panic").print_and_check();
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
                run(&name, &scenario, &afters, captures)
            }
        };
        jobs.insert(name, Arc::new(job));
    }
    jobs.insert("fixes".to_owned(), Arc::new(|_: &Path| fixes::run().map(|()| RunResult::default())));
    Ok(jobs)
}

/// A run as a trial of libtest; its result or panic is added to the scores.
fn trial(name: &str, job: Job, captures: PathBuf, scores: &Arc<Mutex<Scores>>) -> Trial {
    let (label, scores) = (name.to_owned(), Arc::clone(scores));
    Trial::test(name, move || {
        let result = panic::catch_unwind(AssertUnwindSafe(|| job(&captures).map_err(|error| error.to_string())));
        let result = result.unwrap_or_else(|_| Err("it panicked".to_owned()));
        let failed = result.as_ref().err().cloned();
        scores.lock().expect("no panic").add(&label, result);
        failed.map_or(Ok(()), |error| Err(error.into()))
    })
}

/// Runs a scenario and its what-if pairs.
fn run(name: &str, scenario: &Scenario, afters: &[After], captures: &Path) -> Result<RunResult, Box<dyn Error>> {
    let recorded = testbed::run(scenario, captures)?;
    let (verdicts, clocks) = verdict::judge(name, scenario, &recorded)?;
    let cuts = cut::compare(name, &recorded)?;
    let paths = path_check::compare(name, scenario, &recorded)?;
    let before = verdict::explain_capture(&recorded.captures[0])?;
    let before = verdict::transfer(&before, scenario)?;
    let mut what_ifs = Vec::new();
    for (number, After { what_if, scenario }) in afters.iter().enumerate() {
        let recorded = testbed::run(scenario, &captures.join(number.to_string()))?;
        let after = verdict::explain_capture(&recorded.captures[0])?;
        let measured = verdict::transfer(&after, scenario)?.duration.as_secs_f64();
        let predicted = predict(before, what_if)?;
        what_ifs.push(WhatIfResult { scenario: name.to_owned(), what_if: what_if.clone(), predicted, measured });
    }
    Ok(RunResult { verdicts, cuts, clocks, paths, what_ifs })
}

/// The predicted time of a transfer in seconds; `None` if explain declines.
fn predict(before: &Transfer, what_if: &str) -> Result<Option<f64>, Box<dyn Error>> {
    let what_if: WhatIf = what_if.parse()?;
    let Some(Ok(predicted)) = before.what_if(&what_if, None) else { return Ok(None) };
    Ok(Some(predicted.duration.as_secs_f64()))
}
