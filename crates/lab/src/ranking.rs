//! The ranking of contenders on one network and workload, and how certain it is: for the table and the report.

use std::{collections::HashMap, ops::Range};

use crate::{
    format::{estimated, spoken},
    results::{CellResult, Comparison, RunResult},
    stats::shift::{CONFIDENCE, LEAST_CONFIDENCE},
};

/// The sign of a cell that other programs on the machine disturbed.
pub(crate) const DISTURBED: &str = "⚠";

/// The measured cells of one block, fastest first, and their comparisons.
///
/// Cells that other programs on the machine disturbed have no rank: they come last, and nothing is concluded from them.
pub(crate) struct Ranking<'a> {
    /// Fastest first.
    pub(crate) ranked: Vec<&'a CellResult>,
    /// The cells after them that were disturbed, fastest first.
    pub(crate) disturbed: Vec<&'a CellResult>,
    /// By the indices of both cells, the faster one's first.
    pairs: HashMap<(usize, usize), &'a Comparison>,
}

impl<'a> Ranking<'a> {
    /// The cells of `run` that do `workload` over `network`.
    pub(crate) fn new(run: &'a RunResult, workload: &str, network: &str) -> Self {
        let of_block = |cell: &&CellResult| cell.workload == workload && cell.network == network;
        let mut ranked: Vec<&CellResult> =
            run.cells.iter().filter(of_block).filter(|cell| cell.median_s.is_some()).collect();
        ranked.sort_by(|a, b| a.median_s.unwrap_or_default().total_cmp(&b.median_s.unwrap_or_default()));
        let (disturbed, ranked): (Vec<_>, Vec<_>) = ranked.into_iter().partition(|cell| cell.disturbed.is_some());
        let indices: HashMap<String, usize> = (0..).zip(&ranked).map(|(index, cell)| (cell.path(), index)).collect();
        let pair = |comparison: &'a Comparison| {
            let (a, b) = (indices.get(&comparison.a)?, indices.get(&comparison.b)?);
            Some(((*a.min(b), *a.max(b)), comparison))
        };
        let pairs = run.comparisons.iter().filter_map(pair).collect();
        Self { ranked, disturbed, pairs }
    }

    /// All measured cells, those with a rank first.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &'a CellResult> {
        self.ranked.iter().chain(&self.disturbed).copied()
    }

    pub(crate) fn compare(&self, faster: usize, slower: usize) -> Option<&'a Comparison> {
        self.pairs.get(&(faster, slower)).copied()
    }

    fn differ(&self, one: usize, other: usize) -> bool {
        self.compare(one.min(other), one.max(other)).is_some_and(|comparison| comparison.differs)
    }

    /// The index of plain HTTP/1.1, the baseline of contenders that load recorded pages.
    pub(crate) fn baseline(&self) -> Option<usize> {
        self.ranked.iter().position(|cell| cell.contender == "h1").filter(|_| self.ranked.len() > 1)
    }

    /// How much less time a cell takes than the baseline, in per cent, with the interval.
    pub(crate) fn saved(&self, cell: &CellResult) -> Option<String> {
        let (baseline, index) =
            (self.baseline()?, self.ranked.iter().position(|each| each.contender == cell.contender)?);
        if index == baseline {
            return None;
        }
        let comparison = self.compare(baseline.min(index), baseline.max(index))?;
        // A ratio is that of the slower to the faster.
        let saved = |ratio: f64| 100.0 * if index < baseline { 1.0 - 1.0 / ratio } else { 1.0 - ratio };
        let (one, other) = (saved(comparison.ci95.lo), saved(comparison.ci95.hi));
        Some(format!("{:.1} % ({:.1}–{:.1})", saved(comparison.ratio), one.min(other), one.max(other)))
    }

    /// Whether there are enough samples to detect any difference.
    pub(crate) fn is_comparable(&self) -> bool {
        let widest = if self.ranked.len() < 2 { None } else { self.compare(0, self.ranked.len() - 1) };
        widest.is_some_and(|widest| widest.confidence >= LEAST_CONFIDENCE - 1e-9)
    }

    /// The best and the worst rank that a cell may have: behind all that are detectably faster, before all that are
    /// detectably slower.
    fn ranks(&self, cell: usize) -> (usize, usize) {
        let apart = |others: Range<usize>| others.filter(|other| self.differ(cell, *other)).count();
        let (faster, slower) = (apart(0..cell), apart(cell + 1..self.ranked.len()));
        (faster + 1, self.ranked.len() - slower)
    }

    /// The rank of a cell as text: `2`, `2–4`.
    pub(crate) fn rank(&self, cell: usize) -> String {
        if cell >= self.ranked.len() {
            return "–".to_owned();
        }
        match self.ranks(cell) {
            (best, worst) if best == worst => best.to_string(),
            (best, worst) => format!("{best}–{worst}"),
        }
    }

    /// The cell that is detectably faster than every other.
    pub(crate) fn winner(&self) -> Option<&'a CellResult> {
        let alone = self.is_comparable() && (1..self.ranked.len()).all(|other| self.differ(0, other));
        self.ranked.first().copied().filter(|_| alone)
    }

    /// The cells that are not detectably slower than the first, or by less than the factor `near`.
    pub(crate) fn leaders(&self, near: f64) -> Vec<&'a CellResult> {
        let apart = |other: usize| self.compare(0, other).is_some_and(|pair| pair.differs && pair.ratio >= near);
        (0..self.ranked.len()).filter(|other| !apart(*other)).map(|index| self.ranked[index]).collect()
    }

    /// The conclusions: who wins and by how much, or who may have won, and which times are not to be trusted.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut sentences = self.order();
        sentences.extend(self.disturbances());
        sentences
    }

    /// What was disturbed, and by how much; cells of the same reason together.
    fn disturbances(&self) -> Vec<String> {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for cell in &self.disturbed {
            let why = cell.disturbed.as_deref().unwrap_or_default();
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(cell.label()),
                None => reasons.push((why, vec![cell.label()])),
            }
        }
        let said = |(why, names): (&str, Vec<String>)| {
            let was = if names.len() == 1 { "was" } else { "were" };
            format!("{DISTURBED} {} {was} disturbed, and not ranked: {why}.", spoken(&names))
        };
        reasons.into_iter().map(said).collect()
    }

    fn order(&self) -> Vec<String> {
        let last = self.ranked.len().saturating_sub(1);
        let Some(widest) = (last > 0).then(|| self.compare(0, last)).flatten() else { return Vec::new() };
        if !self.is_comparable() {
            return vec!["Too few samples to tell differences from chance; take at least 3 per contender.".to_owned()];
        }
        let first = self.ranked[0].label();
        let alike: Vec<usize> = (1..=last).filter(|other| !self.differ(0, *other)).collect();
        let mut sentences = Vec::new();
        if alike.len() == last && last > 1 {
            let slowest = self.ranked[last].label();
            return vec![format!(
                "No detectable difference between {first} and any other contender, down to {slowest}."
            )];
        } else if alike.len() > 2 && alike == (1..=alike.len()).collect::<Vec<_>>() {
            let furthest = self.ranked[alike.len()].label();
            sentences.push(format!(
                "No detectable difference between {first} and the next {}, down to {furthest}.",
                alike.len()
            ));
        } else if !alike.is_empty() {
            let names: Vec<String> = alike.iter().map(|other| self.ranked[*other].label()).collect();
            sentences.push(format!("No detectable difference between {first} and {}.", names.join(" or ")));
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
            sentences.push(format!("{first} is {}.{}", gaps.join(", and "), confidence_note(widest)));
        }
        sentences
    }
}

/// From this share of one core on, the server may be the bottleneck.
const BUSY: f64 = 0.8;

/// A note if the server may be the bottleneck.
pub(crate) fn server_bottleneck(ranked: &[&CellResult]) -> Option<String> {
    let share = |cell: &CellResult| Some(cell.server_cpu_s? / cell.median_s?);
    let busy = ranked.iter().filter_map(|cell| Some((share(cell).filter(|share| *share >= BUSY)?, cell.label())));
    let shares: Vec<String> =
        busy.map(|(share, name)| format!("{:.0} % of a core with {name}", 100.0 * share)).collect();
    (!shares.is_empty()).then(|| format!("The server may be the bottleneck: it used {}.", spoken(&shares)))
}

/// A note if the confidence is lower than usual.
fn confidence_note(comparison: &Comparison) -> String {
    if comparison.confidence >= CONFIDENCE {
        return String::new();
    }
    format!(" (With so few samples the confidence is {:.0} %, not 95 %.)", 100.0 * comparison.confidence)
}
