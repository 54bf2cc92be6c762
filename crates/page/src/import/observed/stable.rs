//! What several recordings of one page have in common.
//!
//! One recording carries the noise of its machine. A late timer, a busy processor or a slow server look like a dependency
//! or like computation: of four recordings of one page, the longest chains took from 0.5 to 1 s, and a browser then beat
//! the floor. Noise only adds. So of several recordings, this keeps
//!
//! - the requests that more than half of them have; requests are the same if their method, URL and page (`referer`) are, or,
//!   failing that, all but the page, or all but the query, which may be random;
//! - the dependencies that hold in all of them: a request waits for another one if it did so in each, directly or through
//!   others, and for the smallest part of it; likewise the `load` event for a request;
//! - the least computation and think times.
//!
//! Everything else, bodies above all, is from the recording that has the most of these requests.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    time::Duration,
};

use units::Span;

use super::{
    super::{ImportError, Imported, short},
    Converted, Observed, checked, convert,
    dependencies::{Past, comes, computes_of, rounded},
    field, think,
};
use crate::{After, Hold, Request, Until};

/// Maximum number of omitted requests that are named.
const MAX_NAMED: usize = 5;

/// Converts several recordings of one page to a spec; `path` names it.
pub fn stable(
    mut runs: Vec<Vec<Observed>>,
    title: String,
    source: String,
    path: &Path,
) -> Result<Imported, ImportError> {
    let times: Vec<Duration> = runs.iter().map(|run| load_time(run)).collect();
    let omitted = keep_common(&mut runs);
    let several = runs.len() > 1;
    let runs = runs.into_iter().map(|run| Run::new(run, several));
    let mut runs: Vec<Run> = runs.filter(|run| !run.converted.requests.is_empty()).collect();
    // Of equally complete ones, the quickest.
    let best = (0..runs.len())
        .max_by_key(|index| (runs[*index].converted.requests.len(), std::cmp::Reverse(load_time(&runs[*index].seen))));
    let Some(base) = best.map(|best| runs.swap_remove(best)) else {
        return checked(Vec::new(), Vec::new(), title, source, path);
    };
    let others: Vec<Matched> = runs.iter().map(|run| Matched::new(run, &base)).collect();
    let mut notes = summary(&times);
    let mut requests = base.converted.requests.clone();
    let mut dropped = 0;
    let all: Vec<Matched> = std::iter::once(Matched::new(&base, &base)).chain(others).collect();
    let mut common: Vec<BTreeMap<usize, Until>> = Vec::with_capacity(requests.len());
    let round_trips = think::round_trips(&all.iter().flat_map(|run| &run.run.seen).collect::<Vec<_>>());
    for (index, request) in requests.iter_mut().enumerate() {
        let present: Vec<&Matched> = all.iter().filter(|run| run.of_base[index].is_some()).collect();
        let mut waits = present[0].reached[index].clone();
        for other in &present[1..] {
            let theirs = &other.reached[index];
            waits = waits
                .into_iter()
                .filter_map(|(before, until)| Some((before, weaker(until, *theirs.get(&before)?))))
                .collect();
        }
        for (before, until) in &mut waits {
            let size = base.converted.requests[*before].response.size();
            if matches!(until, Until::Head(bytes) if *bytes >= size) {
                *until = Until::End;
            }
        }
        let held = |after: &&After| waits.contains_key(&after.request);
        dropped += request.after.len() - request.after.iter().filter(held).count();
        request.after = direct(&waits, &common, &request.after);
        request.delays_load = present.iter().filter_map(|run| run.observed(index)).all(|one| one.delays_load);
        let gaps = present.iter().map(|run| run.gap(index, request));
        request.compute = gaps.min().unwrap_or_default();
        // Both are least by themselves: a run whose handshakes were late would have no think time.
        let quickest = present.iter().filter_map(|run| run.observed(index)).filter(|one| one.wait.is_some());
        let quickest = quickest.min_by_key(|one| one.wait);
        request.response.think = quickest.map_or(Duration::ZERO, |one| think::time(one, &round_trips));
        common.push(waits);
    }
    keep_order(&mut requests, |before, after| {
        let starts = all.iter().filter_map(|run| run.observed(before).zip(run.observed(after)));
        starts.into_iter().all(|(before, after)| before.started <= after.started)
    });
    let holds: Vec<Option<Hold>> = requests.iter().map(|request| request.hold.clone()).collect();
    let computes: Vec<_> = all.iter().map(|run| computes_of(&holds, |index| run.observed(index))).collect();
    for hold in requests.iter_mut().filter_map(|request| request.hold.as_mut()) {
        hold.compute = computes.iter().filter_map(|run| run.get(&hold.behind)).min().copied().unwrap_or_default();
    }
    match dropped {
        0 => {}
        1 => notes.push("a dependency did not hold in every recording, and is omitted".to_owned()),
        _ => notes.push(format!("{dropped} dependencies did not hold in every recording, and are omitted")),
    }
    if !omitted.is_empty() {
        let named = omitted.iter().take(MAX_NAMED).map(|url| short(url)).collect::<Vec<_>>().join(", ");
        let more = omitted.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        notes.push(format!("omitted, since at most half of the recordings have them: {named}{more}"));
    }
    notes.extend(base.converted.notes);
    checked(requests, notes, title, source, path)
}

