//! Claims: statements of an article that a run can refute.
//!
//! A [`Claim`] quotes a sentence and gives one [`Check`]: data, not code, so that the experiment file alone says what
//! would refute it. A check compares cells of one workload; all but [`Check::Shrinks`] and [`Check::Overhead`] stay on
//! one network. "By far" and "greatly" are numbers here, which a reader who disagrees can change.
//!
//! A ratio is estimated as in the comparisons ([`shift`](crate::stats::shift)), and its interval decides: the claim is
//! *reproduced* if the whole interval satisfies the check, *refuted* if no part of it does, and otherwise
//! *inconclusive*. A claim about several pairs is as strong as its weakest pair: one refuted pair refutes it, and all
//! pairs must hold to reproduce it. A contender that was not measured leaves it inconclusive, unless another pair has
//! refuted it. Counts of requests and connections have no interval and decide alone.
//!
//! A claim about a model and a real program is judged, and the sentence with the verdict calls the model a model. A
//! comparison of two models proves nothing, since their requests and concurrency are our choice. Such a pair is skipped
//! if there are others, and otherwise leaves the claim inconclusive.
//!
//! A sentence with several statements becomes several claims, each quoting its own part.

mod evidence;
mod judge;

use serde::{Deserialize, Serialize};
use units::Span;

pub use judge::judge;

/// A sentence of a source and what it says about cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// A short name.
    pub id: String,
    /// The sentence, word for word, or the part of it that is checked; `…` where words are
    /// left out.
    pub said: String,
    /// The workload whose cells are compared.
    pub workload: String,
    /// The network on which they are compared.
    pub network: String,
    /// What must hold.
    pub check: Check<String>,
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
        /// The least factor; 1 unless given.
        #[serde(default = "one")]
        by: f64,
    },
    /// Each of `among` takes at least `by` times as long as `what`.
    Fastest {
        /// The fastest.
        what: N,
        /// The others.
        among: Vec<N>,
        /// The least factor; 1 unless given.
        #[serde(default = "one")]
        by: f64,
    },
    /// `of` takes at least, or at most, so many times as long as `to`.
    Ratio {
        /// The time above the line.
        of: N,
        /// The time below it.
        to: N,
        /// The least ratio.
        at_least: Option<f64>,
        /// The greatest ratio.
        at_most: Option<f64>,
        /// Of what; of times unless given.
        #[serde(default)]
        measure: Measure,
    },
    /// What `what` takes here beyond what its page's dependencies, computations and handshakes ask for is at most so
    /// many times what it takes on the network `on`.
    Overhead {
        /// Who takes it.
        what: N,
        /// The other network.
        on: N,
        /// The greatest ratio.
        at_most: f64,
    },
    /// The first connection of each sample has no data in its SYN, and every later one has, or is a plain one beside
    /// one that was not answered.
    SynData {
        /// Whose SYNs.
        what: N,
    },
    /// Of the time that the page's dependencies, handshakes and slow start allow `to` to be quicker than `of`, at
    /// least, or at most, this share is saved.
    Saves {
        /// The slower one.
        of: N,
        /// The quicker one.
        to: N,
        /// The least share.
        at_least: Option<f64>,
        /// The greatest share.
        at_most: Option<f64>,
    },
    /// `what` takes at most so much longer than `than`, whatever both take.
    Loses {
        /// Who may lose something.
        what: N,
        /// Its rival.
        than: N,
        /// The most it may lose.
        at_most: Span,
    },
    /// `what` takes at least, or at most, so many of a unit.
    Takes {
        /// Who takes them.
        what: N,
        /// Of what.
        unit: Unit,
        /// The least number.
        at_least: Option<f64>,
        /// The greatest number.
        at_most: Option<f64>,
    },
    /// `what` needs more requests or connections than each of `than`.
    More {
        /// What is counted.
        count: Count,
        /// Who needs more.
        what: N,
        /// Who needs fewer.
        than: Vec<N>,
    },
    /// `what` needs more requests or connections than `than`, and takes less time: the claim
    /// that it is fast because of them.
    Pays {
        /// What is counted.
        count: Count,
        /// Who needs more.
        what: N,
        /// Who needs fewer.
        than: N,
    },
    /// `what` sends at least, or at most, so many requests of each of these methods for each
    /// file, listing or save.
    PerStep {
        /// Who sends them.
        what: N,
        /// The HTTP methods.
        methods: Vec<String>,
        /// The least number of each.
        at_least: Option<f64>,
        /// The greatest number of each.
        at_most: Option<f64>,
    },
    /// `of` takes longer than `to`, and the ratio is smaller on the network `on`: it is `by`
    /// times as large here.
    Shrinks {
        /// The time above the line.
        of: N,
        /// The time below it.
        to: N,
        /// The network where the ratio is smaller.
        on: N,
        /// The least factor between the two ratios; 1 unless given.
        #[serde(default = "one")]
        by: f64,
    },
}

