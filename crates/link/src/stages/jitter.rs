//! Jitter: a random delay for each packet, *added* to the fixed one.
//!
//! netem varies the delay in both directions around its nominal value. Here the nominal RTT stays the minimum, as on a
//! real path, where only queues vary; so the floor of an experiment stays a floor. The added delay is uniform between
//! zero and the given time, or the absolute value of a normal distribution with the given standard deviation, or drawn from
//! measured delays ([`Delays`]).
//!
//! Unless reordering is enabled, a packet that would overtake another leaves together with it. (The delay is then the
//! running maximum of the drawn ones, which is larger than the formula's if packets are closer together than the
//! jitter.)

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};

use super::{
    delay_queue::{DelayQueue, keep},
    delays::Delays,
    rng::Rng,
};
use crate::{
    packet::Packet,
    stage::{Out, Stage},
};

/// The distribution of the added delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DelayDistribution {
    /// Uniform from zero to this time.
    Uniform(Duration),
    /// The absolute value of a normal distribution with mean zero and this standard deviation.
    Normal(Duration),
    /// One of these delays, independently for each packet.
    Measured(Arc<Delays>),
}

/// See the module documentation.
#[derive(Debug)]
pub struct Jitter {
    distribution: DelayDistribution,
    reorder: bool,
    rng: Rng,
    queue: DelayQueue,
}

impl Jitter {
    /// Jitter with this distribution; `reorder` allows packets to overtake one another.
    pub fn new(distribution: DelayDistribution, reorder: bool, rng: Rng) -> Self {
        Self { distribution, reorder, rng, queue: DelayQueue::default() }
    }

    fn draw(&mut self) -> Duration {
        match &self.distribution {
            DelayDistribution::Uniform(most) => {
                let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
                Duration::from_nanos(self.rng.source().random_range(0..=most))
            }
            DelayDistribution::Normal(deviation) => {
                let z: f64 = StandardNormal.sample(self.rng.source());
                deviation.mul_f64(z.abs())
            }
            DelayDistribution::Measured(delays) => delays.draw(self.rng.source()),
        }
    }
}

impl Stage for Jitter {
    keep!(queue, rng);

    fn push(&mut self, packet: Packet, now: Instant, _out: &mut Out) {
        let at = now + self.draw();
        if self.reorder {
            self.queue.insert(packet, at);
        } else {
            self.queue.append(packet, at);
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
    fn send(distribution: DelayDistribution, reorder: bool, gap: Duration) -> Vec<(u16, u128)> {
        let start = Instant::now();
        let rng = Rng::new(1, Effect::Jitter, Direction::Up);
        let mut chain = Chain::new(vec![Box::new(Jitter::new(distribution, reorder, rng))]);
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
    fn uniform_jitter_stays_in_its_bounds_with_the_right_mean() {
        let delays = send(DelayDistribution::Uniform(Duration::from_millis(2)), true, Duration::from_millis(5));
        assert_eq!(delays.len(), 2000);
        let mean = delays.iter().map(|(_, delay)| *delay as f64).sum::<f64>() / 2000.0;
        assert!(delays.iter().all(|(_, delay)| *delay <= 2_000_000));
        assert!((950_000.0..1_050_000.0).contains(&mean), "{mean}");
    }

    #[test]
    fn normal_jitter_has_the_half_normal_mean() {
        let delays = send(DelayDistribution::Normal(Duration::from_millis(2)), true, Duration::from_millis(50));
        let mean = delays.iter().map(|(_, delay)| *delay as f64).sum::<f64>() / 2000.0;
        let expected = 2e6 * (2.0 / std::f64::consts::PI).sqrt();
        assert!((mean / expected - 1.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn order_is_kept_unless_reordering_is_enabled() {
        let distribution = DelayDistribution::Uniform(Duration::from_millis(2));
        assert!(send(distribution.clone(), false, Duration::from_micros(100)).is_sorted());
        assert!(!send(distribution, true, Duration::from_micros(100)).is_sorted());
    }
}
