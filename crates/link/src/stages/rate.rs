//! A link of constant rate with a queue in front: one packet is sent at a time.
//!
//! A packet leaves at max(departure of the previous one, its arrival) + bits ÷ rate. The bits are those of the IP packet,
//! without link-layer framing. Times are in nanoseconds, and bits ÷ rate may have a fraction; the fraction is carried
//! from packet to packet, so that a busy link is exact over any length of time. A packet is delivered at the first
//! nanosecond at which it is complete.
//!
//! When the rate changes, the remaining bits of the current packet are sent at the new rate.

use std::time::{Duration, Instant};

use super::queue::Queue;
use crate::{
    packet::Packet,
    stage::{Out, Stage, same_type},
};
use units::Rate;

const NANOS: u128 = 1_000_000_000;

/// See the module documentation.
#[derive(Debug)]
pub struct RateLimit {
    rate: u128,
    queue: Queue,
    sending: Option<Packet>,
    /// When the current or last packet is sent completely: this instant…
    free: Option<Instant>,
    /// …and this many `rate`-ths of a nanosecond.
    fraction: u128,
}

impl RateLimit {
    /// A link of this rate behind this queue.
    pub fn new(rate: Rate, queue: Queue) -> Self {
        Self { rate: rate.as_bits_per_second().into(), queue, sending: None, free: None, fraction: 0 }
    }

    /// Starts to send `bit_nanos` (bits × 10⁹) at `from`, plus the carried fraction.
    fn send(&mut self, bit_nanos: u128, from: Instant) {
        let work = bit_nanos + self.fraction;
        let nanos = u64::try_from(work / self.rate).unwrap_or(u64::MAX);
        self.free = Some(from + Duration::from_nanos(nanos));
        self.fraction = work % self.rate;
    }

    fn start(&mut self, packet: Packet, from: Instant) {
        self.send(packet.len() as u128 * 8 * NANOS, from);
        self.sending = Some(packet);
    }
}

impl Stage for RateLimit {
    fn push(&mut self, packet: Packet, now: Instant, _out: &mut Out) {
        if self.sending.is_some() {
            self.queue.put(packet, now);
        } else {
            let from = match self.free {
                Some(free) if free >= now => free,
                _ => {
                    self.fraction = 0;
                    now
                }
            };
            self.start(packet, from);
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.sending.as_ref()?;
        Some(self.free? + Duration::from_nanos((self.fraction > 0).into()))
    }

    fn poll(&mut self, now: Instant, out: &mut Out) {
        if let Some(packet) = self.sending.take() {
            out.forward(packet);
        }
        if let Some(packet) = self.queue.take(now) {
            self.start(packet, self.free.unwrap_or(now));
        }
    }

    fn replace(&mut self, old: Box<dyn Stage>, now: Instant) {
        let Some(old) = same_type::<Self>(old) else { return };
        self.queue.take_over(old.queue);
        self.sending = old.sending;
        if let (Some(_), Some(free)) = (&self.sending, old.free) {
            let left = free.saturating_duration_since(now).as_nanos() * old.rate + old.fraction;
            self.send(left, now);
        }
    }

    fn drain(&mut self) -> Vec<Packet> {
        self.sending.take().into_iter().chain(self.queue.drain()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chain::{Chain, Output},
        stages::Discipline,
    };

    fn link(bits: u64, discipline: Discipline) -> Box<dyn Stage> {
        Box::new(RateLimit::new(Rate::bits_per_second(bits), Queue::new(discipline)))
    }

    #[test]
    fn busy_link_is_exact_over_any_length_of_time() {
        // 1500 B at 7 Mbit/s take 1714285.714… ns; after 7000 packets exactly 12 s have passed.
        let start = Instant::now();
        let mut chain = Chain::new(vec![link(7_000_000, Discipline::Infinite)]);
        let mut output = Output::default();
        for _ in 0..7000 {
            chain.push(0, Packet::new(vec![0; 1500]), start, &mut output);
        }
        chain.run(start + Duration::from_mins(1), &mut output);
        let times: Vec<_> = output.delivered.iter().map(|(at, _)| (*at - start).as_nanos()).collect();
        assert_eq!((times[0], times[1], times[6]), (1_714_286, 3_428_572, 12_000_000));
        assert_eq!(times.last(), Some(&12_000_000_000));
    }

    #[test]
    fn idle_link_sends_at_once() {
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        let mut chain = Chain::new(vec![link(8_000_000, Discipline::Packets(0))]);
        let mut output = Output::default();
        for us in [0, 500, 2000] {
            chain.push(0, Packet::new(vec![0; 1000]), at(us), &mut output);
        }
        chain.run(at(9000), &mut output);
        let times: Vec<_> = output.delivered.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [at(1000), at(3000)]); // the second found the link busy and no queue
    }

    #[test]
    fn new_rate_applies_to_the_remaining_bits() {
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        let mut chain = Chain::new(vec![link(8_000_000, Discipline::Infinite)]);
        let mut output = Output::default();
        chain.push(0, Packet::new(vec![0; 1000]), at(0), &mut output);
        chain.push(0, Packet::new(vec![0; 1000]), at(0), &mut output);
        chain.run(at(250), &mut output);
        chain.replace(vec![link(4_000_000, Discipline::Infinite)], at(250), &mut output);
        chain.run(at(9000), &mut output);
        let times: Vec<_> = output.delivered.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [at(1750), at(3750)]);
    }
}
