//! The scores of `explain` over all scenarios, and their limits.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    runs::{FAR, Pair, Play, Plays, Tells},
    testbed::PLACES,
    verdict::{Clock, Verdict},
};

/// The least share of verdicts that are right.
const RIGHT: f64 = 0.95;

/// How many of the what-ifs explain may decline.
const DECLINED: f64 = 0.2;

/// How far a prediction may be from what came in the median; in 95 of 100, [`FAR`].
const MEDIAN: f64 = 0.10;

/// What was found, scenario by scenario.
#[derive(Debug, Default)]
pub(crate) struct Scores(BTreeMap<String, Plays>);

impl Scores {
    pub(crate) fn enter(&mut self, scenario: &str, play: Result<Play, String>) {
        self.0.entry(scenario.to_owned()).or_default().enter(play);
    }

    /// The scenarios that are to be played again.
    pub(crate) fn open(&self) -> Vec<String> {
        self.0.iter().filter(|(_, plays)| plays.is_open()).map(|(scenario, _)| scenario.clone()).collect()
    }

    /// Prints it; says whether the bars are cleared.
    pub(crate) fn settle(&self) -> bool {
        let again: Vec<_> = self.0.iter().filter_map(|(scenario, plays)| Some((scenario, plays.says()?))).collect();
        if !again.is_empty() {
            println!("\nplayed again, by itself; what most plays told counts:");
            for (scenario, says) in again {
                println!("  {scenario} {says}");
            }
        }
        let failed: Vec<_> =
            self.0.iter().filter(|(_, plays)| !plays.happened()).map(|(scenario, _)| scenario).collect();
        for scenario in &failed {
            println!("{scenario} did not happen as it says");
        }
        let happened = failed.is_empty();
        let verdicts = self.verdicts();
        let clocks = self.clocks();
        let pairs = self.pairs();
        happened && verdicts && clocks && pairs
    }

    /// The confusion matrix, with the verdicts that are not right.
    fn verdicts(&self) -> bool {
        let mut verdicts: Vec<&Verdict> = self.0.values().flat_map(Plays::verdicts).collect();
        if verdicts.is_empty() {
            return true;
        }
        verdicts.sort_by_key(|verdict| (&verdict.scenario, verdict.place));
        let mut cells: BTreeMap<(&str, &str), [u32; 3]> = BTreeMap::new();
        for verdict in &verdicts {
            let place = PLACES.iter().position(|place| *place == verdict.place).unwrap_or(0);
            cells.entry((&verdict.expected, verdict.found)).or_default()[place] += 1;
        }
        println!("\n{:<24} {:<24} {:>7} {:>7} {:>7}", "happened", "found", PLACES[0], PLACES[1], PLACES[2]);
        for ((expected, found), [client, middle, server]) in &cells {
            let mark = if expected == found { "" } else { "  <" };
            println!("{expected:<24} {found:<24} {client:>7} {middle:>7} {server:>7}{mark}");
        }
        let wrong: Vec<_> = verdicts.iter().filter(|verdict| !verdict.holds()).collect();
        for of_one in wrong.chunk_by(|a, b| a.scenario == b.scenario) {
            println!("  {}: {}", of_one[0].scenario, of_one[0].says);
            for Verdict { place, expected, found, wrong, shares, .. } in of_one {
                let other = (expected != found).then(|| format!("{found} in place of {expected}"));
                let wrong: Vec<_> = other.iter().chain(wrong).map(String::as_str).collect();
                println!("    {place}: {} ({shares})", wrong.join("; "));
            }
        }
        let (right, all) = (verdicts.len() - wrong.len(), verdicts.len());
        let causes: BTreeSet<_> = verdicts.iter().map(|verdict| &verdict.expected).collect();
        println!("{right} of {all} verdicts on {} causes are right: {:.1} %", causes.len(), share(right, all) * 100.0);
        share(right, all) >= RIGHT
    }

    fn clocks(&self) -> bool {
        let clocks = self.0.values().flat_map(Plays::clocks);
        let mut clocks: Vec<&Clock> = clocks.filter(|clock| clock.tells()).collect();
        if clocks.is_empty() {
            return true;
        }
        clocks.sort_by_key(|clock| (clock.name, &clock.scenario));
        println!("\n{:<32} {:<16} {:>8} {:>8} {:>6}", "scenario", "clock", "says", "explain", "off");
        for clock in &clocks {
            let Clock { scenario, name, truth, explain, .. } = clock;
            println!("{scenario:<32} {name:<16} {truth:>7.3}s {explain:>7.3}s {:>5.1}%", clock.off() * 100.0);
        }
        clocks.iter().all(|clock| clock.holds())
    }

    fn pairs(&self) -> bool {
        let pairs: Vec<&Pair> = self.0.values().flat_map(Plays::pairs).collect();
        if pairs.is_empty() {
            return true;
        }
        println!("\n{:<32} {:<28} {:>9} {:>9} {:>6}", "scenario", "what if", "predicted", "measured", "off");
        for pair in &pairs {
            let Pair { scenario, what_if, predicted, measured } = pair;
            let predicted = predicted.map_or("declined".to_owned(), |predicted| format!("{predicted:.3}s"));
            let off = pair.error().map_or(String::new(), |error| format!("{:.1}%", error * 100.0));
            println!("{scenario:<32} {what_if:<28} {predicted:>9} {measured:>8.3}s {off:>6}");
        }
        let mut errors: Vec<f64> = pairs.iter().filter_map(|pair| pair.error()).collect();
        errors.sort_by(f64::total_cmp);
        let at = |share: f64| {
            errors.get((errors.len().saturating_sub(1) as f64 * share).round() as usize).copied().unwrap_or(0.0)
        };
        let (median, p95, all) = (at(0.5), at(0.95), pairs.len());
        let (made, median_off, p95_off) = (errors.len(), median * 100.0, p95 * 100.0);
        println!("{made} of {all} predicted: off by {median_off:.1} % in the median, {p95_off:.1} % at p95");
        share(all - made, all) <= DECLINED && median <= MEDIAN && p95 <= FAR
    }
}

fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}
