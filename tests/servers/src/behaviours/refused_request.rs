//! One write is refused, and responses come as they are completed: the refusal may seem to be another request's.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng};

use super::{Once, rng, writes};
use crate::behaviour::{Action, Behaviour, IncomingRequest, Order};

pub(super) struct RefusedRequest {
    rng: StdRng,
    once: Once,
    status: u16,
}

impl RefusedRequest {
    pub(super) fn new(seed: u64) -> Self {
        let status = [403, 423, 507, 404][seed as usize % 4];
        Self { rng: rng(seed), once: Once::among(12, seed), status }
    }
}

impl Behaviour for RefusedRequest {
    fn order(&self) -> Order {
        Order::AsCompleted
    }

    fn processing_time(&mut self) -> Duration {
        Duration::from_micros(self.rng.random_range(0..6000))
    }

    fn action(&mut self, asked: &IncomingRequest<'_>) -> Option<Action> {
        (writes(asked) && self.once.applies()).then(|| Action::Respond(self.status, String::new()))
    }
}
