//! Reproducible random numbers.
//!
//! A cable has one seed, and each effect in each direction has its own stream of the `ChaCha8` generator. So a packet
//! in one direction never changes the fate of a packet in the other. A link with loss alone loses the same packets as
//! the same link with jitter and a middlebox added: both sides of a comparison meet the same losses.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use units::Percent;

use crate::stage::Direction;

/// What the random numbers are for; each effect has its own stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the stages of these names")]
pub enum Effect {
    Jitter,
    Loss,
    Reorder,
    Duplicate,
    Corrupt,
}

/// The random number generator of one stage.
#[derive(Debug)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    /// The generator for `effect` on the packets in `direction`, on a cable with this seed.
    pub fn new(seed: u64, effect: Effect, direction: Direction) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(effect as u64 * 2 + direction as u64);
        Self(generator)
    }

    /// Whether an event of this probability happens now.
    pub(super) fn happens(&mut self, probability: Percent) -> bool {
        self.0.random::<f64>() < probability.fraction()
    }

    /// The generator itself, for distributions.
    pub(super) fn source(&mut self) -> &mut impl rand::Rng {
        &mut self.0
    }

    /// Continues the sequence of `old` if the seed is the same, so that a change of the stage's parameters does not
    /// repeat the first random numbers. A new seed starts a new sequence.
    pub(super) fn take_over(&mut self, old: Self) {
        if self.0.get_seed() == old.0.get_seed() {
            *self = old;
        }
    }
}
