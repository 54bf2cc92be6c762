//! The answer at the top of a report: who is fastest, where the time of the slowest went, and how many claims hold.

use serde::Serialize;

use crate::{
    attribution::remedy_of,
    compare::{Change, Tally, Trend},
    format::{Scale, counted, estimated, spoken, times},
    ranking::Ranking,
    results::{CellResult, RunResult},
};

/// A part of the answer, with a heading of one to three words.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    about: &'static str,
    text: String,
}

impl Answer {
    fn new(about: &'static str, text: String) -> Self {
        Self { about, text }
    }
}

/// Who is fastest, why the others are slower, what would change that, and how many claims hold.
pub(super) fn of_run(run: &RunResult) -> Vec<Answer> {
    let blocks: Vec<Ranking<'_>> = run
        .networks
        .iter()
        .flat_map(|network| run.workloads.iter().map(|workload| Ranking::new(run, &workload.name, &network.name)))
        .filter(|ranking| !ranking.ranked.is_empty())
        .collect();
    let first = match &blocks[..] {
        [] if run.cells.iter().any(|cell| cell.disturbed.is_some()) => Vec::new(),
        [] => vec![Answer::new("Fastest", nothing(run))],
        [only] => one_block(run, only),
        blocks => many_blocks(blocks),
    };
    let disturbed = run.disturbance().map(|said| Answer::new("Disturbed", said));
    first.into_iter().chain(claims(run)).chain(disturbed).collect()
}

fn nothing(run: &RunResult) -> String {
    let reason = run.cells.iter().find_map(|cell| cell.reason.as_deref());
    match reason {
        Some(reason) => format!("Nothing was measured: {reason}."),
        None => "Nothing was measured: the run has no cells.".to_owned(),
    }
}

fn time(seconds: f64) -> String {
    Scale::of([seconds]).with_unit(seconds)
}

/// A cell's time: `0.340 s, 4.10× the minimum that physics allows`.
fn time_and_floor(cell: &CellResult) -> String {
    time(cell.median_s.unwrap_or_default()) + &floor(cell)
}

/// A cell's multiple of the floor: `, 4.10× the minimum that physics allows`.
fn floor(cell: &CellResult) -> String {
    cell.times_floor.map_or_else(String::new, |floor| format!(", {} the minimum that physics allows", times(floor)))
}

fn one_block(run: &RunResult, ranking: &Ranking<'_>) -> Vec<Answer> {
    let best = ranking.ranked[0];
    let workload = run.workloads.iter().find(|workload| workload.name == best.workload);
    let network = run.networks.iter().find(|network| network.name == best.network);
    let what = workload.map_or(&best.workload, |workload| &workload.description);
    let over = network.map_or(&best.network, |network| &network.description);
    let to = format!("to {what} over {over}");
    let who = match ranking.winner() {
        Some(winner) => format!("{} is the fastest {to}: {}.", winner.label(), time_and_floor(winner)),
        None => format!("{} takes {} {to}{}.", best.label(), time(best.median_s.unwrap_or_default()), floor(best)),
    };
    let gaps = ranking.sentences().join(" ");
    let who = if gaps.is_empty() { who } else { format!("{who} {gaps}") };
    std::iter::once(Answer::new("Fastest", who)).chain(why(ranking)).collect()
}

