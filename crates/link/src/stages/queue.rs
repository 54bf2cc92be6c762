//! Queues in front of a link: which packets wait, and which are dropped.
//!
//! A queue does not know the rate of its link; [`super::RateLimit`] and [`super::TraceLink`] take packets from it when
//! they can send. The packet that is being sent is not in the queue, as in Linux, where the device holds it.

use std::{collections::VecDeque, time::Instant};

use super::codel::CoDel;
use crate::packet::Packet;
use units::Size;

/// Which packets a queue drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// None.
    Infinite,
    /// Those that arrive when this many packets wait.
    Packets(usize),
    /// Those with which the queue would hold more than this many bytes of IP packets.
    Bytes(Size),
    /// Those that `CoDel` selects (RFC 8289), and those that arrive when 10 240 packets wait, the limit of Linux's
    /// `fq_codel`.
    CoDel,
}

/// The hard limit of a `CoDel` queue, in packets.
const CODEL_LIMIT: usize = 10_240;

/// Waiting packets in order, each with its arrival time.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    packets: VecDeque<(Instant, Packet)>,
    bytes: usize,
}

impl Fifo {
    fn put(&mut self, packet: Packet, arrived: Instant) {
        self.bytes += packet.len();
        self.packets.push_back((arrived, packet));
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

    /// A packet arrives; it is enqueued or dropped.
    pub(super) fn put(&mut self, packet: Packet, now: Instant) {
        let waiting = self.fifo.packets.len();
        let has_room = match self.discipline {
            Discipline::Infinite => true,
            Discipline::Packets(limit) => waiting < limit,
            Discipline::Bytes(limit) => (self.fifo.bytes + packet.len()) as u64 <= limit.as_bytes(),
            Discipline::CoDel => {
                self.codel.enqueued(&packet);
                waiting < CODEL_LIMIT
            }
        };
        if has_room {
            self.fifo.put(packet, now);
        }
    }

    /// The next packet to send, now that the link is free.
    pub(super) fn take(&mut self, now: Instant) -> Option<Packet> {
        match self.discipline {
            Discipline::CoDel => self.codel.dequeue(&mut self.fifo, now),
            _ => self.fifo.take().map(|(_, packet)| packet),
        }
    }

    /// Whether no packet waits.
    pub(super) fn is_empty(&self) -> bool {
        self.fifo.packets.is_empty()
    }

    /// Removes all packets, in order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Packet> {
        std::iter::from_fn(|| self.fifo.take()).map(|(_, packet)| packet)
    }

    /// Takes over the packets of the queue that this one replaces; a shorter queue drops the last ones.
    pub(super) fn take_over(&mut self, old: Self) {
        if self.discipline == old.discipline {
            *self = old;
        } else {
            for (arrived, packet) in old.fifo.packets {
                self.put(packet, arrived);
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
    fn droptail_drops_packets_beyond_its_limit() {
        assert_eq!(accepted(Discipline::Packets(2), &[10, 20, 30]), [10, 20]);
        // A small packet finds room where a large one did not.
        assert_eq!(accepted(Discipline::Bytes(Size::bytes(100)), &[60, 50, 40, 1]), [60, 40]);
        assert_eq!(accepted(Discipline::Infinite, &vec![10; 30_000]).len(), 30_000);
        assert_eq!(accepted(Discipline::CoDel, &vec![10; 30_000]).len(), CODEL_LIMIT);
    }

    #[test]
    fn shorter_queue_keeps_the_oldest_packets() {
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
