//! The replica: a small deterministic simulation of a transfer, from an inferred model.
//!
//! How long would a transfer take with another setting? Subtracting the cost of a cause is wrong: without a delay, packets
//! wait for other events (Barford and Crovella, SIGCOMM 2000), and often the next cause follows at once. So the transfer
//! runs again: a [`Model`] contains what was inferred, [`replay`] simulates it, and a what-if is a change to the model and
//! another replay.
//!
//! ```text
//! Writer ── bytes ──> Sender ── packets ──> Bottleneck ── delay ──> Receiver
//!                       ^                                              │
//!                       └────────── acknowledgements, delay ───────────┘
//! ```
//!
//! Each of the four is a state machine without clock and sockets. [`replay`] gives them the time of the next event. There
//! are few kinds of events, and both directions keep the order of what they carry, so that no heap is needed and a
//! transfer of 18 MB takes milliseconds.
//!
//! It is small because it models only what affects *time*. There are no packets in it, only offsets; no handshake, only
//! its round trips; acknowledgements are never lost. From real stacks it takes what mattered in comparisons with them
//! (`tests/replica`): slow start by bytes, HyStart, pacing, Minshall's variant of Nagle's algorithm, tail loss probes,
//! receive buffer right-sizing, and acknowledgements by the receiver's own policy.

mod clock;
mod congestion;
mod interval;
mod model;
mod path;
mod prediction;
mod receiver;
mod recorded_transfer;
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
pub use recorded_transfer::Predicted;
pub(crate) use recorded_transfer::RecordedTransfer;
pub use what_if::{WhatIf, WhatIfError};

use clock::{Nanos, nanos};
use path::{Bottleneck, Fate};
use receiver::Ack;
use writer::Writer;

/// The result of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replay {
    /// From the trigger to the end of the transfer ([`Until`]).
    pub duration: Duration,
    /// When the last byte arrived.
    pub delivered: Duration,
    /// Packets sent, including retransmissions.
    pub packets: u64,
    /// Packets retransmitted.
    pub retransmissions: u64,
    /// Packets dropped by a full queue.
    pub dropped: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Acknowledgements sent by the receiver's delayed ACK timer.
    pub deferred_acks: u64,
}

/// Why a model cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A value in the model is out of range.
    #[error("cannot replay the transfer: {what} is {value}; it must be {must}")]
    OutOfRange {
        /// Which value.
        what: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        must: String,
    },
    /// The simulation takes too long.
    #[error("cannot replay the transfer: the simulation did not end after {0} events; predict fewer bytes")]
    Endless(u64),
}

/// The maximum number of events of a replay: enough for some gigabytes, in a few seconds.
const MAX_EVENTS: u64 = 30_000_000;

/// Simulates a transfer.
///
/// The same model gives the same replay, to the nanosecond.
pub fn replay(model: &Model) -> Result<Replay, ReplayError> {
    model.check()?;
    let before = &model.before;
    let trips = before.trips + before.held_trips;
    let start = nanos(model.path.rtt / 2 * trips + before.time + before.held_time);
    let mut run = Run::new(model, start);
    let smallest_packet = model.sender.mss.0.min(model.writes.chunk.map_or(u64::MAX, |chunk| chunk.0));
    let events = (100_000 + 100 * (model.bytes.0 / smallest_packet)).min(MAX_EVENTS);
    for _ in 0..events {
        if run.is_over() {
            return Ok(run.result(model));
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
    /// The one-way delay of acknowledgements.
    ack_delay: Nanos,
    writer: Writer,
    sender: sender::Sender,
    bottleneck: Bottleneck,
    receiver: receiver::Receiver,
    arrivals: VecDeque<sender::Arrival>,
    acks: VecDeque<(Nanos, Ack)>,
    sent_acks: u64,
    delivered: Option<Nanos>,
    is_until_acknowledged: bool,
}

impl Run {
    fn new(model: &Model, start: Nanos) -> Self {
        let receiver = receiver::Receiver::new(model, start);
        let mut run = Self {
            total: model.bytes.0,
            now: start,
            ack_delay: nanos(model.path.rtt) - nanos(model.path.rtt / 2),
            writer: Writer::new(model),
            sender: sender::Sender::new(model, start, receiver.right_edge()),
            bottleneck: Bottleneck::new(&model.path),
            receiver,
            arrivals: VecDeque::new(),
            acks: VecDeque::new(),
            sent_acks: 0,
            delivered: (model.bytes.0 == 0).then_some(start),
            is_until_acknowledged: model.until == Until::Acknowledged,
        };
        run.send();
        run
    }

    fn is_over(&self) -> bool {
        let done = if self.is_until_acknowledged { self.sender.snd_una() } else { self.receiver.rcv_nxt() };
        done == self.total && self.writer.is_done()
    }

    /// Lets the program write and TCP send everything they can now.
    fn send(&mut self) {
        self.sender.send(&mut self.bottleneck, self.now, &mut self.arrivals);
        while let Some(written) = self.writer.write(self.sender.snd_una(), self.sender.snd_nxt(), self.now) {
            self.sender.write(written);
            self.sender.send(&mut self.bottleneck, self.now, &mut self.arrivals);
        }
    }

    /// Handles the next event; returns false if there is none.
    fn step(&mut self) -> bool {
        let arrival = self.arrivals.front().map(|arrival| arrival.at);
        let ack = self.acks.front().map(|(at, _)| *at);
        let (receiver, sender, writer) =
            (self.receiver.next_event(), self.sender.next_event(), self.writer.next_event());
        let Some(next) = [arrival, ack, receiver, sender, writer].into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        if arrival == Some(next)
            && let Some(packet) = self.arrivals.pop_front()
        {
            let ack = self.receiver.on_packet(&packet, self.now);
            if self.receiver.rcv_nxt() == self.total {
                self.delivered.get_or_insert(self.now);
            }
            self.send_ack(ack);
            return true;
        }
        if receiver == Some(next) {
            let ack = self.receiver.on_timer(self.now);
            self.send_ack(ack);
            return true;
        }
        if ack == Some(next)
            && let Some((_, ack)) = self.acks.pop_front()
        {
            self.sender.on_ack(&ack, self.now);
            self.receiver.set_rtt(self.sender.srtt());
        } else if sender == Some(next) {
            self.sender.on_timer(&mut self.bottleneck, self.now, &mut self.arrivals);
        }
        self.send();
        true
    }

    fn result(&self, model: &Model) -> Replay {
        let delivered = Duration::from_nanos(self.delivered.unwrap_or(self.now));
        let duration = match model.until {
            Until::Delivered => delivered,
            Until::Acknowledged => Duration::from_nanos(self.now),
            Until::Answered(think_time) => delivered.saturating_add(think_time).saturating_add(model.path.rtt / 2),
        };
        let counts = self.sender.counters;
        Replay {
            duration,
            delivered,
            packets: counts.packets,
            retransmissions: counts.retransmissions,
            dropped: counts.dropped,
            timeouts: counts.timeouts,
            tail_probes: counts.probes,
            acks: self.sent_acks,
            deferred_acks: self.receiver.delayed,
        }
    }

    fn send_ack(&mut self, ack: Option<Ack>) {
        if let Some(ack) = ack {
            self.sent_acks += 1;
            self.acks.push_back((self.now.saturating_add(self.ack_delay), ack));
        }
    }
}
