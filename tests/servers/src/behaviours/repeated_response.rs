//! One request is answered twice; the second response looks like the next request's.

use super::Once;
use crate::behaviour::{Action, Behaviour, IncomingRequest};

pub(super) struct RepeatedResponse(Once);

impl RepeatedResponse {
    pub(super) fn new(seed: u64) -> Self {
        Self(Once::among(12, seed))
    }
}

impl Behaviour for RepeatedResponse {
    fn action(&mut self, _asked: &IncomingRequest<'_>) -> Option<Action> {
        self.0.applies().then_some(Action::RepeatResponse)
    }
}
