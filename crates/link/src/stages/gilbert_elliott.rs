//! Loss in bursts: the Gilbert–Elliott model.
//!
//! The link is in a good or a bad state (Gilbert 1960; Elliott 1963). With each packet the state may change first: from
//! good to bad with probability `p`, from bad to good with `r`. Then the packet is lost with the probability of the
//! state. The link starts in the good state. In the long run it is bad for a share p / (p + r) of the packets, and a bad
//! period lasts 1 / r packets on average. The names are those of `loss gemodel` in `tc-netem(8)`, where `bad` is called
//! 1−h and `good` 1−k.

use std::time::Instant;

use super::rng::Rng;
use crate::{
    packet::Packet,
    stage::{Out, Stage, same_type},
};
use units::Percent;

/// The probabilities of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bursts {
    /// Of going from good to bad, with each packet.
    pub p: Percent,
    /// Of going from bad to good, with each packet.
    pub r: Percent,
    /// Of losing a packet in the bad state.
    pub bad: Percent,
    /// Of losing a packet in the good state.
    pub good: Percent,
}

/// See the module documentation.
#[derive(Debug)]
pub struct GilbertElliott {
    bursts: Bursts,
    bad: bool,
    rng: Rng,
}

impl GilbertElliott {
    /// Loss with these probabilities.
    pub fn new(bursts: Bursts, rng: Rng) -> Self {
        Self { bursts, bad: false, rng }
    }
}

impl Stage for GilbertElliott {
    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        let Bursts { p, r, bad, good } = self.bursts;
        self.bad ^= self.rng.happens(if self.bad { r } else { p });
        if !self.rng.happens(if self.bad { bad } else { good }) {
            out.forward(packet);
        }
    }

    fn replace(&mut self, old: Box<dyn Stage>, _now: Instant) {
        if let Some(old) = same_type::<Self>(old) {
            self.bad = old.bad;
            self.rng.take_over(old.rng);
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

    #[test]
    fn loss_rate_and_burst_length_match_the_model() {
        let percent = |n: f64| Percent::from_fraction(n / 100.0);
        let bursts = Bursts { p: percent(1.0), r: percent(20.0), bad: percent(100.0), good: percent(0.0) };
        let rng = Rng::new(5, Effect::Loss, Direction::Up);
        let survivors = survivors(Box::new(GilbertElliott::new(bursts, rng)), 200_000);
        let lost = 200_000 - survivors.len();
        let spells = survivors.windows(2).filter(|pair| pair[1] - pair[0] > 1).count();
        let (share, length) = (lost as f64 / 200_000.0, lost as f64 / spells as f64);
        assert!((share - 1.0 / 21.0).abs() < 0.005, "{share}");
        assert!((length - 5.0).abs() < 0.4, "{length}");
    }
}
