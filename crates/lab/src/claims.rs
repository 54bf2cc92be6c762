//! Claims: statements of an article that a run can refute.
//!
//! A [`Claim`] quotes a sentence and gives one [`Check`]: data, not code, so that the experiment file alone decides. It also
//! says in words what would refute it; a claim that nothing can refute tells nothing. A check compares cells of one
//! workload; all but [`Check::Shrinks`], [`Check::Benefit`] and [`Check::Overhead`] stay on one network. "By far" and "greatly" are numbers here, which a reader who disagrees can change.
//!
//! A ratio is estimated as in the comparisons ([`shift`](crate::stats::shift)), and its interval decides: the claim is
//! *reproduced* if the whole interval satisfies the check, *refuted* if no part of it does, and otherwise
//! *inconclusive*. A claim about several pairs is as strong as its weakest pair: one refuted pair refutes it, and all
//! pairs must hold to reproduce it. A contender that was not measured leaves it *not judged*, unless another pair has
//! refuted it. Counts of requests and connections have no interval and decide alone.
//!
//! A figure of the source is reproduced only if the interval contains it, and otherwise *exceeded* or *missed*; an interval
//! that contains no effect at all decides nothing. Whether there is an effect, or a large one, is another claim.
//!
//! A claim about a model and a real program is judged, and the verdict says that it rests on a model; but what a model alone
//! contradicts is inconclusive ([`models`]). A comparison of two models proves nothing, since their requests and concurrency are our choice. Such a pair is skipped
//! if there are others, and otherwise leaves the claim inconclusive. Two models of the same requests are compared if one
//! sends them through a program, a gateway: the program is what differs.
//!
//! A check that every contender passes tells nothing either. So a claim about a precaution has a *control*, a contender
//! without it, which must fail where the claim holds; and a claim about a server's highest rate is judged only if the
//! server was at work all the time.
//!
//! A bound on a count or a time is not judged for a smaller workload than it was chosen for ([`whole_workload`]).
//!
//! A sentence with several statements becomes several claims, each quoting its own part.

mod at_the_limit;
mod benefit;
mod bound;
mod evidence;
mod judge;
mod models;
mod whole_workload;

use std::fmt;

use serde::{Deserialize, Serialize};
use units::Span;

use crate::format::counted;

/// A sentence of a source, and its check.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// A short name.
    pub id: String,
    /// The sentence verbatim, or the part of it that is checked; `…` stands for omitted words.
    pub said: String,
    /// The workload whose cells are compared.
    pub workload: String,
    /// The network on which they are compared.
    pub network: String,
    /// What must hold.
    pub check: Check<String>,
    /// The result that would refute it, in words; empty if the file does not say.
    pub refuted_by: String,
}

