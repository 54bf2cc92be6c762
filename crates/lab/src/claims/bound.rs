//! The bounds of a claim: what an interval says about them, and how a sentence names them.

use super::Verdict;
use crate::stats::Interval;

/// The bounds of a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) at_least: Option<f64>,
    pub(super) at_most: Option<f64>,
}

impl Bound {
    pub(super) fn least(by: f64) -> Self {
        Self { at_least: Some(by), at_most: None }
    }

    pub(super) fn verdict(self, interval: Interval) -> Verdict {
        let (least, most) = (self.at_least.unwrap_or(f64::NEG_INFINITY), self.at_most.unwrap_or(f64::INFINITY));
        if least <= interval.lo && interval.hi <= most {
            Verdict::Reproduced
        } else if interval.hi < least || most < interval.lo {
            Verdict::Refuted
        } else {
            Verdict::Inconclusive
        }
    }

    /// The distance of the estimate to the bound, as the logarithm of a factor.
    pub(super) fn margin(self, value: f64) -> f64 {
        let above = self.at_least.map_or(f64::INFINITY, |least| (value / least).ln());
        let below = self.at_most.map_or(f64::INFINITY, |most| (most / value).ln());
        above.min(below)
    }

    /// The bound of a factor.
    pub(super) fn needs(self) -> String {
        match (self.at_least, self.at_most) {
            (Some(1.0), None) => "more than 1×".to_owned(),
            (None, Some(1.0)) => "less than 1×".to_owned(),
            _ => self.said("×"),
        }
    }

    /// The bound of a number of things, by their plural.
    pub(super) fn of(self, many: &str) -> String {
        match (self.at_least, self.at_most) {
            (None, Some(0.0)) => format!("no {many}"),
            (None, Some(1.0)) => format!("at most 1 {}", many.trim_end_matches('s')),
            _ => format!("{} {many}", self.said("")),
        }
    }

    pub(super) fn said(self, unit: &str) -> String {
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) => format!("{least}{unit} to {most}{unit}"),
            (Some(least), None) => format!("at least {least}{unit}"),
            (None, Some(0.0)) => "none".to_owned(),
            (None, Some(most)) => format!("at most {most}{unit}"),
            (None, None) => "nothing".to_owned(),
        }
    }
}
