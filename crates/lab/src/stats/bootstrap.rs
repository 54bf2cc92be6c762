//! The percentile bootstrap of medians and of functions of medians, for what the Hodges–Lehmann interval
//! ([`shift`](super::shift)) does not cover: a single median, the ratio of two ratios, that of two savings.
//!
//! Draw as many values from each sample as it has, with replacement, and compute the statistic of the medians, four
//! thousand times. The middle 95 % of the results is the interval. The draws are seeded, so the same samples always
//! give the same interval.
//!
//! Rejected: the studentised and the bias-corrected bootstrap. Both need an estimate of spread or skew, which five
//! values do not provide.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Interval, median};

/// The number of resamples.
pub const RESAMPLES: usize = 4000;

/// A statistic with its 95 % bootstrap interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The statistic of the samples.
    pub value: f64,
    /// The middle 95 % of the resampled statistics.
    pub interval: Interval,
}

/// The median with its interval; none of fewer than two samples.
pub fn of_median(samples: &[f64], seed: u64) -> Option<Estimate> {
    of_medians([samples], |[median]| median, seed)
}

/// (a ÷ b) ÷ (c ÷ d) of medians. None if a cell has fewer than two samples, or one that is not a positive time.
pub fn ratio_of_ratios([a, b]: [&[f64]; 2], [c, d]: [&[f64]; 2], seed: u64) -> Option<Estimate> {
    let positive = [a, b, c, d].into_iter().flatten().all(|time| *time > 0.0);
    positive.then(|| of_medians([a, b, c, d], |[a, b, c, d]| (a / b) / (c / d), seed))?
}

/// A statistic of the medians of several samples; none if one of them has fewer than two values.
pub fn of_medians<const N: usize>(
    samples: [&[f64]; N],
    statistic: impl Fn([f64; N]) -> f64,
    seed: u64,
) -> Option<Estimate> {
    if samples.iter().any(|s| s.len() < 2) {
        return None;
    }
    let value = statistic(samples.map(|s| median(s).unwrap_or_default()));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut ranked = samples.map(Ranked::new);
    let mut values: Vec<f64> =
        (0..RESAMPLES).map(|_| statistic(ranked.each_mut().map(|sample| sample.redrawn_median(&mut rng)))).collect();
    values.sort_by(f64::total_cmp);
    let tail = RESAMPLES / 40;
    Some(Estimate { value, interval: Interval { lo: values[tail], hi: values[RESAMPLES - 1 - tail] } })
}

/// A sample whose resampled medians are counted instead of sorted; sorting would take most of the time.
struct Ranked {
    sorted: Vec<f64>,
    /// Where each value of the sample is in `sorted`.
    ranks: Vec<usize>,
    /// How often each of `sorted` was drawn.
    drawn: Vec<usize>,
}

impl Ranked {
    fn new(sample: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..sample.len()).collect();
        order.sort_by(|a, b| sample[*a].total_cmp(&sample[*b]));
        let mut ranks = vec![0; sample.len()];
        for (rank, at) in order.iter().enumerate() {
            ranks[*at] = rank;
        }
        Self { sorted: order.iter().map(|at| sample[*at]).collect(), ranks, drawn: vec![0; sample.len()] }
    }

    /// The median of as many values as there are, drawn with replacement.
    fn redrawn_median(&mut self, rng: &mut ChaCha8Rng) -> f64 {
        let count = self.ranks.len();
        self.drawn.fill(0);
        for _ in 0..count {
            self.drawn[self.ranks[rng.random_range(0..count)]] += 1;
        }
        f64::midpoint(self.drawn_at((count - 1) / 2), self.drawn_at(count / 2))
    }

    /// The value at an index of the drawn ones, in order.
    fn drawn_at(&self, place: usize) -> f64 {
        let mut passed = 0;
        for (value, times) in self.sorted.iter().zip(&self.drawn) {
            passed += times;
            if passed > place {
                return *value;
            }
        }
        unreachable!("as many are drawn as there are")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::range_coverage;
    use proptest::prelude::*;

    #[test]
    fn one_sample_has_no_interval() {
        assert_eq!(of_median(&[1.0], 1), None);
        let two = [1.0, 2.0];
        assert_eq!(ratio_of_ratios([&two, &two], [&two, &[1.0]], 1), None);
        assert_eq!(ratio_of_ratios([&two, &[0.0, 1.0]], [&two, &two], 1), None);
    }

    #[test]
    fn interval_of_three_samples_is_their_range() {
        let estimate = of_median(&[3.0, 1.0, 2.0], 7).unwrap();
        assert_eq!(estimate, Estimate { value: 2.0, interval: [1.0, 3.0].into() });
    }

    #[test]
    fn interval_covers_median_as_often_as_promised() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for n in [3, 5, 9, 15] {
            let runs = 100;
            let held = (0..runs)
                .filter(|seed| {
                    let samples: Vec<f64> = (0..n).map(|_| rng.random_range(0.0..1.0f64)).collect();
                    of_median(&samples, *seed).unwrap().interval.contains(0.5)
                })
                .count() as f64
                / runs as f64;
            let promised = range_coverage(n).min(0.95);
            assert!(held > promised - 0.08, "{n} samples: {held} of the intervals hold the median");
        }
    }

    #[test]
    fn ratio_of_ratios_of_equal_cells_is_one() {
        let (a, b) = ([1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.3]);
        let estimate = ratio_of_ratios([&a, &b], [&a, &b], 3).unwrap();
        assert!((estimate.value - 1.0).abs() < 1e-12 && estimate.interval.contains(1.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn interval_contains_estimate_and_scales(
            a in prop::collection::vec(0.1..100.0f64, 2..12),
            b in prop::collection::vec(0.1..100.0f64, 2..12),
            factor in 0.1..10.0f64,
            seed: u64,
        ) {
            let ratio = ratio_of_ratios([&a, &b], [&b, &a], seed).unwrap();
            prop_assert!(ratio.interval.contains(ratio.value));
            let longer: Vec<f64> = a.iter().map(|t| t * factor).collect();
            let scaled = ratio_of_ratios([&longer, &b], [&b, &a], seed).unwrap();
            for (was, is) in [(ratio.value, scaled.value), (ratio.interval.lo, scaled.interval.lo), (ratio.interval.hi, scaled.interval.hi)] {
                prop_assert!((was * factor - is).abs() <= 1e-9 * is);
            }
        }
    }
}
