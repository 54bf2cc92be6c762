//! Checks against cells, and the sentences that go with the verdicts.

use super::{
    Check, Claim, Count, Verdict,
    evidence::{Evidence, Finding},
};
use crate::{
    results::{CellResult, ClaimResult, WorkloadRecord},
    stats::{Interval, bootstrap::ratio_of_ratios},
    words::{counted, times},
};

/// Judges a claim by the cells of a run. `source` names the article; `seed` is that of the
/// run, so that the same run always gets the same verdict.
pub fn judge(
    claim: &Claim,
    source: &str,
    cells: &[CellResult],
    workloads: &[WorkloadRecord],
    seed: u64,
) -> ClaimResult {
    let evidence = Evidence { cells, workloads, workload: &claim.workload, network: &claim.network, seed };
    let finding = match &claim.check {
        Check::Slower { what, than, by } => slower(&evidence, what, than, *by),
        Check::Fastest { what, among, by } => slower(&evidence, among, std::slice::from_ref(what), *by),
        Check::Ratio { of, to, at_least, at_most } => {
            ratio(&evidence, of, to, Bound { at_least: *at_least, at_most: *at_most })
        }
        Check::More { count, what, than } => weakest(than.iter().map(|than| more(&evidence, *count, what, than))),
        Check::PerStep { count, what, at_least } => per_step(&evidence, *count, what, *at_least),
        Check::Shrinks { of, to, on, by } => shrinks(&evidence, of, to, on, *by),
    };
    ClaimResult {
        id: claim.id.clone(),
        source: source.to_owned(),
        said: claim.said.clone(),
        measured: finding.measured,
        ci95: finding.ci95,
        verdict: finding.verdict,
    }
}

/// Where a ratio must lie.
#[derive(Debug, Clone, Copy)]
struct Bound {
    at_least: Option<f64>,
    at_most: Option<f64>,
}

impl Bound {
    fn least(by: f64) -> Self {
        Self { at_least: Some(by), at_most: None }
    }

    fn verdict(self, interval: Interval) -> Verdict {
        let (least, most) = (self.at_least.unwrap_or(0.0), self.at_most.unwrap_or(f64::INFINITY));
        if least <= interval.lo && interval.hi <= most {
            Verdict::Reproduced
        } else if interval.hi < least || most < interval.lo {
            Verdict::Refuted
        } else {
            Verdict::Inconclusive
        }
    }

    /// How far inside the bound the estimate lies, as a factor on a logarithmic scale.
    fn margin(self, value: f64) -> f64 {
        let above = self.at_least.map_or(f64::INFINITY, |least| (value / least).ln());
        let below = self.at_most.map_or(f64::INFINITY, |most| (most / value).ln());
        above.min(below)
    }

    fn needs(self) -> String {
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) => format!("{} to {}", times(least), times(most)),
            (Some(1.0), None) => "more than 1×".to_owned(),
            (Some(least), None) => format!("at least {}", times(least)),
            (None, Some(most)) => format!("at most {}", times(most)),
            (None, None) => "nothing".to_owned(),
        }
    }
}

/// Of several findings that must all hold: a refuted one decides, then one that is open,
/// then the one with the least margin.
fn weakest(findings: impl IntoIterator<Item = Finding>) -> Finding {
    let rank = |finding: &Finding| match finding.verdict {
        Verdict::Refuted => 0,
        Verdict::Inconclusive => 1,
        Verdict::Reproduced => 2,
    };
    findings
        .into_iter()
        .min_by(|a, b| rank(a).cmp(&rank(b)).then(a.margin.total_cmp(&b.margin)))
        .unwrap_or_else(|| Finding::open("nothing was compared".to_owned()))
}

fn slower(evidence: &Evidence<'_>, slow: &[String], fast: &[String], by: f64) -> Finding {
    let pairs = slow.iter().flat_map(|slow| fast.iter().map(move |fast| (slow, fast)));
    let finding = weakest(pairs.map(|(slow, fast)| ratio(evidence, slow, fast, Bound::least(by))));
    if slow.len() * fast.len() > 1 && finding.ci95.is_some() {
        let measured = format!("The closest of {} pairs: {}", slow.len() * fast.len(), finding.measured);
        return Finding { measured, ..finding };
    }
    finding
}

