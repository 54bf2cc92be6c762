//! The requests of one connection are processed concurrently, and take random times. Responses come in the order of the
//! requests, which is allowed (only their effects are reordered), or as they are completed, which is not.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng};

use super::rng;
use crate::behaviour::{Behaviour, Order};

pub(super) struct ConcurrentProcessing {
    rng: StdRng,
    in_order: bool,
}

impl ConcurrentProcessing {
    pub(super) fn new(seed: u64, in_order: bool) -> Self {
        Self { rng: rng(seed), in_order }
    }
}

impl Behaviour for ConcurrentProcessing {
    fn order(&self) -> Order {
        if self.in_order { Order::ConcurrentInOrder } else { Order::AsCompleted }
    }

    fn processing_time(&mut self) -> Duration {
        Duration::from_micros(self.rng.random_range(0..6000))
    }
}
