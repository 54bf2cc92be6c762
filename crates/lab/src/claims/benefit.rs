//! What one contender saves, compared with what another one saves, or the same one on another network.

use super::{
    Gain,
    bound::Bound,
    evidence::{Evidence, Finding, Gap},
};
use crate::{
    format::estimated,
    results::CellResult,
    stats::{bootstrap::of_medians, shift::CONFIDENCE},
};

/// Two savings to compare.
pub(super) struct Benefit<'a> {
    pub(super) gain: Gain,
    /// The slower and the faster contender.
    pub(super) pair: [&'a str; 2],
    /// Those to compare them with.
    pub(super) other: [&'a str; 2],
    pub(super) here: Evidence<'a>,
    /// Where the other ones are.
    pub(super) there: Evidence<'a>,
}

/// There must be a detectable saving to compare with; the claimed one may be anything, since to save nothing is to save
/// less.
pub(super) fn benefit(claimed: &Benefit<'_>, bound: Bound) -> Result<Finding, Gap> {
    let Benefit { gain, pair: [of, to], other: [other_of, other_to], here, there } = claimed;
    let (.., of, to) = here.ratio(of, to)?;
    let (ratio, other_of, other_to) = there.ratio(other_of, other_to)?;
    if ratio.interval.lo <= 1.0 {
        return Err(Gap::Unusable(format!(
            "on {}, {} saves nothing detectable compared with {}, which it would be compared with",
            there.network,
            other_to.label(),
            other_of.label()
        )));
    }
    let samples = [of, to, other_of, other_to].map(|cell| cell.samples_s.as_slice());
    let saved = |slow: f64, quick: f64| match gain {
        Gain::Share => 1.0 - quick / slow,
        Gain::Time => slow - quick,
    };
    let factor = of_medians(samples, |[a, b, c, d]| saved(a, b) / saved(c, d), here.seed)
        .ok_or_else(|| Gap::Unusable("it has no confidence interval".to_owned()))?;
    let saving = |of: &CellResult, to: &CellResult| {
        let saved = saved(of.median_s.unwrap_or_default(), to.median_s.unwrap_or_default());
        match gain {
            Gain::Share => format!("{:.1} %", 100.0 * saved),
            Gain::Time => format!("{:.0} ms", 1e3 * saved),
        }
    };
    Ok(Finding {
        verdict: bound.verdict(factor.interval),
        measured: format!(
            "{} saves {} compared with {} on {}, and {} saves {} compared with {} on {}; the first is {} the second",
            to.label(),
            saving(of, to),
            of.label(),
            here.network,
            other_to.label(),
            saving(other_of, other_to),
            other_of.label(),
            there.network,
            estimated(factor.value, factor.interval),
        ),
        needs: Some(bound.needs()),
        interval: Some((factor.interval, CONFIDENCE)),
        margin: 0.0,
        in_run: true,
    })
}