/// The time of a recording, to its last byte.
fn load_time(run: &[Observed]) -> Duration {
    let begin = run.iter().map(|one| one.started).min().unwrap_or_default();
    run.iter().map(|one| one.end).max().unwrap_or_default().saturating_sub(begin)
}

/// How long the recordings took.
fn summary(times: &[Duration]) -> Vec<String> {
    let [before @ .., last] = times else { return Vec::new() };
    if before.is_empty() {
        return Vec::new();
    }
    let shown = |time: &Duration| Span(rounded(*time)).to_string();
    let before = before.iter().map(shown).collect::<Vec<_>>().join(", ");
    vec![format!("{} recordings, of {before} and {}; what they have in common is kept", times.len(), shown(last))]
}

/// By what requests are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Method, URL, and the page that requests it: several frames may load the same library, each time in another order.
    Page,
    /// Method and URL.
    Url,
    /// Method and URL without the query.
    Path,
}

/// The method and URL of a request, the page, and its number among those that are equal in them.
type Key = (String, String, Option<String>, usize);

/// A key for each request.
fn keys(seen: &[Observed], by: By) -> Vec<Key> {
    let mut counts: HashMap<(String, String, Option<String>), usize> = HashMap::new();
    let key = |one: &Observed| {
        let mut url = one.url.clone();
        url.set_fragment(None);
        if by == By::Path {
            url.set_query(None);
        }
        let page = field(&one.headers, "referer").filter(|_| by == By::Page).map(str::to_owned);
        let name = (one.method.clone(), String::from(url), page);
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        (name.0, name.1, name.2, *count)
    };
    seen.iter().map(key).collect()
}

/// The indices of each recording's requests in the base.
fn matches(seen: &[Observed], base: &[Observed]) -> Vec<Option<usize>> {
    let mut found = vec![None; seen.len()];
    let mut taken = vec![false; base.len()];
    for by in [By::Page, By::Url, By::Path] {
        let left = |taken: &[bool]| -> Vec<usize> { (0..taken.len()).filter(|index| !taken[*index]).collect() };
        let (theirs, ours) = (left(&taken), left(&found.iter().map(Option::is_some).collect::<Vec<_>>()));
        let of =
            |all: &[Observed], indices: &[usize]| indices.iter().map(|index| all[*index].clone()).collect::<Vec<_>>();
        let by_key: HashMap<Key, usize> = keys(&of(base, &theirs), by).into_iter().zip(theirs).collect();
        for (key, index) in keys(&of(seen, &ours), by).into_iter().zip(ours) {
            if let Some(place) = by_key.get(&key) {
                found[index] = Some(*place);
                taken[*place] = true;
            }
        }
    }
    found
}

/// Removes requests that at most half of the recordings have, and returns their URLs.
fn keep_common(runs: &mut [Vec<Observed>]) -> Vec<String> {
    for run in runs.iter_mut() {
        run.sort_by_key(|one| one.started);
    }
    let all: &[Vec<Observed>] = runs;
    let kept = |run: &Vec<Observed>| -> Vec<bool> {
        let mut counts = vec![0; run.len()];
        for other in all {
            for place in matches(other, run).into_iter().flatten() {
                counts[place] += 1;
            }
        }
        counts.into_iter().map(|count| 2 * count > all.len()).collect()
    };
    let kept: Vec<Vec<bool>> = all.iter().map(kept).collect();
    let mut omitted = Vec::new();
    for (run, kept) in runs.iter_mut().zip(kept) {
        let mut kept = kept.into_iter();
        run.retain(|one| {
            let is_kept = kept.next().unwrap_or(true);
            if !is_kept {
                omitted.push(one.url.to_string());
            }
            is_kept
        });
    }
    omitted.sort_unstable();
    omitted.dedup();
    omitted
}

/// A recording, converted.
struct Run {
    seen: Vec<Observed>,
    converted: Converted,
}

impl Run {
    fn new(mut seen: Vec<Observed>, is_one_of_several: bool) -> Self {
        let converted = convert(&mut seen, is_one_of_several);
        Self { seen, converted }
    }

    fn observed(&self, request: usize) -> &Observed {
        &self.seen[self.converted.origins[request]]
    }
}

/// A recording, by the indices of the base's requests.
struct Matched<'a> {
    run: &'a Run,
    /// Its request for each of the base's.
    of_base: Vec<Option<usize>>,
    /// For each of the base's requests: what it waits for in this recording, directly or through others.
    reached: Vec<BTreeMap<usize, Until>>,
    /// Whether the connection of each of the recording's requests was busy until it was sent.
    held_back: Vec<bool>,
}

