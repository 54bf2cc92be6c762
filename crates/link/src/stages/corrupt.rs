//! Corruption: one random bit of some packets is flipped.
//!
//! Any bit of the IP packet may flip, also in its header, and no checksum is corrected. The Internet checksum detects
//! every single flipped bit (RFC 1071), so a receiver drops the packet, unless no checksum covers the bit: in an IPv6
//! header, or in UDP without a checksum. A packet with a damaged IP version is invalid, and a kernel may reject it.

use std::time::Instant;

use rand::RngExt;

use super::{delay_queue::keep, rng::Rng};
use crate::{
    packet::Packet,
    stage::{Out, Stage},
};
use units::Percent;

/// See the module documentation.
#[derive(Debug)]
pub struct Corrupt {
    probability: Percent,
    rng: Rng,
}

impl Corrupt {
    /// Flips a bit of each packet with this probability.
    pub fn new(probability: Percent, rng: Rng) -> Self {
        Self { probability, rng }
    }
}

impl Stage for Corrupt {
    keep!(rng);

    fn push(&mut self, mut packet: Packet, _now: Instant, out: &mut Out) {
        if self.rng.happens(self.probability) && !packet.bytes.is_empty() {
            let bit = self.rng.source().random_range(0..packet.bytes.len() * 8);
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
    fn selected_packets_have_exactly_one_flipped_bit() {
        let rng = Rng::new(5, Effect::Corrupt, Direction::Up);
        let mut stage = Corrupt::new(Percent::from_fraction(0.5), rng);
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
