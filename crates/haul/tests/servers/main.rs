//! Server behaviours × commands × validators: checks that what `haul` reports is true.
//!
//! Each cell runs the real program against a scripted server on loopback, and compares the files on both sides with its
//! report: exit status, counts and named failures. A wrong file must never go unreported. The table's legend is in
//! docs/src/servers.md.

#[path = "../common/mod.rs"]
mod common;

mod commands;
mod fixture;
mod known_faults;
mod methods_used;
mod table;
mod verdict;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use libtest_mimic::{Arguments, Trial};
use servers::behaviours::{ALL, Entry, VALIDATORS};

use self::{
    commands::Command,
    fixture::{Fixture, Setting},
    table::Table,
    verdict::Outcome,
};

/// Number of cells of one behaviour at a time; most of their time is waiting.
const AT_ONCE: usize = 3;
/// A timeout that even a busy machine does not reach.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() {
    let arguments = Arguments::from_args();
    let table = Arc::new(Mutex::new(Table::default()));
    let trials = ALL.iter().map(|entry| {
        let table = table.clone();
        Trial::test(entry.name.replace(' ', "_"), move || row(entry, &table).map_err(Into::into))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    if !arguments.list {
        println!("{}", table.lock().unwrap());
    }
    conclusion.exit();
}

/// All cells of one behaviour.
fn row(entry: &'static Entry, table: &Mutex<Table>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let commands = |validators| commands::ALL.iter().map(move |command| (validators, command));
    let cells = validators_of(entry).into_iter().flat_map(commands);
    let played = runtime.block_on(
        stream::iter(cells)
            .map(|(validators, command)| play(entry, validators, command))
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<_>>(),
    );
    let mut bad = Vec::new();
    for (validators, command, outcome, why) in played {
        let is_expected = known_faults::contains(entry.name, VALIDATORS[validators].0, command.name);
        let cell = format!("{} | {} | {}", entry.name, VALIDATORS[validators].0, command.name);
        if outcome.is_bad() && !is_expected {
            bad.push(format!("{cell}: {outcome}\n{why}"));
        } else if outcome.is_bad() {
            eprintln!("KNOWN FAULT: {cell}: {outcome}: {}", why.lines().next().unwrap_or_default());
        } else if is_expected && !entry.is_random {
            eprintln!("FIXED: {cell}: {outcome}; remove it from the list in known_faults.rs");
        }
        table.lock().unwrap().set(entry.name, validators, command.name, outcome);
    }
    if bad.is_empty() { Ok(()) } else { Err(bad.join("\n\n")) }
}

/// The indices of the validators to test with a behaviour.
fn validators_of(entry: &Entry) -> Vec<usize> {
    match entry.name {
        "honest" => (0..VALIDATORS.len()).collect(),
        _ if entry.is_random => vec![0, 1, 2],
        _ => vec![0, 1],
    }
}

/// The worst outcome of a cell's runs, and its details.
async fn play(
    entry: &Entry,
    validators: usize,
    command: &'static Command,
) -> (usize, &'static Command, Outcome, String) {
    if let Some(method) = entry.method
        && !methods_used::uses(validators, command, method).await
    {
        return (validators, command, Outcome::Untouched, String::new());
    }
    let seeds = if entry.is_random { 3 } else { 1 };
    let (mut worst, mut detail) = (Outcome::Untouched, String::new());
    for seed in 0..seeds {
        let setting = Setting { entry, validators, seed };
        let fixture = Fixture::new(&setting).await;
        let ended = tokio::time::timeout(PATIENCE, (command.run)(&fixture)).await;
        let (mut outcome, why) = ended.unwrap_or_else(|_| (Outcome::Endless, String::new()));
        if outcome == Outcome::Right && entry.is_random && fixture.double.effect_count() == 0 {
            outcome = Outcome::Untouched;
        }
        if outcome > worst {
            worst = outcome;
            detail = format!("seed {seed}: {why}");
            if outcome.is_bad() {
                detail = format!("{detail}\nThe server:\n{}", fixture.double.log());
            }
        }
    }
    (validators, command, worst, detail)
}
