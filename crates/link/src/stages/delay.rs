//! A fixed delay: every packet leaves a constant time after it came. The length of the cable.

use std::{
    any::Any,
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{
    packet::Packet,
    stage::{Out, Stage},
};

/// See the module's page.
#[derive(Debug)]
pub struct Delay {
    time: Duration,
    held: VecDeque<(Instant, Packet)>,
}

impl Delay {
    /// A delay of `time`.
    pub fn new(time: Duration) -> Self {
        Self { time, held: VecDeque::new() }
    }
}

impl Stage for Delay {
    fn push(&mut self, packet: Packet, now: Instant, _out: &mut Out) {
        self.held.push_back((now + self.time, packet));
    }

    fn wake(&self) -> Option<Instant> {
        self.held.front().map(|(at, _)| *at)
    }

    fn poll(&mut self, now: Instant, out: &mut Out) {
        while let Some((_, packet)) = self.held.pop_front_if(|(at, _)| *at <= now) {
            out.forward(packet);
        }
    }

    fn passes_segments_whole(&self) -> bool {
        true
    }

    fn replace(&mut self, old: Box<dyn Stage>, _now: Instant) {
        if let Ok(old) = old.into_any().downcast::<Self>() {
            self.held = old.held; // what is under way arrives when it would have
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
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
}
