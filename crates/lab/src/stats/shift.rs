//! Whether two cells differ, and by how much: the Hodges–Lehmann estimate with its interval.
//!
//! The estimate is the median of all differences between a value of one sample and a value of the other (Hodges and
//! Lehmann, *Estimates of Location Based on Rank Tests*, 1963). The k-th smallest and the k-th greatest difference
//! bound it (Moses's interval; Hollander, Wolfe and Chicken, *Nonparametric Statistical Methods*, 3rd ed., §4.3): k − 1
//! is the greatest U whose tail in the Mann–Whitney distribution is at most 2.5 %. The distribution is exact up to
//! fifty samples in all, and normal above.
//!
//! Times are compared by ratio, not by difference: a client that needs three times the round trips takes three times as
//! long on any network. [`ratio`] works on logarithms, where a ratio is a shift.
//!
//! There is no correction for multiple comparisons: of a hundred equal pairs, five will seem to differ.

use super::{Interval, median_of_sorted};

/// The confidence of a comparison, which needs four samples against four.
pub const CONFIDENCE: f64 = 0.95;

/// The minimum confidence for calling two cells different: that of three samples against three.
pub const LEAST_CONFIDENCE: f64 = 0.90;

/// The shift from one sample to another, as a difference or as a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The estimate.
    pub value: f64,
    /// The distribution-free interval around it.
    pub interval: Interval,
    /// The confidence of the interval: at least [`CONFIDENCE`], or with too few samples, that of the widest interval.
    pub confidence: f64,
    /// The value that means "the same": 0 for a difference, 1 for a factor.
    same: f64,
}

impl Shift {
    /// Whether the samples show a difference: the interval excludes equality, with at least [`LEAST_CONFIDENCE`].
    pub fn differs(&self) -> bool {
        self.confidence > LEAST_CONFIDENCE - 1e-9 && !self.interval.contains(self.same)
    }
}

