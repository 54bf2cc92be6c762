//! A fixed delay: the propagation delay of the cable.
//!
//! When the delay is shortened while packets are in flight, later packets wait for them: a cable does not reorder. A
//! delay of zero costs nothing.

use std::time::{Duration, Instant};

use super::delay_queue::{DelayQueue, keep};
use crate::{
    packet::Packet,
    stage::{Out, Stage},
};

/// See the module documentation.
#[derive(Debug)]
pub struct Delay {
    time: Duration,
    queue: DelayQueue,
}

impl Delay {
    /// A delay of `time`.
    pub fn new(time: Duration) -> Self {
        Self { time, queue: DelayQueue::default() }
    }
}

impl Stage for Delay {
    keep!(queue);

    fn push(&mut self, packet: Packet, now: Instant, out: &mut Out) {
        if self.time.is_zero() && self.queue.next().is_none() {
            out.forward(packet);
        } else {
            self.queue.append(packet, now + self.time);
        }
    }

    fn passes_segments_unsplit(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Chain, Output};

    #[test]
    fn packets_leave_exactly_one_delay_later() {
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
    fn shorter_delay_keeps_packets_in_flight_and_their_order() {
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
