//! Judging a check against cells, and the sentence with the verdict.

use std::time::Duration;

use super::{
    Check, Claim, Count, Measure, Unit, Verdict,
    at_the_limit::at_the_limit,
    benefit::{Benefit, benefit},
    bound::Bound,
    evidence::{Evidence, Finding, Gap, ratio_of},
    models::without_refuting_model,
};
use crate::{
    format::{counted, estimated, spoken, times},
    results::{CellResult, ClaimResult, WorkloadRecord},
    stats::{
        Interval,
        bootstrap::ratio_of_ratios,
        shift::{CONFIDENCE, Shift},
    },
};

/// Judges a claim by the cells of a run. `source` names the article. `seed` is that of the run, so that the verdict is
/// reproducible.
pub(super) fn judge(
    claim: &Claim,
    source: &str,
    cells: &[CellResult],
    workloads: &[WorkloadRecord],
    seed: u64,
) -> ClaimResult {
    let evidence = Evidence { cells, workloads, workload: &claim.workload, network: &claim.network, seed };
    let contenders: Vec<&str> = claim.check.contenders().into_iter().map(String::as_str).collect();
    // Those that decide: all, or one pair.
    let mut deciding = contenders.clone();
    let finding = match &claim.check {
        Check::Slower { what, than, by } => slower(&evidence, what, than, *by, &mut deciding),
        Check::Fastest { what, among, by } => slower(&evidence, among, std::slice::from_ref(what), *by, &mut deciding),
        Check::Ratio { of, to, at_least, at_most, measure } => {
            ratio(&evidence, *measure, of, to, Bound { at_least: *at_least, at_most: *at_most })
        }
        Check::Overhead { what, on, at_most } => overhead(&evidence, what, on, *at_most),
        Check::SynData { what } => syn_data(&evidence, what),
        Check::Saves { of, to, at_least, at_most } => {
            saves(&evidence, of, to, Bound { at_least: *at_least, at_most: *at_most })
        }
        Check::Figure { of, to, saves } => figure(&evidence, of, to, *saves),
        Check::Loses { what, than, at_most, control } => {
            loses(&evidence, what, than, at_most.0).map(|lost| {
                // Only what holds needs a control.
                if lost.verdict != Verdict::Reproduced {
                    deciding.truncate(2);
                }
                controlled(&evidence, lost, control.as_ref(), at_most.0)
            })
        }
        Check::AtTheLimit { what, than, cores, by } => at_the_limit(&evidence, what, than, *cores, *by),
        Check::Benefit { of, to, gain, other, on, at_least, at_most } => {
            let pair = [of.as_str(), to.as_str()];
            let other = other.as_ref().map_or(pair, |other| other.each_ref().map(String::as_str));
            let there = Evidence { network: on.as_deref().unwrap_or(&claim.network), ..evidence };
            let claimed = Benefit { gain: *gain, pair, other, there, here: evidence };
            benefit(&claimed, Bound { at_least: *at_least, at_most: *at_most })
        }
        Check::Takes { what, unit, at_least, at_most } => {
            takes(&evidence, what, *unit, Bound { at_least: *at_least, at_most: *at_most })
        }
        Check::More { count, what, than } => {
            let pairs = telling(&evidence, std::slice::from_ref(what), than);
            weakest(&evidence, &pairs, |what, than| more(&evidence, *count, what, than), &mut deciding)
        }
        Check::Pays { count, what, than } => pays(&evidence, *count, what, than),
        Check::PerStep { what, methods, at_least, at_most } => {
            per_step(&evidence, what, methods, Bound { at_least: *at_least, at_most: *at_most })
        }
        Check::Shrinks { of, to, on, by } => shrinks(&evidence, of, to, on, *by),
    }
    .unwrap_or_else(Finding::from);
    let finding = without_refuting_model(&evidence, &deciding, finding);
    let models = evidence.are_only_models(&contenders);
    let (verdict, end) = match &finding.needs {
        None => (finding.verdict, String::new()),
        Some(_) if models => {
            let why = "; only models take part, and Longhaul chooses what they send in parallel";
            (Verdict::Inconclusive, why.to_owned())
        }
        Some(_) if matches!(claim.check, Check::Figure { .. }) => (finding.verdict, String::new()),
        Some(needs) => (finding.verdict, format!("; the claim requires {needs}")),
    };
    ClaimResult {
        id: claim.id.clone(),
        source: source.to_owned(),
        said: claim.said.clone(),
        workload: claim.workload.clone(),
        network: claim.network.clone(),
        in_run: finding.in_run,
        model: finding.needs.is_some() && evidence.has_model(&deciding),
        measured: format!("{}{end}.", finding.measured),
        ci95: finding.interval.map(|(interval, _)| interval),
        confidence: finding.interval.map(|(_, confidence)| confidence),
        verdict,
        refuted_by: Some(claim.refuted_by.clone()).filter(|words| !words.is_empty()),
    }
}

