//! A fixed delay: every packet leaves a constant time after it came. The length of the cable.
//!
//! When the delay is shortened while packets are under way, those that follow wait for them: a
//! cable does not reorder. A delay of zero costs nothing.

use std::time::{Duration, Instant};

use super::held::{Held, keeps};
use crate::{
    packet::Packet,
    stage::{Out, Stage},
};

/// See the module's page.
#[derive(Debug)]
pub struct Delay {
    time: Duration,
    held: Held,
}

impl Delay {
    /// A delay of `time`.
    pub fn new(time: Duration) -> Self {
        Self { time, held: Held::default() }
    }
}

impl Stage for Delay {
    keeps!(held);

    fn push(&mut self, packet: Packet, now: Instant, out: &mut Out) {
        if self.time.is_zero() && self.held.next().is_none() {
            out.forward(packet);
        } else {
            self.held.append(packet, now + self.time);
        }
    }

    fn passes_segments_whole(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Chain, Output};

    #[test]
    fn every_packet_leaves_exactly_that_much_later() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let mut chain = Chain::new(vec![Box::new(Delay::new(Duration::from_millis(9)))]);
        let mut output = Output::default();
        chain.push(0, Packet::new(vec![1]), ms(0), &mut output);
        chain.push(0, Packet::new(vec![2]), ms(5), &mut output);
        chain.run(ms(100), &mut output);
        assert_eq!(output.delivered, [(ms(9), Packet::new(vec![1])), (ms(14), Packet::new(vec![2]))]);
    }

    #[test]
    fn a_change_keeps_what_is_under_way_and_its_order() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let mut chain = Chain::new(vec![Box::new(Delay::new(Duration::from_millis(9)))]);
        let mut output = Output::default();
        chain.push(0, Packet::new(vec![1]), ms(0), &mut output);
        chain.replace(vec![Box::new(Delay::new(Duration::from_millis(1)))], ms(2), &mut output);
        chain.push(0, Packet::new(vec![2]), ms(2), &mut output);
        chain.push(0, Packet::new(vec![3]), ms(20), &mut output);
        chain.run(ms(100), &mut output);
        let times: Vec<_> = output.delivered.iter().map(|(at, packet)| (*at, packet.bytes[0])).collect();
        assert_eq!(times, [(ms(9), 1), (ms(9), 2), (ms(21), 3)]);
    }
}