/// The shift from `a` to `b`, in their unit; none if either is empty.
pub fn hodges_lehmann(a: &[f64], b: &[f64]) -> Option<Shift> {
    let mut differences: Vec<f64> = a.iter().flat_map(|a| b.iter().map(move |b| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    let value = median_of_sorted(&differences)?;
    let (k, confidence) = bound(a.len(), b.len());
    let interval = Interval { lo: differences[k - 1], hi: differences[differences.len() - k] };
    Some(Shift { value, interval, confidence, same: 0.0 })
}

/// The ratio of `b` to `a` ("b takes 2.4 times as long"); none if either is empty or a value is not a positive time.
pub fn ratio(a: &[f64], b: &[f64]) -> Option<Shift> {
    let logarithms =
        |times: &[f64]| -> Option<Vec<f64>> { times.iter().map(|time| (*time > 0.0).then(|| time.ln())).collect() };
    let shift = hodges_lehmann(&logarithms(a)?, &logarithms(b)?)?;
    let interval = Interval { lo: shift.interval.lo.exp(), hi: shift.interval.hi.exp() };
    Some(Shift { value: shift.value.exp(), interval, same: 1.0, ..shift })
}

/// The rank k of the differences that bound the shift, from either end and counted from 1, and the confidence of the
/// interval.
fn bound(m: usize, n: usize) -> (usize, f64) {
    if m + n > 50 {
        let (m, n) = (m as f64, n as f64);
        let below = m * n / 2.0 - 1.96 * (m * n * (m + n + 1.0) / 12.0).sqrt();
        return ((below.floor() as usize).max(1), CONFIDENCE);
    }
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let mut passed = 0.0;
    let mut found = None;
    for (u, chance) in mann_whitney(m, n).into_iter().enumerate() {
        passed += chance;
        if found.is_some() && passed > tail {
            break;
        }
        found = Some((u + 1, 1.0 - 2.0 * passed));
    }
    found.unwrap_or((1, 0.0))
}

/// The chance of each value of U up to its middle, for two samples of the same distribution.
///
/// The counts are the coefficients of the Gaussian binomial: the product over i = 1..n of
/// (1 − q^(m+i)) ÷ (1 − q^i). Up to fifty samples they are whole numbers that an `f64` holds.
fn mann_whitney(m: usize, n: usize) -> Vec<f64> {
    let mut counts = vec![0.0; m * n / 2 + 1];
    counts[0] = 1.0;
    let mut total = 1.0;
    for i in 1..=n {
        for u in (m + i..counts.len()).rev() {
            counts[u] -= counts[u - m - i];
        }
        for u in i..counts.len() {
            counts[u] += counts[u - i];
        }
        total = total * (m + i) as f64 / i as f64;
    }
    counts.iter().map(|counts| counts / total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn spread(n: usize) -> Vec<f64> {
        (0..n).map(|i| 10.0 + i as f64).collect()
    }

    #[test]
    fn bounds_match_published_critical_values() {
        // Critical values of U, two-sided 5 %: one less than k.
        for (m, n, critical) in [(4, 4, 0), (5, 5, 2), (8, 8, 13), (10, 12, 29), (20, 20, 127), (3, 5, 0)] {
            assert_eq!(bound(m, n).0, critical + 1, "{m} against {n}");
            assert!(bound(m, n).1 >= CONFIDENCE);
        }
    }

    #[test]
    fn few_samples_have_lower_confidence() {
        for (m, n, confidence) in [(1, 1, 0.0), (2, 2, 1.0 - 2.0 / 6.0), (3, 3, 0.9), (3, 4, 1.0 - 2.0 / 35.0)] {
            let shift = hodges_lehmann(&spread(m), &spread(n)).unwrap();
            assert!((shift.confidence - confidence).abs() < 1e-12, "{m} against {n}: {shift:?}");
        }
    }

    #[test]
    fn two_samples_never_differ_but_three_may() {
        let far = |n| ratio(&spread(n), &spread(n).iter().map(|t| t * 100.0).collect::<Vec<_>>()).unwrap();
        assert!(!far(1).differs() && !far(2).differs() && far(3).differs());
    }

    #[test]
    fn exact_and_normal_bounds_agree() {
        let (exact, _) = bound(25, 25);
        let (normal, _) = bound(26, 25);
        assert!(normal.abs_diff(exact) < 15, "{exact} and {normal}");
    }

    #[test]
    fn interval_covers_true_ratio_as_often_as_promised() {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        // A skewed distribution like that of times: a floor and a long tail.
        let mut draw = |n: usize, factor: f64| -> Vec<f64> {
            (0..n).map(|_| factor * (1.0 - 0.3 * rng.random_range(1e-9..1.0f64).ln())).collect()
        };
        for (m, n) in [(3, 3), (4, 4), (5, 7), (12, 9)] {
            let runs = 4000;
            let held = (0..runs).filter(|_| ratio(&draw(m, 1.0), &draw(n, 2.5)).unwrap().interval.contains(2.5)).count()
                as f64
                / f64::from(runs);
            let promised = bound(m, n).1;
            assert!((held - promised).abs() < 0.015, "{m} against {n}: {held} held, {promised} promised");
        }
    }

    proptest! {
        #[test]
        fn shift_moves_with_samples(
            a in prop::collection::vec(0.0..100.0f64, 1..20),
            b in prop::collection::vec(0.0..100.0f64, 1..20),
            by in -50.0..50.0f64,
        ) {
            let was = hodges_lehmann(&a, &b).unwrap();
            let moved: Vec<f64> = b.iter().map(|t| t + by).collect();
            let is = hodges_lehmann(&a, &moved).unwrap();
            prop_assert!((was.value + by - is.value).abs() < 1e-9);
            prop_assert!((was.interval.lo + by - is.interval.lo).abs() < 1e-9);
            prop_assert!((was.interval.hi + by - is.interval.hi).abs() < 1e-9);
        }

        #[test]
        fn swapped_samples_give_inverse_ratio(
            a in prop::collection::vec(0.1..100.0f64, 1..20),
            b in prop::collection::vec(0.1..100.0f64, 1..20),
        ) {
            let (there, back) = (ratio(&a, &b).unwrap(), ratio(&b, &a).unwrap());
            prop_assert!((there.value * back.value - 1.0).abs() < 1e-9);
            prop_assert!((there.interval.lo * back.interval.hi - 1.0).abs() < 1e-9);
            prop_assert_eq!(there.differs(), back.differs());
            prop_assert!(there.interval.contains(there.value));
        }

        #[test]
        fn cell_does_not_differ_from_itself(a in prop::collection::vec(0.1..100.0f64, 1..30)) {
            prop_assert!(!ratio(&a, &a).unwrap().differs());
        }
    }
}
