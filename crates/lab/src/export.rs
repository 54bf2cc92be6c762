//! The results of a run as a table for other programs: Markdown for an issue or a page, CSV for a spreadsheet.
//!
//! Both have every cell, also the skipped and the failed ones; a disturbed cell is marked, as everywhere. Times are in seconds
//! in CSV, and in one unit per table in Markdown.

use std::fmt::Write as _;

use serde::Serialize;

use crate::{
    format::{Scale, times},
    ranking::{DISTURBED, Ranking},
    results::{CellResult, RunResult, Status},
};

/// One table for each workload on each network, fastest first.
pub fn markdown(run: &RunResult) -> String {
    let title = if run.title.is_empty() { &run.experiment } else { &run.title };
    let settings: Vec<String> =
        run.settings_in_words().into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let mut text = format!("## {title}\n\n{}; {}.\n", run.started, settings.join(", "));
    for network in &run.networks {
        for workload in &run.workloads {
            let ranking = Ranking::new(run, &workload.name, &network.name);
            let is_here = |cell: &&CellResult| cell.workload == workload.name && cell.network == network.name;
            let unmeasured = run.cells.iter().filter(is_here).filter(|cell| cell.median_s.is_none());
            let cells: Vec<&CellResult> = ranking.shown().chain(unmeasured).collect();
            if cells.is_empty() {
                continue;
            }
            let _ = writeln!(
                text,
                "\n### {} over {}\n\n{}; {}\n\n{HEADINGS}",
                workload.name, network.name, workload.description, network.description
            );
            let scale = Scale::of(cells.iter().filter_map(|cell| cell.median_s));
            for cell in cells {
                let _ = writeln!(text, "| {} |", row(cell, scale).map(|cell| cell.replace('|', "\\|")).join(" | "));
            }
        }
    }
    if !run.claims.is_empty() {
        let _ = writeln!(text, "\n{}.", run.claim_counts());
    }
    text
}

const HEADINGS: &str = "\
| contender | median | interval | × floor | time ÷ RTT | requests | connections |
|---|---:|---:|---:|---:|---:|---:|";

fn row(cell: &CellResult, scale: Scale) -> [String; 7] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let name = if cell.disturbed.is_some() { format!("{DISTURBED} {}", cell.label()) } else { cell.label() };
    let median = match cell.status {
        Status::Ok => or_dash(cell.median_s.map(|median| scale.with_unit(median))),
        Status::Skipped => "skipped".to_owned(),
        Status::Failed => "failed".to_owned(),
    };
    [
        name,
        median,
        or_dash(cell.ci95_s.map(|ci| format!("{}–{}", scale.number(ci.lo), scale.number(ci.hi)))),
        or_dash(cell.times_floor.map(times)),
        or_dash(cell.round_trips.map(|trips| format!("{trips:.0}"))),
        or_dash(cell.requests.map(|number| number.to_string())),
        or_dash(cell.connections.map(|number| number.to_string())),
    ]
}

/// A line of the CSV; empty fields are unknown.
#[derive(Serialize)]
struct Line<'a> {
    workload: &'a str,
    network: &'a str,
    contender: &'a str,
    model: bool,
    status: Status,
    disturbed: bool,
    samples: usize,
    median_s: Option<f64>,
    ci95_lo_s: Option<f64>,
    ci95_hi_s: Option<f64>,
    floor_s: f64,
    times_floor: Option<f64>,
    round_trips: Option<f64>,
    requests: Option<u64>,
    connections: Option<u64>,
    bytes: Option<u64>,
}

impl<'a> From<&'a CellResult> for Line<'a> {
    fn from(cell: &'a CellResult) -> Self {
        Self {
            workload: &cell.workload,
            network: &cell.network,
            contender: &cell.contender,
            model: cell.model,
            status: cell.status,
            disturbed: cell.disturbed.is_some(),
            samples: cell.samples_s.len(),
            median_s: cell.median_s,
            ci95_lo_s: cell.ci95_s.map(|ci| ci.lo),
            ci95_hi_s: cell.ci95_s.map(|ci| ci.hi),
            floor_s: cell.floor_s,
            times_floor: cell.times_floor,
            round_trips: cell.round_trips,
            requests: cell.requests,
            connections: cell.connections,
            bytes: cell.bytes,
        }
    }
}

/// One line for each cell, in the order of the run.
pub fn csv(run: &RunResult) -> Result<Vec<u8>, csv::Error> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    run.cells.iter().map(Line::from).try_for_each(|line| csv.serialize(line))?;
    csv.into_inner().map_err(|error| error.into_error().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_data::{DAVFS2, disturbed_run, run};

    fn csv(run: &RunResult) -> String {
        String::from_utf8(super::csv(run).unwrap()).unwrap()
    }

    #[test]
    fn every_cell_has_a_row_in_both() {
        let run = run(4, 1.0, &DAVFS2);
        let text = markdown(&run);
        let rows = text.lines().filter(|line| line.starts_with("| ") && !line.contains("contender")).count();
        assert_eq!((rows, csv(&run).lines().count() - 1), (run.cells.len(), run.cells.len()));
        assert!(text.contains("| davfs2 | skipped |"), "{text}");
    }

    #[test]
    fn disturbed_cell_is_marked() {
        let run = disturbed_run(1.0, &["haul"], 0.48);
        assert!(markdown(&run).contains("| ⚠ haul |"));
        assert!(csv(&run).lines().any(|line| line.contains(",haul,false,ok,true,")));
    }
}
