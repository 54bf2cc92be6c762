//! `haul lab run truth`: captures with known causes, and what `explain` says of them.
//!
//! The run's folder has the seed in its name, so that a second run with the same seed measures only what is missing.

use std::{
    error::Error,
    fs,
    io::{self, IsTerminal, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget};
use lab::{
    results::{self, CreatedPaths, REPORT, check_outlives_run},
    testbed,
    truth::{Installed, TruthEvent, TruthRun, case, knobs::KNOBS, render, results::TruthResult},
};
use link::sandbox;
use serde_json::Value;
use units::rounded::{self, count as counted};

pub(super) use lab::truth::CASES;

use super::{RunOptions, consent, interrupt::Interrupt, look};
use crate::{say, usage};

/// The name of this experiment.
pub(super) const NAME: &str = "truth";

/// What it is about, for the list.
pub(super) const QUESTION: &str =
    "Does haul explain name the knob that was turned? Captures of real programs with a known cause each.";

/// The file of the results in the run's folder.
const FILE: &str = "truth.json";

/// The schema of the results, for reports.
const SCHEMA: &str = "longhaul.truth/1";

/// How many cases there are of each knob, by default.
const EACH: u32 = 2;

/// The time of a case when no other is known: two transfers of 0.3 to 5 s, and the start of their programs.
const TIME_OF_CASE: Duration = Duration::from_secs(6);

/// The options of this experiment alone.
#[derive(clap::Args)]
#[command(next_help_heading = "Only for the experiment truth")]
pub(crate) struct TruthOptions {
    /// Number of cases [default: two of each knob; one with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    cases: Option<u32>,

    /// Turn only this knob; repeatable
    #[arg(long, value_name = "NAME")]
    knob: Vec<String>,
}

impl TruthOptions {
    /// Fails if any is given, for the other experiments.
    pub(super) fn refuse(&self) -> Result<(), Box<dyn Error>> {
        if self.cases.is_some() || !self.knob.is_empty() {
            return Err(usage(format_args!("--cases and --knob are for `haul lab run {NAME}`")));
        }
        Ok(())
    }
}

/// Runs it.
pub(super) fn run(options: &RunOptions, truth: &TruthOptions) -> Result<ExitCode, Box<dyn Error>> {
    if options.part.is_selective()
        || options.server.is_some()
        || options.with_server.is_some()
        || options.plain
        || options.execute.open
    {
        return Err(usage(format_args!(
            "`haul lab run {NAME}` takes --cases, --knob, --quick, --seed, --timeout, --results, --yes and --json only"
        )));
    }
    let knobs = case::knobs(&truth.knob).map_err(|name| {
        let names: Vec<&str> = KNOBS.iter().map(|knob| knob.name).collect();
        usage(format_args!("unknown knob `{name}`; use one of {}", names.join(", ")))
    })?;
    let each = if options.part.quick { 1 } else { EACH };
    let cases = truth.cases.unwrap_or(each * knobs.len() as u32);
    consent::ask(&counted(cases.into(), "case"), TIME_OF_CASE.saturating_mul(cases), options.execute.yes)?;
    let (seed, timeout) = (options.execute.seed, options.execute.timeout.into());

    let sandbox = sandbox::enter()?;
    let interrupt = Interrupt::new(Arc::new(CreatedPaths::default()));
    let on_signal = interrupt.clone();
    sandbox.on_signal(move |_| on_signal.request())?;
    let folder = options.folder.results.join(format!("{NAME}-{seed}"));
    let file = folder.join(FILE);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    check_outlives_run(&file)?;
    if let Some(json) = options.execute.json.file() {
        check_outlives_run(json)?;
    }
    let scratch =
        testbed::furnish(&sandbox).map_err(|error| format!("cannot mount a tmpfs on {}: {error}", testbed::RUN))?;
    let installed = Installed::look();
    let mut progress = Progress::new(cases);
    let outcome = TruthRun {
        seed,
        cases,
        knobs,
        installed: &installed,
        timeout,
        folder: &folder,
        scratch: &scratch,
        cancel: interrupt.flag(),
    }
    .run(|event| progress.on_event(&event));
    drop(progress);
    if outcome.result.cases.is_empty() {
        let _ = fs::remove_dir(folder.join(CASES));
        let _ = fs::remove_dir(&folder);
        let _ = fs::remove_dir(&options.folder.results);
        let why = outcome.result.skipped.last().map_or("interrupted before anything was measured", String::as_str);
        return Err(why.into());
    }
    results::write(&file, &outcome.result)?;
    let html = folder.join(REPORT);
    report::save(&html, &outcome.result)?;
    show(&outcome.result, &folder, options.execute.json.path())?;
    let folder = folder.display();
    if outcome.is_cancelled {
        return Err(format!("interrupted; the results so far are shown above and stored in {folder}").into());
    }
    say(format_args!(
        "results: {folder}; report: {}; the same command with more --cases goes on from there",
        html.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// The results in a file, or in a run's folder below `runs` or elsewhere, and their file; none if those are not there, or are
/// results of another kind.
pub(super) fn stored(runs: &Path, run: &str) -> Option<(Value, PathBuf)> {
    let candidates = [PathBuf::from(run), Path::new(run).join(FILE), runs.join(run).join(FILE)];
    candidates.into_iter().filter(|path| path.is_file()).find_map(|path| {
        let result: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        (result.get("schema")? == SCHEMA).then_some((result, path))
    })
}

fn show(result: &TruthResult, folder: &Path, json: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let table = render(result, folder, look());
    match json {
        Some(path) if path == Path::new("-") => {
            let _ = io::stderr().write_all(table.as_bytes());
            results::write(path, result)?;
        }
        Some(path) => {
            crate::print(table.as_bytes())?;
            results::write(path, result)?;
        }
        None => crate::print(table.as_bytes())?,
    }
    Ok(())
}

/// The progress: a bar on a terminal, a line for each case elsewhere.
struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
}

impl Progress {
    fn new(cases: u32) -> Self {
        let bar = ProgressBar::with_draw_target(Some(cases.into()), ProgressDrawTarget::stderr());
        bar.set_style(super::progress::style("cases"));
        let is_terminal = io::stderr().is_terminal();
        say(format_args!("{cases} cases, at most about {}", rounded::time(TIME_OF_CASE * cases)));
        if is_terminal {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar, is_terminal }
    }

    fn left(&self) -> String {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
        let left = self.bar.eta();
        let about = if left.is_zero() { String::new() } else { format!(", about {} left", rounded::time(left)) };
        format!("{done} of {all} cases{about}; ")
    }

    fn on_event(&mut self, event: &TruthEvent<'_>) {
        match event {
            TruthEvent::Started(case) => {
                if self.is_terminal {
                    self.bar.set_message(case.folder());
                }
            }
            TruthEvent::Finished(case, is_stored) => {
                self.bar.inc(1);
                if !self.is_terminal {
                    let facts = &case.measured;
                    let from = if *is_stored { " (measured before)" } else { "" };
                    say(format_args!(
                        "{}{}: {:.2} s, {:.2} s without{from}",
                        self.left(),
                        facts.case.folder(),
                        facts.turned.duration_s,
                        facts.back.duration_s
                    ));
                }
            }
            TruthEvent::Skipped(why) => {
                self.bar.inc(1);
                self.bar.suspend(|| say(format_args!("skipped: {why}")));
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
