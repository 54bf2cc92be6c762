//! `CoDel`, the controlled-delay queue of RFC 8289.
//!
//! A long queue is no evil in itself: a burst must wait somewhere. A *standing* queue is, and it
//! shows in the least time that any packet spent waiting of late. When for a whole `INTERVAL` no
//! packet waited less than `TARGET`, `CoDel` drops one as it leaves, then more and more often, at
//! intervals of `INTERVAL` / √count (§3.3: TCP's throughput goes with the inverse square root of its
//! losses), until one waited less. A queue of no more than one full packet is never too long.
//!
//! The state and its transitions are those of the reference code in §5, with one note of it
//! followed: when dropping starts again soon after it ended, it starts near the rate it had, here
//! within 16 intervals as in Linux.

use std::time::{Duration, Instant};

use super::queue::Fifo;
use crate::packet::Packet;

/// The wait that is no standing queue (§4.4: 5 ms).
const TARGET: Duration = Duration::from_millis(5);
/// The time in which a queue should drain at least once: about the longest RTT (§4.3: 100 ms).
const INTERVAL: Duration = Duration::from_millis(100);

/// The state of the controller.
#[derive(Debug, Default)]
pub(super) struct CoDel {
    /// When the wait will have been too long for an interval, if it is too long now.
    too_long_at: Option<Instant>,
    /// When to drop next, in the dropping state, and when it would have been, after it.
    next_drop: Option<Instant>,
    dropping: bool,
    /// Drops since the dropping state began, and what that count started from.
    count: u32,
    started_from: u32,
    largest: usize,
}

impl CoDel {
    /// A packet came; the largest ever is taken to be a full one.
    pub(super) fn saw(&mut self, packet: &Packet) {
        self.largest = self.largest.max(packet.len());
    }

