//! A replica of a transfer: a small deterministic re-simulation from what was inferred.
//!
//! What would a transfer have taken with another setting? To subtract what a cause has cost is wrong: a delay that
//! goes away changes which packet waits for which (Barford and Crovella, SIGCOMM 2000), and often the next cause
//! stood right behind it. So the transfer runs again: a [`Model`] says what was inferred, [`replay`] lets it happen,
//! and a what-if is a change to the model and another replay.
//!
//! ```text
//! Writer ── bytes ──> Sender ── packets ──> Way ── later ──> Receiver
//!                       ^                                       │
//!                       └────────── acknowledgements, later ────┘
//! ```
//!
//! Each of the four is a state machine without clock and sockets. [`replay`] hands them the time of the next event,
//! of which there are few kinds, and both ways keep the order of what they carry: so nothing needs a heap, and a
//! transfer of 18 MB takes milliseconds.
//!
//! It is small because it knows what decides about *time*. There are no packets in it, only offsets; no handshake,
//! only its round trips; no acknowledgement is lost. What it takes from real stacks is what was found to matter when
//! it was compared with them (`tests/replica.rs`): growth by bytes, HyStart, pacing, Minshall's Nagle, tail loss
//! probes, right-sized windows, acknowledgements by the receiver's own rule.

mod clock;
mod congestion;
mod model;
mod path;
mod prediction;
mod receiver;
mod recorded;
mod sender;
#[cfg(test)]
mod tests;
mod what_if;
mod writer;

use std::{collections::VecDeque, time::Duration};

pub use model::{
    AckRule, Acks, Before, Congestion, Loss, Model, Nagle, Path, Pause, Receiver, Sender, Since, Stall, Until, Writes,
};
pub use prediction::{Prediction, PredictionError};
pub use recorded::Predicted;
pub(crate) use recorded::RecordedTransfer;
pub use what_if::{WhatIf, WhatIfError};

use clock::{Nanos, nanos};
use path::{Fate, Way};
use receiver::Ack;
use writer::Writer;

/// What happened in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replay {
    /// From the first cause to what ends the transfer ([`Until`]).
    pub duration: Duration,
    /// When the last byte had arrived.
    pub delivered: Duration,
    /// Packets sent, again ones included.
    pub packets: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Packets that found no room in the queue.
    pub dropped: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Those of them that waited for the receiver's timer.
    pub deferred_acks: u64,
}

/// Why a model has no replay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Something in the model cannot be.
    #[error("cannot replay the transfer: {what} is {value}; it must be {must}")]
    Absurd {
        /// What.
        what: &'static str,
        /// What it is.
        value: String,
        /// What it can be.
        must: String,
    },
    /// More to do than an answer is worth.
    #[error("cannot replay the transfer: it is not over after {0} events; predict a shorter one")]
    Endless(u64),
}

/// How many events a replay may have: those of some gigabytes, and a few seconds of work.
const MOST_EVENTS: u64 = 30_000_000;

/// Lets a transfer happen.
///
/// The same model gives the same replay, to the nanosecond.
pub fn replay(model: &Model) -> Result<Replay, ReplayError> {
    model.check()?;
    let start = nanos(model.path.rtt / 2 * model.before.trips + model.before.time);
    let mut run = Run::new(model, start);
    let least = model.sender.mss.0.min(model.writes.chunk.map_or(u64::MAX, |chunk| chunk.0));
    let events = (100_000 + 100 * (model.bytes.0 / least)).min(MOST_EVENTS);
    for _ in 0..events {
        if run.is_over() {
            return Ok(run.told(model));
        }
        if !run.step() {
            break;
        }
    }
    Err(ReplayError::Endless(events))
}

struct Run {
    total: u64,
    now: Nanos,
    back: Nanos,
    writer: Writer,
    sender: sender::Sender,
    way: Way,
    receiver: receiver::Receiver,
    arrivals: VecDeque<sender::Arrival>,
    acks: VecDeque<(Nanos, Ack)>,
    sent_acks: u64,
    delivered: Option<Nanos>,
    until_acknowledged: bool,
}

impl Run {
    fn new(model: &Model, start: Nanos) -> Self {
        let receiver = receiver::Receiver::new(model, start);
        let mut run = Self {
            total: model.bytes.0,
            now: start,
            back: nanos(model.path.rtt) - nanos(model.path.rtt / 2),
            writer: Writer::new(model),
            sender: sender::Sender::new(model, start, receiver.edge()),
            way: Way::new(&model.path),
            receiver,
            arrivals: VecDeque::new(),
            acks: VecDeque::new(),
            sent_acks: 0,
            delivered: (model.bytes.0 == 0).then_some(start),
            until_acknowledged: model.until == Until::Acknowledged,
        };
        run.settle();
        run
    }

    fn is_over(&self) -> bool {
        let done = if self.until_acknowledged { self.sender.acknowledged() } else { self.receiver.delivered() };
        done == self.total && self.writer.is_done()
    }

    /// Lets the program write and TCP send what they can at this moment.
    fn settle(&mut self) {
        self.sender.transmit(&mut self.way, self.now, &mut self.arrivals);
        while let Some(written) = self.writer.write(self.sender.acknowledged(), self.sender.sent(), self.now) {
            self.sender.give(written);
            self.sender.transmit(&mut self.way, self.now, &mut self.arrivals);
        }
    }

    /// The next event; false if there is none.
    fn step(&mut self) -> bool {
        let arrival = self.arrivals.front().map(|arrival| arrival.at);
        let ack = self.acks.front().map(|(at, _)| *at);
        let (receiver, sender, writer) = (self.receiver.wake(), self.sender.wake(), self.writer.wake());
        let Some(next) = [arrival, ack, receiver, sender, writer].into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        if arrival == Some(next)
            && let Some(packet) = self.arrivals.pop_front()
        {
            let ack = self.receiver.arrive(&packet, self.now);
            if self.receiver.delivered() == self.total {
                self.delivered.get_or_insert(self.now);
            }
            self.say(ack);
            return true;
        }
        if receiver == Some(next) {
            let ack = self.receiver.poll(self.now);
            self.say(ack);
            return true;
        }
        if ack == Some(next)
            && let Some((_, ack)) = self.acks.pop_front()
        {
            self.sender.hear(&ack, self.now);
            self.receiver.learn(self.sender.smooth_rtt());
        } else if sender == Some(next) {
            self.sender.poll(&mut self.way, self.now, &mut self.arrivals);
        }
        self.settle();
        true
    }

    fn told(&self, model: &Model) -> Replay {
        let delivered = Duration::from_nanos(self.delivered.unwrap_or(self.now));
        let duration = match model.until {
            Until::Delivered => delivered,
            Until::Acknowledged => Duration::from_nanos(self.now),
            Until::Answered(thought) => delivered.saturating_add(thought).saturating_add(model.path.rtt / 2),
        };
        let counts = self.sender.counts;
        Replay {
            duration,
            delivered,
            packets: counts.packets,
            retransmissions: counts.retransmissions,
            dropped: counts.dropped,
            timeouts: counts.timeouts,
            tail_probes: counts.probes,
            acks: self.sent_acks,
            deferred_acks: self.receiver.deferred,
        }
    }

    fn say(&mut self, ack: Option<Ack>) {
        if let Some(ack) = ack {
            self.sent_acks += 1;
            self.acks.push_back((self.now.saturating_add(self.back), ack));
        }
    }
}