fn ratio(evidence: &Evidence<'_>, of: &str, to: &str, bound: Bound) -> Finding {
    match evidence.ratio(of, to) {
        Err(why) => Finding::open(format!("{why}.")),
        Ok((estimate, of, to)) => Finding {
            verdict: bound.verdict(estimate.interval),
            measured: format!(
                "{} takes {} as long as {} ({}, {}; {}–{}); the claim needs {}.",
                of.label(),
                times(estimate.value),
                to.label(),
                evidence.workload,
                evidence.network,
                times(estimate.interval.lo),
                times(estimate.interval.hi),
                bound.needs()
            ),
            ci95: Some(estimate.interval),
            margin: bound.margin(estimate.value),
        },
    }
}

fn more(evidence: &Evidence<'_>, count: Count, what: &str, than: &str) -> Finding {
    let counts = evidence.count(count, what).and_then(|what| Ok((what, evidence.count(count, than)?)));
    let ((ours, what), (theirs, than)) = match counts {
        Ok(counts) => counts,
        Err(why) => return Finding::open(format!("{why}.")),
    };
    Finding {
        verdict: if ours > theirs { Verdict::Reproduced } else { Verdict::Refuted },
        measured: format!(
            "{} needs {}, {} needs {} ({}, {}); the claim needs more.",
            what.label(),
            counted(ours, count.one()),
            than.label(),
            counted(theirs, count.one()),
            evidence.workload,
            evidence.network,
        ),
        ci95: None,
        margin: ours as f64 - theirs as f64,
    }
}

fn per_step(evidence: &Evidence<'_>, count: Count, what: &str, at_least: f64) -> Finding {
    let (number, what) = match evidence.count(count, what) {
        Ok(counted) => counted,
        Err(why) => return Finding::open(format!("{why}.")),
    };
    let steps = evidence.steps();
    let each = number as f64 / f64::from(steps);
    Finding {
        verdict: if each >= at_least { Verdict::Reproduced } else { Verdict::Refuted },
        measured: format!(
            "{} needs {}, {each:.1} for each of {} ({}, {}); the claim needs at least {at_least}.",
            what.label(),
            counted(number, count.one()),
            counted(steps.into(), "step"),
            evidence.workload,
            evidence.network,
        ),
        ci95: None,
        margin: each - at_least,
    }
}

fn shrinks(here: &Evidence<'_>, of: &str, to: &str, on: &str, by: f64) -> Finding {
    let there = Evidence { network: on, ..*here };
    let ratios = here.ratio(of, to).and_then(|here| Ok((here, there.ratio(of, to)?)));
    let ((far, of, to), (near, near_of, near_to)) = match ratios {
        Ok(ratios) => ratios,
        Err(why) => return Finding::open(format!("{why}.")),
    };
    let factor = ratio_of_ratios([&of.samples_s, &to.samples_s], [&near_of.samples_s, &near_to.samples_s], here.seed);
    let Some(factor) = factor else { return Finding::open("a time is not above zero.".to_owned()) };
    let bound = Bound::least(by);
    Finding {
        verdict: bound.verdict(factor.interval),
        measured: format!(
            "{} takes {} as long as {} on {} and {} on {on} ({}): {} as much of a difference ({}–{}); the claim needs {}.",
            of.label(),
            times(far.value),
            to.label(),
            here.network,
            times(near.value),
            here.workload,
            times(factor.value),
            times(factor.interval.lo),
            times(factor.interval.hi),
            bound.needs(),
        ),
        ci95: Some(factor.interval),
        margin: bound.margin(factor.value),
    }
}

impl Count {
    fn one(self) -> &'static str {
        match self {
            Self::Connections => "connection",
            Self::Requests => "request",
        }
    }
}
