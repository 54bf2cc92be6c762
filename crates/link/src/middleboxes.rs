//! Middleboxes: stages that read or change packets as NATs, firewalls and proxies do.
//!
//! Each is one file, and all are listed in [`ALL`]. The text form is `name:key=value,key=value` (see [`Middlebox`]). A
//! middlebox stands at one end of the cable, before or after the link itself. That matters for those that hold or send
//! packets: an ACK held at the server's end, a reset sent from the client's. `at=client` and `at=server` select the end.
//!
//! A packet that a middlebox does not understand passes unchanged. No packet makes one panic.

mod arguments;
mod balance;
mod bidirectional;
mod connection_table;
mod drop_syn;
mod drop_udp;
mod hold_acks;
mod nat;
mod reset;
mod silent;
mod strip;
mod swallow_after_syn_data;
mod swallow_syn_data;

pub use arguments::{Arguments, Middlebox, MiddleboxError};

use crate::lanes::Element;

/// All middleboxes.
pub const ALL: &[&Kind] = &[
    &strip::OPTION,
    &strip::TFO,
    &strip::SACK,
    &strip::TIMESTAMPS,
    &strip::WSCALE,
    &drop_syn::UNKNOWN_OPTIONS,
    &drop_syn::DATA,
    &swallow_syn_data::KIND,
    &swallow_after_syn_data::KIND,
    &drop_udp::KIND,
    &hold_acks::KIND,
    &reset::KIND,
    &silent::KIND,
    &nat::KIND,
    &balance::KIND,
];

/// A kind of middlebox.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
    /// Its parameters, besides `at`.
    pub parameters: &'static [Parameter],
    /// Default of `at`: where such boxes are usually found.
    pub side: Side,
    build: fn(&Arguments) -> Result<Element, MiddleboxError>,
}

/// A parameter of a middlebox.
pub struct Parameter {
    /// Its key.
    pub name: &'static str,
    /// The form of its value.
    pub form: &'static str,
    /// Its meaning, in a line.
    pub help: &'static str,
    /// Its default; empty if there is none.
    pub default: &'static str,
}

/// An end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// End A, where the client is.
    Client,
    /// End B, where the server is.
    Server,
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{
        chain::{Chain, Output},
        packet::Packet,
        stage::{Direction, Out, Stage},
    };

    fn build(middlebox: &str) -> Element {
        middlebox.parse::<Middlebox>().unwrap().build().unwrap()
    }

    /// The output of a middlebox for one packet that goes up.
    pub(super) fn pass_up(middlebox: &str, bytes: Vec<u8>) -> Out {
        let mut out = Out::default();
        build(middlebox).up.unwrap().push(Packet::new(bytes), Instant::now(), &mut out);
        out
    }

    /// A middlebox alone on a cable, with packets at given milliseconds.
    pub(super) struct Bench {
        start: Instant,
        chains: [Chain; 2],
        /// Output packets, except those that passed at once and unchanged.
        new: Vec<(Direction, Packet)>,
    }

    pub(super) fn chains(middlebox: &str) -> [Vec<Box<dyn Stage>>; 2] {
        let pair = build(middlebox);
        [pair.up, pair.down].map(|stage| stage.into_iter().collect())
    }

    impl Bench {
        pub(super) fn new(middlebox: &str) -> Self {
            Self { start: Instant::now(), chains: chains(middlebox).map(Chain::new), new: Vec::new() }
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        pub(super) fn replace(&mut self, middlebox: &str, ms: u64) {
            for (direction, stages) in [Direction::Up, Direction::Down].into_iter().zip(chains(middlebox)) {
                self.put(direction, stages, ms);
            }
        }

        /// Replaces the stages of one direction only.
        pub(super) fn put(&mut self, direction: Direction, stages: Vec<Box<dyn Stage>>, ms: u64) {
            let now = self.at(ms);
            let mut output = Output::default();
            self.chains[direction as usize].replace(stages, now, &mut output);
            self.take(direction, output);
        }

        fn take(&mut self, direction: Direction, output: Output) {
            let back = if direction == Direction::Up { Direction::Down } else { Direction::Up };
            self.new.extend(output.delivered.into_iter().map(|(_, packet)| (direction, packet)));
            // There is no other element to pass.
            self.new.extend(output.back.into_iter().map(|(_, _, packet)| (back, packet)));
        }

        /// Lets time pass.
        pub(super) fn run(&mut self, ms: u64) {
            let until = self.at(ms);
            for direction in [Direction::Up, Direction::Down] {
                let mut output = Output::default();
                self.chains[direction as usize].run(until, &mut output);
                self.take(direction, output);
            }
        }

        /// Sends a packet, and returns whether it comes out at once and unchanged.
        pub(super) fn passes(&mut self, direction: Direction, ms: u64, bytes: Vec<u8>) -> bool {
            self.run(ms);
            let (now, packet) = (self.at(ms), Packet::new(bytes));
            let mut output = Output::default();
            self.chains[direction as usize].push(0, packet.clone(), now, &mut output);
            let index = output.delivered.iter().position(|(_, passed)| *passed == packet);
            if let Some(index) = index {
                output.delivered.remove(index);
            }
            self.take(direction, output);
            index.is_some()
        }

        /// The other output packets since the last call, those that go up first.
        pub(super) fn take_new(&mut self) -> Vec<(Direction, Packet)> {
            let mut new = std::mem::take(&mut self.new);
            new.sort_by_key(|(direction, _)| *direction);
            new
        }
    }
}
