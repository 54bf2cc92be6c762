//! Queues in front of a link: which packets wait, and which are dropped.
//!
//! A queue knows nothing of how fast it is emptied; [`super::RateLimit`] and [`super::TraceLink`]
//! take packets from it when they can send. The packet that is being sent is not in the queue, as
//! in Linux, where the device holds it.

use std::{collections::VecDeque, time::Instant};

use super::codel::CoDel;
use crate::packet::Packet;
use units::Size;

/// Which packets a queue drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// None, however long the queue gets.
    Infinite,
    /// Those that arrive when so many packets wait.
    Packets(usize),
    /// Those that arrive when there is no room for them in so many bytes of IP packets.
    Bytes(Size),
    /// Those that `CoDel` picks as they leave (RFC 8289), and those that arrive when 10 240 packets
    /// wait, the limit of Linux's `fq_codel`.
    CoDel,
}

/// The hard limit of a `CoDel` queue, in packets.
const CODEL_LIMIT: usize = 10_240;

/// Packets that wait, in order, each with the time at which it came.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    packets: VecDeque<(Instant, Packet)>,
    bytes: usize,
}

impl Fifo {
    fn put(&mut self, packet: Packet, came: Instant) {
        self.bytes += packet.len();
        self.packets.push_back((came, packet));
    }

    pub(super) fn take(&mut self) -> Option<(Instant, Packet)> {
        let first = self.packets.pop_front()?;
        self.bytes -= first.1.len();
        Some(first)
    }

    /// The bytes of all packets that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A queue of one discipline.
#[derive(Debug)]
pub struct Queue {
    fifo: Fifo,
    discipline: Discipline,
    codel: CoDel,
}

impl Queue {
    /// An empty queue.
    pub fn new(discipline: Discipline) -> Self {
        Self { fifo: Fifo::default(), discipline, codel: CoDel::default() }
    }

    /// A packet arrives; it waits, or is dropped.
    pub(super) fn put(&mut self, packet: Packet, now: Instant) {
        let waiting = self.fifo.packets.len();
        let room = match self.discipline {
            Discipline::Infinite => true,
            Discipline::Packets(most) => waiting < most,
            Discipline::Bytes(most) => (self.fifo.bytes + packet.len()) as u64 <= most.as_bytes(),
            Discipline::CoDel => {
                self.codel.saw(&packet);
                waiting < CODEL_LIMIT
            }
        };
        if room {
            self.fifo.put(packet, now);
        }
    }

    /// The next packet to send, now that the link is free.
    pub(super) fn take(&mut self, now: Instant) -> Option<Packet> {
        match self.discipline {
            Discipline::CoDel => self.codel.take(&mut self.fifo, now),
            _ => self.fifo.take().map(|(_, packet)| packet),
        }
    }

    /// Whether no packet waits.
    pub(super) fn is_empty(&self) -> bool {
        self.fifo.packets.is_empty()
    }

    /// Gives up the packets that wait, in order.
    pub(super) fn leave(&mut self) -> impl Iterator<Item = Packet> {
        std::iter::from_fn(|| self.fifo.take()).map(|(_, packet)| packet)
    }

    /// The packets of a queue that this one replaces wait on here; a shorter queue drops the last.
    pub(super) fn take_over(&mut self, old: Self) {
        if self.discipline == old.discipline {
            *self = old;
        } else {
            for (came, packet) in old.fifo.packets {
                self.put(packet, came);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(discipline: Discipline, sizes: &[usize]) -> Vec<usize> {
        let now = Instant::now();
        let mut queue = Queue::new(discipline);
        for size in sizes {
            queue.put(Packet::new(vec![0; *size]), now);
        }
        std::iter::from_fn(|| queue.take(now)).map(|packet| packet.len()).collect()
    }

    #[test]
    fn droptail_drops_what_has_no_room() {
        assert_eq!(accepted(Discipline::Packets(2), &[10, 20, 30]), [10, 20]);
        // A small packet finds room where a large one did not.
        assert_eq!(accepted(Discipline::Bytes(Size::bytes(100)), &[60, 50, 40, 1]), [60, 40]);
        assert_eq!(accepted(Discipline::Infinite, &vec![10; 30_000]).len(), 30_000);
        assert_eq!(accepted(Discipline::CoDel, &vec![10; 30_000]).len(), CODEL_LIMIT);
    }

    #[test]
    fn a_shorter_queue_keeps_the_first() {
        let mut old = Queue::new(Discipline::Infinite);
        for size in 1..=5 {
            old.put(Packet::new(vec![0; size]), Instant::now());
        }
        let mut queue = Queue::new(Discipline::Packets(2));
        queue.take_over(old);
        let left: Vec<_> = std::iter::from_fn(|| queue.take(Instant::now())).map(|packet| packet.len()).collect();
        assert_eq!(left, [1, 2]);
    }
}
