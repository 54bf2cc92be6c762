//! From a handful of times to a sentence one may believe.
//!
//! A cell is sampled three to twenty times: too few to trust a mean (one stalled sample
//! moves it) and too few to assume a distribution. So everything here rests on order:
//!
//! - The time of a cell is its **median**; the interval around it comes from resampling
//!   ([`bootstrap`]: Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, ch. 13).
//! - Whether two contenders differ, and how many times as long one takes, is asked of the
//!   **Hodges–Lehmann** estimate ([`shift`]): the median of all pairwise factors, with the
//!   interval that inverts the Mann–Whitney test. It assumes no distribution, only that both
//!   cells have the same shape moved or stretched. The comparisons of rivals and the claims
//!   rest on the same estimate, so that a verdict never contradicts the table above it.
//! - Whether a factor is greater far away than nearby is a **ratio of two ratios** of medians,
//!   resampled again: for four samples at once there is no rank interval.
//!
//! # What few samples cannot do
//! No interval made of n sorted samples holds the true median more often than
//! 1 − 2^(1−n): that is the chance that the median lies between the least and the greatest.
//! It is 75 % for three samples, 87.5 % for four, 93.75 % for five and passes 95 % at six.
//! A bootstrap of three samples therefore *is* the range of the three, and holds the median
//! in 75 % of runs whatever it is called; [`range_coverage`] gives the number so that a table
//! can say it. Two cells of three samples have no distribution-free 95 % interval either:
//! the widest there is holds the shift in 90 % of runs. It is given with that confidence
//! instead of a promise it cannot keep. From four samples against four, 95 % is kept.

pub mod bootstrap;
pub mod shift;

use serde::{Deserialize, Serialize};

/// A closed range; in JSON the pair `[lo, hi]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct Interval {
    /// The lower end.
    pub lo: f64,
    /// The upper end.
    pub hi: f64,
}

impl Interval {
    /// Whether `value` lies inside, ends included.
    pub fn contains(self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }
}

impl From<[f64; 2]> for Interval {
    fn from([lo, hi]: [f64; 2]) -> Self {
        Self { lo, hi }
    }
}

impl From<Interval> for [f64; 2] {
    fn from(interval: Interval) -> Self {
        [interval.lo, interval.hi]
    }
}

/// The middle value, or the mean of the two middle ones; none of nothing.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[sorted.len() / 2 - 1], upper) } else { upper })
}

/// How often the range of so many samples holds the true median: 1 − 2^(1−n), the most that
/// any interval made of them can promise.
pub fn range_coverage(samples: usize) -> f64 {
    if samples == 0 { 0.0 } else { 1.0 - 2f64.powi(1 - i32::try_from(samples).unwrap_or(i32::MAX)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn the_range_of_few_samples_promises_little() {
        let promised: Vec<f64> = (1..=6).map(range_coverage).collect();
        assert_eq!(promised, [0.0, 0.5, 0.75, 0.875, 0.9375, 0.96875]);
    }

    proptest! {
        #[test]
        fn half_lie_on_each_side(samples in prop::collection::vec(0.0..1e6f64, 1..40)) {
            let middle = median(&samples).unwrap();
            let below = samples.iter().filter(|s| **s < middle).count();
            let above = samples.iter().filter(|s| **s > middle).count();
            prop_assert!(below * 2 <= samples.len() && above * 2 <= samples.len());
        }
    }
}
