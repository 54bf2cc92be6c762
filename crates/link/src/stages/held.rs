//! Packets that wait for their time.

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
