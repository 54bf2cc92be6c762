//! The data of the HTML report of a run, and of a comparison of runs: their results, and the conclusions in words.
//!
//! The report only draws. Conclusions are made here, once, so that the report and the terminal never disagree. The
//! results are embedded unchanged, as in `run.json`, so that a reader can check one against the other.

mod answer;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Serialize;

use self::answer::Answer;
use crate::{
    attribution::remedy,
    capture_names::{CaptureNames, SLOWEST},
    compare::{CellChange, Change, Compared, Later, Trend},
    ranking::{Ranking, server_bottleneck},
    results::{CellResult, RunResult},
    stats::Interval,
};

/// The data of a run's report: schema `longhaul.run/1`, with an additional field `page`.
#[derive(Debug, Serialize)]
pub struct RunReport<'a> {
    #[serde(flatten)]
    run: &'a RunResult,
    page: Conclusions,
}

#[derive(Debug, Serialize)]
struct Conclusions {
    answer: Vec<Answer>,
    /// Every workload on every network, in the order of the run.
    blocks: Vec<Block>,
    /// One for each of the run's cells, in their order.
    cells: Vec<Extras>,
    /// Remedies of the causes that occur in the run.
    remedies: BTreeMap<String, &'static str>,
    /// What was chosen for the whole run, in words.
    settings: Vec<(String, String)>,
}

#[derive(Debug, Serialize)]
struct Block {
    workload: String,
    network: String,
    sentences: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct Extras {
    /// Its rank: `2`, or `2–4` if the samples do not decide.
    place: Option<String>,
    /// The captures of its typical and its slowest sample, and the report of the first, relative to the run's folder.
    capture: Option<PathBuf>,
    slowest: Option<PathBuf>,
    view: Option<PathBuf>,
}

/// The data of the report of `run`. `is_there` says whether a file is in the run's folder.
pub fn of_run(run: &RunResult, is_there: impl Fn(&Path) -> bool) -> RunReport<'_> {
    let names = names(run);
    let mut cells: Vec<Extras> = run.cells.iter().map(|cell| extras(&names, cell, &is_there)).collect();
    let mut blocks = Vec::new();
    for network in &run.networks {
        for workload in &run.workloads {
            let ranking = Ranking::new(run, &workload.name, &network.name);
            let mut sentences = ranking.sentences();
            sentences.extend(server_bottleneck(&ranking.ranked));
            blocks.push(Block { workload: workload.name.clone(), network: network.name.clone(), sentences });
            if !ranking.is_comparable() {
                continue;
            }
            for (extras, cell) in cells.iter_mut().zip(&run.cells) {
                let index = ranking.ranked.iter().position(|ranked| std::ptr::eq(*ranked, cell));
                extras.place = index.map(|index| ranking.rank(index)).or(extras.place.take());
            }
        }
    }
    let causes = run.cells.iter().filter_map(|cell| cell.why.as_ref()).flat_map(|why| why.seconds.keys());
    let remedies = causes.filter_map(|cause| Some((cause.clone(), remedy(cause)?))).collect();
    let settings = run.settings_in_words();
    RunReport { run, page: Conclusions { answer: answer::of_run(run), blocks, cells, remedies, settings } }
}

/// For each cell of a run, the capture of its typical sample and the report of that capture, relative to the run's folder.
pub fn files(run: &RunResult) -> Vec<(PathBuf, PathBuf)> {
    let names = names(run);
    run.cells.iter().map(|cell| files_of(&names, cell)).collect()
}

/// The names of the captures of a run.
pub(crate) fn names(run: &RunResult) -> CaptureNames {
    CaptureNames::new(run.cells.iter().map(CellResult::names))
}

fn files_of(names: &CaptureNames, cell: &CellResult) -> (PathBuf, PathBuf) {
    let capture = capture(names, cell, "");
    let view = capture.with_extension("html");
    (capture, view)
}

fn capture(names: &CaptureNames, cell: &CellResult, suffix: &str) -> PathBuf {
    Path::new("captures").join(names.file(&cell.names(), suffix))
}

