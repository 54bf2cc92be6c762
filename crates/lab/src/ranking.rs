//! Who is ahead of whom on one network and workload, and how surely: for the table and for the page.

use std::collections::HashMap;

use crate::{
    format::{estimated, spoken},
    results::{CellResult, Comparison, RunResult},
    stats::shift::{CONFIDENCE, LEAST_CONFIDENCE},
};

/// The measured cells of one block, fastest first, and how they compare.
pub(crate) struct Ranking<'a> {
    /// Fastest first.
    pub(crate) ranked: Vec<&'a CellResult>,
    /// By the places of the two, the faster one's first.
    pairs: HashMap<(usize, usize), &'a Comparison>,
}

impl<'a> Ranking<'a> {
    /// Those of `run` that do `workload` over `network`.
    pub(crate) fn new(run: &'a RunResult, workload: &str, network: &str) -> Self {
        let of_block = |cell: &&CellResult| cell.workload == workload && cell.network == network;
        let mut ranked: Vec<&CellResult> =
            run.cells.iter().filter(of_block).filter(|cell| cell.median_s.is_some()).collect();
        ranked.sort_by(|a, b| a.median_s.unwrap_or_default().total_cmp(&b.median_s.unwrap_or_default()));
        let places: HashMap<String, usize> = (0..).zip(&ranked).map(|(place, cell)| (cell.path(), place)).collect();
        let pair = |comparison: &'a Comparison| {
            let (a, b) = (places.get(&comparison.a)?, places.get(&comparison.b)?);
            Some(((*a.min(b), *a.max(b)), comparison))
        };
        let pairs = run.comparisons.iter().filter_map(pair).collect();
        Self { ranked, pairs }
    }

    pub(crate) fn compare(&self, faster: usize, slower: usize) -> Option<&'a Comparison> {
        self.pairs.get(&(faster, slower)).copied()
    }

    fn differ(&self, one: usize, other: usize) -> bool {
        self.compare(one.min(other), one.max(other)).is_some_and(|comparison| comparison.differs)
    }

    /// Of the ways to load a page, the one that others are compared with.
    pub(crate) fn plain(&self) -> Option<usize> {
        self.ranked.iter().position(|cell| cell.contender == "h1").filter(|_| self.ranked.len() > 1)
    }

    /// How much less time a way takes than the plain one, in per cent of that, with what bounds it.
    pub(crate) fn quicker(&self, cell: &CellResult) -> Option<String> {
        let (plain, place) = (self.plain()?, self.ranked.iter().position(|each| each.contender == cell.contender)?);
        if place == plain {
            return None;
        }
        let comparison = self.compare(plain.min(place), plain.max(place))?;
        // The slower of the two stands above the line.
        let saved = |ratio: f64| 100.0 * if place < plain { 1.0 - 1.0 / ratio } else { 1.0 - ratio };
        let (one, other) = (saved(comparison.ci95.lo), saved(comparison.ci95.hi));
        Some(format!("{:.1} % ({:.1}–{:.1})", saved(comparison.ratio), one.min(other), one.max(other)))
    }

    /// Whether there are samples enough for any difference to show.
    pub(crate) fn comparable(&self) -> bool {
        let widest = if self.ranked.len() < 2 { None } else { self.compare(0, self.ranked.len() - 1) };
        widest.is_some_and(|widest| widest.confidence >= LEAST_CONFIDENCE - 1e-9)
    }

    /// The places that a cell may really have: behind all that are detectably faster, before all
    /// that are detectably slower.
    fn places(&self, cell: usize) -> (usize, usize) {
        let apart = |others: std::ops::Range<usize>| others.filter(|other| self.differ(cell, *other)).count();
        let (faster, slower) = (apart(0..cell), apart(cell + 1..self.ranked.len()));
        (faster + 1, self.ranked.len() - slower)
    }

    /// That in words: `2`, `2–4`.
    pub(crate) fn place(&self, cell: usize) -> String {
        match self.places(cell) {
            (best, worst) if best == worst => best.to_string(),
            (best, worst) => format!("{best}–{worst}"),
        }
    }

    /// The one that is detectably faster than every other.
    pub(crate) fn winner(&self) -> Option<&'a CellResult> {
        let alone = self.comparable() && (1..self.ranked.len()).all(|other| self.differ(0, other));
        self.ranked.first().copied().filter(|_| alone)
    }

    /// Who is not detectably behind the first, or by less than the factor `near`.
    pub(crate) fn front(&self, near: f64) -> Vec<&'a CellResult> {
        let apart = |other: usize| self.compare(0, other).is_some_and(|pair| pair.differs && pair.ratio >= near);
        (0..self.ranked.len()).filter(|other| !apart(*other)).map(|place| self.ranked[place]).collect()
    }

    /// What is worth saying: who wins and by how much, or who may have won.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let last = self.ranked.len().saturating_sub(1);
        let Some(widest) = (last > 0).then(|| self.compare(0, last)).flatten() else { return Vec::new() };
        if !self.comparable() {
            return vec!["Too few samples to tell a difference from chance: take at least three of each.".to_owned()];
        }
        let first = self.ranked[0].label();
        let alike: Vec<usize> = (1..=last).filter(|other| !self.differ(0, *other)).collect();
        let mut sentences = Vec::new();
        if alike.len() == last && last > 1 {
            let slowest = self.ranked[last].label();
            return vec![format!("No detectable difference between {first} and any other, not even {slowest}.")];
        } else if alike.len() > 2 && alike == (1..=alike.len()).collect::<Vec<_>>() {
            let furthest = self.ranked[alike.len()].label();
            sentences.push(format!(
                "No detectable difference between {first} and the next {}, down to {furthest}.",
                alike.len()
            ));
        } else if !alike.is_empty() {
            let names: Vec<String> = alike.iter().map(|other| self.ranked[*other].label()).collect();
            sentences.push(format!("No detectable difference between {first} and {}.", spoken(&names)));
        }
        let next = (alike.is_empty() && last > 1).then_some((1, ", the next"));
        let gaps: Vec<String> = next
            .into_iter()
            .chain((!alike.contains(&last)).then_some((last, ", the slowest")))
            .filter_map(|(other, rank)| {
                let gap = self.compare(0, other)?;
                let other = self.ranked[other].label();
                Some(format!("{} as fast as {other}{rank}", estimated(gap.ratio, gap.ci95)))
            })
            .collect();
        if !gaps.is_empty() {
            sentences.push(format!("{first} is {}.{}", gaps.join(", and "), reserve(widest)));
        }
        sentences
    }
}

/// Whose work the server may have been the limit of: it is most of one core from here on.
const BUSY: f64 = 0.8;

/// That the server had much to do, where it had.
pub(crate) fn busy(ranked: &[&CellResult]) -> Option<String> {
    let share = |cell: &CellResult| Some(cell.server_cpu_s? / cell.median_s?);
    let busy = ranked.iter().filter_map(|cell| Some((share(cell).filter(|share| *share >= BUSY)?, cell.label())));
    let told: Vec<String> = busy.map(|(share, name)| format!("{:.0} % of a core with {name}", 100.0 * share)).collect();
    (!told.is_empty()).then(|| format!("The server used {}, and may be what limits it.", spoken(&told)))
}

fn reserve(comparison: &Comparison) -> String {
    if comparison.confidence >= CONFIDENCE {
        return String::new();
    }
    format!(" (So few samples allow {:.0} % confidence, not 95 %.)", 100.0 * comparison.confidence)
}
