//! Comparing runs: which cells became faster or slower, and how the runs themselves differ.
//!
//! The first run is the **baseline**. Each later run is compared with it, cell by cell, with the estimate that also
//! compares contenders ([`shift`](crate::stats::shift)). No run is compared with the one before it: if each of five
//! runs is a little slower than the last, every step may be within noise while the whole change is not.
//!
//! The cells of one run took turns on one machine; those of several runs did not. So the comparison also lists how the
//! runs differ: kernel, settings, versions, or a changed network or workload of the same name. Cells whose network or
//! workload has changed are not compared.
//!
//! Nor are cells that other programs disturbed in one of the runs. Of the others, a difference counts only if it is more
//! than the machine may have added to the slower run ([`disturbance`](crate::disturbance)): a busier machine is no
//! regression.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    format::spoken,
    results::{CellResult, RunResult, Status},
    stats::{
        median,
        shift::{CONFIDENCE, LEAST_CONFIDENCE, Shift, ratio},
    },
};

/// The comparison of several runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// The runs, the baseline first.
    pub runs: Vec<Compared>,
    /// The cells of any of them; those of one workload and network stand together.
    pub cells: Vec<CellChange>,
}

/// One of the compared runs. Texts refer to it by its number, counted from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The name that the caller uses.
    pub name: String,
    /// When it began.
    pub started: String,
    /// Its differences from the baseline, one text each.
    pub unlike: Vec<String>,
    /// Whether it was made on another processor, or with an emulator of another accuracy, than the baseline.
    pub is_elsewhere: bool,
}

/// A cell in the baseline and in later runs.
#[derive(Debug, Clone, PartialEq)]
pub struct CellChange {
    /// The workload.
    pub workload: String,
    /// The network.
    pub network: String,
    /// The contender, with its settings.
    pub contender: String,
    /// Whether the contender is a model.
    pub model: bool,
    /// The baseline's median, in seconds.
    pub median_s: Option<f64>,
    /// Its result in each later run.
    pub later: Vec<Later>,
}

/// A cell in a run after the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Later {
    /// The median, in seconds.
    pub median_s: Option<f64>,
    /// Its time divided by the baseline's, or why there is no ratio.
    pub ratio: Result<Shift, String>,
}

/// How a cell changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    /// It takes less time than in the baseline.
    Faster,
    /// It takes more.
    Slower,
    /// The samples show no difference.
    Same,
    /// It cannot be compared.
    Unknown,
}

/// How the cells of a run changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cells that take less time than in the baseline.
    pub faster: usize,
    /// Cells that take more.
    pub slower: usize,
    /// Cells whose samples show no difference.
    pub same: usize,
    /// Cells that cannot be compared.
    pub unknown: usize,
}

impl Tally {
    /// How many cells were compared.
    pub fn compared(self) -> usize {
        self.faster + self.slower + self.same
    }
}

impl CellChange {
    /// The contender's name, marked if it is a model.
    pub fn label(&self) -> String {
        if self.model { format!("{} (model)", self.contender) } else { self.contender.clone() }
    }
}

impl Later {
    /// How the cell changed.
    pub fn trend(&self) -> Trend {
        match &self.ratio {
            Err(_) => Trend::Unknown,
            Ok(ratio) if !ratio.differs() => Trend::Same,
            Ok(ratio) if ratio.value < 1.0 => Trend::Faster,
            Ok(_) => Trend::Slower,
        }
    }
}

impl Change {
    /// How many cells changed in each run after the baseline.
    pub fn tallies(&self) -> Vec<Tally> {
        let later = 0..self.runs.len().saturating_sub(1);
        let count = |run: usize, trend| self.cells.iter().filter(|cell| cell.later[run].trend() == trend).count();
        let tally = |run| Tally {
            faster: count(run, Trend::Faster),
            slower: count(run, Trend::Slower),
            same: count(run, Trend::Same),
            unknown: count(run, Trend::Unknown),
        };
        later.map(tally).collect()
    }

