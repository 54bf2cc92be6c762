//! The answer that stands first on a page: who is fastest, where the time of the slowest went, what of the source
//! held.

use serde::Serialize;

use crate::{
    attribution::remedy_of,
    claims::Verdict,
    compare::{Change, Tally, Trend},
    format::{Scale, counted, estimated, spoken, times},
    ranking::Ranking,
    results::{CellResult, RunResult},
};

/// A part of an answer, and what it answers in a word or two.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    about: &'static str,
    text: String,
}

impl Part {
    fn new(about: &'static str, text: String) -> Self {
        Self { about, text }
    }
}

/// Who is fastest, why the others are not, what would change that, and what of the source held.
pub(super) fn of_run(run: &RunResult) -> Vec<Part> {
    let blocks: Vec<Ranking<'_>> = run
        .networks
        .iter()
        .flat_map(|network| run.workloads.iter().map(|workload| Ranking::new(run, &workload.name, &network.name)))
        .filter(|rivals| !rivals.ranked.is_empty())
        .collect();
    let first = match &blocks[..] {
        [] => vec![Part::new("Fastest", nothing(run))],
        [only] => one_block(run, only),
        blocks => many_blocks(blocks),
    };
    first.into_iter().chain(claims(run)).collect()
}

fn nothing(run: &RunResult) -> String {
    let reason = run.cells.iter().find_map(|cell| cell.reason.as_deref());
    match reason {
        Some(reason) => format!("Nothing was measured: {reason}."),
        None => "Nothing was measured: the run has no cell.".to_owned(),
    }
}

fn said(seconds: f64) -> String {
    Scale::of([seconds]).with_unit(seconds)
}

/// A cell's time: `0.340 s, 4.10× the floor`.
fn took(cell: &CellResult) -> String {
    let time = said(cell.median_s.unwrap_or_default());
    cell.times_floor.map_or(time.clone(), |floor| format!("{time}, {} the least that physics allows", times(floor)))
}

fn one_block(run: &RunResult, rivals: &Ranking<'_>) -> Vec<Part> {
    let best = rivals.ranked[0];
    let workload = run.workloads.iter().find(|workload| workload.name == best.workload);
    let network = run.networks.iter().find(|network| network.name == best.network);
    let what = workload.map_or(&best.workload, |workload| &workload.description);
    let over = network.map_or(&best.network, |network| &network.description);
    let to = format!("to {what} over {over}");
    let who = match rivals.winner() {
        Some(winner) => format!("{} is the fastest {to}: {}.", winner.label(), took(winner)),
        None => format!("{} takes {} {to}.", best.label(), took(best)),
    };
    let gaps = rivals.sentences().join(" ");
    let who = if gaps.is_empty() { who } else { format!("{who} {gaps}") };
    std::iter::once(Part::new("Fastest", who)).chain(why(rivals)).collect()
}

