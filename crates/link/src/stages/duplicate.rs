//! Duplication: some packets arrive twice, one right after the other.

use std::time::Instant;

use super::{delay_queue::keep, rng::Rng};
use crate::{
    packet::Packet,
    stage::{Out, Stage},
};
use units::Percent;

/// See the module documentation.
#[derive(Debug)]
pub struct Duplicate {
    probability: Percent,
    rng: Rng,
}

impl Duplicate {
    /// Duplicates each packet with this probability.
    pub fn new(probability: Percent, rng: Rng) -> Self {
        Self { probability, rng }
    }
}

impl Stage for Duplicate {
    keep!(rng);

    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        if self.rng.happens(self.probability) {
            out.forward(packet.clone());
        }
        out.forward(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        stage::Direction,
        stages::{Effect, tests::survivors},
    };

    #[test]
    fn some_packets_are_duplicated_and_none_is_lost() {
        let rng = Rng::new(5, Effect::Duplicate, Direction::Up);
        let mut arrived = survivors(Box::new(Duplicate::new(Percent::from_fraction(0.1), rng)), 5000);
        assert!(arrived.is_sorted());
        assert!((5400..5600).contains(&arrived.len()), "{}", arrived.len());
        arrived.dedup();
        assert!(arrived.into_iter().eq(0..5000));
    }
}