    /// What to hold against the runs that were made under other conditions than the baseline; none if there are none.
    pub(crate) fn elsewhere(&self) -> Option<String> {
        let numbered = (1..).zip(&self.runs);
        let runs: Vec<String> =
            numbered.filter(|(_, run)| run.is_elsewhere).map(|(number, _)| format!("run {number}")).collect();
        (!runs.is_empty()).then(|| {
            format!(
                "The machine or the emulator's accuracy is not that of run 1 in {}: differences may be theirs.",
                spoken(&runs)
            )
        })
    }

    /// How many differences to expect by chance, since the comparisons are not corrected for their number; none for
    /// few comparisons.
    pub(crate) fn by_chance(&self) -> Option<String> {
        let telling =
            |later: &&Later| later.ratio.as_ref().is_ok_and(|ratio| ratio.confidence > LEAST_CONFIDENCE - 1e-9);
        let all = self.cells.iter().flat_map(|cell| &cell.later).filter(telling).count();
        let few = (1.0 - CONFIDENCE) * all as f64;
        (few >= 1.0).then(|| {
            format!("If nothing had changed, about {few:.0} of {all} comparisons would still differ by chance.")
        })
    }
}

/// Compares each run with the first, the baseline. Each run comes with the name that the caller uses.
pub fn compare(runs: &[(&str, &RunResult)]) -> Change {
    let Some(((_, baseline), later)) = runs.split_first() else { return Change::default() };
    let compared = |(name, run): &(&str, &RunResult)| Compared {
        name: (*name).to_owned(),
        started: run.started.clone(),
        unlike: circumstances(baseline, run),
        is_elsewhere: baseline.host.cpu != run.host.cpu || late(baseline, run).is_some(),
    };
    let mut blocks: Vec<Vec<&CellResult>> = Vec::new();
    for cell in runs.iter().flat_map(|(_, run)| &run.cells) {
        match blocks.iter_mut().find(|block| block[0].workload == cell.workload && block[0].network == cell.network) {
            Some(block) if block.iter().any(|known| known.contender == cell.contender) => {}
            Some(block) => block.push(cell),
            None => blocks.push(vec![cell]),
        }
    }
    let later: Vec<(usize, &RunResult)> = (2..).zip(later.iter().map(|(_, run)| *run)).collect();
    Change {
        runs: runs.iter().map(compared).collect(),
        cells: blocks.into_iter().flatten().map(|cell| change(baseline, &later, cell)).collect(),
    }
}

fn twin<'a>(run: &'a RunResult, cell: &CellResult) -> Option<&'a CellResult> {
    run.cell(&cell.workload, &cell.network, &cell.contender)
}

fn change(baseline: &RunResult, later: &[(usize, &RunResult)], cell: &CellResult) -> CellChange {
    let was = twin(baseline, cell);
    let became = |(number, run): &(usize, &RunResult)| {
        let now = twin(run, cell);
        let samples = present(1, was).and_then(|was| Ok((was, present(*number, now)?)));
        let ratio = samples.and_then(|(was, now)| {
            unlike(baseline, run, cell).map_or(Ok(()), |what| Err(format!("run {number} has a different {what}")))?;
            weighed(was, now).unwrap_or_else(|| Err("a time is zero".to_owned()))
        });
        Later { median_s: now.and_then(|cell| cell.median_s), ratio }
    };
    CellChange {
        workload: cell.workload.clone(),
        network: cell.network.clone(),
        contender: cell.contender.clone(),
        model: cell.model,
        median_s: was.and_then(|cell| cell.median_s),
        later: later.iter().map(became).collect(),
    }
}

/// The ratio of two cells, unless the machine may have made the difference: then it disappears without the time that the
/// machine may have added to the slower one, and not to the other. None if a time is zero.
fn weighed(was: &CellResult, now: &CellResult) -> Option<Result<Shift, String>> {
    let measured = ratio(&was.samples_s, &now.samples_s)?;
    if !measured.differs() {
        return Some(Ok(measured));
    }
    let least = if measured.value > 1.0 {
        ratio(&was.samples_s, &undisturbed(now, was))
    } else {
        ratio(&undisturbed(was, now), &now.samples_s)
    };
    let remains = least.is_some_and(|least| least.differs() && (least.value > 1.0) == (measured.value > 1.0));
    Some(if remains { Ok(measured) } else { Err("the machine may have made the difference".to_owned()) })
}

