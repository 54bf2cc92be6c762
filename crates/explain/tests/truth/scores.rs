//! The scores of `explain` over all scenarios, and their limits.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    cut::CutVerdict,
    path_check::{PathCheck, Property},
    runs::{MAX_ERROR, Outcome, RunResult, Runs, WhatIfResult},
    testbed::VANTAGE_POINTS,
    verdict::{ClockCheck, Verdict},
};

/// Minimum share of right verdicts.
const MIN_RIGHT: f64 = 0.95;

/// Minimum share of parts of captures that are explained like the whole.
const MIN_RIGHT_PARTS: f64 = 0.85;

/// Maximum share of what-ifs that explain declines.
const MAX_DECLINED: f64 = 0.2;

/// Maximum share of wrong inferences about a path: a busy machine sends late, and is then the bottleneck itself.
const MAX_WRONG_PATHS: f64 = 0.05;

/// Maximum median error of predictions; the maximum at the 95th percentile is [`MAX_ERROR`].
const MAX_MEDIAN_ERROR: f64 = 0.10;

/// The runs of each scenario.
#[derive(Debug, Default)]
pub(crate) struct Scores(BTreeMap<String, Runs>);

impl Scores {
    pub(crate) fn add(&mut self, scenario: &str, result: Result<RunResult, String>) {
        self.0.entry(scenario.to_owned()).or_default().add(result);
    }

    /// The scenarios that must run again.
    pub(crate) fn to_repeat(&self) -> Vec<String> {
        self.0.iter().filter(|(_, runs)| runs.needs_another()).map(|(scenario, _)| scenario.clone()).collect()
    }

    /// Prints the scores, and checks them against the limits.
    pub(crate) fn print_and_check(&self) -> bool {
        let repeated: Vec<_> = self.0.iter().filter_map(|(scenario, runs)| Some((scenario, runs.summary()?))).collect();
        if !repeated.is_empty() {
            println!("\nrepeated alone; the majority of the runs counts:");
            for (scenario, summary) in repeated {
                println!("  {scenario} {summary}");
            }
        }
        let failed: Vec<_> = self.0.iter().filter(|(_, runs)| !runs.happened()).map(|(scenario, _)| scenario).collect();
        for scenario in &failed {
            println!("{scenario} did not happen as described");
        }
        let happened = failed.is_empty();
        let verdicts = self.verdicts();
        let cuts = self.cuts();
        let clocks = self.clocks();
        let paths = self.paths();
        let what_ifs = self.what_ifs();
        happened && verdicts && cuts && clocks && paths && what_ifs
    }

    /// Prints how many parts of captures are explained like the whole, and which are not.
    fn cuts(&self) -> bool {
        let cuts: Vec<&CutVerdict> = self.0.values().flat_map(Runs::cuts).collect();
        let wrong: Vec<&CutVerdict> = cuts.iter().copied().filter(|cut| !cut.is_right()).collect();
        for CutVerdict { scenario, subject, expected, found, shares } in &wrong {
            println!("  {scenario}, {subject}: {found} instead of {expected} ({shares})");
        }
        let (right, all) = (cuts.len() - wrong.len(), cuts.len());
        println!("{right} of {all} parts of captures are explained like the whole: {:.1} %", share(right, all) * 100.0);
        all == 0 || share(right, all) >= MIN_RIGHT_PARTS
    }

    /// Prints the confusion matrix and the wrong verdicts.
    fn verdicts(&self) -> bool {
        let mut verdicts: Vec<&Verdict> = self.0.values().flat_map(Runs::verdicts).collect();
        if verdicts.is_empty() {
            return true;
        }
        verdicts.sort_by_key(|verdict| (&verdict.scenario, verdict.vantage));
        let mut cells: BTreeMap<(&str, &str), [u32; 3]> = BTreeMap::new();
        for verdict in &verdicts {
            let vantage = VANTAGE_POINTS.iter().position(|point| *point == verdict.vantage).unwrap_or(0);
            cells.entry((&verdict.expected, verdict.found)).or_default()[vantage] += 1;
        }
        println!(
            "\n{:<24} {:<24} {:>7} {:>7} {:>7}",
            "happened", "found", VANTAGE_POINTS[0], VANTAGE_POINTS[1], VANTAGE_POINTS[2]
        );
        for ((expected, found), [client, middle, server]) in &cells {
            let mark = if expected == found { "" } else { "  <" };
            println!("{expected:<24} {found:<24} {client:>7} {middle:>7} {server:>7}{mark}");
        }
        let wrong: Vec<_> = verdicts.iter().filter(|verdict| !verdict.is_right()).collect();
        for verdicts in wrong.chunk_by(|a, b| a.scenario == b.scenario) {
            println!("  {}: {}", verdicts[0].scenario, verdicts[0].says);
            for Verdict { vantage, expected, found, wrong, shares, .. } in verdicts {
                let other = (expected != found).then(|| format!("{found} instead of {expected}"));
                let wrong: Vec<_> = other.iter().chain(wrong).map(String::as_str).collect();
                println!("    {vantage}: {} ({shares})", wrong.join("; "));
            }
        }
        let (right, all) = (verdicts.len() - wrong.len(), verdicts.len());
        let causes: BTreeSet<_> = verdicts.iter().map(|verdict| &verdict.expected).collect();
        println!("{right} of {all} verdicts on {} causes are right: {:.1} %", causes.len(), share(right, all) * 100.0);
        share(right, all) >= MIN_RIGHT
    }

