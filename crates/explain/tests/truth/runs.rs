//! How often a scenario runs, and the result of its runs.
//!
//! A busy machine adds delays whose cause no packet shows. Unlike a mistake of `explain`, such a delay does not occur again.
//! So a scenario whose first run has an unexpected result runs again alone after all others, and once more if the two runs
//! disagree. For each result, the majority of the runs counts, also for those that were right in the first run.

use std::collections::BTreeMap;

use crate::{
    cut::CutVerdict,
    path_check::PathCheck,
    verdict::{ClockCheck, Verdict},
};

/// Maximum number of runs of a scenario.
pub(crate) const MAX_RUNS: usize = 3;

/// One result of a run.
pub(crate) trait Outcome {
    /// Identifies it within its scenario.
    fn subject(&self) -> &str;
    /// Its error.
    fn error(&self) -> f64;
    /// Whether the error is small enough.
    fn is_right(&self) -> bool;
}

/// The outcomes of one run.
#[derive(Debug, Default)]
pub(crate) struct RunResult {
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) cuts: Vec<CutVerdict>,
    pub(crate) clocks: Vec<ClockCheck>,
    pub(crate) paths: Vec<PathCheck>,
    pub(crate) what_ifs: Vec<WhatIfResult>,
}

/// A prediction, and the measured time.
#[derive(Debug, Clone)]
pub(crate) struct WhatIfResult {
    pub(crate) scenario: String,
    pub(crate) what_if: String,
    /// In seconds; `None` if explain declines.
    pub(crate) predicted: Option<f64>,
    pub(crate) measured: f64,
}

/// Maximum relative error of a prediction.
pub(crate) const MAX_ERROR: f64 = 0.25;

impl WhatIfResult {
    pub(crate) fn relative_error(&self) -> Option<f64> {
        self.predicted.map(|predicted| (predicted - self.measured).abs() / self.measured)
    }
}

impl Outcome for WhatIfResult {
    fn subject(&self) -> &str {
        &self.what_if
    }

    fn error(&self) -> f64 {
        self.relative_error().unwrap_or(f64::INFINITY)
    }

    fn is_right(&self) -> bool {
        self.error() <= MAX_ERROR
    }
}

/// The runs of one scenario. An error is a run that did not happen as described.
#[derive(Debug, Default)]
pub(crate) struct Runs(Vec<Result<RunResult, String>>);

impl Runs {
    pub(crate) fn add(&mut self, result: Result<RunResult, String>) {
        self.0.push(result);
    }

    fn completed(&self) -> impl Iterator<Item = &RunResult> {
        self.0.iter().flatten()
    }

    pub(crate) fn verdicts(&self) -> Vec<&Verdict> {
        medians(self.completed().flat_map(|run| &run.verdicts))
    }

    pub(crate) fn cuts(&self) -> Vec<&CutVerdict> {
        medians(self.completed().flat_map(|run| &run.cuts))
    }

    pub(crate) fn clocks(&self) -> Vec<&ClockCheck> {
        medians(self.completed().flat_map(|run| &run.clocks))
    }

    pub(crate) fn paths(&self) -> Vec<&PathCheck> {
        medians(self.completed().flat_map(|run| &run.paths))
    }

    pub(crate) fn what_ifs(&self) -> Vec<&WhatIfResult> {
        medians(self.completed().flat_map(|run| &run.what_ifs))
    }

    /// For each subject, the number of its outcomes and of the right ones.
    fn counts(&self) -> BTreeMap<&str, (usize, usize)> {
        let happened = self.0.iter().map(|run| ("it happened", run.is_ok()));
        let outcomes = self.completed().flat_map(|run| {
            let verdicts = run.verdicts.iter().map(|one| (one.subject(), one.is_right()));
            let clocks = run.clocks.iter().map(|one| (one.subject(), one.is_right()));
            let paths = run.paths.iter().map(|one| (one.subject(), one.is_right()));
            verdicts.chain(clocks).chain(paths).chain(run.what_ifs.iter().map(|one| (one.subject(), one.is_right())))
        });
        let mut counts: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for (subject, is_right) in happened.chain(outcomes) {
            let (times, right) = counts.entry(subject).or_default();
            *times += 1;
            *right += usize::from(is_right);
        }
        counts
    }

    /// Whether another run may change the result.
    pub(crate) fn needs_another(&self) -> bool {
        let is_open = |(times, right): &(usize, usize)| if *times == 1 { *right == 0 } else { right * 2 == *times };
        self.0.len() < MAX_RUNS && self.counts().values().any(is_open)
    }

    /// Whether most runs happened as the scenario describes.
    pub(crate) fn happened(&self) -> bool {
        self.completed().count() * 2 > self.0.len()
    }

    /// The outcomes that were not right in every run, if there is more than one run.
    pub(crate) fn summary(&self) -> Option<String> {
        if self.0.len() < 2 {
            return None;
        }
        let counts = self.counts();
        let unstable = counts.iter().filter(|(_, (times, right))| right < times);
        let unstable: Vec<_> =
            unstable.map(|(subject, (times, right))| format!("{subject} right in {right} of {times} runs")).collect();
        Some(format!("ran {} times: {}", self.0.len(), unstable.join(", ")))
    }
}

/// For each subject the outcome with the median error; of two, the one with the larger error.
fn medians<'a, T: Outcome>(outcomes: impl Iterator<Item = &'a T>) -> Vec<&'a T> {
    let mut by_subject: BTreeMap<&str, Vec<&T>> = BTreeMap::new();
    for outcome in outcomes {
        by_subject.entry(outcome.subject()).or_default().push(outcome);
    }
    let median = |mut outcomes: Vec<&'a T>| {
        outcomes.sort_by(|a, b| a.error().total_cmp(&b.error()));
        outcomes[outcomes.len() / 2]
    };
    by_subject.into_values().map(median).collect()
}
