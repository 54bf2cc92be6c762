//! Requests of one connection are done side by side, each in a time of its own. Their answers come as they are done,
//! which no server may, or in the order of the requests, which is within the rules: then only the effects overtake.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng};

use super::dice;
use crate::behaviour::{Behaviour, Order};

pub(super) struct SideBySide {
    dice: StdRng,
    in_order: bool,
}

impl SideBySide {
    pub(super) fn new(seed: u64, in_order: bool) -> Self {
        Self { dice: dice(seed), in_order }
    }
}

impl Behaviour for SideBySide {
    fn order(&self) -> Order {
        if self.in_order { Order::SideBySide } else { Order::AsDone }
    }

    fn work(&mut self) -> Duration {
        Duration::from_micros(self.dice.random_range(0..6000))
    }
}
