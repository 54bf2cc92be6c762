//! Packets that wait until a given time; and the methods that all stages with such a queue share.

use std::{collections::VecDeque, time::Instant};

use crate::{packet::Packet, stage::Out};

/// Packets sorted by the time at which they leave; packets with the same time leave in order of arrival.
///
/// A sorted queue and not a heap: nearly every packet is appended at the end, which costs nothing, and one that
/// overtakes others moves only past those.
#[derive(Debug, Default)]
pub(super) struct DelayQueue(VecDeque<(Instant, Packet)>);

impl DelayQueue {
    /// Holds a packet until `at`, or until the last packet in the queue leaves, whichever is later.
    pub(super) fn append(&mut self, packet: Packet, at: Instant) {
        let at = self.0.back().map_or(at, |(last, _)| at.max(*last));
        self.0.push_back((at, packet));
    }

    /// Holds a packet until `at`; it overtakes packets with a later time.
    pub(super) fn insert(&mut self, packet: Packet, at: Instant) {
        let index = match self.0.back() {
            Some((last, _)) if *last > at => self.0.partition_point(|(other, _)| *other <= at),
            _ => self.0.len(),
        };
        self.0.insert(index, (at, packet));
    }

    /// When the next packet leaves.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.front().map(|(at, _)| *at)
    }

    /// Takes over the packets of another queue; they leave when they would have left there.
    pub(super) fn take_over(&mut self, old: Self) {
        *self = old;
    }

    /// Removes all packets, in the order of their times.
    pub(super) fn drain(&mut self) -> Vec<Packet> {
        self.0.drain(..).map(|(_, packet)| packet).collect()
    }

    /// Forwards the packets whose time has come.
    pub(super) fn release(&mut self, now: Instant, out: &mut Out) {
        while let Some((_, packet)) = self.0.pop_front_if(|(at, _)| *at <= now) {
            out.forward(packet);
        }
    }
}

/// The methods of a [`Stage`](crate::stage::Stage) that follow from the state it keeps when it replaces another: a field
/// `queue`, a field `rng`, or both.
macro_rules! keep {
    (queue $(, $rng:ident)?) => {
        fn wake(&self) -> Option<std::time::Instant> {
            self.queue.next()
        }

        fn poll(&mut self, now: std::time::Instant, out: &mut $crate::stage::Out) {
            self.queue.release(now, out);
        }

        fn drain(&mut self) -> Vec<$crate::packet::Packet> {
            self.queue.drain()
        }

        $crate::stages::delay_queue::keep!(@ queue $(, $rng)?);
    };
    (rng) => {
        $crate::stages::delay_queue::keep!(@ rng);
    };
    (@ $($field:ident),+) => {
        fn replace(&mut self, old: Box<dyn $crate::stage::Stage>, _now: std::time::Instant) {
            if let Some(old) = $crate::stage::same_type::<Self>(old) {
                $(self.$field.take_over(old.$field);)+
            }
        }
    };
}

pub(crate) use keep;
