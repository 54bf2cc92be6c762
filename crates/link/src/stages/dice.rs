//! Chance that can be repeated.
//!
//! Every random stage has random numbers of its own: one seed for the cable, and for each effect
//! and direction its own stream of the `ChaCha8` generator. So a packet that goes up never changes
//! what happens to those that come down, and a link with loss alone loses the same packets as the
//! same link with jitter and a middlebox added: the arms of a comparison meet the same bad luck.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use units::Percent;

use crate::stage::Direction;

/// What the random numbers are for; each has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the stages of these names")]
pub enum Effect {
    Jitter,
    Loss,
    Reorder,
    Duplicate,
    Corrupt,
}

/// The random numbers of one stage.
#[derive(Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Those for `effect` on the packets that go in `direction`, on a cable with this seed.
    pub fn new(seed: u64, effect: Effect, direction: Direction) -> Self {
        let mut numbers = ChaCha8Rng::seed_from_u64(seed);
        numbers.set_stream(effect as u64 * 2 + direction as u64);
        Self(numbers)
    }

    /// Whether something of this probability happens.
    pub(super) fn hits(&mut self, probability: Percent) -> bool {
        self.0.random::<f64>() < probability.fraction()
    }

    /// The numbers themselves.
    pub(super) fn numbers(&mut self) -> &mut impl Rng {
        &mut self.0
    }

    /// Goes on where `old` was, in a stage whose parameters change but not its seed; so the change
    /// does not repeat the luck of the beginning. A new seed starts anew.
    pub(super) fn take_over(&mut self, old: Self) {
        if self.0.get_seed() == old.0.get_seed() {
            *self = old;
        }
    }
}
