//! The answer that stands first on a page: who is fastest, where the time of the slowest went, what of the source
//! held.

use crate::{
    claims::Verdict,
    compare::{Change, Trend},
    results::{CellResult, RunResult},
    rivals::Rivals,
    why::remedy_of,
    words::{Scale, counted, estimated, spoken, times},
};

/// A paragraph each.
pub(super) fn of_run(run: &RunResult) -> Vec<String> {
    let blocks: Vec<Rivals<'_>> = run
        .networks
        .iter()
        .flat_map(|network| run.workloads.iter().map(|workload| Rivals::new(run, &workload.name, &network.name)))
        .filter(|rivals| !rivals.ranked.is_empty())
        .collect();
    let first = match &blocks[..] {
        [] => vec![nothing(run)],
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

fn one_block(run: &RunResult, rivals: &Rivals<'_>) -> Vec<String> {
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
    std::iter::once(who).chain(why(rivals)).collect()
}

fn many_blocks(blocks: &[Rivals<'_>]) -> Vec<String> {
    let mut wins: Vec<(String, usize)> = Vec::new();
    for winner in blocks.iter().filter_map(Rivals::winner).map(CellResult::label) {
        match wins.iter_mut().find(|(name, _)| *name == winner) {
            Some((_, count)) => *count += 1,
            None => wins.push((winner, 1)),
        }
    }
    wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let all = blocks.len();
    let open = all - wins.iter().map(|(_, count)| count).sum::<usize>();
    let parts: Vec<String> = wins.iter().map(|(name, count)| format!("{name} in {count}")).collect();
    let who = match &wins[..] {
        [] => format!("In none of {all} races is one contender detectably faster than all others."),
        [(only, count)] if *count == all => format!("{only} is detectably the fastest in all of {all} races."),
        _ if open == 0 => format!("Detectably the fastest, of {all} races: {}.", spoken(&parts)),
        _ => format!("Detectably the fastest, of {all} races: {}; nobody in {open}.", spoken(&parts)),
    };
    // Where most is to be gained, what of is it made?
    let widest = blocks.iter().max_by(|a, b| gap(a).total_cmp(&gap(b)));
    let widest = widest.filter(|rivals| gap(rivals) > 1.0).map(|rivals| {
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
        why(rivals).map_or(sentence.clone(), |why| format!("{sentence} {why}"))
    });
    std::iter::once(who).chain(widest).collect()
}

/// The slowest as a multiple of the fastest.
fn gap(rivals: &Rivals<'_>) -> f64 {
    rivals.compare(0, rivals.ranked.len().saturating_sub(1)).map_or(1.0, |widest| widest.ratio)
}

/// What the slowest spent its time on, and what would change that.
fn why(rivals: &Rivals<'_>) -> Option<String> {
    let slowest = rivals.ranked.last()?;
    let why = slowest.why.as_ref().filter(|why| !why.seconds.is_empty())?;
    let change =
        remedy_of(&why.seconds).map_or_else(String::new, |remedy| format!(" What would change that: {remedy}."));
    Some(format!("The time of {} went to: {}.{change}", slowest.label(), why.answer))
}

fn claims(run: &RunResult) -> Option<String> {
    let count = |verdict| run.claims.iter().filter(|claim| claim.in_run && claim.verdict == verdict).count();
    let (yes, no, open) = (count(Verdict::Reproduced), count(Verdict::Refuted), count(Verdict::Inconclusive));
    let all = yes + no + open;
    (all > 0).then(|| {
        let checks = counted(all as u64, "sentence");
        format!("Of {checks} of the source that this run checks, {yes} reproduced, {no} refuted, {open} inconclusive.")
    })
}

/// What became of the cells of two runs.
pub(super) fn of_change(change: &Change) -> Vec<String> {
    let of = |trend| change.cells.iter().filter(move |cell| cell.trend() == trend);
    let compared = change.cells.iter().filter(|cell| cell.ratio.is_ok()).count();
    if compared == 0 {
        return vec!["No cell of the two runs can be compared.".to_owned()];
    }
    let (faster, slower, same) = (of(Trend::Faster).count(), of(Trend::Slower).count(), of(Trend::Same).count());
    let first = if faster + slower == 0 {
        format!(
            "Nothing changed beyond noise: none of {} shows a detectable difference.",
            counted(compared as u64, "cell")
        )
    } else {
        let cells = counted(compared as u64, "cell");
        format!(
            "Of {cells} that can be compared, {faster} became faster and {slower} slower beyond noise; {same} show no \
             detectable difference."
        )
    };
    let most = of(Trend::Faster).chain(of(Trend::Slower)).filter_map(|cell| Some((cell, cell.ratio.as_ref().ok()?)));
    let most = most.max_by(|(_, a), (_, b)| a.value.ln().abs().total_cmp(&b.value.ln().abs()));
    let most = most.map(|(cell, ratio)| {
        let name = if cell.model { format!("{} (model)", cell.contender) } else { cell.contender.clone() };
        let place = format!("{name} at {} over {}", cell.workload, cell.network);
        format!("Most of all {place}, which takes {} the time that it took.", estimated(ratio.value, ratio.interval))
    });
    std::iter::once(first).chain(most).collect()
}
