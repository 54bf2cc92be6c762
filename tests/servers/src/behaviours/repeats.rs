//! One request is answered twice, so that the second answer stands for the next request's.

use super::Once;
use crate::behaviour::{Asked, Behaviour, Treatment};

pub(super) struct Repeats(Once);

impl Repeats {
    pub(super) fn new(seed: u64) -> Self {
        Self(Once::among(12, seed))
    }
}

impl Behaviour for Repeats {
    fn treat(&mut self, _asked: &Asked<'_>) -> Option<Treatment> {
        self.0.hits().then_some(Treatment::Repeat)
    }
}
