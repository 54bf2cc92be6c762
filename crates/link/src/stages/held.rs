//! Packets that wait for their time, and what all stages share that hold some or have dice.

use std::{collections::VecDeque, time::Instant};

use crate::{packet::Packet, stage::Out};

/// Packets by the time at which they go on; of those with one time, first come, first gone.
///
/// A sorted queue and not a heap: nearly every packet goes to its end, which costs nothing, and one
/// that overtakes others moves only as far as it overtakes.
#[derive(Debug, Default)]
pub(super) struct Held(VecDeque<(Instant, Packet)>);

impl Held {
    /// Holds a packet until `at`, and behind all that are held already.
    pub(super) fn append(&mut self, packet: Packet, at: Instant) {
        let at = self.0.back().map_or(at, |(last, _)| at.max(*last));
        self.0.push_back((at, packet));
    }

    /// Holds a packet until `at`; it overtakes those that are held longer.
    pub(super) fn insert(&mut self, packet: Packet, at: Instant) {
        let place = match self.0.back() {
            Some((last, _)) if *last > at => self.0.partition_point(|(other, _)| *other <= at),
            _ => self.0.len(),
        };
        self.0.insert(place, (at, packet));
    }

    /// When the next packet goes on.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.front().map(|(at, _)| *at)
    }

    /// Takes over what another held: it goes on when it would have.
    pub(super) fn take_over(&mut self, old: Self) {
        *self = old;
    }

    /// Gives up all packets, in the order of their times.
    pub(super) fn leave(&mut self) -> Vec<Packet> {
        self.0.drain(..).map(|(_, packet)| packet).collect()
    }

    /// Lets the packets go on whose time has come.
    pub(super) fn release(&mut self, now: Instant, out: &mut Out) {
        while let Some((_, packet)) = self.0.pop_front_if(|(at, _)| *at <= now) {
            out.forward(packet);
        }
    }
}

/// The part of a [`Stage`](crate::stage::Stage) that follows from what it keeps over a change, which is in the
/// fields of these names: `held`, `dice`, or both.
macro_rules! keeps {
    (held $(, $dice:ident)?) => {
        fn wake(&self) -> Option<std::time::Instant> {
            self.held.next()
        }

        fn poll(&mut self, now: std::time::Instant, out: &mut $crate::stage::Out) {
            self.held.release(now, out);
        }

        fn leave(&mut self) -> Vec<$crate::packet::Packet> {
            self.held.leave()
        }

        $crate::stages::held::keeps!(@ held $(, $dice)?);
    };
    (dice) => {
        $crate::stages::held::keeps!(@ dice);
    };
    (@ $($field:ident),+) => {
        fn replace(&mut self, old: Box<dyn $crate::stage::Stage>, _now: std::time::Instant) {
            if let Some(old) = $crate::stage::same_kind::<Self>(old) {
                $(self.$field.take_over(old.$field);)+
            }
        }
    };
}

pub(crate) use keeps;
