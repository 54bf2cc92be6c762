//! One request that changes something is refused, and all are answered as they are done: the refusal may stand for
//! another.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng};

use super::{Once, dice, writes};
use crate::behaviour::{Asked, Behaviour, Order, Treatment};

pub(super) struct Refuses {
    dice: StdRng,
    once: Once,
    status: u16,
}

impl Refuses {
    pub(super) fn new(seed: u64) -> Self {
        let status = [403, 423, 507, 404][seed as usize % 4];
        Self { dice: dice(seed), once: Once::among(12, seed), status }
    }
}

impl Behaviour for Refuses {
    fn order(&self) -> Order {
        Order::AsDone
    }

    fn work(&mut self) -> Duration {
        Duration::from_micros(self.dice.random_range(0..6000))
    }

    fn treat(&mut self, asked: &Asked<'_>) -> Option<Treatment> {
        (writes(asked) && self.once.hits()).then(|| Treatment::Answer(self.status, String::new()))
    }
}
