//! What a cable is made of: [`Stage`], one effect on the packets that go one way.
//!
//! A stage is a state machine without I/O and without a clock. Packets are pushed in with the time
//! at which they arrive; what the stage has to say goes to [`Out`]: packets that go on, now, and
//! packets it sends back the other way (a reset, an ICMP error). A stage that holds packets names
//! the time of its next event in [`Stage::wake`] and is called with *exactly* that time, however
//! late the machine is. So what a chain of stages does depends on its input alone: the same packets
//! at the same times with the same seed give the same output, to the nanosecond, and lateness of
//! the driver does not add up along the chain.

use std::{any::Any, time::Instant};

use crate::packet::Packet;

/// One of the two ways along a cable, which runs from its A end (the client's) to its B end (the
/// server's).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From A to B: from the client to the server.
    Up,
    /// From B to A: from the server to the client.
    Down,
}

/// One effect on the packets that go one way along a cable.
///
/// A driver may hand packets over a little late: `now` can lie before the last event of the stage.
/// A stage takes that as "at once", never as an error.
pub trait Stage: Any + Send {
    /// A packet arrives.
    fn push(&mut self, packet: Packet, now: Instant, out: &mut Out);

    /// When the stage next wants [`Stage::poll`] to be called; `None` while it waits for packets only.
    ///
    /// Two stages that share state, one for each direction, may change each other's: ask again
    /// after either was given something.
    fn wake(&self) -> Option<Instant> {
        None
    }

    /// The time named by [`Stage::wake`] has come; `now` is that time.
    fn poll(&mut self, _now: Instant, _out: &mut Out) {}

    /// Whether the stage may be given offloaded segments whole, because it looks at no single packet.
    fn passes_segments_whole(&self) -> bool {
        false
    }

    /// Takes over the packets and the state of the stage whose place this one takes in a running
    /// cable, where `old` is of the same kind. A stage that keeps nothing has nothing to do; a
    /// stage that holds packets must take them, so that none is lost by a change of parameters.
    fn replace(&mut self, _old: Box<dyn Stage>, _now: Instant) {}

    /// Gives up the packets that it holds, in the order in which they would have gone on: no stage takes
    /// its place in a running cable.
    fn leave(&mut self) -> Vec<Packet> {
        Vec::new()
    }
}

/// For [`Stage::replace`]: the old stage, if it is of this kind.
pub(crate) fn same_kind<S: Stage>(old: Box<dyn Stage>) -> Option<Box<S>> {
    let old: Box<dyn Any> = old;
    old.downcast().ok()
}

/// What a stage does with packets at one moment.
#[derive(Debug, Default)]
pub struct Out {
    /// Packets that go on to the next stage, in order.
    pub forward: Vec<Packet>,
    /// Packets that the stage sends back the way the traffic came from, in order.
    pub back: Vec<Packet>,
}

impl Out {
    /// Lets a packet go on.
    pub fn forward(&mut self, packet: Packet) {
        self.forward.push(packet);
    }

    /// Sends a packet back towards where the traffic of this direction comes from.
    pub fn back(&mut self, packet: Packet) {
        self.back.push(packet);
    }
}