/// The condition of a claim. Names are those of contenders, except `on`, which names a network.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Check<N> {
    /// Each of `what` takes at least `by` times as long as each of `than`.
    Slower {
        /// The slower contenders.
        what: Vec<N>,
        /// The faster contenders.
        than: Vec<N>,
        /// The minimum factor; 1 by default.
        #[serde(default = "one")]
        by: f64,
    },
    /// Each of `among` takes at least `by` times as long as `what`.
    Fastest {
        /// The fastest.
        what: N,
        /// The others.
        among: Vec<N>,
        /// The minimum factor; 1 by default.
        #[serde(default = "one")]
        by: f64,
    },
    /// The ratio of the times of `of` and `to` is within bounds.
    Ratio {
        /// The numerator.
        of: N,
        /// The denominator.
        to: N,
        /// The minimum ratio.
        at_least: Option<f64>,
        /// The maximum ratio.
        at_most: Option<f64>,
        /// What is compared; the time by default.
        #[serde(default)]
        measure: Measure,
    },
    /// The time of `what` in excess of its page's dependencies, computations and handshakes is at most so many times
    /// the excess on the network `on`.
    Overhead {
        /// The contender.
        what: N,
        /// The other network.
        on: N,
        /// The maximum ratio.
        at_most: f64,
    },
    /// The first connection of each sample has no data in its SYN. Every later one has as much as would fit, or is a
    /// plain one that was started beside an unanswered one.
    SynData {
        /// The contender.
        what: N,
    },
    /// The saving of `to` over `of`, as a share of the saving that the page's dependencies, handshakes and slow start
    /// allow, is within bounds.
    Saves {
        /// The slower contender.
        of: N,
        /// The faster contender.
        to: N,
        /// The minimum share.
        at_least: Option<f64>,
        /// The maximum share.
        at_most: Option<f64>,
    },
    /// The source's own figure: `to` takes this share less time than `of`.
    Figure {
        /// The slower contender.
        of: N,
        /// The faster contender.
        to: N,
        /// The share of the time of `of` that is saved, as the source gives it.
        saves: f64,
    },
    /// `what` takes at most this much longer than `than`, in seconds.
    Loses {
        /// The contender that may be slower.
        what: N,
        /// The contender that it is compared with.
        than: N,
        /// The maximum difference.
        at_most: Span,
        /// A contender without the precaution, and the one to compare it with. It must lose more than that or fail:
        /// otherwise the network tells nothing about the precaution.
        control: Option<[N; 2]>,
    },
    /// With the server at work all the time, `what` does the work at least `by` times as fast as `than`.
    AtTheLimit {
        /// The contender that is faster.
        what: N,
        /// The contender that it is compared with.
        than: N,
        /// The processors that the server can use. Less than nine tenths of their time decides nothing.
        cores: u32,
        /// The minimum factor; 1 by default.
        #[serde(default = "one")]
        by: f64,
    },
    /// The median time of `what`, or a count, is within bounds.
    Takes {
        /// The contender.
        what: N,
        /// The unit.
        unit: Unit,
        /// The minimum.
        at_least: Option<f64>,
        /// The maximum.
        at_most: Option<f64>,
    },
    /// `what` needs more requests or connections than each of `than`.
    More {
        /// What is counted.
        count: Count,
        /// The contender that needs more.
        what: N,
        /// The contenders that need fewer.
        than: Vec<N>,
    },
    /// `what` needs more requests or connections than `than`, and takes less time: they pay off.
    Pays {
        /// What is counted.
        count: Count,
        /// The contender that needs more.
        what: N,
        /// The contenders that need fewer.
        than: N,
    },
    /// The number of requests with each of these methods per file, listing or save is within bounds.
    PerStep {
        /// The contender.
        what: N,
        /// The HTTP methods.
        methods: Vec<String>,
        /// The minimum for each method.
        at_least: Option<f64>,
        /// The maximum for each method.
        at_most: Option<f64>,
    },
    /// `of` takes longer than `to`, and the ratio is at least `by` times the ratio on the network `on`.
    Shrinks {
        /// The numerator.
        of: N,
        /// The denominator.
        to: N,
        /// The network where the ratio is smaller.
        on: N,
        /// The minimum factor between the two ratios; 1 by default.
        #[serde(default = "one")]
        by: f64,
    },
    /// What `to` saves compared with `of`, as a multiple of another saving, is within bounds. The other one is that of
    /// another pair, of another network, or both; there must be one.
    Benefit {
        /// The slower contender.
        of: N,
        /// The faster contender.
        to: N,
        /// What is saved; the share of the time by default.
        #[serde(default)]
        gain: Gain,
        /// The other pair, the slower contender first; the same by default.
        other: Option<[N; 2]>,
        /// The other network; the same by default.
        on: Option<N>,
        /// The minimum multiple.
        at_least: Option<f64>,
        /// The maximum multiple.
        at_most: Option<f64>,
    },
}

/// The measure of a benefit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gain {
    /// The time saved, as a share of the slower contender's.
    #[default]
    Share,
    /// The time saved.
    Time,
}

/// The quantity of a ratio.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The time of the work.
    #[default]
    Time,
    /// The server's processor time, without its kernel's for packets that arrive.
    ServerCpu,
    /// The same with its kernel's for packets that arrive, and the emulator's to deliver them, which cannot be told apart.
    ServerAndPackets,
}

fn one() -> f64 {
    1.0
}

/// The unit of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// The network's round-trip times.
    RoundTrips,
    /// The cell's [`floor`](crate::floor).
    Floors,
    /// Seconds, for a bound that does not depend on the network.
    Seconds,
    /// TCP connections, counted by the tap.
    Connections,
    /// HTTP requests, counted in the server's log.
    Requests,
    /// Round trips on the link that follow one another, counted by the tap: no less than the longest chain of requests of
    /// which each waits for the answer to the one before.
    LinkRoundTrips,
}

