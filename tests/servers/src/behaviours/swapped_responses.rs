//! Two responses of a pipeline are swapped.

use super::Once;
use crate::behaviour::{Action, Behaviour, IncomingRequest};

pub(super) struct SwappedResponses(Once);

impl SwappedResponses {
    pub(super) fn new(seed: u64) -> Self {
        Self(Once::among(12, seed))
    }
}

impl Behaviour for SwappedResponses {
    fn action(&mut self, asked: &IncomingRequest<'_>) -> Option<Action> {
        (asked.pipelined && self.0.applies()).then_some(Action::SwapResponses)
    }
}
