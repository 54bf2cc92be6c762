//! Jitter: a random delay for each packet, *added* to the fixed one.
//!
//! netem spreads the delay to both sides of the nominal one. Here the nominal RTT stays the least
//! that a packet can take, as on a real path, where light does not speed up and only queues vary;
//! so the floor of an experiment stays a floor. The delay added is uniform between nothing and the
//! given time, or the absolute value of a normal distribution with the given standard deviation.
//!
//! Unless reordering is wanted, a packet that would overtake another leaves together with it. (The
//! delay is then the running maximum of those drawn: larger than the formula's wherever packets are
//! closer together than the jitter is wide.)

use std::time::{Duration, Instant};

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use super::{
    dice::Dice,
    held::{Held, keeps},
};
use crate::{
    packet::Packet,
    stage::{Out, Stage},
};

/// How the delay added is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Any time up to the given one, all alike.
    Uniform(Duration),
    /// The absolute value of a normal distribution with mean zero and this standard deviation.
    Normal(Duration),
}

/// See the module's page.
#[derive(Debug)]
pub struct Jitter {
    spread: Spread,
    reorder: bool,
    dice: Dice,
    held: Held,
}

impl Jitter {
    /// Jitter of this spread; `reorder` says whether packets may overtake one another.
    pub fn new(spread: Spread, reorder: bool, dice: Dice) -> Self {
        Self { spread, reorder, dice, held: Held::default() }
    }

    fn draw(&mut self) -> Duration {
        match self.spread {
            Spread::Uniform(most) => {
                let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
                Duration::from_nanos(self.dice.numbers().random_range(0..=most))
            }
            Spread::Normal(deviation) => {
                let z: f64 = StandardNormal.sample(self.dice.numbers());
                deviation.mul_f64(z.abs())
            }
        }
    }
}

impl Stage for Jitter {
    keeps!(held, dice);

    fn push(&mut self, packet: Packet, now: Instant, _out: &mut Out) {
        let at = now + self.draw();
        if self.reorder {
            self.held.insert(packet, at);
        } else {
            self.held.append(packet, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chain::{Chain, Output},
        stage::Direction,
        stages::Effect,
    };

    /// The numbers of the packets as they leave and by how many nanoseconds each was delayed, of
    /// 2000 sent every `gap`.
    fn send(spread: Spread, reorder: bool, gap: Duration) -> Vec<(u16, u128)> {
        let start = Instant::now();
        let dice = Dice::new(1, Effect::Jitter, Direction::Up);
        let mut chain = Chain::new(vec![Box::new(Jitter::new(spread, reorder, dice))]);
        let mut output = Output::default();
        for n in 0..2000u16 {
            chain.push(0, Packet::new(n.to_be_bytes().to_vec()), start + gap * u32::from(n), &mut output);
        }
        chain.run(start + gap * 2000 + Duration::from_secs(1), &mut output);
        let leaves = output.delivered.into_iter().map(|(at, packet)| {
            let n = u16::from_be_bytes([packet.bytes[0], packet.bytes[1]]);
            (n, (at - (start + gap * u32::from(n))).as_nanos())
        });
        leaves.collect()
    }

    #[test]
    fn uniform_jitter_is_within_its_bounds_and_fills_them() {
        let delays = send(Spread::Uniform(Duration::from_millis(2)), true, Duration::from_millis(5));
        assert_eq!(delays.len(), 2000);
        let mean = delays.iter().map(|(_, delay)| *delay as f64).sum::<f64>() / 2000.0;
        assert!(delays.iter().all(|(_, delay)| *delay <= 2_000_000));
        assert!((950_000.0..1_050_000.0).contains(&mean), "{mean}");
    }

    #[test]
    fn normal_jitter_has_the_half_normal_mean() {
        let delays = send(Spread::Normal(Duration::from_millis(2)), true, Duration::from_millis(50));
        let mean = delays.iter().map(|(_, delay)| *delay as f64).sum::<f64>() / 2000.0;
        let expected = 2e6 * (2.0 / std::f64::consts::PI).sqrt();
        assert!((mean / expected - 1.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn order_is_kept_unless_asked_otherwise() {
        let spread = Spread::Uniform(Duration::from_millis(2));
        assert!(send(spread, false, Duration::from_micros(100)).is_sorted());
        assert!(!send(spread, true, Duration::from_micros(100)).is_sorted());
    }
}
