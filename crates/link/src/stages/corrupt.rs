//! Corruption: one random bit of some packets is flipped.
//!
//! Any bit of the IP packet may be hit, its header's too, and no checksum is repaired: that is the
//! point. The Internet checksum notices every single flipped bit (RFC 1071), so a receiver drops
//! the packet, unless the bit is one that no checksum covers: in the header of IPv6, or in UDP sent
//! without. A packet whose version was hit is no IP packet any more; a kernel may refuse to take it.

use std::time::Instant;

use rand::RngExt;

use super::{dice::Dice, held::keeps};
use crate::{
    packet::Packet,
    stage::{Out, Stage},
};
use units::Percent;

/// See the module's page.
#[derive(Debug)]
pub struct Corrupt {
    probability: Percent,
    dice: Dice,
}

impl Corrupt {
    /// Flips a bit of each packet with this probability.
    pub fn new(probability: Percent, dice: Dice) -> Self {
        Self { probability, dice }
    }
}

impl Stage for Corrupt {
    keeps!(dice);

    fn push(&mut self, mut packet: Packet, _now: Instant, out: &mut Out) {
        if self.dice.hits(self.probability) && !packet.bytes.is_empty() {
            let bit = self.dice.numbers().random_range(0..packet.bytes.len() * 8);
            packet.bytes[bit / 8] ^= 1 << (bit % 8);
        }
        out.forward(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{stage::Direction, stages::Effect};

    #[test]
    fn exactly_one_bit_of_its_share_is_flipped() {
        let dice = Dice::new(5, Effect::Corrupt, Direction::Up);
        let mut stage = Corrupt::new(Percent::from_fraction(0.5), dice);
        let mut out = Out::default();
        for _ in 0..1000 {
            stage.push(Packet::new(vec![0; 100]), Instant::now(), &mut out);
        }
        let flipped = |packet: &Packet| packet.bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
        assert!(out.forward.iter().all(|packet| packet.len() == 100 && flipped(packet) <= 1));
        let hit: u32 = out.forward.iter().map(flipped).sum();
        assert!((430..570).contains(&hit), "{hit}");
    }
}