fn many_blocks(blocks: &[Ranking<'_>]) -> Vec<Answer> {
    let who = if blocks.iter().any(Ranking::is_comparable) { most_often_fastest(blocks) } else { shortest(blocks) };
    // The widest gap has the most to gain.
    let widest = blocks.iter().max_by(|a, b| gap(a).total_cmp(&gap(b)));
    let widest = widest.filter(|ranking| gap(ranking) > 1.0).into_iter().flat_map(|ranking| {
        let (best, worst) = (ranking.ranked[0], ranking.ranked[ranking.ranked.len() - 1]);
        let ratio = ranking.compare(0, ranking.ranked.len() - 1);
        let apart = ratio.map_or_else(String::new, |gap| format!(", {} as long", estimated(gap.ratio, gap.ci95)));
        let block = format!("{} over {}", best.workload, best.network);
        let (short, long) = (time_and_floor(best), time(worst.median_s.unwrap_or_default()));
        let sentence = format!("In {block}, {} takes {short}; {} takes {long}{apart}.", best.label(), worst.label());
        std::iter::once(Answer::new("Widest gap", sentence)).chain(why(ranking))
    });
    std::iter::once(Answer::new("Fastest", who)).chain(widest).collect()
}

/// A smaller distance from the fastest is irrelevant in practice, even if it is detectable.
const NEAR: f64 = 1.05;

/// The number of contenders that are named.
const NAMED: usize = 3;

/// The contenders that are most often among the fastest; those of equal success together.
fn most_often_fastest(blocks: &[Ranking<'_>]) -> String {
    let fronts =
        tally(blocks.iter().filter(|ranking| ranking.is_comparable()).flat_map(|ranking| ranking.leaders(NEAR)));
    let named = &fronts[..fronts.len().min(NAMED)];
    let sentences: Vec<String> = named
        .chunk_by(|(_, a), (_, b)| a == b)
        .map(|equals| {
            let contenders: Vec<String> = equals.iter().map(|(name, _)| name.clone()).collect();
            let verb = if contenders.len() == 1 { "is" } else { "are" };
            let races = match (equals[0].1, blocks.len()) {
                (2, 2) => "both".to_owned(),
                (count, all) if count == all => "all".to_owned(),
                (count, _) if contenders.len() > 1 => format!("{count} each"),
                (count, _) => count.to_string(),
            };
            format!("{} {verb} fastest in {races}", spoken(&contenders))
        })
        .collect();
    format!(
        "Of the {} combinations of workload and network, {}. A contender counts as fastest if no other is detectably \
         faster, by 5 % or more.",
        blocks.len(),
        sentences.join("; ")
    )
}

/// How often each contender occurs, most often first.
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

/// The contenders with the shortest times, if there are too few samples to detect differences.
fn shortest(blocks: &[Ranking<'_>]) -> String {
    let firsts = tally(blocks.iter().filter(|ranking| ranking.ranked.len() > 1).map(|ranking| ranking.ranked[0]));
    let parts: Vec<String> = firsts.iter().map(|(name, count)| format!("{name} in {count}")).collect();
    match &parts[..] {
        [] => format!("Each of the {} races has only one contender, so there is nothing to compare.", blocks.len()),
        parts => format!(
            "Too few samples to tell differences from chance; take at least 3 per contender. Shortest times in {} races: \
             {}.",
            blocks.len(),
            spoken(parts)
        ),
    }
}

/// The slowest as a multiple of the fastest.
fn gap(ranking: &Ranking<'_>) -> f64 {
    ranking.compare(0, ranking.ranked.len().saturating_sub(1)).map_or(1.0, |widest| widest.ratio)
}

/// Where the time of the slowest went, and what would change that.
fn why(ranking: &Ranking<'_>) -> Vec<Answer> {
    let (Some(fastest), Some(slowest)) = (ranking.ranked.first(), ranking.ranked.last()) else { return Vec::new() };
    let Some(why) = slowest.why.as_ref().filter(|why| !why.seconds.is_empty()) else { return Vec::new() };
    let requests = match (fastest.requests, slowest.requests) {
        (Some(few), Some(many)) if few < many => {
            format!("{} sends {}, {} {many}. ", fastest.label(), counted(few, "request"), slowest.label())
        }
        _ => String::new(),
    };
    let spent = format!("{requests}Time of {}: {}.", slowest.label(), why.answer);
    let change = remedy_of(&why.seconds).map(|remedy| Answer::new("What to change", sentence(remedy)));
    std::iter::once(Answer::new("Why", spent)).chain(change).collect()
}

/// `fewer round trips` as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).chain(['.']).collect()
}

fn claims(run: &RunResult) -> Option<Answer> {
    // Who races other programs need not read what others have claimed.
    let is_about_it = run.claims.iter().any(|claim| claim.in_run);
    is_about_it.then(|| Answer::new("Claims", run.claim_counts() + "."))
}

/// How the cells changed since the baseline.
pub(super) fn of_comparison(change: &Change) -> Vec<String> {
    let tallies = change.tallies();
    if tallies.iter().all(|tally| tally.compared() == 0) {
        return vec!["These runs have no comparable cells.".to_owned()];
    }
    let first = match &tallies[..] {
        [only] => in_one_run(*only),
        tallies => {
            let each: Vec<String> =
                (2..).zip(tallies).map(|(number, tally)| format!("run {number} {}", in_one_of_many(*tally))).collect();
            format!("Compared with run 1, the baseline: {}.", each.join("; "))
        }
    };
    let rest = largest_change(change).into_iter().chain(change.elsewhere()).chain(change.by_chance());
    std::iter::once(first).chain(rest).collect()
}

/// How the cells changed in the only later run.
fn in_one_run(tally: Tally) -> String {
    let Tally { faster, slower, same, .. } = tally;
    let cells = counted(tally.compared() as u64, "cell");
    if faster + slower == 0 {
        return format!("Nothing changed beyond noise: none of {cells} shows a detectable difference.");
    }
    format!(
        "Of {cells} in both runs, {faster} became faster and {slower} slower; {same} show no detectable difference."
    )
}

/// How the cells changed in one of several later runs.
fn in_one_of_many(tally: Tally) -> String {
    let cells = counted(tally.compared() as u64, "cell");
    let number = |cells: usize| if cells == 0 { "none".to_owned() } else { cells.to_string() };
    match tally {
        _ if tally.compared() == 0 => "has no comparable cell".to_owned(),
        Tally { faster: 0, slower: 0, .. } => format!("shows no detectable difference in any of {cells}"),
        Tally { faster, slower, .. } => {
            format!("is faster in {} and slower in {} of {cells}", number(faster), number(slower))
        }
    }
}

/// The largest change.
fn largest_change(change: &Change) -> Option<String> {
    let changed = change.cells.iter().flat_map(|cell| {
        let differing =
            (2..).zip(&cell.later).filter(|(_, later)| matches!(later.trend(), Trend::Faster | Trend::Slower));
        differing.filter_map(move |(number, later)| Some((cell, number, later.ratio.as_ref().ok()?)))
    });
    let (cell, number, ratio) = changed.max_by(|(.., a), (.., b)| a.value.ln().abs().total_cmp(&b.value.ln().abs()))?;
    let run = if change.runs.len() == 2 { String::new() } else { format!(" in run {number}") };
    Some(format!(
        "Largest change: {} in {} over {}{run} takes {} as long as before.",
        cell.label(),
        cell.workload,
        cell.network,
        estimated(ratio.value, ratio.interval)
    ))
}
