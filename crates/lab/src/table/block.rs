//! One workload on one network.

use comfy_table::CellAlignment;

use super::{
    Look, Style,
    fit::{Column, draw},
};
use crate::{
    results::{CellResult, Comparison, NetworkRecord, RunResult, Status, WorkloadRecord},
    stats::{
        range_coverage,
        shift::{CONFIDENCE, LEAST_CONFIDENCE},
    },
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
    let rivals = Rivals { run, ranked: &ranked };
    let mut text = heading + "\n" + &table(&rivals, look);
    for cell in cells.iter().filter(|cell| cell.status == Status::Failed) {
        let why = cell.reason.as_deref().unwrap_or("no reason given");
        text += &look.paragraph("  ", 4, &format!("{} failed: {why}", cell.label()));
    }
    if ranked.is_empty() {
        text += "  nothing was measured\n";
    }
    let mut sentences = rivals.sentences();
    sentences.extend(busy(&ranked));
    if !sentences.is_empty() {
        text += "\n";
    }
    for sentence in sentences {
        text += &look.paragraph("  ", 4, &sentence);
    }
    text + &reasons(&ranked, look) + "\n"
}

fn table(rivals: &Rivals<'_>, look: Look) -> String {
    let ranked = rivals.ranked;
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
    let places = (0..ranked.len()).map(|cell| match rivals.places(cell) {
        (best, worst) if best == worst => best.to_string(),
        (best, worst) => format!("{best}–{worst}"),
    });
    let fewest = ranked.iter().map(|cell| cell.samples_s.len()).min().unwrap_or_default();
    let spread = if range_coverage(fewest) < 0.95 { "\nrange" } else { "95 %\ninterval" };
    let mut columns = vec![
        Column { side: CellAlignment::Left, ..column("\ncontender", 0, &|cell| Some(cell.label())) },
        column("\ntime", 0, &|cell| cell.median_s.map(|median| scale.with_unit(median))),
        column(spread, 2, &interval),
        column("quicker\nthan h1", 1, &|cell| rivals.quicker(cell)),
        column("times\nthe floor", 1, &|cell| cell.times_floor.map(times)),
        column("time\n÷ RTT", 3, &|cell| cell.round_trips.map(|trips| format!("{trips:.0}"))),
        column("\nrequests", 5, &|cell| whole(cell.requests)),
        column("connec-\ntions", 4, &|cell| whole(cell.connections)),
    ];
    if rivals.plain().is_none() {
        columns.retain(|column| !column.heading.starts_with("quicker"));
    }
    if rivals.comparable() {
        columns.insert(1, Column { cells: places.collect(), ..column("\nplace", 2, &|_| None) });
    }
    let slowest = medians.last().copied().unwrap_or(1.0);
    let shares: Vec<f64> = medians.iter().map(|median| median / slowest).collect();
    let faint: Vec<bool> = ranked.iter().map(|cell| cell.model).collect();
    draw(columns, &shares, &faint, look)
}

/// The comparisons of one block's cells, which stand fastest first.
struct Rivals<'a> {
    run: &'a RunResult,
    ranked: &'a [&'a CellResult],
}

impl<'a> Rivals<'a> {
    fn compare(&self, faster: usize, slower: usize) -> Option<&'a Comparison> {
        let (a, b) = (self.ranked[faster].path(), self.ranked[slower].path());
        self.run.comparisons.iter().find(|comparison| comparison.a == a && comparison.b == b)
    }

    fn differ(&self, one: usize, other: usize) -> bool {
        self.compare(one.min(other), one.max(other)).is_some_and(|comparison| comparison.differs)
    }

    /// Of the ways to load a page, the one that others are compared with.
    fn plain(&self) -> Option<usize> {
        self.ranked.iter().position(|cell| cell.contender == "h1").filter(|_| self.ranked.len() > 1)
    }

    /// How much less time a way takes than the plain one, in per cent of that, with what bounds it.
    fn quicker(&self, cell: &CellResult) -> Option<String> {
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
    fn comparable(&self) -> bool {
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

    /// What is worth saying: who wins and by how much, or who may have won.
    fn sentences(&self) -> Vec<String> {
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

/// What each one's time was spent on, in the order of the table.
fn reasons(ranked: &[&CellResult], look: Look) -> String {
    let told: Vec<(String, &str)> =
        ranked.iter().filter_map(|cell| Some((cell.label(), cell.why.as_ref()?.answer.as_str()))).collect();
    if told.is_empty() {
        return String::new();
    }
    let names = told.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let indent = "    ".len() + names + "  ".len();
    // Long names would leave no room beside them.
    let beside = 2 * indent <= look.width();
    let heading = look.paragraph("  ", 4, "Where the time went, by the packets of each one's typical sample:");
    told.iter().fold(format!("\n{heading}"), |text, (name, answer)| {
        // A number is not parted from its sign.
        let answer = answer.replace(" %", "\u{a0}%");
        let line = if beside {
            look.paragraph(&format!("    {name:<names$}  "), indent, &answer)
        } else {
            look.paragraph("    ", 6, &format!("{name}: {answer}"))
        };
        text + &line.replace('\u{a0}', " ")
    })
}

/// Whose work the server may have been the limit of: it is most of one core from here on.
const BUSY: f64 = 0.8;

/// That the server had much to do, where it had.
fn busy(ranked: &[&CellResult]) -> Option<String> {
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
