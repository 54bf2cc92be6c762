//! Loss: each packet is lost with the same probability, whatever became of the others.

use std::time::Instant;

use super::{dice::Dice, held::keeps};
use crate::{
    packet::Packet,
    stage::{Out, Stage},
};
use units::Percent;

/// See the module's page.
///
/// Of two runs with the same seed and packets, the one with the higher probability loses those that
/// the other loses, and more.
#[derive(Debug)]
pub struct Loss {
    probability: Percent,
    dice: Dice,
}

impl Loss {
    /// Loss of this probability.
    pub fn new(probability: Percent, dice: Dice) -> Self {
        Self { probability, dice }
    }
}

impl Stage for Loss {
    keeps!(dice);

    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        if !self.dice.hits(self.probability) {
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
        Box::new(Loss::new(Percent::from_fraction(percent / 100.0), Dice::new(3, Effect::Loss, direction)))
    }

    #[test]
    fn loses_its_share_and_the_same_each_time() {
        let lost = 20_000 - survivors(loss(10.0, Direction::Up), 20_000).len();
        assert!((1850..2150).contains(&lost), "{lost}");
        assert_eq!(survivors(loss(10.0, Direction::Up), 999), survivors(loss(10.0, Direction::Up), 999));
        assert_ne!(survivors(loss(10.0, Direction::Up), 999), survivors(loss(10.0, Direction::Down), 999));
        assert_eq!(survivors(loss(0.0, Direction::Up), 999).len(), 999);
        assert_eq!(survivors(loss(100.0, Direction::Up), 999).len(), 0);
    }

    #[test]
    fn higher_loss_loses_the_same_and_more() {
        let few = survivors(loss(20.0, Direction::Up), 999);
        let many = survivors(loss(5.0, Direction::Up), 999);
        assert!(few.len() < many.len() && few.iter().all(|n| many.contains(n)));
    }

    #[test]
    fn a_change_does_not_repeat_the_beginning() {
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
