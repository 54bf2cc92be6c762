//! Whether a disturbed sample is taken again.
//!
//! A disturbance of some seconds passes, so it is worth another attempt after a pause. A machine that is always busy
//! would double or triple the time of a run without any gain. So repeats end when several in a row were in vain, until
//! a sample is undisturbed by itself.

use std::time::Duration;

/// The maximum number of repeats of a sample.
pub(crate) const MAX_REPEATS: u32 = 2;

/// After so many repeats in vain, no sample is repeated until one is undisturbed.
const MAX_IN_VAIN: u32 = 4;

/// The pause before a repeat.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// The repeats of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Repeats {
    in_vain: u32,
}

impl Repeats {
    /// Takes a sample into account that was repeated so often before. Returns whether to take it again.
    pub(crate) fn again(&mut self, repeated: u32, is_disturbed: bool) -> bool {
        if !is_disturbed {
            self.in_vain = 0;
            return false;
        }
        self.in_vain += u32::from(repeated > 0);
        repeated < MAX_REPEATS && self.in_vain < MAX_IN_VAIN
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
        assert_eq!(attempts(&[9, 9, 9, 0, 1]), [3, 3, 1, 1, 2], "an undisturbed sample allows repeats again");
    }
}