    fn clocks(&self) -> bool {
        let clocks = self.0.values().flat_map(Runs::clocks);
        let mut clocks: Vec<&ClockCheck> = clocks.filter(|clock| clock.is_comparable()).collect();
        if clocks.is_empty() {
            return true;
        }
        clocks.sort_by_key(|clock| (clock.name, &clock.scenario));
        println!("\n{:<32} {:<16} {:>8} {:>8} {:>6}", "scenario", "clock", "measured", "explain", "error");
        for clock in &clocks {
            let ClockCheck { scenario, name, truth, explain, .. } = clock;
            println!("{scenario:<32} {name:<16} {truth:>7.3}s {explain:>7.3}s {:>5.1}%", clock.error() * 100.0);
        }
        clocks.iter().all(|clock| clock.is_right())
    }

    /// Prints how near what was inferred of the paths is to what was set, and what is wrong.
    fn paths(&self) -> bool {
        let all: Vec<&PathCheck> = self.0.values().flat_map(Runs::paths).collect();
        for property in Property::ALL {
            let checks: Vec<&PathCheck> = all.iter().copied().filter(|check| check.property == property).collect();
            let mut ratios: Vec<f64> = checks.iter().filter_map(|check| check.ratio()).collect();
            ratios.sort_by(f64::total_cmp);
            let (right, count) = (checks.iter().filter(|check| check.is_right()).count(), checks.len());
            println!("\n{}: {right} of {count} inferences are right", property.name());
            if let (Some(least), Some(most)) = (ratios.first(), ratios.last()) {
                let median = ratios[ratios.len() / 2];
                println!("  {} inferred / set: {least:.3} to {most:.3}, median {median:.3}", ratios.len());
            }
            for PathCheck { scenario, vantage, set, inferred, .. } in checks.iter().filter(|check| !check.is_right()) {
                let text = |value: &Option<f64>| value.map_or("none".to_owned(), |value| value.to_string());
                println!("  {scenario}, {vantage}: {} instead of {}", text(inferred), text(set));
            }
        }
        let wrong = all.iter().filter(|check| !check.is_right()).count();
        share(wrong, all.len()) <= MAX_WRONG_PATHS
    }

    fn what_ifs(&self) -> bool {
        let what_ifs: Vec<&WhatIfResult> = self.0.values().flat_map(Runs::what_ifs).collect();
        if what_ifs.is_empty() {
            return true;
        }
        println!("\n{:<32} {:<28} {:>9} {:>9} {:>6}", "scenario", "what if", "predicted", "measured", "error");
        for result in &what_ifs {
            let WhatIfResult { scenario, what_if, predicted, measured } = result;
            let predicted = predicted.map_or("declined".to_owned(), |predicted| format!("{predicted:.3}s"));
            let error = result.relative_error().map_or(String::new(), |error| format!("{:.1}%", error * 100.0));
            println!("{scenario:<32} {what_if:<28} {predicted:>9} {measured:>8.3}s {error:>6}");
        }
        let mut errors: Vec<f64> = what_ifs.iter().filter_map(|result| result.relative_error()).collect();
        errors.sort_by(f64::total_cmp);
        let at = |share: f64| {
            errors.get((errors.len().saturating_sub(1) as f64 * share).round() as usize).copied().unwrap_or(0.0)
        };
        let (median, p95, all) = (at(0.5), at(0.95), what_ifs.len());
        let (made, median_percent, p95_percent) = (errors.len(), median * 100.0, p95 * 100.0);
        println!("{made} of {all} predicted: median error {median_percent:.1} %, p95 {p95_percent:.1} %");
        share(all - made, all) <= MAX_DECLINED && median <= MAX_MEDIAN_ERROR && p95 <= MAX_ERROR
    }
}

fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}
