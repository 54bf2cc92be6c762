//! Independent loss: each packet is lost with the same probability.

use std::time::Instant;

use super::{delay_queue::keep, rng::Rng};
use crate::{
    packet::Packet,
    stage::{Out, Stage},
};
use units::Percent;

/// See the module documentation.
///
/// For the same seed and packets, a higher probability loses all packets that a lower one loses, and more.
#[derive(Debug)]
pub struct Loss {
    probability: Percent,
    rng: Rng,
}

impl Loss {
    /// Loss of this probability.
    pub fn new(probability: Percent, rng: Rng) -> Self {
        Self { probability, rng }
    }
}

impl Stage for Loss {
    keep!(rng);

    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        if !self.rng.happens(self.probability) {
            out.forward(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        stage::Direction,
        stages::{Effect, tests::survivors},
    };

    fn loss(percent: f64, direction: Direction) -> Box<Loss> {
        Box::new(Loss::new(Percent::from_fraction(percent / 100.0), Rng::new(3, Effect::Loss, direction)))
    }

    #[test]
    fn loss_matches_its_probability_and_repeats_with_the_seed() {
        let lost = 20_000 - survivors(loss(10.0, Direction::Up), 20_000).len();
        assert!((1850..2150).contains(&lost), "{lost}");
        assert_eq!(survivors(loss(10.0, Direction::Up), 999), survivors(loss(10.0, Direction::Up), 999));
        assert_ne!(survivors(loss(10.0, Direction::Up), 999), survivors(loss(10.0, Direction::Down), 999));
        assert_eq!(survivors(loss(0.0, Direction::Up), 999).len(), 999);
        assert_eq!(survivors(loss(100.0, Direction::Up), 999).len(), 0);
    }

    #[test]
    fn higher_probability_loses_the_same_packets_and_more() {
        let few = survivors(loss(20.0, Direction::Up), 999);
        let many = survivors(loss(5.0, Direction::Up), 999);
        assert!(few.len() < many.len() && few.iter().all(|n| many.contains(n)));
    }

    #[test]
    fn replaced_stage_continues_the_random_sequence() {
        let mut first = loss(50.0, Direction::Up);
        let mut out = Out::default();
        for _ in 0..100 {
            first.push(Packet::new(vec![0]), Instant::now(), &mut out);
        }
        let mut second = loss(50.0, Direction::Up);
        second.replace(first, Instant::now());
        assert_ne!(survivors(second, 999), survivors(loss(50.0, Direction::Up), 999));
    }
}
