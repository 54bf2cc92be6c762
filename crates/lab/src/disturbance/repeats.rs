//! Whether a disturbed sample is taken again.
//!
//! A disturbance of some seconds passes, so it is worth another attempt after a pause. A machine that is always busy
//! would double or triple the time of a run without any gain. So repeats in vain are limited: to four, and one more for
//! every four samples that were undisturbed.

use std::time::Duration;

/// The maximum number of repeats of a sample.
pub(crate) const MAX_REPEATS: u32 = 2;

/// The credit that a repeat in vain costs.
const COST: u32 = 4;

/// The credit of a new run, and the maximum; an undisturbed sample adds 1.
const MAX_CREDIT: u32 = 4 * COST;

/// The pause before a repeat.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// The repeats of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeats {
    credit: u32,
}

impl Default for Repeats {
    fn default() -> Self {
        Self { credit: MAX_CREDIT }
    }
}

impl Repeats {
    /// Takes a sample into account that was repeated so often before. Returns whether to take it again.
    pub(crate) fn again(&mut self, repeated: u32, is_disturbed: bool) -> bool {
        if !is_disturbed {
            self.credit = (self.credit + 1).min(MAX_CREDIT);
            return false;
        }
        if repeated > 0 {
            self.credit = self.credit.saturating_sub(COST);
        }
        repeated < MAX_REPEATS && self.credit >= COST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of attempts for each of these samples, given how many attempts are disturbed.
    fn attempts(disturbed: &[u32]) -> Vec<u32> {
        let mut repeats = Repeats::default();
        let attempts = |disturbed: &u32| {
            let mut attempt = 0;
            while repeats.again(attempt, attempt < *disturbed) {
                attempt += 1;
            }
            attempt + 1
        };
        disturbed.iter().map(attempts).collect()
    }

    #[test]
    fn disturbed_sample_is_repeated_until_it_succeeds() {
        assert_eq!(attempts(&[0, 1, 2, 0, 9, 0]), [1, 2, 3, 1, 3, 1]);
    }

    #[test]
    fn repeats_end_on_a_machine_that_is_always_busy() {
        assert_eq!(attempts(&[9, 9, 9, 9, 9]), [3, 3, 1, 1, 1]);
        assert_eq!(attempts(&[9, 9, 9, 0, 1]), [3, 3, 1, 1, 1], "one undisturbed sample is not enough");
        assert_eq!(attempts(&[9, 9, 0, 0, 0, 0, 1]), [3, 3, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn repeats_of_every_second_sample_are_few() {
        let disturbed: Vec<u32> = (0..100).map(|sample| if sample % 2 == 0 { 9 } else { 0 }).collect();
        let all: u32 = attempts(&disturbed).iter().sum();
        assert!(all <= 100 + 4 + 50 / 4, "{all}");
    }
}
