//! The contenders that were skipped, with advice, the cells that a stopped run did not reach, and how many were
//! disturbed.

use std::collections::BTreeMap;

use super::Look;
use crate::{
    format::spoken,
    results::{CellResult, RunResult, Status},
};

pub(super) fn render(run: &RunResult, look: Look) -> String {
    skipped(run, look) + &stopped(run, look) + &disturbed(run, look)
}

fn skipped(run: &RunResult, look: Look) -> String {
    let skipped = |cell: &&CellResult| cell.status == Status::Skipped && cell.was_reached();
    let skipped: Vec<&CellResult> = run.cells.iter().filter(skipped).collect();
    if skipped.is_empty() {
        return String::new();
    }
    let mut text = look.title("Skipped");
    for (reason, names) in by_reason(run, &skipped) {
        text += &look.paragraph("  ", 4, &format!("{}: {reason}", spoken(&names)));
    }
    text + "\n"
}

fn stopped(run: &RunResult, look: Look) -> String {
    let unreached = run.cells.iter().filter(|cell| !cell.was_reached()).count();
    if unreached == 0 {
        return String::new();
    }
    let said = format!("{unreached} of {} cells were not measured, because the run was stopped.", run.cells.len());
    look.title("Stopped early") + &look.paragraph("  ", 4, &said) + "\n"
}

fn disturbed(run: &RunResult, look: Look) -> String {
    let Some(said) = run.disturbance() else { return String::new() };
    look.title("Disturbed") + &look.paragraph("  ", 4, &said) + "\n"
}

/// The contenders that were skipped, by reason, with the cells if only some were skipped.
fn by_reason<'a>(run: &RunResult, skipped: &[&'a CellResult]) -> BTreeMap<&'a str, Vec<String>> {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for cell in skipped {
        let reason = cell.reason.as_deref().unwrap_or("no reason given");
        let likewise = |other: &&CellResult| other.status == cell.status && other.reason == cell.reason;
        let mut others = run.cells.iter().filter(|other| other.contender == cell.contender);
        let mut of_workload = others.clone().filter(|other| other.workload == cell.workload);
        let name = if others.all(|other| likewise(&other)) {
            cell.label()
        } else if of_workload.all(|other| likewise(&other)) {
            format!("{} ({})", cell.label(), cell.workload)
        } else {
            format!("{} ({}, {})", cell.label(), cell.workload, cell.network)
        };
        let names = reasons.entry(reason).or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    reasons
}
