//! Ground truth: what happened is known, because it was made to happen, and `explain` must find it.
//!
//! Each file of `tests/scenarios` is played between two real kernels over a cable and captured at the client, in the
//! middle and at the server; what was to be concluded stands in the file. The scenarios wait and do not compute, so
//! they are played side by side. A scenario fails if it did not happen as it says; whether explain found what
//! happened is decided by all of them together ([`ledger`]).
//!
//! Beside them the fixes that findings print are run once ([`fixes`]).
//!
//! To look into one: `cargo test -p explain --test truth -- NAME`, with `SCENARIO_CAPTURES=FOLDER` to keep its
//! captures.

mod fixes;
mod ledger;
mod path;
mod scenario;
mod talk;
mod verdict;
mod world;

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex},
};

use explain::{Transfer, replica::WhatIf};
use ledger::{Ledger, Pair};
use libtest_mimic::{Arguments, Trial};
use link::sandbox;
use scenario::{After, Scenario};

/// How many scenarios are played side by side.
const AT_ONCE: usize = 10;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let sandbox = sandbox::enter();
    if let Err(error) = &sandbox {
        eprintln!("SKIPPED: the scenarios: {error}");
    }
    let kept = std::env::var_os("SCENARIO_CAPTURES").map(PathBuf::from);
    let captures = kept.unwrap_or_else(|| sandbox.as_ref().map_or_else(|_| PathBuf::new(), |one| one.scratch().into()));
    let files = match files() {
        Ok(files) => files,
        Err(error) => {
            eprintln!("cannot list the scenarios: {error}");
            return ExitCode::FAILURE;
        }
    };
    let run = || {
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let trials = files.iter().map(|file| trial(file, &captures, &ledger).with_ignored_flag(sandbox.is_err()));
        let commands = Trial::test("fixes", || fixes::run().map_err(|error| error.to_string().into()));
        let trials = trials.chain([commands.with_ignored_flag(sandbox.is_err())]);
        let conclusion = libtest_mimic::run(&arguments, trials.collect());
        let ledger = std::mem::take(&mut *ledger.lock().expect("no panic"));
        !conclusion.has_failed() && (ledger.verdicts.is_empty() || ledger.settle())
    };
    if run() {
        return ExitCode::SUCCESS;
    }
    // What a busy machine adds by itself has no cause in any packet.
    println!("once more, in case the machine was busy");
    if run() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn trial(file: &Path, captures: &Path, ledger: &Arc<Mutex<Ledger>>) -> Trial {
    let name = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let (file, captures, ledger) = (file.to_owned(), captures.join(&name), Arc::clone(ledger));
    Trial::test(name.clone(), move || {
        let (scenario, afters) = scenario::read(&file)?;
        play(&name, &scenario, &afters, &captures, &ledger).map_err(|error| error.to_string().into())
    })
}

fn files() -> io::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files = fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// Plays a scenario and what comes after it, and enters what is concluded.
fn play(
    name: &str,
    scenario: &Scenario,
    afters: &[After],
    captures: &Path,
    ledger: &Mutex<Ledger>,
) -> Result<(), Box<dyn Error>> {
    let played = world::play(scenario, captures)?;
    let (verdicts, clocks) = verdict::judge(name, scenario, &played)?;
    let before = verdict::explained(&played.captures[0])?;
    let before = verdict::transfer(&before, scenario)?;
    let mut pairs = Vec::new();
    for (number, After { what_if, scenario }) in afters.iter().enumerate() {
        let played = world::play(scenario, &captures.join(number.to_string()))?;
        let after = verdict::explained(&played.captures[0])?;
        let measured = verdict::transfer(&after, scenario)?.duration.as_secs_f64();
        let predicted = predict(before, what_if)?;
        pairs.push(Pair { scenario: name.to_owned(), what_if: what_if.clone(), predicted, measured });
    }
    let mut ledger = ledger.lock().map_err(|_| "another scenario panicked")?;
    ledger.verdicts.extend(verdicts);
    ledger.clocks.extend(clocks);
    ledger.pairs.extend(pairs);
    Ok(())
}

/// How long a transfer would take otherwise, in seconds; none where explain declines to say.
fn predict(before: &Transfer, what_if: &str) -> Result<Option<f64>, Box<dyn Error>> {
    let what_if: WhatIf = what_if.parse()?;
    let Some(Ok(predicted)) = before.what_if(&what_if, None) else { return Ok(None) };
    Ok(Some(predicted.duration.as_secs_f64()))
}