fn rank(finding: &Finding) -> u8 {
    match finding.verdict {
        Verdict::Refuted => 0,
        Verdict::NotJudged => 1,
        Verdict::Inconclusive => 2,
        Verdict::Reproduced | Verdict::Exceeded | Verdict::Missed => 3,
    }
}

/// Of the findings on several pairs that must all hold, a refuted one decides; otherwise an open one; otherwise the one with
/// the smallest margin. `deciding` becomes its pair.
fn weakest<'a>(
    evidence: &Evidence<'_>,
    pairs: &[(&'a str, &'a str)],
    find: impl Fn(&str, &str) -> Result<Finding, Gap>,
    deciding: &mut Vec<&'a str>,
) -> Result<Finding, Gap> {
    let findings = pairs.iter().map(|(a, b)| {
        let finding = find(a, b).unwrap_or_else(Finding::from);
        ([*a, *b], without_refuting_model(evidence, &[a, b], finding))
    });
    let weakest = findings.min_by(|(_, a), (_, b)| rank(a).cmp(&rank(b)).then(a.margin.total_cmp(&b.margin)));
    let (pair, finding) = weakest.ok_or(Gap::NotInRun)?;
    *deciding = pair.to_vec();
    Ok(finding)
}

/// All pairs; those of two models that tell nothing only if there are no others.
fn telling<'a>(evidence: &Evidence<'_>, left: &'a [String], right: &'a [String]) -> Vec<(&'a str, &'a str)> {
    let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (a.as_str(), b.as_str())));
    let (models, real): (Vec<_>, Vec<_>) = pairs.partition(|(a, b)| evidence.are_only_models(&[a, b]));
    if real.is_empty() { models } else { real }
}

fn slower<'a>(
    evidence: &Evidence<'_>,
    slow: &'a [String],
    fast: &'a [String],
    by: f64,
    deciding: &mut Vec<&'a str>,
) -> Result<Finding, Gap> {
    let pairs = telling(evidence, slow, fast);
    let times = |slow: &str, fast: &str| ratio(evidence, Measure::Time, slow, fast, Bound::least(by));
    let mut finding = weakest(evidence, &pairs, times, deciding)?;
    if pairs.len() > 1 && finding.needs.is_some() {
        finding.measured = format!("{}, the closest of {} pairs", finding.measured, pairs.len());
    }
    Ok(finding)
}

pub(super) fn ratio(
    evidence: &Evidence<'_>,
    measure: Measure,
    of: &str,
    to: &str,
    bound: Bound,
) -> Result<Finding, Gap> {
    let (ratio, of, to) = ratio_of(measure, evidence.cell(of)?, evidence.cell(to)?)?;
    let [verb, what] = match measure {
        Measure::Time => ["takes", "as long as"],
        Measure::ServerCpu => ["costs the server", "as much processor time as"],
        Measure::ServerAndPackets => ["costs the server, with the packets to it,", "as much processor time as"],
    };
    Ok(Finding {
        verdict: bound.verdict(ratio.interval),
        measured: format!("{} {verb} {} {what} {}", of.label(), said(&ratio), to.label()),
        needs: Some(bound.needs()),
        interval: Some((ratio.interval, ratio.confidence)),
        margin: bound.margin(ratio.value),
        in_run: true,
    })
}

/// Subtracts the page's computations from each time.
fn overhead(here: &Evidence<'_>, what: &str, on: &str, at_most: f64) -> Result<Finding, Gap> {
    let (cell, there) = (here.cell(what)?, Evidence { network: on, ..*here }.cell(what)?);
    let asked = cell.ideal_s.ok_or_else(|| Gap::Unusable("the minimum time of its page is unknown".to_owned()))?;
    let own: Vec<f64> = cell.samples_s.iter().map(|seconds| seconds - asked).collect();
    let (ratio, ..) = ratio_of(Measure::Time, &CellResult { samples_s: own, ..cell.clone() }, there)?;
    let bound = Bound { at_least: None, at_most: Some(at_most) };
    let besides = if asked > 0.0 {
        format!(", not counting the {:.1} ms that the page itself needs", 1e3 * asked)
    } else {
        String::new()
    };
    Ok(Finding {
        verdict: bound.verdict(ratio.interval),
        measured: format!("on {}, {} takes {} as long as on {on}{besides}", here.network, cell.label(), said(&ratio)),
        needs: Some(bound.needs()),
        interval: Some((ratio.interval, ratio.confidence)),
        margin: bound.margin(ratio.value),
        in_run: true,
    })
}

