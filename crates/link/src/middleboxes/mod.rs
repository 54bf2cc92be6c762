//! Middleboxes: what stands in the way of a cable and does more than carry.
//!
//! One file each, and all of them in [`ALL`]; the text form of one is `name:key=value,key=value`
//! (see [`Middlebox`]). Each stands at one end of the cable, before or after everything the link
//! itself does, which matters to those that take or send time: an ACK held at the server's end, a
//! reset sent from the client's. `at=client` and `at=server` choose the end.
//!
//! A packet that a middlebox cannot make sense of passes as it is, and none panics.

mod arguments;
mod balance;
mod both;
mod drop_syn;
mod drop_udp;
mod flows;
mod hold_acks;
mod nat;
mod reset;
mod silent;
mod strip;
mod swallow;

pub use arguments::{Arguments, Middlebox, MiddleboxError};

use crate::lanes::Element;

/// All middleboxes there are.
pub const ALL: &[&Kind] = &[
    &strip::OPTION,
    &strip::TFO,
    &strip::SACK,
    &strip::TIMESTAMPS,
    &strip::WSCALE,
    &drop_syn::UNKNOWN_OPTIONS,
    &drop_syn::DATA,
    &swallow::DATA,
    &swallow::AFTER,
    &drop_udp::KIND,
    &hold_acks::KIND,
    &reset::KIND,
    &silent::KIND,
    &nat::KIND,
    &balance::KIND,
];

/// A kind of middlebox, as it is registered.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
    /// What can be chosen, beside `at`.
    pub parameters: &'static [Parameter],
    /// Where it stands if nothing else is said: where such boxes are found.
    pub side: Side,
    build: fn(&Arguments) -> Result<Element, MiddleboxError>,
}

/// A parameter of a middlebox.
pub struct Parameter {
    /// Its key.
    pub name: &'static str,
    /// What its value looks like.
    pub form: &'static str,
    /// What it means, in a line.
    pub help: &'static str,
    /// What holds if it is not given; empty where there is no such thing.
    pub default: &'static str,
}

/// An end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A, where the client is.
    Client,
    /// B, where the server is.
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

    /// What a middlebox does with one packet on its way up.
    pub(super) fn pass_up(middlebox: &str, bytes: Vec<u8>) -> Out {
        let mut out = Out::default();
        build(middlebox).up.unwrap().push(Packet::new(bytes), Instant::now(), &mut out);
        out
    }

    /// A middlebox alone on a cable, with packets that come at given milliseconds.
    pub(super) struct Bench {
        start: Instant,
        chains: [Chain; 2],
        /// What came out that did not go in just before.
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

        /// Changes one direction only.
        pub(super) fn put(&mut self, direction: Direction, stages: Vec<Box<dyn Stage>>, ms: u64) {
            let now = self.at(ms);
            let mut output = Output::default();
            self.chains[direction as usize].replace(stages, now, &mut output);
            self.take(direction, output);
        }

        fn take(&mut self, direction: Direction, output: Output) {
            let back = if direction == Direction::Up { Direction::Down } else { Direction::Up };
            self.new.extend(output.delivered.into_iter().map(|(_, packet)| (direction, packet)));
            // Past the only element, so nothing is left to pass.
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

        /// Sends a packet, and says whether it comes out at once and unchanged.
        pub(super) fn passes(&mut self, direction: Direction, ms: u64, bytes: Vec<u8>) -> bool {
            self.run(ms);
            let (now, packet) = (self.at(ms), Packet::new(bytes));
            let mut output = Output::default();
            self.chains[direction as usize].push(0, packet.clone(), now, &mut output);
            let place = output.delivered.iter().position(|(_, passed)| *passed == packet);
            if let Some(place) = place {
                output.delivered.remove(place);
            }
            self.take(direction, output);
            place.is_some()
        }

        /// The packets that came out otherwise since the last call, those that went up first.
        pub(super) fn take_new(&mut self) -> Vec<(Direction, Packet)> {
            let mut new = std::mem::take(&mut self.new);
            new.sort_by_key(|(direction, _)| *direction);
            new
        }
    }
}
