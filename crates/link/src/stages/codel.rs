//! `CoDel`, the controlled-delay queue of RFC 8289.
//!
//! A long queue is not bad in itself: a burst must wait somewhere. A *standing* queue is bad, and it shows in the
//! minimum sojourn time of recent packets. When no packet waited less than `TARGET` for a whole `INTERVAL`, `CoDel`
//! drops one packet as it leaves. Then it drops at intervals of `INTERVAL` / √count (§3.3: TCP's throughput is
//! proportional to the inverse square root of its loss rate), until a packet waited less. A queue of at most one full
//! packet is never too long.
//!
//! State, transitions and names are those of the reference code in §5. It follows one note there: if dropping starts
//! again soon after it ended, it starts near its last rate; "soon" is 16 intervals here, as in Linux.

use std::time::{Duration, Instant};

use super::queue::Fifo;
use crate::packet::Packet;

/// Acceptable minimum sojourn time (§4.4: 5 ms).
const TARGET: Duration = Duration::from_millis(5);
/// Sliding window of the minimum: about the longest RTT (§4.3: 100 ms).
const INTERVAL: Duration = Duration::from_millis(100);

/// The state of the controller.
#[derive(Debug, Default)]
pub(super) struct CoDel {
    /// When the sojourn time will have been above `TARGET` for an interval; `None` while it is below.
    first_above_time: Option<Instant>,
    /// When to drop the next packet; after the dropping state, when the next one would have been dropped.
    drop_next: Option<Instant>,
    dropping: bool,
    /// Packets dropped since the dropping state was entered.
    count: u32,
    /// `count` when the dropping state was last entered.
    lastcount: u32,
    /// The largest packet so far, in bytes.
    maxpacket: usize,
}

impl CoDel {
    /// A packet is enqueued.
    pub(super) fn enqueued(&mut self, packet: &Packet) {
        self.maxpacket = self.maxpacket.max(packet.len());
    }

    /// Removes the next packet that is not dropped; drops others.
    pub(super) fn dequeue(&mut self, fifo: &mut Fifo, now: Instant) -> Option<Packet> {
        let (mut packet, mut ok_to_drop) = self.dodequeue(fifo, now);
        if self.dropping {
            self.dropping = ok_to_drop;
            while let Some(next) = self.drop_next
                && self.dropping
                && now >= next
            {
                self.count = self.count.saturating_add(1);
                (packet, ok_to_drop) = self.dodequeue(fifo, now);
                self.dropping = ok_to_drop;
                if ok_to_drop {
                    self.drop_next = Some(next + self.control_law());
                }
            }
        } else if ok_to_drop {
            (packet, _) = self.dodequeue(fifo, now);
            self.dropping = true;
            let delta = self.count - self.lastcount;
            let recent = self.drop_next.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL * 16);
            self.count = if recent && delta > 1 { delta } else { 1 };
            self.lastcount = self.count;
            self.drop_next = Some(now + self.control_law());
        }
        packet
    }

    /// Removes the first packet; also returns whether the sojourn time has been above `TARGET` for an interval.
    fn dodequeue(&mut self, fifo: &mut Fifo, now: Instant) -> (Option<Packet>, bool) {
        let Some((came, packet)) = fifo.take() else {
            self.first_above_time = None;
            return (None, false);
        };
        let is_above = now.saturating_duration_since(came) >= TARGET && fifo.bytes() > self.maxpacket;
        let ok_to_drop = match self.first_above_time {
            _ if !is_above => {
                self.first_above_time = None;
                false
            }
            None => {
                self.first_above_time = Some(now + INTERVAL);
                false
            }
            Some(time) => now >= time,
        };
        (Some(packet), ok_to_drop)
    }

    /// The time from one drop to the next.
    fn control_law(&self) -> Duration {
        INTERVAL.div_f64(f64::from(self.count).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::{Discipline, Queue};
    use super::*;

    /// A link that sends a packet of 1500 bytes each millisecond. `arrive` gets the millisecond and the number of the
    /// packet that left in the previous one, and returns the number of arriving packets. Returns the sojourn time in ms
    /// of each packet that left, and the ms of each drop.
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
    fn burst_that_drains_within_the_interval_is_not_dropped() {
        let (waits, drops) = run(Discipline::CoDel, 1000, |ms, _| if ms % 200 == 0 { 90 } else { 0 });
        assert_eq!((drops.len(), waits.len()), (0, 450));
    }

    #[test]
    fn drops_begin_after_an_interval_and_quicken_with_the_square_root() {
        // A burst, then as many as fit: a standing queue, and no sender that reacts.
        let (_, drops) = run(Discipline::CoDel, 600, |ms, _| if ms == 0 { 300 } else { 1 });
        // The sojourn time exceeds 5 ms at 5 ms; the first drop is 100 ms later.
        assert_eq!(drops[0], 105);
        let law: Vec<_> = (1..6u32).map(|count| 100.0 / f64::from(count).sqrt()).collect();
        for (pair, pause) in drops.windows(2).zip(law) {
            assert!((f64::from(pair[1] - pair[0]) - pause).abs() <= 1.0, "{drops:?}");
        }
    }

    /// Four TCP senders in congestion avoidance (RFC 5681 §3.1) with an RTT of 50 ms, for two minutes. Returns the median
    /// sojourn time of the second half of the packets, and the link's utilization.
    fn four_senders(discipline: Discipline) -> (u32, f64) {
        struct Sender {
            window: f64,
            in_flight: u32,
            recovery_until: u32,
        }
        let mut senders: Vec<_> = (0..4).map(|_| Sender { window: 4.0, in_flight: 0, recovery_until: 0 }).collect();
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
                } else if ms >= sender.recovery_until {
                    (sender.window, sender.recovery_until) = ((sender.window / 2.0).max(2.0), ms + 60);
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
    fn senders_that_react_to_drops_keep_the_sojourn_time_near_the_target() {
        let (wait, _) = four_senders(Discipline::Infinite);
        assert!(wait > 500, "{wait} ms without CoDel");
        let (wait, busy) = four_senders(Discipline::CoDel);
        assert!((2..=10).contains(&wait) && busy > 0.9, "median wait {wait} ms, busy {busy}");
    }
}