fn syn_data(evidence: &Evidence<'_>, what: &str) -> Result<Finding, Gap> {
    let cell = evidence.cell(what)?;
    let uncounted = || Gap::Unusable(format!("no tap saw the SYNs of {}", cell.label()));
    let syns = cell.syns.filter(|syns| syns.firsts > 0).ok_or_else(uncounted)?;
    let full =
        syns.later_full.ok_or_else(|| Gap::Unusable("an earlier build did not see how full SYNs were".to_owned()))?;
    let holds = syns.firsts_with_data == 0 && syns.later > 0 && full + syns.later_beside == syns.later;
    Ok(Finding {
        verdict: if holds { Verdict::Reproduced } else { Verdict::Refuted },
        measured: format!(
            "of the connections of {}, {} of {} first ones and {} of {} later ones have data in their SYN, {full} as much \
             as would fit; {} of the later ones are plain fallbacks beside an unanswered SYN",
            cell.label(),
            syns.firsts_with_data,
            syns.firsts,
            syns.later_with_data,
            syns.later,
            syns.later_beside,
        ),
        needs: Some(
            "data in none of the first SYNs, and as much as would fit in all later ones except fallbacks".to_owned(),
        ),
        interval: None,
        margin: 0.0,
        in_run: true,
    })
}

/// The interval assumes that the errors of both medians add up.
fn saves(evidence: &Evidence<'_>, of: &str, to: &str, bound: Bound) -> Result<Finding, Gap> {
    let (of, to) = (evidence.cell(of)?, evidence.cell(to)?);
    let allowed = of.ideal_s.zip(to.ideal_s).map(|(of, to)| of - to).filter(|allowed| *allowed > 0.0);
    let allowed = allowed.ok_or_else(|| Gap::Unusable("the dependencies of the page allow no saving".to_owned()))?;
    let median = |cell: &CellResult| {
        cell.median_s.zip(cell.ci95_s).ok_or_else(|| Gap::Unusable("it has no confidence interval".to_owned()))
    };
    let ((slow, slow_in), (quick, quick_in)) = (median(of)?, median(to)?);
    let share = |saved: f64| saved / allowed;
    let interval = Interval { lo: share(slow_in.lo - quick_in.hi), hi: share(slow_in.hi - quick_in.lo) };
    let saved = slow - quick;
    Ok(Finding {
        verdict: bound.verdict(interval),
        measured: format!(
            "{} saves {:.0} ms compared with {}, of {:.0} ms that the page's dependencies allow: {}",
            to.label(),
            1e3 * saved,
            of.label(),
            1e3 * allowed,
            estimated(share(saved), interval)
        ),
        needs: Some(bound.needs()),
        interval: Some((interval, CONFIDENCE)),
        margin: bound.margin(share(saved)),
        in_run: true,
    })
}

/// How far a figure that is printed to a tenth of a per cent may be from the exact one.
const ROUNDING: f64 = 0.0005;

fn figure(evidence: &Evidence<'_>, of: &str, to: &str, saves: f64) -> Result<Finding, Gap> {
    let (ratio, to, of) = evidence.ratio(to, of)?;
    let (lo, hi) = (1.0 - ratio.interval.hi, 1.0 - ratio.interval.lo);
    let verdict = if lo <= 0.0 && hi >= 0.0 {
        Verdict::Inconclusive
    } else if lo > saves + ROUNDING {
        Verdict::Exceeded
    } else if hi < saves - ROUNDING {
        Verdict::Missed
    } else {
        Verdict::Reproduced
    };
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let sure = if ratio.confidence < CONFIDENCE {
        format!(", {:.0} % confidence", 100.0 * ratio.confidence)
    } else {
        String::new()
    };
    let allowed = match (of.ideal_s, to.ideal_s) {
        (Some(of), Some(to)) if of > to && to > 0.0 => {
            format!("; without computation, the page's dependencies allow {}", percent(1.0 - to / of))
        }
        _ => String::new(),
    };
    Ok(Finding {
        verdict,
        measured: format!(
            "{} saves {} ({:.1} to {}{sure}) of the time of {}; the source says {}{allowed}",
            to.label(),
            percent(1.0 - ratio.value),
            100.0 * lo,
            percent(hi),
            of.label(),
            percent(saves),
        ),
        needs: Some(percent(saves)),
        interval: Some((Interval { lo, hi }, ratio.confidence)),
        margin: 0.0,
        in_run: true,
    })
}