/// A count of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Count {
    /// TCP connections, counted by the tap.
    Connections,
    /// HTTP requests, counted in the server's log.
    Requests,
    /// Round trips on the link that follow one another, counted by the tap.
    LinkRoundTrips,
}

impl<N> Check<N> {
    /// The same check with other names, or the first error that a name gives.
    pub fn with_names<M, E>(
        self,
        mut contender: impl FnMut(N) -> Result<M, E>,
        network: impl FnOnce(N) -> Result<M, E>,
    ) -> Result<Check<M>, E> {
        let mut all = |names: Vec<N>| names.into_iter().map(&mut contender).collect::<Result<Vec<M>, E>>();
        Ok(match self {
            Self::Slower { what, than, by } => Check::Slower { what: all(what)?, than: all(than)?, by },
            Self::Fastest { what, among, by } => {
                let among = all(among)?;
                Check::Fastest { what: contender(what)?, among, by }
            }
            Self::Ratio { of, to, at_least, at_most, measure } => {
                Check::Ratio { of: contender(of)?, to: contender(to)?, at_least, at_most, measure }
            }
            Self::Overhead { what, on, at_most } => {
                Check::Overhead { what: contender(what)?, on: network(on)?, at_most }
            }
            Self::SynData { what } => Check::SynData { what: contender(what)? },
            Self::Saves { of, to, at_least, at_most } => {
                Check::Saves { of: contender(of)?, to: contender(to)?, at_least, at_most }
            }
            Self::Figure { of, to, saves } => Check::Figure { of: contender(of)?, to: contender(to)?, saves },
            Self::Loses { what, than, at_most, control } => {
                let (what, than) = (contender(what)?, contender(than)?);
                Check::Loses { what, than, at_most, control: pair(control, contender)? }
            }
            Self::AtTheLimit { what, than, cores, by } => {
                Check::AtTheLimit { what: contender(what)?, than: contender(than)?, cores, by }
            }
            Self::Takes { what, unit, at_least, at_most } => {
                Check::Takes { what: contender(what)?, unit, at_least, at_most }
            }
            Self::More { count, what, than } => {
                let than = all(than)?;
                Check::More { count, what: contender(what)?, than }
            }
            Self::Pays { count, what, than } => Check::Pays { count, what: contender(what)?, than: contender(than)? },
            Self::PerStep { what, methods, at_least, at_most } => {
                Check::PerStep { what: contender(what)?, methods, at_least, at_most }
            }
            Self::Shrinks { of, to, on, by } => {
                Check::Shrinks { of: contender(of)?, to: contender(to)?, on: network(on)?, by }
            }
            Self::Benefit { of, to, gain, other, on, at_least, at_most } => {
                let (of, to, on) = (contender(of)?, contender(to)?, on.map(network).transpose()?);
                Check::Benefit { of, to, gain, other: pair(other, contender)?, on, at_least, at_most }
            }
        })
    }

    /// The contenders whose cells it compares.
    pub fn contenders(&self) -> Vec<&N> {
        match self {
            Self::Slower { what, than, .. } => what.iter().chain(than).collect(),
            Self::Fastest { what, among, .. } => std::iter::once(what).chain(among).collect(),
            Self::Ratio { of, to, .. }
            | Self::Shrinks { of, to, .. }
            | Self::Saves { of, to, .. }
            | Self::Figure { of, to, .. } => vec![of, to],
            Self::More { what, than, .. } => std::iter::once(what).chain(than).collect(),
            Self::Pays { what, than, .. } | Self::AtTheLimit { what, than, .. } => vec![what, than],
            Self::Loses { what, than, control, .. } => {
                [what, than].into_iter().chain(control.iter().flatten()).collect()
            }
            Self::Benefit { of, to, other, .. } => [of, to].into_iter().chain(other.iter().flatten()).collect(),
            Self::PerStep { what, .. }
            | Self::Takes { what, .. }
            | Self::Overhead { what, .. }
            | Self::SynData { what } => vec![what],
        }
    }