/// What a ratio is one of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// How long it took.
    #[default]
    Time,
    /// The server's processor time.
    ServerCpu,
}

fn one() -> f64 {
    1.0
}

/// What a contender's work is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// The network's round-trip times.
    RoundTrips,
    /// The cell's [`floor`](crate::floor).
    Floors,
    /// TCP connections, as the tap saw them.
    Connections,
    /// HTTP requests, as the server logged them.
    Requests,
}

/// What is counted in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Count {
    /// TCP connections, as the tap saw them.
    Connections,
    /// HTTP requests, as the server logged them.
    Requests,
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
            Self::Loses { what, than, at_most } => {
                Check::Loses { what: contender(what)?, than: contender(than)?, at_most }
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
        })
    }

    /// The contenders whose cells it looks at.
    pub fn contenders(&self) -> Vec<&N> {
        match self {
            Self::Slower { what, than, .. } => what.iter().chain(than).collect(),
            Self::Fastest { what, among, .. } => std::iter::once(what).chain(among).collect(),
            Self::Ratio { of, to, .. } | Self::Shrinks { of, to, .. } | Self::Saves { of, to, .. } => vec![of, to],
            Self::More { what, than, .. } => std::iter::once(what).chain(than).collect(),
            Self::Pays { what, than, .. } | Self::Loses { what, than, .. } => vec![what, than],
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
            | Self::PerStep { at_least: None, at_most: None, .. } => {
                return Some("missing bound: give `at_least` or `at_most`");
            }
            Self::PerStep { at_least, at_most, .. } | Self::Takes { at_least, at_most, .. }
                if !at_least.iter().chain(at_most).all(|number| number.is_finite() && *number >= 0.0) =>
            {
                return Some("a number must be at least 0");
            }
            Self::PerStep { methods, .. } => (vec![], vec![methods.len()]),
            Self::Takes { .. } | Self::Pays { .. } | Self::SynData { .. } | Self::Loses { .. } => (vec![], vec![]),
            Self::Slower { what, than, by } => (vec![*by], vec![what.len(), than.len()]),
            Self::Fastest { among, by, .. } => (vec![*by], vec![among.len()]),
            Self::Overhead { at_most, .. } => (vec![*at_most], vec![]),
            Self::Ratio { at_least, at_most, .. } | Self::Saves { at_least, at_most, .. } => {
                (at_least.iter().chain(at_most).copied().collect(), vec![])
            }
            Self::More { than, .. } => (vec![], vec![than.len()]),
            Self::Shrinks { by, .. } => (vec![*by], vec![]),
        };
        if !factors.into_iter().all(|factor| factor.is_finite() && factor > 0.0) {
            return Some("a factor must be greater than 0");
        }
        lists.contains(&0).then_some("empty list: there is nothing to compare")
    }
}

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The measurement agrees.
    Reproduced,
    /// The measurement disagrees.
    Refuted,
    /// The measurement does not decide.
    Inconclusive,
}

#[cfg(test)]
mod tests;
