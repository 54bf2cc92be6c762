//! One workload on one network.

use comfy_table::CellAlignment;

use super::{
    Look, Style,
    columns::{Column, draw},
    deviations,
};
use crate::{
    format::{Scale, times},
    ranking::{DISTURBED, Ranking, server_bottleneck},
    results::{CellResult, NetworkRecord, RunResult, Status, WorkloadRecord},
    stats::range_coverage,
};

pub(super) fn render(run: &RunResult, workload: &WorkloadRecord, network: &NetworkRecord, look: Look) -> String {
    let cells: Vec<&CellResult> =
        run.cells.iter().filter(|cell| cell.workload == workload.name && cell.network == network.name).collect();
    let Some(first) = cells.first() else { return String::new() };
    // The run was stopped before this block, some of whose cells would have been skipped anyway.
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
    let ranking = Ranking::new(run, &workload.name, &network.name);
    let shown: Vec<&CellResult> = ranking.shown().collect();
    let mut text = heading + "\n" + &table(&ranking, look);
    for cell in cells.iter().filter(|cell| cell.status == Status::Failed) {
        let why = cell.reason.as_deref().unwrap_or("no reason given");
        text += &look.paragraph("  ", 4, &format!("{} failed: {why}", cell.label()));
    }
    text += &deviations::render(&cells, look);
    if shown.is_empty() {
        text += "  nothing was measured\n";
    }
    let mut sentences = ranking.sentences();
    sentences.extend(server_bottleneck(&ranking.ranked));
    if !sentences.is_empty() {
        text += "\n";
    }
    for sentence in sentences {
        text += &look.paragraph("  ", 4, &sentence);
    }
    text + &reasons(&shown, look) + "\n"
}

fn table(ranking: &Ranking<'_>, look: Look) -> String {
    let shown: Vec<&CellResult> = ranking.shown().collect();
    if shown.is_empty() {
        return String::new();
    }
    let medians: Vec<f64> = shown.iter().filter_map(|cell| cell.median_s).collect();
    let scale = Scale::of(medians.iter().copied());
    let column = |heading: &str, rank, cell: &dyn Fn(&CellResult) -> Option<String>| Column {
        heading: heading.to_owned(),
        side: CellAlignment::Right,
        rank,
        cells: shown.iter().map(|each| cell(each).unwrap_or_else(|| "–".to_owned())).collect(),
    };
    let whole = |number: Option<u64>| number.map(|number| number.to_string());
    let interval = |cell: &CellResult| cell.ci95_s.map(|ci| format!("{}–{}", scale.number(ci.lo), scale.number(ci.hi)));
    let ranks = (0..shown.len()).map(|cell| ranking.rank(cell));
    let fewest = shown.iter().map(|cell| cell.samples_s.len()).min().unwrap_or_default();
    let spread = if range_coverage(fewest) < 0.95 { "\nrange" } else { "95 %\ninterval" };
    let mut columns = vec![
        Column { side: CellAlignment::Left, ..column("\ncontender", 0, &|cell| Some(marked(cell))) },
        column("\ntime", 0, &|cell| cell.median_s.map(|median| scale.with_unit(median))),
        column(spread, 2, &interval),
        column("quicker\nthan h1", 1, &|cell| ranking.saved(cell)),
        column("times\nthe floor", 1, &|cell| cell.times_floor.map(times)),
        column("first\npaint", 2, &|cell| cell.fcp_s.map(|time| scale.with_unit(time))),
        column("largest\npaint", 2, &|cell| cell.lcp_s.map(|time| scale.with_unit(time))),
        column("Speed\nIndex", 3, &|cell| cell.speed_index_s.map(|time| scale.with_unit(time))),
        column("time\n÷ RTT", 3, &|cell| cell.round_trips.map(|trips| format!("{trips:.0}"))),
        column("\nrequests", 5, &|cell| whole(cell.requests)),
        column("connec-\ntions", 4, &|cell| whole(cell.connections)),
    ];
    if ranking.baseline().is_none() {
        columns.retain(|column| !column.heading.starts_with("quicker"));
    }
    if shown.iter().all(|cell| cell.fcp_s.is_none() && cell.lcp_s.is_none()) {
        columns.retain(|column| !column.heading.ends_with("paint"));
    }
    if shown.iter().all(|cell| cell.speed_index_s.is_none()) {
        columns.retain(|column| !column.heading.ends_with("Index"));
    }
    if ranking.is_comparable() {
        columns.insert(1, Column { cells: ranks.collect(), ..column("\nrank", 2, &|_| None) });
    }
    let slowest = medians.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let shares: Vec<f64> = medians.iter().map(|median| median / slowest).collect();
    let faint: Vec<bool> = shown.iter().map(|cell| cell.model).collect();
    draw(columns, &shares, &faint, look)
}

/// A cell's label, with a sign if it was disturbed.
fn marked(cell: &CellResult) -> String {
    if cell.disturbed.is_some() { format!("{DISTURBED} {}", cell.label()) } else { cell.label() }
}

/// The attribution of each contender's time, in the order of the table.
fn reasons(shown: &[&CellResult], look: Look) -> String {
    let answers: Vec<(String, &str)> =
        shown.iter().filter_map(|cell| Some((cell.label(), cell.why.as_ref()?.answer.as_str()))).collect();
    if answers.is_empty() {
        return String::new();
    }
    let names = answers.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let indent = "    ".len() + names + "  ".len();
    // Long names would leave no room beside them.
    let beside = 2 * indent <= look.width();
    let heading = look.paragraph("  ", 4, "Where the time went, from the capture of each contender's typical sample:");
    answers.iter().fold(format!("\n{heading}"), |text, (name, answer)| {
        // No line break between a number and its per cent sign.
        let answer = answer.replace(" %", "\u{a0}%");
        let line = if beside {
            look.paragraph(&format!("    {name:<names$}  "), indent, &answer)
        } else {
            look.paragraph("    ", 6, &format!("{name}: {answer}"))
        };
        text + &line.replace('\u{a0}', " ")
    })
}