fn loses(evidence: &Evidence<'_>, what: &str, than: &str, at_most: Duration) -> Result<Finding, Gap> {
    let (lost, what, than) = evidence.difference(what, than)?;
    let [lo, value, hi] = [lost.interval.lo, lost.value, lost.interval.hi].map(|s| s * 1000.0);
    let most = at_most.as_secs_f64();
    // A gain is no loss.
    let bound = Bound { at_least: None, at_most: Some(most) };
    let sure = if lost.confidence < CONFIDENCE {
        format!(", {:.0} % confidence", 100.0 * lost.confidence)
    } else {
        String::new()
    };
    Ok(Finding {
        verdict: bound.verdict(lost.interval),
        measured: format!(
            "{} takes {value:+.0} ms ({lo:+.0} to {hi:+.0}{sure}) compared with {}",
            what.label(),
            than.label()
        ),
        needs: Some(format!("at most {:+.0} ms", most * 1000.0)),
        interval: Some((lost.interval, lost.confidence)),
        margin: most - lost.value,
        in_run: true,
    })
}

/// The finding, if the contender without the precaution loses more or fails; otherwise it decides nothing.
fn controlled(evidence: &Evidence<'_>, lost: Finding, control: Option<&[String; 2]>, at_most: Duration) -> Finding {
    let Some([naive, than]) = control.filter(|_| lost.verdict == Verdict::Reproduced) else { return lost };
    let (tells, why) = match loses(evidence, naive, than, at_most) {
        Ok(control) => (control.verdict == Verdict::Refuted, control.measured),
        Err(_) if evidence.has_failed(naive) => (true, format!("{naive} fails")),
        Err(gap) => (false, Finding::from(gap).measured),
    };
    let measured = if tells {
        format!("{}; without the precaution, {why}", lost.measured)
    } else {
        format!("{}, but the control does not tell it apart: {why}", lost.measured)
    };
    Finding { verdict: if tells { lost.verdict } else { Verdict::Inconclusive }, measured, ..lost }
}

/// A ratio with its interval, and the confidence if it is not the usual one.
fn said(ratio: &Shift) -> String {
    bounded(ratio.value, ratio.interval, ratio.confidence)
}

fn bounded(value: f64, interval: Interval, confidence: f64) -> String {
    let estimated = estimated(value, interval);
    match (estimated.strip_suffix(')'), confidence) {
        (Some(open), confidence) if confidence < CONFIDENCE => {
            format!("{open}, {:.0} % confidence)", 100.0 * confidence)
        }
        _ => estimated,
    }
}

fn takes(evidence: &Evidence<'_>, what: &str, unit: Unit, bound: Bound) -> Result<Finding, Gap> {
    let count = |count: Count| {
        let (number, cell) = evidence.count(count, what)?;
        Ok((Interval::from([number as f64; 2]), counted(number, count.one()), None, cell))
    };
    let (interval, number, confidence, cell) = match unit {
        Unit::Connections => count(Count::Connections)?,
        Unit::Requests => count(Count::Requests)?,
        Unit::LinkRoundTrips => count(Count::LinkRoundTrips)?,
        Unit::RoundTrips | Unit::Floors | Unit::Seconds => {
            let (number, interval, confidence, cell) = evidence.multiple(what, unit)?;
            let said = bounded(number, interval, confidence).replacen('×', "", 1);
            (interval, format!("{said} {}", unit.many()), Some(confidence), cell)
        }
    };
    Ok(Finding {
        verdict: bound.verdict(interval),
        measured: format!("{} takes {number}", cell.label()),
        needs: Some(bound.of(unit.many())),
        interval: confidence.map(|confidence| (interval, confidence)),
        margin: 0.0,
        in_run: true,
    })
}

fn more(evidence: &Evidence<'_>, count: Count, what: &str, than: &str) -> Result<Finding, Gap> {
    let ((more, what), (fewer, than)) = (evidence.count(count, what)?, evidence.count(count, than)?);
    Ok(Finding {
        verdict: if more > fewer { Verdict::Reproduced } else { Verdict::Refuted },
        measured: format!("{} uses {} and {} {fewer}", what.label(), counted(more, count.one()), than.label()),
        needs: Some("more".to_owned()),
        interval: None,
        margin: more as f64 - fewer as f64,
        in_run: true,
    })
}

