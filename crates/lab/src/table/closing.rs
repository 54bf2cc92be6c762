//! What could not run, and how to get it.

use std::collections::BTreeMap;

use super::Look;
use crate::{
    results::{CellResult, RunResult, Status},
    words::spoken,
};

pub(super) fn render(run: &RunResult, look: Look) -> String {
    let skipped: Vec<&CellResult> = run.cells.iter().filter(|cell| cell.status == Status::Skipped).collect();
    if skipped.is_empty() {
        return String::new();
    }
    let mut text = look.title("Skipped");
    for (reason, names) in by_reason(run, &skipped) {
        text += &look.paragraph("  ", 4, &format!("{}: {reason}", spoken(&names)));
    }
    text + "\n"
}

/// Who was skipped for the same reason; where only part of somebody's cells was, which.
fn by_reason<'a>(run: &RunResult, skipped: &[&'a CellResult]) -> BTreeMap<&'a str, Vec<String>> {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for cell in skipped {
        let reason = cell.reason.as_deref().unwrap_or("no reason given");
        let others = run.cells.iter().filter(|other| other.contender == cell.contender);
        let everywhere = others.into_iter().all(|other| other.status == cell.status && other.reason == cell.reason);
        let name =
            if everywhere { cell.label() } else { format!("{} ({}, {})", cell.label(), cell.workload, cell.network) };
        let names = reasons.entry(reason).or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    reasons
}
