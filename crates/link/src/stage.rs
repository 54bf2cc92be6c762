//! [`Stage`]: one effect on the packets of one direction of a cable.
//!
//! A stage is a state machine without I/O and without a clock. Packets are pushed in with their arrival time. Output
//! goes to [`Out`]: packets that continue now, and packets that the stage sends back (a reset, an ICMP error). A stage
//! that holds packets returns the time of its next event in [`Stage::wake`], and is called with *exactly* that time,
//! however late the machine is. So the output of a chain of stages depends only on its input: the same packets at the
//! same times with the same seed give the same output, to the nanosecond, and lateness does not add up along the chain.

use std::{any::Any, time::Instant};

use crate::packet::Packet;

/// A direction of a cable, which runs from its end A (the client) to its end B (the server).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From A to B: from the client to the server.
    Up,
    /// From B to A: from the server to the client.
    Down,
}

/// One effect on the packets of one direction of a cable.
///
/// A driver may push packets a little late, so that `now` is before the last event of the stage. A stage treats that as
/// "at once", never as an error.
pub trait Stage: Any + Send {
    /// A packet arrives.
    fn push(&mut self, packet: Packet, now: Instant, out: &mut Out);

    /// When to call [`Stage::poll`] next; `None` while the stage waits only for packets.
    ///
    /// Two stages that share state, one for each direction, may change each other's time: ask again after a call to
    /// either.
    fn wake(&self) -> Option<Instant> {
        None
    }

    /// The time of [`Stage::wake`] has come; `now` is that time.
    fn poll(&mut self, _now: Instant, _out: &mut Out) {}

    /// Whether the stage accepts unsplit segments (TCP segmentation offload), because it does not need single packets.
    fn passes_segments_unsplit(&self) -> bool {
        false
    }

    /// Takes over the packets and the state of the stage that this one replaces in a running cable, if `old` is of the
    /// same type. A stage that holds packets must take them, so that a change of parameters loses none.
    fn replace(&mut self, _old: Box<dyn Stage>, _now: Instant) {}

    /// Removes the packets that it holds, in the order in which they would have left. Called when the stage is removed
    /// from a running cable.
    fn drain(&mut self) -> Vec<Packet> {
        Vec::new()
    }
}

/// For [`Stage::replace`]: the old stage, if it is of this type.
pub(crate) fn same_type<S: Stage>(old: Box<dyn Stage>) -> Option<Box<S>> {
    let old: Box<dyn Any> = old;
    old.downcast().ok()
}

/// The output of a stage at one moment.
#[derive(Debug, Default)]
pub struct Out {
    /// Packets for the next stage, in order.
    pub forward: Vec<Packet>,
    /// Packets in the opposite direction, in order.
    pub back: Vec<Packet>,
}

impl Out {
    /// Passes a packet to the next stage.
    pub fn forward(&mut self, packet: Packet) {
        self.forward.push(packet);
    }

    /// Sends a packet in the opposite direction.
    pub fn back(&mut self, packet: Packet) {
        self.back.push(packet);
    }
}