fn pays(evidence: &Evidence<'_>, count: Count, what: &str, than: &str) -> Result<Finding, Gap> {
    let ((more, _), (fewer, _)) = (evidence.count(count, what)?, evidence.count(count, than)?);
    let (ratio, of, to) = evidence.ratio(what, than)?;
    let counts = [more, fewer].map(|number| counted(number, count.one()));
    if more <= fewer {
        let why = format!("{} uses {}, no more than {} with {}", of.label(), counts[0], to.label(), counts[1]);
        return Err(Gap::Unusable(why));
    }
    let bound = Bound { at_least: None, at_most: Some(1.0) };
    Ok(Finding {
        verdict: bound.verdict(ratio.interval),
        measured: format!(
            "{} with {} takes {} as long as {} with {}",
            of.label(),
            counts[0],
            said(&ratio),
            to.label(),
            counts[1]
        ),
        needs: Some(bound.needs()),
        interval: Some((ratio.interval, ratio.confidence)),
        margin: bound.margin(ratio.value),
        in_run: true,
    })
}

fn per_step(evidence: &Evidence<'_>, what: &str, methods: &[String], bound: Bound) -> Result<Finding, Gap> {
    let (sent, what) = evidence.methods(what)?;
    let (steps, step) = evidence.steps();
    let numbers: Vec<u64> = methods.iter().map(|method| sent.get(method).copied().unwrap_or(0)).collect();
    let each = |number: &u64| *number as f64 / f64::from(steps);
    let holds = |number| bound.verdict(Interval { lo: number, hi: number }) == Verdict::Reproduced;
    let said: Vec<String> = methods.iter().zip(&numbers).map(|(method, number)| format!("{number} {method}")).collect();
    let of_each = if methods.len() > 1 { " of each" } else { "" };
    Ok(Finding {
        verdict: if numbers.iter().map(each).all(holds) { Verdict::Reproduced } else { Verdict::Refuted },
        measured: format!("{} sends {} for {}", what.label(), spoken(&said), counted(steps.into(), step)),
        needs: Some(format!("{}{of_each} per {step}", bound.said(""))),
        interval: None,
        margin: 0.0,
        in_run: true,
    })
}

/// There must be a benefit here, and it must be the greater one.
fn shrinks(here: &Evidence<'_>, of: &str, to: &str, on: &str, by: f64) -> Result<Finding, Gap> {
    let there = Evidence { network: on, ..*here };
    let (far, far_of, far_to) = here.ratio(of, to)?;
    let (near, near_of, near_to) = there.ratio(of, to)?;
    let mut benefit = ratio(here, Measure::Time, of, to, Bound::least(1.0))?;
    if benefit.verdict != Verdict::Reproduced {
        benefit.measured += match benefit.verdict {
            Verdict::Refuted => ", so there is no benefit here",
            _ => ", so the difference may be chance",
        };
        return Ok(benefit);
    }
    let [here_times, there_times] =
        [[far_of, far_to], [near_of, near_to]].map(|pair| pair.map(|cell| cell.samples_s.as_slice()));
    let factor = ratio_of_ratios(here_times, there_times, here.seed)
        .ok_or_else(|| Gap::Unusable("it has no confidence interval".to_owned()))?;
    let bound = Bound::least(by);
    Ok(Finding {
        verdict: bound.verdict(factor.interval),
        measured: format!(
            "{} takes {} as long as {} on {} and {} on {on}; the first ratio is {} the second",
            far_of.label(),
            times(far.value),
            far_to.label(),
            here.network,
            times(near.value),
            estimated(factor.value, factor.interval),
        ),
        needs: Some(bound.needs()),
        interval: Some((factor.interval, CONFIDENCE)),
        margin: bound.margin(factor.value),
        in_run: true,
    })
}

impl Unit {
    fn many(self) -> &'static str {
        match self {
            Self::RoundTrips => "round trips",
            Self::Floors => "floors",
            Self::Seconds => "seconds",
            Self::Connections => "connections",
            Self::Requests => "requests",
            Self::LinkRoundTrips => "link round trips",
        }
    }
}

impl Count {
    pub(super) fn one(self) -> &'static str {
        match self {
            Self::Connections => "connection",
            Self::Requests => "request",
            Self::LinkRoundTrips => "link round trip",
        }
    }
}
