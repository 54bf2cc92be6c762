//! Runs side by side, each compared with the first. A table of two runs has times and intervals. A table of more has
//! one column per run, with a sign and a ratio; columns that do not fit continue below.

use comfy_table::CellAlignment;

use super::{
    Look,
    columns::{Column, draw},
};
use crate::{
    compare::{CellChange, Change, Later, Trend},
    format::{Scale, between, counted, times},
    stats::shift::{CONFIDENCE, LEAST_CONFIDENCE, Shift},
};

/// What changed between runs, as text with a newline at its end.
pub fn render_change(change: &Change, look: Look) -> String {
    let mut text = heading(change, look);
    let same = |a: &CellChange, b: &CellChange| a.workload == b.workload && a.network == b.network;
    for block in change.cells.chunk_by(same) {
        let name = format!("{}, {}", block[0].workload, block[0].network);
        text = text + "\n" + &look.title(&name);
        text += &if change.runs.len() == 2 { pair(block, look) } else { matrix(block, look) };
    }
    text + "\n" + &summary(change, look)
}

/// The numbers of the runs, and their differences from the first.
fn heading(change: &Change, look: Look) -> String {
    let mut text = look.title("Runs, compared with run 1");
    for (number, run) in (1..).zip(&change.runs) {
        let baseline = if number == 1 { ", the baseline" } else { "" };
        text += &look.paragraph("  ", 4, &format!("run {number}: {}, {}{baseline}", run.name, run.started));
        for unlike in &run.unlike {
            text += &look.paragraph("    differs: ", 6, unlike);
        }
    }
    text
}

fn column(heading: impl Into<String>, rank: u8, cells: Vec<String>) -> Column {
    Column { heading: heading.into(), side: CellAlignment::Right, rank, cells }
}

fn left(column: Column) -> Column {
    Column { side: CellAlignment::Left, ..column }
}

fn contenders(block: &[CellChange]) -> Column {
    left(column("contender", 0, block.iter().map(CellChange::label).collect()))
}

/// Two runs.
fn pair(block: &[CellChange], look: Look) -> String {
    let later = || block.iter().filter_map(|cell| cell.later.first());
    let scale = Scale::of(block.iter().filter_map(|cell| cell.median_s).chain(later().filter_map(|now| now.median_s)));
    let time = |median: Option<f64>| median.map_or_else(|| "–".to_owned(), |median| scale.with_unit(median));
    let of_ratio = |say: &dyn Fn(&Shift) -> String| {
        later().map(|now| now.ratio.as_ref().map_or_else(|_| "–".to_owned(), say)).collect()
    };
    let columns = vec![
        contenders(block),
        column("run 1", 2, block.iter().map(|cell| time(cell.median_s)).collect()),
        column("run 2", 1, later().map(|now| time(now.median_s)).collect()),
        column("ratio", 0, of_ratio(&|ratio| times(ratio.value))),
        column("interval", 3, of_ratio(&|ratio| between(ratio.interval))),
        left(column("", 0, later().map(verdict).collect())),
    ];
    draw(columns, &[], &faint(block), look)
}

fn faint(block: &[CellChange]) -> Vec<bool> {
    block.iter().map(|cell| cell.model).collect()
}

fn verdict(later: &Later) -> String {
    match (&later.ratio, later.trend()) {
        (Err(why), _) => why.clone(),
        (Ok(ratio), Trend::Same) if ratio.confidence < LEAST_CONFIDENCE - 1e-9 => "too few samples".to_owned(),
        (Ok(ratio), trend) => {
            let said = match trend {
                Trend::Faster => "faster",
                Trend::Slower => "slower",
                Trend::Same | Trend::Unknown => "no difference",
            };
            let few = ratio.confidence < CONFIDENCE;
            if few { format!("{said} ({:.0} %)", 100.0 * ratio.confidence) } else { said.to_owned() }
        }
    }
}

/// More than two runs: the baseline's times, and the ratios of the others.
fn matrix(block: &[CellChange], look: Look) -> String {
    let scale = Scale::of(block.iter().filter_map(|cell| cell.median_s));
    let baseline = |cell: &CellChange| cell.median_s.map_or_else(|| "–".to_owned(), |median| scale.with_unit(median));
    let first = || vec![contenders(block), column("run 1", 1, block.iter().map(baseline).collect())];
    let runs: Vec<usize> = (0..block[0].later.len()).collect();
    let later = |run: &usize| {
        let cells = block.iter().map(|cell| sign(&cell.later[*run])).collect();
        column(format!("run {}", run + 2), 0, cells)
    };
    let widest = runs.iter().map(|run| later(run).width()).max().unwrap_or(1);
    let taken: usize = first().iter().map(Column::width).sum();
    let beside = (look.width().saturating_sub(taken + "  ".len()) / widest).max(1);
    let tables = runs.chunks(beside).map(|some| {
        let columns = first().into_iter().chain(some.iter().map(later)).collect();
        draw(columns, &[], &faint(block), look)
    });
    tables.collect::<Vec<_>>().join("\n") + &not_compared(block, look)
}

/// A ratio, with a sign for its significance.
fn sign(later: &Later) -> String {
    let Ok(ratio) = &later.ratio else { return "–".to_owned() };
    let sign = match later.trend() {
        Trend::Faster => "▼",
        Trend::Slower => "▲",
        _ if ratio.confidence < LEAST_CONFIDENCE - 1e-9 => "?",
        _ => "=",
    };
    format!("{sign} {}", times(ratio.value))
}

/// Why some cells have no ratio, each reason once.
fn not_compared(block: &[CellChange], look: Look) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for cell in block {
        for why in cell.later.iter().filter_map(|later| later.ratio.as_ref().err()) {
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, names)) if names.contains(&cell.label()) => {}
                Some((_, names)) => names.push(cell.label()),
                None => reasons.push((why, vec![cell.label()])),
            }
        }
    }
    let said = |(why, names): (&str, Vec<String>)| {
        let who = if names.len() == block.len() { "all".to_owned() } else { names.join(", ") };
        look.paragraph("  – ", 4, &format!("{who}: {why}"))
    };
    reasons.into_iter().map(said).collect()
}

fn summary(change: &Change, look: Look) -> String {
    let mut text = String::new();
    for (number, tally) in (2..).zip(change.tallies()) {
        let said = format!(
            "Run {number}: {} faster than in run 1, {} slower, {} without a detectable difference, {} not comparable.",
            counted(tally.faster as u64, "cell"),
            tally.slower,
            tally.same,
            tally.unknown
        );
        text += &look.paragraph("", 2, &said);
    }
    if let Some(elsewhere) = change.elsewhere() {
        text += &look.paragraph("", 2, &elsewhere);
    }
    let signs = if change.runs.len() > 2 {
        " ▼ faster, ▲ slower, = no detectable difference, ? too few samples to tell, – not comparable."
    } else {
        " Intervals have 95 % confidence unless stated otherwise."
    };
    let luck = change.by_chance().map_or_else(String::new, |said| format!(" {said}"));
    text + &look.paragraph("", 0, &format!("A ratio is a run's time divided by run 1's.{signs}{luck}"))
}
