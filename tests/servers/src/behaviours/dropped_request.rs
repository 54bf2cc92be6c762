//! One request of a pipeline, or its response, is dropped; those behind it are answered.

use super::Once;
use crate::behaviour::{Action, Behaviour, IncomingRequest};

pub(super) struct DroppedRequest {
    method: &'static str,
    is_processed: bool,
    once: Once,
}

impl DroppedRequest {
    pub(super) fn new(method: &'static str, is_processed: bool, seed: u64) -> Self {
        Self { method, is_processed, once: Once::among(12, seed) }
    }
}

impl Behaviour for DroppedRequest {
    fn action(&mut self, asked: &IncomingRequest<'_>) -> Option<Action> {
        let hit = asked.method() == self.method && asked.pipelined && self.once.applies();
        hit.then_some(if self.is_processed { Action::OmitResponse } else { Action::DropRequest })
    }
}
