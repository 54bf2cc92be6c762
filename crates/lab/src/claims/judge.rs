//! Checks against cells, and the sentences that go with the verdicts.

use super::{
    Check, Claim, Count, Verdict,
    evidence::{Evidence, Finding},
};
use crate::{
    results::{CellResult, ClaimResult, WorkloadRecord},
    stats::{Interval, bootstrap::ratio_of_ratios},
    words::{counted, estimated, times},
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
            ratio(&evidence, of, to, Bound { at_least: *at_least, at_most: *at_most }, "")
        }
        Check::More { count, what, than } => weakest(than.iter().map(|than| more(&evidence, *count, what, than))),
        Check::PerStep { count, what, at_least } => per_step(&evidence, *count, what, *at_least),
        Check::Shrinks { of, to, on, by } => shrinks(&evidence, of, to, on, *by),
    }
    .unwrap_or_else(|why| Finding::open(&why));
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
            (Some(least), Some(most)) => format!("{least}× to {most}×"),
            (Some(1.0), None) => "more than 1×".to_owned(),
            (Some(least), None) => format!("at least {least}×"),
            (None, Some(most)) => format!("at most {most}×"),
            (None, None) => "nothing".to_owned(),
        }
    }
}

/// Of several findings that must all hold: a refuted one decides, then one that is open,
/// then the one with the least margin.
fn weakest(findings: impl IntoIterator<Item = Result<Finding, String>>) -> Result<Finding, String> {
    let rank = |finding: &Finding| match finding.verdict {
        Verdict::Refuted => 0,
        Verdict::Inconclusive => 1,
        Verdict::Reproduced => 2,
    };
    findings
        .into_iter()
        .map(|finding| finding.unwrap_or_else(|why| Finding::open(&why)))
        .min_by(|a, b| rank(a).cmp(&rank(b)).then(a.margin.total_cmp(&b.margin)))
        .ok_or_else(|| "nothing was compared".to_owned())
}

fn slower(evidence: &Evidence<'_>, slow: &[String], fast: &[String], by: f64) -> Result<Finding, String> {
    let pairs: Vec<_> = slow.iter().flat_map(|slow| fast.iter().map(move |fast| (slow, fast))).collect();
    let note = if pairs.len() > 1 { format!(", the closest of {} pairs", pairs.len()) } else { String::new() };
    weakest(pairs.iter().map(|(slow, fast)| ratio(evidence, slow, fast, Bound::least(by), &note)))
}

fn ratio(evidence: &Evidence<'_>, of: &str, to: &str, bound: Bound, note: &str) -> Result<Finding, String> {
    let (estimate, of, to) = evidence.ratio(of, to)?;
    Ok(Finding {
        verdict: bound.verdict(estimate.interval),
        measured: evidence.say(&format!(
            "{} takes {} as long as {}{note}; the claim needs {}.",
            of.label(),
            estimated(estimate.value, estimate.interval),
            to.label(),
            bound.needs()
        )),
        ci95: Some(estimate.interval),
        margin: bound.margin(estimate.value),
    })
}

fn more(evidence: &Evidence<'_>, count: Count, what: &str, than: &str) -> Result<Finding, String> {
    let (ours, what) = evidence.count(count, what)?;
    let (theirs, than) = evidence.count(count, than)?;
    Ok(Finding {
        verdict: if ours > theirs { Verdict::Reproduced } else { Verdict::Refuted },
        measured: evidence.say(&format!(
            "{} needs {} and {} needs {theirs}; the claim needs more.",
            what.label(),
            counted(ours, count.one()),
            than.label(),
        )),
        ci95: None,
        margin: ours as f64 - theirs as f64,
    })
}

fn per_step(evidence: &Evidence<'_>, count: Count, what: &str, at_least: f64) -> Result<Finding, String> {
    let (number, what) = evidence.count(count, what)?;
    let (steps, step) = evidence.steps();
    let each = number as f64 / f64::from(steps);
    Ok(Finding {
        verdict: if each >= at_least { Verdict::Reproduced } else { Verdict::Refuted },
        measured: evidence.say(&format!(
            "{} needs {} for {}, {each:.1} each; the claim needs at least {at_least}.",
            what.label(),
            counted(number, count.one()),
            counted(steps.into(), step),
        )),
        ci95: None,
        margin: each - at_least,
    })
}

fn shrinks(here: &Evidence<'_>, of: &str, to: &str, on: &str, by: f64) -> Result<Finding, String> {
    let there = Evidence { network: on, ..*here };
    let (far, of, to) = here.ratio(of, to)?;
    let (near, near_of, near_to) = there.ratio(&of.contender, &to.contender)?;
    let [here_times, there_times] =
        [[of, to], [near_of, near_to]].map(|pair| pair.map(|cell| cell.samples_s.as_slice()));
    let factor = ratio_of_ratios(here_times, there_times, here.seed).ok_or("there is no interval")?;
    let bound = Bound::least(by);
    Ok(Finding {
        verdict: bound.verdict(factor.interval),
        measured: here.say(&format!(
            "{} takes {} as long as {} here and {} on {on}, and the first is {} the second; the claim needs {}.",
            of.label(),
            times(far.value),
            to.label(),
            times(near.value),
            estimated(factor.value, factor.interval),
            bound.needs(),
        )),
        ci95: Some(factor.interval),
        margin: bound.margin(factor.value),
    })
}

impl Count {
    fn one(self) -> &'static str {
        match self {
            Self::Connections => "connection",
            Self::Requests => "request",
        }
    }
}
