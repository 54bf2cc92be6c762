//! How often a scenario runs, and the result of its runs.
//!
//! A busy machine adds delays whose cause no packet shows. But a hiccup does not come again, and a mistake does. So a
//! scenario whose first run gives any unexpected result runs again alone after all others, and once more if the two runs
//! disagree. For each result, the majority of the runs counts.
//! Nothing is asked of fewer plays or less exactly than otherwise; and what was right the first time can still turn out
//! wrong in the others.

use std::collections::BTreeMap;

use crate::verdict::{Clock, Verdict};

/// How often a scenario is played at most.
pub(crate) const MOST: usize = 3;

/// One thing that a play tells.
pub(crate) trait Tells {
    /// What it is about, within its scenario.
    fn about(&self) -> &str;
    /// How far it is from what happened.
    fn off(&self) -> f64;
    /// Whether that is near enough.
    fn holds(&self) -> bool;
}

/// What one play told.
#[derive(Debug, Default)]
pub(crate) struct Play {
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) clocks: Vec<Clock>,
    pub(crate) pairs: Vec<Pair>,
}

/// A prediction, and what came.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) scenario: String,
    pub(crate) what_if: String,
    /// In seconds; none where explain declines.
    pub(crate) predicted: Option<f64>,
    pub(crate) measured: f64,
}

/// How far a prediction may be from what came.
pub(crate) const FAR: f64 = 0.25;

impl Pair {
    pub(crate) fn error(&self) -> Option<f64> {
        self.predicted.map(|predicted| (predicted - self.measured).abs() / self.measured)
    }
}

impl Tells for Pair {
    fn about(&self) -> &str {
        &self.what_if
    }

    fn off(&self) -> f64 {
        self.error().unwrap_or(f64::INFINITY)
    }

    fn holds(&self) -> bool {
        self.off() <= FAR
    }
}

/// The plays of one scenario; an error is one that did not happen as the scenario says.
#[derive(Debug, Default)]
pub(crate) struct Plays(Vec<Result<Play, String>>);

impl Plays {
    pub(crate) fn enter(&mut self, play: Result<Play, String>) {
        self.0.push(play);
    }

    fn told(&self) -> impl Iterator<Item = &Play> {
        self.0.iter().flatten()
    }

    pub(crate) fn verdicts(&self) -> Vec<&Verdict> {
        middle(self.told().flat_map(|play| &play.verdicts))
    }

    pub(crate) fn clocks(&self) -> Vec<&Clock> {
        middle(self.told().flat_map(|play| &play.clocks))
    }

    pub(crate) fn pairs(&self) -> Vec<&Pair> {
        middle(self.told().flat_map(|play| &play.pairs))
    }

    /// How often each thing was told, and how often it held.
    fn counts(&self) -> BTreeMap<&str, (usize, usize)> {
        let happened = self.0.iter().map(|play| ("it happened", play.is_ok()));
        let told = self.told().flat_map(|play| {
            let verdicts = play.verdicts.iter().map(|one| (one.about(), one.holds()));
            let clocks = play.clocks.iter().map(|one| (one.about(), one.holds()));
            verdicts.chain(clocks).chain(play.pairs.iter().map(|one| (one.about(), one.holds())))
        });
        let mut counts: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for (about, holds) in happened.chain(told) {
            let (times, held) = counts.entry(about).or_default();
            *times += 1;
            *held += usize::from(holds);
        }
        counts
    }

    /// Whether another play may change what they come to.
    pub(crate) fn is_open(&self) -> bool {
        let open = |(times, held): &(usize, usize)| if *times == 1 { *held == 0 } else { held * 2 == *times };
        self.0.len() < MOST && self.counts().values().any(open)
    }

    /// Whether it happened as the scenario says.
    pub(crate) fn happened(&self) -> bool {
        self.told().count() * 2 > self.0.len()
    }

    /// What did not hold each time, if it was played more than once.
    pub(crate) fn says(&self) -> Option<String> {
        if self.0.len() < 2 {
            return None;
        }
        let counts = self.counts();
        let shaky = counts.iter().filter(|(_, (times, held))| held < times);
        let shaky: Vec<_> =
            shaky.map(|(about, (times, held))| format!("{about} held {held} of {times} times")).collect();
        Some(format!("played {} times: {}", self.0.len(), shaky.join(", ")))
    }
}

/// For each thing what lies in the middle of what the plays told of it; of two the one further off.
fn middle<'a, T: Tells>(told: impl Iterator<Item = &'a T>) -> Vec<&'a T> {
    let mut same: BTreeMap<&str, Vec<&T>> = BTreeMap::new();
    for one in told {
        same.entry(one.about()).or_default().push(one);
    }
    let middle = |mut same: Vec<&'a T>| {
        same.sort_by(|a, b| a.off().total_cmp(&b.off()));
        same[same.len() / 2]
    };
    same.into_values().map(middle).collect()
}
