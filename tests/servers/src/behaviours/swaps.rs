//! Two answers of a pipeline are swapped.

use super::Once;
use crate::behaviour::{Asked, Behaviour, Treatment};

pub(super) struct Swaps(Once);

impl Swaps {
    pub(super) fn new(seed: u64) -> Self {
        Self(Once::among(12, seed))
    }
}

impl Behaviour for Swaps {
    fn treat(&mut self, asked: &Asked<'_>) -> Option<Treatment> {
        (asked.pipelined && self.0.hits()).then_some(Treatment::Swap)
    }
}
