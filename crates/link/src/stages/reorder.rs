//! Reordering: some packets are held for a given time, and later packets overtake them.
//!
//! In netem the selected packets skip the delay, which makes them *faster* than the link. Here they are late instead, as
//! on a path with several routes. A packet with none behind it is late, but in order.

use std::time::{Duration, Instant};

use super::{
    delay_queue::{DelayQueue, keep},
    rng::Rng,
};
use crate::{
    packet::Packet,
    stage::{Out, Stage},
};
use units::Percent;

/// See the module documentation.
#[derive(Debug)]
pub struct Reorder {
    probability: Percent,
    by: Duration,
    rng: Rng,
    queue: DelayQueue,
}

impl Reorder {
    /// Holds each packet with this probability, for the time `by`.
    pub fn new(probability: Percent, by: Duration, rng: Rng) -> Self {
        Self { probability, by, rng, queue: DelayQueue::default() }
    }
}

impl Stage for Reorder {
    keep!(queue, rng);

    fn push(&mut self, packet: Packet, now: Instant, out: &mut Out) {
        if self.rng.happens(self.probability) {
            self.queue.insert(packet, now + self.by);
        } else {
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

    #[test]
    fn held_packets_are_overtaken_and_none_is_lost() {
        let rng = Rng::new(5, Effect::Reorder, Direction::Up);
        // `survivors` sends a packet each 100 µs, so three overtake a late one.
        let stage = Reorder::new(Percent::from_fraction(0.1), Duration::from_micros(350), rng);
        let mut order = survivors(Box::new(stage), 5000);
        let steps = order.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        assert!((800..1600).contains(&steps), "{steps}");
        assert!(order.iter().enumerate().all(|(place, n)| place.abs_diff(*n as usize) <= 3));
        order.sort_unstable();
        assert!(order.into_iter().eq(0..5000));
    }
}
