//! One request that changes something is done; then the connection is reset in place of an answer.

use super::{Once, writes};
use crate::behaviour::{Asked, Behaviour, Treatment};

pub(super) struct Resets(Once);

impl Resets {
    pub(super) fn new(seed: u64) -> Self {
        Self(Once::among(if seed.is_multiple_of(2) { 1 } else { 12 }, seed))
    }
}

impl Behaviour for Resets {
    fn treat(&mut self, asked: &Asked<'_>) -> Option<Treatment> {
        (writes(asked) && self.0.hits()).then_some(Treatment::DoneAndReset)
    }
}