    /// The next packet that is not dropped.
    pub(super) fn take(&mut self, fifo: &mut Fifo, now: Instant) -> Option<Packet> {
        let (mut packet, mut may_drop) = self.look(fifo, now);
        if self.dropping {
            self.dropping = may_drop;
            while let Some(next) = self.next_drop
                && self.dropping
                && now >= next
            {
                self.count = self.count.saturating_add(1);
                (packet, may_drop) = self.look(fifo, now);
                self.dropping = may_drop;
                if may_drop {
                    self.next_drop = Some(next + self.pause());
                }
            }
        } else if may_drop {
            (packet, _) = self.look(fifo, now);
            self.dropping = true;
            let grown = self.count - self.started_from;
            let recent = self.next_drop.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL * 16);
            self.count = if recent && grown > 1 { grown } else { 1 };
            self.started_from = self.count;
            self.next_drop = Some(now + self.pause());
        }
        packet
    }

    /// Takes the first packet, and says whether the queue has been too long for so long that it may
    /// be dropped.
    fn look(&mut self, fifo: &mut Fifo, now: Instant) -> (Option<Packet>, bool) {
        let Some((came, packet)) = fifo.take() else {
            self.too_long_at = None;
            return (None, false);
        };
        let too_long = now.saturating_duration_since(came) >= TARGET && fifo.bytes() > self.largest;
        let may_drop = match self.too_long_at {
            _ if !too_long => {
                self.too_long_at = None;
                false
            }
            None => {
                self.too_long_at = Some(now + INTERVAL);
                false
            }
            Some(since) => now >= since,
        };
        (Some(packet), may_drop)
    }

    /// The control law: the time from one drop to the next.
    fn pause(&self) -> Duration {
        INTERVAL.div_f64(f64::from(self.count).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::{Discipline, Queue};
    use super::*;

    /// A link that sends a packet of 1500 bytes each millisecond. `arrive` is told the millisecond and
    /// the number of the packet that left in the one before, and says how many come. Returns how
    /// many milliseconds each packet waited that left, and the milliseconds in which packets were
    /// dropped.
    fn run(
        discipline: Discipline,
        length: u32,
        mut arrive: impl FnMut(u32, Option<u32>) -> u32,
    ) -> (Vec<u32>, Vec<u32>) {
        let start = Instant::now();
        let mut queue = Queue::new(discipline);
        let (mut waits, mut drops, mut left) = (Vec::new(), Vec::new(), None);
        let (mut expected, mut numbers) = (0, 0..);
        for ms in 0..length {
            let now = start + Duration::from_millis(u64::from(ms));
            for number in numbers.by_ref().take(arrive(ms, left) as usize) {
                let number: u32 = number;
                let bytes = [number.to_be_bytes(), ms.to_be_bytes()].concat();
                queue.put(Packet::new([bytes, vec![0; 1492]].concat()), now);
            }
            left = queue.take(now).map(|packet| {
                let word = |at: usize| u32::from_be_bytes(packet.bytes[at..at + 4].try_into().unwrap());
                drops.extend((expected..word(0)).map(|_| ms));
                expected = word(0) + 1;
                waits.push(ms - word(4));
                word(0)
            });
        }
        (waits, drops)
    }

    #[test]
    fn a_burst_that_drains_within_the_interval_is_left_alone() {
        let (waits, drops) = run(Discipline::CoDel, 1000, |ms, _| if ms % 200 == 0 { 90 } else { 0 });
        assert_eq!((drops.len(), waits.len()), (0, 450));
    }

    #[test]
    fn drops_begin_after_an_interval_and_quicken_with_the_square_root() {
        // A burst, then as many as fit: a standing queue that nobody answers.
        let (_, drops) = run(Discipline::CoDel, 600, |ms, _| if ms == 0 { 300 } else { 1 });
        // The wait passes 5 ms at 5 ms, and 100 ms later it is time.
        assert_eq!(drops[0], 105);
        let law: Vec<_> = (1..6u32).map(|count| 100.0 / f64::from(count).sqrt()).collect();
        for (pair, pause) in drops.windows(2).zip(law) {
            assert!((f64::from(pair[1] - pair[0]) - pause).abs() <= 1.0, "{drops:?}");
        }
    }

    /// Four TCP senders in congestion avoidance (RFC 5681 §3.1), 50 ms from the link and back, for two
    /// minutes. Returns the median wait of the second half of the packets, and the share of the time
    /// in which the link was busy.
    fn four_senders(discipline: Discipline) -> (u32, f64) {
        struct Sender {
            window: f64,
            in_flight: u32,
            deaf_until: u32,
        }
        let mut senders: Vec<_> = (0..4).map(|_| Sender { window: 4.0, in_flight: 0, deaf_until: 0 }).collect();
        let mut sender_of = Vec::new();
        let mut expected = 0;
        let mut acks = std::collections::VecDeque::new();
        let (mut waits, _) = run(discipline, 120_000, |ms, left| {
            if let Some(left) = left {
                acks.extend((expected..=left).map(|number| (ms + 50, number, number < left)));
                expected = left + 1;
            }
            while let Some((_, number, lost)) = acks.pop_front_if(|(at, ..)| *at <= ms) {
                let sender: &mut Sender = &mut senders[sender_of[number as usize]];
                sender.in_flight -= 1;
                if !lost {
                    sender.window += 1.0 / sender.window;
                } else if ms >= sender.deaf_until {
                    (sender.window, sender.deaf_until) = ((sender.window / 2.0).max(2.0), ms + 60);
                }
            }
            let before = sender_of.len();
            for (index, sender) in senders.iter_mut().enumerate() {
                while f64::from(sender.in_flight) < sender.window.floor() {
                    sender.in_flight += 1;
                    sender_of.push(index);
                }
            }
            (sender_of.len() - before) as u32
        });
        let busy = waits.len() as f64 / 120_000.0;
        let mut late = waits.split_off(waits.len() / 2);
        late.sort_unstable();
        (late[late.len() / 2], busy)
    }

    #[test]
    fn senders_that_answer_drops_are_held_near_the_target() {
        let (wait, _) = four_senders(Discipline::Infinite);
        assert!(wait > 500, "{wait} ms without CoDel");
        let (wait, busy) = four_senders(Discipline::CoDel);
        assert!((2..=10).contains(&wait) && busy > 0.9, "median wait {wait} ms, busy {busy}");
    }
}
