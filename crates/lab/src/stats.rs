//! Statistics for few samples.
//!
//! A cell has three to twenty samples. That is too few for a mean, which one stalled sample moves, and too few to
//! assume a distribution. So everything here is based on ranks:
//!
//! - The time of a cell is its **median**. Its interval is a bootstrap ([`bootstrap`]: Efron and Tibshirani, *An
//!   Introduction to the Bootstrap*, 1993, ch. 13).
//! - The ratio of two contenders is the **Hodges–Lehmann** estimate ([`shift`]): the median of all pairwise ratios,
//!   with the interval that inverts the Mann–Whitney test. It assumes only that both distributions have the same
//!   shape. Comparisons and claims use the same estimate, so that a verdict never contradicts the table above it.
//! - Whether a ratio is greater on one network than on another is a **ratio of two ratios** of medians, with a
//!   bootstrap interval: there is no rank interval for four samples.
//!
//! # Limits of few samples
//!
//! The median lies between the smallest and the greatest of n samples with a probability of 1 − 2^(1−n): 75 % for three
//! samples, 87.5 % for four, 93.75 % for five, and over 95 % from six on. No interval can do better. So the bootstrap
//! of three samples *is* their range, and holds the median in 75 % of runs; [`range_coverage`] gives this number for
//! tables. Likewise, the widest rank interval for three samples against three holds the shift in 90 % of runs, and is
//! given with that confidence. From four against four on, it is 95 %.

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

/// The middle value, or the mean of the two middle ones; none for no values.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[sorted.len() / 2 - 1], upper) } else { upper })
}

/// The probability that the range of so many samples contains the true median: 1 − 2^(1−n). No interval of them can
/// have more.
pub fn range_coverage(samples: usize) -> f64 {
    if samples == 0 { 0.0 } else { 1.0 - 2f64.powi(1 - i32::try_from(samples).unwrap_or(i32::MAX)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn range_of_few_samples_has_low_coverage() {
        let promised: Vec<f64> = (1..=6).map(range_coverage).collect();
        assert_eq!(promised, [0.0, 0.5, 0.75, 0.875, 0.9375, 0.96875]);
    }

    proptest! {
        #[test]
        fn half_of_samples_lie_on_each_side_of_median(samples in prop::collection::vec(0.0..1e6f64, 1..40)) {
            let middle = median(&samples).unwrap();
            let below = samples.iter().filter(|s| **s < middle).count();
            let above = samples.iter().filter(|s| **s > middle).count();
            prop_assert!(below * 2 <= samples.len() && above * 2 <= samples.len());
        }
    }
}