fn many_blocks(blocks: &[Ranking<'_>]) -> Vec<Part> {
    let who = if blocks.iter().any(Ranking::comparable) { in_front(blocks) } else { shortest(blocks) };
    // Where most is to be gained, what of is it made?
    let widest = blocks.iter().max_by(|a, b| gap(a).total_cmp(&gap(b)));
    let widest = widest.filter(|rivals| gap(rivals) > 1.0).into_iter().flat_map(|rivals| {
        let (best, worst) = (rivals.ranked[0], rivals.ranked[rivals.ranked.len() - 1]);
        let ratio = rivals.compare(0, rivals.ranked.len() - 1);
        let apart = ratio.map_or_else(String::new, |gap| format!(", {} as long", estimated(gap.ratio, gap.ci95)));
        let place = format!("{} over {}", best.workload, best.network);
        let (short, long) = (took(best), said(worst.median_s.unwrap_or_default()));
        let sentence = format!(
            "The widest gap is in {place}: {} takes {short}; {} takes {long}{apart}.",
            best.label(),
            worst.label()
        );
        std::iter::once(Part::new("How far apart", sentence)).chain(why(rivals))
    });
    std::iter::once(Part::new("Fastest", who)).chain(widest).collect()
}

/// So little behind the best, detectable or not, changes nobody's mind.
const NEAR: f64 = 1.05;

/// How many contenders are named.
const NAMED: usize = 3;

/// Who is in front most often: hardly behind the best, or not detectably.
fn in_front(blocks: &[Ranking<'_>]) -> String {
    let races =
        |name: &str| blocks.iter().filter(|rivals| rivals.ranked.iter().any(|cell| cell.label() == name)).count();
    let fronts = tally(blocks.iter().filter(|rivals| rivals.comparable()).flat_map(|rivals| rivals.front(NEAR)));
    let part = |(name, count): &(String, usize)| format!("{name} in {count} of {}", races(name));
    let mut parts: Vec<String> = fronts.iter().take(NAMED).map(part).collect();
    if let Some(first) = parts.first_mut() {
        first.push_str(" races");
    }
    let parts = spoken(&parts);
    format!("{parts}, counting those where nobody is detectably faster, or by less than 5 %.")
}

/// How often each contender is there, most often first.
fn tally<'a>(cells: impl Iterator<Item = &'a CellResult>) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for name in cells.map(CellResult::label) {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// Who had the shortest times, where chance cannot be told from a difference.
fn shortest(blocks: &[Ranking<'_>]) -> String {
    let firsts = tally(blocks.iter().filter(|rivals| rivals.ranked.len() > 1).map(|rivals| rivals.ranked[0]));
    let parts: Vec<String> = firsts.iter().map(|(name, count)| format!("{name} in {count}")).collect();
    match &parts[..] {
        [] => format!("There is one contender in each of {} races, and nobody to compare it with.", blocks.len()),
        parts => format!(
            "Too few samples to tell a difference from chance: take at least three of each. The shortest times, of {} \
             races: {}.",
            blocks.len(),
            spoken(parts)
        ),
    }
}

/// The slowest as a multiple of the fastest.
fn gap(rivals: &Ranking<'_>) -> f64 {
    rivals.compare(0, rivals.ranked.len().saturating_sub(1)).map_or(1.0, |widest| widest.ratio)
}

/// What the slowest spent its time on, and what would change that.
fn why(rivals: &Ranking<'_>) -> Vec<Part> {
    let (Some(fastest), Some(slowest)) = (rivals.ranked.first(), rivals.ranked.last()) else { return Vec::new() };
    let Some(why) = slowest.why.as_ref().filter(|why| !why.seconds.is_empty()) else { return Vec::new() };
    let requests = match (fastest.requests, slowest.requests) {
        (Some(few), Some(many)) if few < many => {
            format!("{} sends {}, {} {many}. ", fastest.label(), counted(few, "request"), slowest.label())
        }
        _ => String::new(),
    };
    let spent = format!("{requests}The time of {} went to: {}.", slowest.label(), why.answer);
    let change = remedy_of(&why.seconds).map(|remedy| Part::new("What to change", sentence(remedy)));
    std::iter::once(Part::new("Why", spent)).chain(change).collect()
}

/// `fewer round trips` as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).chain(['.']).collect()
}

fn claims(run: &RunResult) -> Option<Part> {
    let count = |verdict| run.claims.iter().filter(|claim| claim.in_run && claim.verdict == verdict).count();
    let (yes, no, open) = (count(Verdict::Reproduced), count(Verdict::Refuted), count(Verdict::Inconclusive));
    let all = yes + no + open;
    (all > 0).then(|| {
        let checks = counted(all as u64, "sentence");
        let held =
            format!("Of {checks} of it that this run checks, {yes} reproduced, {no} refuted, {open} inconclusive.");
        Part::new("The source", held)
    })
}

/// What became of the cells since the baseline.
pub(super) fn of_comparison(change: &Change) -> Vec<String> {
    let tallies = change.tallies();
    if tallies.iter().all(|tally| tally.compared() == 0) {
        return vec!["No cell of these runs can be compared.".to_owned()];
    }
    let first = match &tallies[..] {
        [only] => since(*only),
        tallies => {
            let each: Vec<String> =
                (2..).zip(tallies).map(|(number, tally)| format!("run {number} {}", of_many(*tally))).collect();
            format!("Against run 1, the baseline, and beyond noise: {}.", each.join("; "))
        }
    };
    std::iter::once(first).chain(most(change)).chain(change.by_chance()).collect()
}

/// What became of the cells in the only later run.
fn since(tally: Tally) -> String {
    let Tally { faster, slower, same, .. } = tally;
    let cells = counted(tally.compared() as u64, "cell");
    if faster + slower == 0 {
        return format!("Nothing changed beyond noise: none of {cells} shows a detectable difference.");
    }
    format!(
        "Of {cells} that can be compared, {faster} became faster and {slower} slower beyond noise; {same} show no \
         detectable difference."
    )
}

/// What became of the cells in one of several later runs.
fn of_many(tally: Tally) -> String {
    let cells = counted(tally.compared() as u64, "cell");
    let number = |cells: usize| if cells == 0 { "none".to_owned() } else { cells.to_string() };
    match tally {
        _ if tally.compared() == 0 => "has no cell that can be compared".to_owned(),
        Tally { faster: 0, slower: 0, .. } => format!("shows no detectable difference in any of {cells}"),
        Tally { faster, slower, .. } => {
            format!("is faster in {} and slower in {} of {cells}", number(faster), number(slower))
        }
    }
}

/// Where most has changed.
fn most(change: &Change) -> Option<String> {
    let changed = change.cells.iter().flat_map(|cell| {
        let differing =
            (2..).zip(&cell.later).filter(|(_, later)| matches!(later.trend(), Trend::Faster | Trend::Slower));
        differing.filter_map(move |(number, later)| Some((cell, number, later.ratio.as_ref().ok()?)))
    });
    let (cell, number, ratio) = changed.max_by(|(.., a), (.., b)| a.value.ln().abs().total_cmp(&b.value.ln().abs()))?;
    let run = if change.runs.len() == 2 { String::new() } else { format!(" in run {number}") };
    Some(format!(
        "Most of all {} at {} over {}{run}, which takes {} the time that it took.",
        cell.label(),
        cell.workload,
        cell.network,
        estimated(ratio.value, ratio.interval)
    ))
}