impl<'a> Matched<'a> {
    fn new(run: &'a Run, base: &Run) -> Self {
        let kept = |run: &Run| -> Vec<Observed> {
            run.converted.origins.iter().map(|index| run.seen[*index].clone()).collect()
        };
        let to_base = matches(&kept(run), &kept(base));
        let mut of_base = vec![None; base.converted.requests.len()];
        for (index, place) in to_base.iter().enumerate() {
            if let Some(place) = place {
                of_base[*place] = Some(index);
            }
        }
        let reached = reached(&run.converted.requests);
        let in_base = |waits: &BTreeMap<usize, Until>| -> BTreeMap<usize, Until> {
            waits.iter().filter_map(|(before, until)| Some((to_base[*before]?, *until))).collect()
        };
        let reached = of_base.iter().map(|index| index.map_or_else(BTreeMap::new, |index| in_base(&reached[index])));
        let mut past = Past::default();
        let mut held_back = Vec::new();
        for index in 0..run.converted.requests.len() {
            held_back.push(past.is_held_back(run.observed(index)));
            past.add(run.observed(index));
        }
        Self { run, reached: reached.collect(), of_base, held_back }
    }

    /// This recording's request for one of the base's.
    fn observed(&self, of_base: usize) -> Option<&Observed> {
        self.of_base[of_base].map(|index| self.run.observed(index))
    }

    /// The time between what a request waited for and the request; zero if it waited for nothing, or for a connection.
    fn gap(&self, of_base: usize, request: &Request) -> Duration {
        let Some(index) = self.of_base[of_base].filter(|index| !self.held_back[*index]) else { return Duration::ZERO };
        let come = request.after.iter().filter_map(|after| {
            let before = self.of_base[after.request]?;
            let response = &self.run.converted.requests[before].response;
            Some(comes(self.run.observed(before), response, after.until))
        });
        let one = self.run.observed(index);
        let begins = if request.hold.is_none() { one.begins() } else { one.started };
        come.max().map_or(Duration::ZERO, |come| rounded(begins.saturating_sub(come)))
    }
}

/// Requests that a document causes keep their order: if one came before another in all recordings (`is_before`), its
/// least computation time is no longer than the other's. A request that is held back and one that is not are only compared
/// within the precision of clocks, because the time of one ends when it is queued, of the other when it is sent.
fn keep_order(requests: &mut [Request], is_before: impl Fn(usize, usize) -> bool) {
    const SAME: Duration = Duration::from_millis(1);
    let mut later: HashMap<usize, Vec<usize>> = HashMap::new();
    for index in (0..requests.len()).rev() {
        let request = &requests[index];
        let [After { request: document, until: Until::Head(_) }] = request.after[..] else { continue };
        let later = later.entry(document).or_default();
        let is_like =
            |other: &Request| other.hold.is_some() == request.hold.is_some() || other.compute + SAME >= request.compute;
        let after = later.iter().filter(|other| is_like(&requests[**other]) && is_before(index, **other));
        let least = after.map(|other| requests[*other].compute).chain([request.compute]).min();
        requests[index].compute = least.unwrap_or_default();
        later.push(index);
    }
}

/// What each request waits for, directly or through others.
fn reached(requests: &[Request]) -> Vec<BTreeMap<usize, Until>> {
    let mut all: Vec<BTreeMap<usize, Until>> = Vec::with_capacity(requests.len());
    for request in requests {
        let mut waits = BTreeMap::new();
        for After { request: before, until } in &request.after {
            let through = all[*before].clone();
            for (before, until) in through.into_iter().chain([(*before, *until)]) {
                waits.entry(before).and_modify(|known| *known = stronger(*known, until)).or_insert(until);
            }
        }
        all.push(waits);
    }
    all
}

/// The waits that `named` has, in its order, which begins with the cause; then those that do not follow from others.
fn direct(waits: &BTreeMap<usize, Until>, common: &[BTreeMap<usize, Until>], named: &[After]) -> Vec<After> {
    let follows = |before: usize, until: Until| {
        let through = waits.keys().filter_map(|other| common.get(*other)?.get(&before));
        through.into_iter().any(|theirs| stronger(*theirs, until) == *theirs)
    };
    let is_named = |before: usize| named.iter().any(|after| after.request == before);
    let kept = named.iter().filter_map(|after| waits.get_key_value(&after.request));
    let others = waits.iter().filter(|(before, until)| !is_named(**before) && !follows(**before, **until));
    kept.chain(others).map(|(before, until)| After { request: *before, until: *until }).collect()
}

fn weaker(one: Until, other: Until) -> Until {
    if stronger(one, other) == one { other } else { one }
}

fn stronger(one: Until, other: Until) -> Until {
    match (one, other) {
        (Until::End, _) | (_, Until::End) => Until::End,
        (Until::Head(one), Until::Head(other)) => Until::Head(one.max(other)),
    }
}

#[cfg(test)]
mod tests;
