//! Two runs: what became faster, what became slower, and whether they may be compared.
//!
//! The second run is measured against the first, cell by cell, by the same estimate as
//! rivals of one run ([`shift`](crate::stats::shift)). But cells of one run took turns on one
//! machine in one hour; cells of two runs did not. What is different about the runs
//! themselves is therefore listed first: a kernel, a setting, a tool's version, a network or
//! workload of the same name that is another one. Cells whose network or workload is not the
//! same are not compared at all.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    results::{CellResult, RunResult, Status},
    stats::shift::{Shift, ratio},
};

/// What two runs have in common and what not.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// When each began.
    pub started: [String; 2],
    /// What is different about the runs themselves, one sentence each.
    pub circumstances: Vec<String>,
    /// The cells of either run.
    pub cells: Vec<CellChange>,
}

/// A cell then and now.
#[derive(Debug, Clone, PartialEq)]
pub struct CellChange {
    /// What was done.
    pub workload: String,
    /// Over what.
    pub network: String,
    /// By whom.
    pub contender: String,
    /// Whether the contender is a model.
    pub model: bool,
    /// The medians, in seconds.
    pub medians_s: [Option<f64>; 2],
    /// How many times as long it takes in the second run, or why that cannot be said.
    pub ratio: Result<Shift, String>,
}

/// What became of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    /// It takes less time in the second run.
    Faster,
    /// It takes more.
    Slower,
    /// The samples show no difference.
    Same,
    /// It cannot be compared.
    Unknown,
}

impl CellChange {
    /// What became of it.
    pub fn trend(&self) -> Trend {
        match &self.ratio {
            Err(_) => Trend::Unknown,
            Ok(ratio) if !ratio.differs() => Trend::Same,
            Ok(ratio) if ratio.value < 1.0 => Trend::Faster,
            Ok(_) => Trend::Slower,
        }
    }
}

/// Measures the second run against the first.
pub fn compare(then: &RunResult, now: &RunResult) -> Change {
    let only_then = then.cells.iter().filter(|cell| twin(now, cell).is_none());
    let cells = now.cells.iter().map(|cell| change(then, now, cell)).chain(only_then.map(|cell| CellChange {
        medians_s: [cell.median_s, None],
        ..named(cell, Err("only in the first run".to_owned()))
    }));
    Change {
        started: [then.started.clone(), now.started.clone()],
        circumstances: circumstances(then, now),
        cells: cells.collect(),
    }
}

fn twin<'a>(run: &'a RunResult, cell: &CellResult) -> Option<&'a CellResult> {
    run.cell(&cell.workload, &cell.network, &cell.contender)
}

fn named(cell: &CellResult, ratio: Result<Shift, String>) -> CellChange {
    CellChange {
        workload: cell.workload.clone(),
        network: cell.network.clone(),
        contender: cell.contender.clone(),
        model: cell.model,
        medians_s: [None, cell.median_s],
        ratio,
    }
}

fn change(then: &RunResult, now: &RunResult, cell: &CellResult) -> CellChange {
    let Some(was) = twin(then, cell) else { return named(cell, Err("only in the second run".to_owned())) };
    let ratio = unlike(then, now, cell)
        .or_else(|| missing("first", was))
        .or_else(|| missing("second", cell))
        .map_or_else(|| ratio(&was.samples_s, &cell.samples_s).ok_or("a time is not above zero".to_owned()), Err);
    CellChange { medians_s: [was.median_s, cell.median_s], ..named(cell, ratio) }
}

fn missing(which: &str, cell: &CellResult) -> Option<String> {
    match cell.status {
        Status::Ok => None,
        Status::Skipped => Some(format!("skipped in the {which} run")),
        Status::Failed => Some(format!("failed in the {which} run")),
    }
}

/// Why cells of the same name are not the same.
fn unlike(then: &RunResult, now: &RunResult, cell: &CellResult) -> Option<String> {
    let network = |run: &RunResult| run.networks.iter().find(|n| n.name == cell.network).map(|n| n.link.clone());
    let workload =
        |run: &RunResult| run.workloads.iter().find(|w| w.name == cell.workload).map(|w| w.description.clone());
    if network(then) != network(now) {
        return Some("the network is not the same".to_owned());
    }
    (workload(then) != workload(now)).then(|| "the workload is not the same".to_owned())
}

fn circumstances(then: &RunResult, now: &RunResult) -> Vec<String> {
    let mut told = Vec::new();
    let mut tell = |what: &str, then: &str, now: &str| {
        if then != now {
            told.push(format!("{what}: {then}, then {now}"));
        }
    };
    tell("experiment", &then.experiment, &now.experiment);
    tell("kernel", &then.host.kernel, &now.host.kernel);
    tell("cpu", &then.host.cpu, &now.host.cpu);
    let maps: [(_, &BTreeMap<_, _>, &BTreeMap<_, _>); 3] = [
        ("", &then.settings, &now.settings),
        ("", &then.host.sysctls, &now.host.sysctls),
        ("version of ", &then.host.tools, &now.host.tools),
    ];
    for (kind, then, now) in maps {
        for key in then.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
            let value = |map: &BTreeMap<String, String>| map.get(key).cloned().unwrap_or_else(|| "none".to_owned());
            tell(&format!("{kind}{key}"), &value(then), &value(now));
        }
    }
    for network in &now.networks {
        let same = then.networks.iter().find(|other| other.name == network.name);
        tell(&network.name, same.map_or(&network.description, |then| &then.description), &network.description);
    }
    for workload in &now.workloads {
        let same = then.workloads.iter().find(|other| other.name == workload.name);
        tell(&workload.name, same.map_or(&workload.description, |then| &then.description), &workload.description);
    }
    told
}

#[cfg(test)]
mod tests;
