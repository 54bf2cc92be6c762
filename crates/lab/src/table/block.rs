//! One workload on one network.

use comfy_table::CellAlignment;

use super::{
    Look, Style,
    fit::{Column, draw},
};
use crate::{
    results::{CellResult, Comparison, NetworkRecord, RunResult, Status, WorkloadRecord},
    stats::shift::{CONFIDENCE, LEAST_CONFIDENCE},
    words::{Scale, estimated, spoken, times},
};

pub(super) fn render(run: &RunResult, workload: &WorkloadRecord, network: &NetworkRecord, look: Look) -> String {
    let cells: Vec<&CellResult> =
        run.cells.iter().filter(|cell| cell.workload == workload.name && cell.network == network.name).collect();
    let Some(first) = cells.first() else { return String::new() };
    // A block that a stopped run did not come to; some of its cells could not have run anyway.
    if cells.iter().all(|cell| cell.status == Status::Skipped) && cells.iter().any(|cell| !cell.was_reached()) {
        return String::new();
    }
    let name = format!("{}, {}", workload.name, network.name);
    let floor = Scale::of([first.floor_s]);
    let about =
        format!(": {}, {}; floor {}", workload.description, network.description, floor.with_unit(first.floor_s));
    let mut heading = look.paragraph("", 2, &format!("{name}{about}"));
    if let Some(rest) = heading.strip_prefix(&name) {
        heading = look.paint(Style::Bold, &name) + rest;
    }
    let mut ranked: Vec<&CellResult> = cells.iter().copied().filter(|cell| cell.median_s.is_some()).collect();
    ranked.sort_by(|a, b| a.median_s.unwrap_or_default().total_cmp(&b.median_s.unwrap_or_default()));
    let mut text = heading + "\n" + &table(&ranked, look);
    for cell in cells.iter().filter(|cell| cell.status == Status::Failed) {
        let why = cell.reason.as_deref().unwrap_or("no reason given");
        text += &look.paragraph("  ", 4, &format!("{} failed: {why}", cell.label()));
    }
    if ranked.is_empty() {
        text += "  nothing was measured\n";
    }
    let sentences = sentences(run, &ranked);
    if !sentences.is_empty() {
        text += "\n";
    }
    for sentence in sentences {
        text += &look.paragraph("  ", 4, &sentence);
    }
    text + "\n"
}

fn table(ranked: &[&CellResult], look: Look) -> String {
    if ranked.is_empty() {
        return String::new();
    }
    let medians: Vec<f64> = ranked.iter().filter_map(|cell| cell.median_s).collect();
    let scale = Scale::of(medians.iter().copied());
    let column = |heading, rank, cell: &dyn Fn(&CellResult) -> Option<String>| Column {
        heading,
        side: CellAlignment::Right,
        rank,
        cells: ranked.iter().map(|each| cell(each).unwrap_or_else(|| "–".to_owned())).collect(),
    };
    let whole = |number: Option<u64>| number.map(|number| number.to_string());
    let interval = |cell: &CellResult| cell.ci95_s.map(|ci| format!("{}–{}", scale.number(ci.lo), scale.number(ci.hi)));
    let columns = vec![
        Column { side: CellAlignment::Left, ..column("\ncontender", 0, &|cell| Some(cell.label())) },
        column("\ntime", 0, &|cell| cell.median_s.map(|median| scale.with_unit(median))),
        column("\ninterval", 2, &interval),
        column("times\nthe floor", 1, &|cell| cell.times_floor.map(times)),
        column("round\ntrips", 3, &|cell| cell.round_trips.map(|trips| format!("{trips:.0}"))),
        column("\nrequests", 5, &|cell| whole(cell.requests)),
        column("connec-\ntions", 4, &|cell| whole(cell.connections)),
    ];
    let slowest = medians.last().copied().unwrap_or(1.0);
    let shares: Vec<f64> = medians.iter().map(|median| median / slowest).collect();
    let faint: Vec<bool> = ranked.iter().map(|cell| cell.model).collect();
    draw(columns, &shares, &faint, look)
}

/// What is worth saying of a block: who wins, and who cannot be told apart.
fn sentences(run: &RunResult, ranked: &[&CellResult]) -> Vec<String> {
    let compare = |a: &CellResult, b: &CellResult| {
        let (a, b) = (a.path(), b.path());
        run.comparisons.iter().find(|comparison| comparison.a == a && comparison.b == b)
    };
    let [first, .., last] = ranked else { return Vec::new() };
    let Some(widest) = compare(first, last) else { return Vec::new() };
    if widest.confidence < LEAST_CONFIDENCE - 1e-9 {
        return vec!["Too few samples to tell a difference from chance: take at least three of each.".to_owned()];
    }
    let groups = groups(ranked, |a, b| compare(a, b).is_some_and(|comparison| !comparison.differs));
    let mut sentences = Vec::new();
    if let Some(next) = groups.get(1).map(|group| group[0]) {
        let gap = |rank, b: &CellResult| compare(first, b).filter(|gap| gap.differs).map(|gap| said(gap, rank, b));
        let slowest = if std::ptr::eq(next, *last) { None } else { gap("the slowest", last) };
        let gaps: Vec<String> = gap("the next", next).into_iter().chain(slowest).collect();
        if !gaps.is_empty() {
            sentences.push(format!("{} is {}.{}", first.label(), gaps.join(", and "), reserve(widest)));
        }
    }
    for group in groups.iter().filter(|group| group.len() > 1) {
        let names: Vec<String> = group.iter().map(|cell| cell.label()).collect();
        sentences.push(format!("No detectable difference between {}.", spoken(&names)));
    }
    sentences
}

fn said(gap: &Comparison, rank: &str, slow: &CellResult) -> String {
    format!("{} as fast as {}, {rank}", estimated(gap.ratio, gap.ci95), slow.label())
}

fn reserve(comparison: &Comparison) -> String {
    if comparison.confidence >= CONFIDENCE {
        return String::new();
    }
    format!(" (So few samples allow {:.0} % confidence, not 95 %.)", 100.0 * comparison.confidence)
}

/// Neighbours in rank of whom no two can be told apart.
fn groups<'a>(ranked: &[&'a CellResult], alike: impl Fn(&CellResult, &CellResult) -> bool) -> Vec<Vec<&'a CellResult>> {
    let mut groups: Vec<Vec<&CellResult>> = Vec::new();
    for cell in ranked {
        match groups.last_mut() {
            Some(group) if group.iter().all(|other| alike(other, cell)) => group.push(cell),
            _ => groups.push(vec![cell]),
        }
    }
    groups
}