    /// What is wrong with its numbers or lists, if anything.
    pub fn complaint(&self) -> Option<&'static str> {
        let (factors, lists) = match self {
            Self::Ratio { at_least: None, at_most: None, .. }
            | Self::Saves { at_least: None, at_most: None, .. }
            | Self::Takes { at_least: None, at_most: None, .. }
            | Self::Benefit { at_least: None, at_most: None, .. }
            | Self::PerStep { at_least: None, at_most: None, .. } => {
                return Some("missing bound: give `at_least` or `at_most`");
            }
            Self::Benefit { other: None, on: None, .. } => {
                return Some("nothing to compare the benefit with: give `other` or `on`");
            }
            Self::AtTheLimit { cores: 0, .. } => return Some("a server uses at least one core"),
            Self::PerStep { at_least, at_most, .. } | Self::Takes { at_least, at_most, .. }
                if !at_least.iter().chain(at_most).all(|number| number.is_finite() && *number >= 0.0) =>
            {
                return Some("a number must be at least 0");
            }
            Self::Figure { saves, .. } if !(*saves > 0.0 && *saves < 1.0) => {
                return Some("a saved share must be between 0 and 1");
            }
            Self::PerStep { methods, .. } => (vec![], vec![methods.len()]),
            Self::Takes { .. }
            | Self::Pays { .. }
            | Self::SynData { .. }
            | Self::Loses { .. }
            | Self::Figure { .. } => (vec![], vec![]),
            Self::Slower { what, than, by } => (vec![*by], vec![what.len(), than.len()]),
            Self::Fastest { among, by, .. } => (vec![*by], vec![among.len()]),
            Self::Overhead { at_most, .. } => (vec![*at_most], vec![]),
            Self::Ratio { at_least, at_most, .. }
            | Self::Saves { at_least, at_most, .. }
            | Self::Benefit { at_least, at_most, .. } => (at_least.iter().chain(at_most).copied().collect(), vec![]),
            Self::More { than, .. } => (vec![], vec![than.len()]),
            Self::Shrinks { by, .. } | Self::AtTheLimit { by, .. } => (vec![*by], vec![]),
        };
        if !factors.into_iter().all(|factor| factor.is_finite() && factor > 0.0) {
            return Some("a factor must be greater than 0");
        }
        lists.contains(&0).then_some("empty list: there is nothing to compare")
    }
}

/// Both names of a pair, if there is one.
fn pair<N, M, E>(names: Option<[N; 2]>, mut convert: impl FnMut(N) -> Result<M, E>) -> Result<Option<[M; 2]>, E> {
    let Some([a, b]) = names else { return Ok(None) };
    Ok(Some([convert(a)?, convert(b)?]))
}

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The measurement agrees.
    Reproduced,
    /// The effect is larger than the source's figure.
    Exceeded,
    /// The effect is smaller than the source's figure.
    Missed,
    /// The measurement disagrees.
    Refuted,
    /// The measurement does not decide.
    Inconclusive,
    /// Nothing was measured that the check could judge: the cells are missing, or unusable.
    NotJudged,
}

impl Verdict {
    /// All verdicts, in the order to count them.
    pub const ALL: [Self; 6] =
        [Self::Reproduced, Self::Exceeded, Self::Missed, Self::Refuted, Self::Inconclusive, Self::NotJudged];

    /// The number of each verdict in words: `17 claims: 5 reproduced, 2 refuted, 4 inconclusive, 6 not judged`. Verdicts on
    /// figures are left out if there are none.
    pub(crate) fn summary(verdicts: &[Self]) -> String {
        let number = |verdict: Self| {
            let count = verdicts.iter().filter(|one| **one == verdict).count();
            let is_shown = count > 0 || !matches!(verdict, Self::Exceeded | Self::Missed);
            is_shown.then(|| format!("{count} {verdict}"))
        };
        let numbers: Vec<String> = Self::ALL.into_iter().filter_map(number).collect();
        format!("{}: {}", counted(verdicts.len() as u64, "claim"), numbers.join(", "))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reproduced => "reproduced",
            Self::Exceeded => "exceeded",
            Self::Missed => "missed",
            Self::Refuted => "refuted",
            Self::Inconclusive => "inconclusive",
            Self::NotJudged => "not judged",
        })
    }
}

#[cfg(test)]
mod tests;
