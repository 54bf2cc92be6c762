//! One request of a pipeline is dropped, or its answer; what is behind it is answered.

use super::Once;
use crate::behaviour::{Asked, Behaviour, Treatment};

pub(super) struct Drops {
    method: &'static str,
    is_done: bool,
    once: Once,
}

impl Drops {
    pub(super) fn new(method: &'static str, is_done: bool, seed: u64) -> Self {
        Self { method, is_done, once: Once::among(12, seed) }
    }
}

impl Behaviour for Drops {
    fn treat(&mut self, asked: &Asked<'_>) -> Option<Treatment> {
        let hit = asked.method() == self.method && asked.pipelined && self.once.hits();
        hit.then_some(if self.is_done { Treatment::Forget } else { Treatment::Drop })
    }
}