/// A cell's times without what the machine may have added, beyond what it usually added to those of `other`: an emulator that
/// is as late in both runs makes no difference.
fn undisturbed(cell: &CellResult, other: &CellResult) -> Vec<f64> {
    let added = |cell: &CellResult| cell.machine_samples.iter().map(|machine| machine.added_s).collect::<Vec<_>>();
    let usual = median(&added(other)).unwrap_or_default();
    let added = added(cell).into_iter().map(|added| (added - usual).max(0.0)).chain(std::iter::repeat(0.0));
    cell.samples_s.iter().zip(added).map(|(time, added)| time - added).collect()
}

/// A measured cell, or why there is none.
fn present(run: usize, cell: Option<&CellResult>) -> Result<&CellResult, String> {
    match cell {
        None => Err(format!("not in run {run}")),
        Some(cell) => match cell.status {
            Status::Ok if cell.disturbed.is_some() => Err(format!("disturbed in run {run}")),
            Status::Ok => Ok(cell),
            Status::Skipped => Err(format!("skipped in run {run}")),
            Status::Failed => Err(format!("failed in run {run}")),
        },
    }
}

/// Why cells of the same name are not comparable.
fn unlike(then: &RunResult, now: &RunResult, cell: &CellResult) -> Option<&'static str> {
    let network = |run: &RunResult| run.networks.iter().find(|n| n.name == cell.network).map(|n| n.link.clone());
    let workload =
        |run: &RunResult| run.workloads.iter().find(|w| w.name == cell.workload).map(|w| w.description.clone());
    if network(then) != network(now) {
        return Some("network");
    }
    (workload(then) != workload(now)).then_some("workload")
}

fn circumstances(then: &RunResult, now: &RunResult) -> Vec<String> {
    let mut differences = Vec::new();
    let mut note = |what: &str, then: &str, now: &str| {
        if then != now {
            differences.push(format!("{what}: {then} → {now}"));
        }
    };
    note("experiment", &then.experiment, &now.experiment);
    note("machine", &then.host.name, &now.host.name);
    if let Some([then, now]) = late(then, now) {
        note("delay error, 99th percentile", &then, &now);
    }
    note("kernel", &then.host.kernel, &now.host.kernel);
    note("cpu", &then.host.cpu, &now.host.cpu);
    let maps: [(_, &BTreeMap<_, _>, &BTreeMap<_, _>); 3] = [
        ("", &then.settings, &now.settings),
        ("", &then.host.sysctls, &now.host.sysctls),
        ("version of ", &then.host.tools, &now.host.tools),
    ];
    for (kind, then, now) in maps {
        for key in then.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
            let value = |map: &BTreeMap<String, String>| map.get(key).cloned().unwrap_or_else(|| "none".to_owned());
            note(&format!("{kind}{key}"), &value(then), &value(now));
        }
    }
    for network in &now.networks {
        let same = then.networks.iter().find(|other| other.name == network.name);
        note(&network.name, same.map_or(&network.description, |then| &then.description), &network.description);
    }
    for workload in &now.workloads {
        let same = then.workloads.iter().find(|other| other.name == workload.name);
        note(&workload.name, same.map_or(&workload.description, |then| &then.description), &workload.description);
    }
    differences
}

/// The calibrations' delay errors, if they differ by more than calibrations of one quiet machine do.
fn late(then: &RunResult, now: &RunResult) -> Option<[String; 2]> {
    /// The 99th percentile varies by this factor from one calibration to the next.
    const VARIES: f64 = 3.0;
    let us = |run: &RunResult| run.calibration.as_ref().map(|calibration| calibration.delay_error_p99_us);
    let (then, now) = (us(then)?, us(now)?);
    (then.max(now) > VARIES * then.min(now)).then(|| [then, now].map(|us| format!("{us:.0} µs")))
}

#[cfg(test)]
mod tests;