/// The files of a cell that exist.
fn extras(names: &CaptureNames, cell: &CellResult, is_there: impl Fn(&Path) -> bool) -> Extras {
    let there = |path: PathBuf| is_there(&path).then_some(path);
    let (typical, view) = files_of(names, cell);
    Extras { place: None, capture: there(typical), slowest: there(capture(names, cell, SLOWEST)), view: there(view) }
}

/// The data of the report that compares runs, and of `--json`: schema `longhaul.compare/1`.
#[derive(Debug, Serialize)]
pub struct ComparisonReport<'a> {
    schema: &'static str,
    answer: Vec<String>,
    /// The baseline first.
    runs: Vec<About<'a>>,
    cells: Vec<ComparedCell<'a>>,
}

#[derive(Debug, Serialize)]
struct About<'a> {
    name: &'a str,
    title: &'a str,
    started: &'a str,
    command: &'a str,
    /// Its differences from the baseline.
    unlike: &'a [String],
}

#[derive(Debug, Serialize)]
struct ComparedCell<'a> {
    workload: &'a str,
    network: &'a str,
    contender: &'a str,
    model: bool,
    /// Its result in each run.
    runs: Vec<InRun<'a>>,
}

#[derive(Debug, Serialize)]
struct InRun<'a> {
    samples_s: &'a [f64],
    median_s: Option<f64>,
    /// The run's time divided by the baseline's; none for the baseline.
    ratio: Option<f64>,
    ci95: Option<Interval>,
    confidence: Option<f64>,
    trend: &'static str,
    /// Why there is no ratio.
    reason: Option<&'a str>,
}

impl<'a> InRun<'a> {
    fn baseline(samples_s: &'a [f64], median_s: Option<f64>) -> Self {
        Self { samples_s, median_s, ratio: None, ci95: None, confidence: None, trend: "baseline", reason: None }
    }

    fn later(samples_s: &'a [f64], later: &'a Later) -> Self {
        let ratio = later.ratio.as_ref().ok();
        Self {
            samples_s,
            median_s: later.median_s,
            ratio: ratio.map(|ratio| ratio.value),
            ci95: ratio.map(|ratio| ratio.interval),
            confidence: ratio.map(|ratio| ratio.confidence),
            trend: match later.trend() {
                Trend::Faster => "faster",
                Trend::Slower => "slower",
                Trend::Same => "same",
                Trend::Unknown => "unknown",
            },
            reason: later.ratio.as_ref().err().map(String::as_str),
        }
    }
}

/// The data of the report that compares `runs`; `change` is their [comparison](crate::compare).
pub fn of_comparison<'a>(runs: &[(&str, &'a RunResult)], change: &'a Change) -> ComparisonReport<'a> {
    let about = |(compared, (_, run)): (&'a Compared, &(&str, &'a RunResult))| About {
        name: &compared.name,
        title: if run.title.is_empty() { &run.experiment } else { &run.title },
        started: &run.started,
        command: &run.command,
        unlike: &compared.unlike,
    };
    let cell = |cell: &'a CellChange| {
        let samples = runs.iter().map(|(_, run)| {
            run.cell(&cell.workload, &cell.network, &cell.contender).map_or(&[][..], |cell| &cell.samples_s)
        });
        let mut later = cell.later.iter();
        ComparedCell {
            workload: &cell.workload,
            network: &cell.network,
            contender: &cell.contender,
            model: cell.model,
            runs: samples
                .enumerate()
                .filter_map(|(run, samples)| match run {
                    0 => Some(InRun::baseline(samples, cell.median_s)),
                    _ => later.next().map(|later| InRun::later(samples, later)),
                })
                .collect(),
        }
    };
    ComparisonReport {
        schema: "longhaul.compare/1",
        answer: answer::of_comparison(change),
        runs: change.runs.iter().zip(runs).map(about).collect(),
        cells: change.cells.iter().map(cell).collect(),
    }
}

#[cfg(test)]
mod tests;
