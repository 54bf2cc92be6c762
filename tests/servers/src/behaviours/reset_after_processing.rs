//! One write is processed; then the connection is reset instead of a response.

use super::{Once, writes};
use crate::behaviour::{Action, Behaviour, IncomingRequest};

pub(super) struct ResetAfterProcessing(Once);

impl ResetAfterProcessing {
    pub(super) fn new(seed: u64) -> Self {
        Self(Once::among(if seed.is_multiple_of(2) { 1 } else { 12 }, seed))
    }
}

impl Behaviour for ResetAfterProcessing {
    fn action(&mut self, asked: &IncomingRequest<'_>) -> Option<Action> {
        (writes(asked) && self.0.applies()).then_some(Action::ResetAfterProcessing)
    }
}
