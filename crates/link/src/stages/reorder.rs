//! Reordering: some packets are held a little, and those behind them overtake.
//!
//! netem lets the chosen packets skip the delay, which makes them *faster* than the link is. Here
//! the chosen ones come late instead, as on a path of several ways: each is held for a given time,
//! and whatever comes in between goes first. A packet with nothing behind it is late but in order.

use std::time::{Duration, Instant};

use super::{
    dice::Dice,
    held::{Held, keeps},
};
use crate::{
    packet::Packet,
    stage::{Out, Stage},
};
use units::Percent;

/// See the module's page.
#[derive(Debug)]
pub struct Reorder {
    probability: Percent,
    by: Duration,
    dice: Dice,
    held: Held,
}

impl Reorder {
    /// Holds each packet with this probability, for the time `by`.
    pub fn new(probability: Percent, by: Duration, dice: Dice) -> Self {
        Self { probability, by, dice, held: Held::default() }
    }
}

impl Stage for Reorder {
    keeps!(held, dice);

    fn push(&mut self, packet: Packet, now: Instant, out: &mut Out) {
        if self.dice.hits(self.probability) {
            self.held.insert(packet, now + self.by);
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
    fn late_packets_are_overtaken_and_none_is_lost() {
        let dice = Dice::new(5, Effect::Reorder, Direction::Up);
        // `survivors` sends a packet each 100 µs, so three overtake a late one.
        let stage = Reorder::new(Percent::from_fraction(0.1), Duration::from_micros(350), dice);
        let mut order = survivors(Box::new(stage), 5000);
        let steps = order.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        assert!((800..1600).contains(&steps), "{steps}");
        assert!(order.iter().enumerate().all(|(place, n)| place.abs_diff(*n as usize) <= 3));
        order.sort_unstable();
        assert!(order.into_iter().eq(0..5000));
    }
}
