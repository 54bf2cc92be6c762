//! From packets to causes: what the time of a transfer was spent on, and how long it would take otherwise.
//!
//! Somebody has a slow transfer and a capture of it. Packet analysers flag events, a retransmission here, a full
//! window there; none says what the time was spent on. This room answers that question, for any capture, from any
//! place, and to the nanosecond: every instant of a transfer belongs to exactly one cause, and they add up.
//!
//! ```text
//! capture ─> collect ─> Connection: events of 32 bytes, and what read could read of HTTP, TLS, DNS
//!                │
//!                ├─> vantage    where it was captured: how far it is to each end
//!                ├─> exchange   which bytes are a request, which its response
//!                ├─> facts      MSS, path rate, chunks of the sender's writes      (seat, a first time)
//!                ▼
//!          walk, timeline       along the chain of packets                         (seat, a second time)
//!                │   wait       what let this packet go?
//!                │   causes     whose is which part of the wait?
//!                ▼
//!             report            transfers, their times and findings
//!                │
//!                ▼
//!             whatif ─> replica how long otherwise?
//! ```
//!
//! # The critical path
//!
//! Barford and Crovella (SIGCOMM 2000) took a transfer for a graph of packets, each let go by an earlier one, and
//! asked only what lies on the path from the last byte back to the first cause: what happens beside it costs nothing.
//! Their graph needs captures from both ends. Here one is enough, as the sender's seat ([`seat`]) is reached by
//! moving acknowledgements in time; what is between two links of the chain is a [`wait`], and each cause claims its
//! part of it ([`causes`]). A window that is full while the path is busy anyway is no cause, because the path's
//! narrowest link is followed as well: what it needs for the transfer's own bytes is set apart first.
//!
//! # What if
//!
//! To subtract what a cause has cost would be wrong: without it the packets would go at other times, and other causes
//! would show. So the transfer is run again ([`replica`]), from what was inferred of it.

mod causes;
mod collect;
mod ends;
mod event;
mod exchange;
mod facts;
mod finding;
pub mod json;
mod read;
pub mod replica;
mod report;
mod seat;
mod story;
pub mod text;
mod timeline;
mod vantage;
mod wait;
mod walk;
mod whatif;

use std::{net::SocketAddr, time::Duration};

use capture::{Error, Packet, Source};

pub use causes::{Cause, Times};
pub use ends::{Seen, match_ends};
pub use event::Side;
pub use finding::{Finding, Fix, bytes, rate_text, time_text};
pub use report::{Connection, Direction, Transfer};
pub use vantage::Vantage;
pub use whatif::Predicted;

/// A capture explained.
#[derive(Debug, Default)]
pub struct Explanation {
    /// How many packets it has.
    pub packets: u64,
    /// When the first packet passed, since the epoch.
    pub start: Duration,
    /// Its connections, in the order of their first packets.
    pub connections: Vec<Connection>,
}

/// Explains a capture packet by packet.
#[derive(Debug, Default)]
pub struct Explainer {
    collector: collect::Collector,
    explanation: Explanation,
}

impl Explainer {
    /// Takes in the next packet.
    pub fn add(&mut self, packet: &Packet) {
        if self.explanation.packets == 0 {
            self.explanation.start = packet.time;
        }
        self.explanation.packets += 1;
        self.collector.add(packet);
        self.explain();
    }

    /// What all of it says.
    pub fn finish(mut self) -> Explanation {
        self.collector.finish();
        self.explain();
        self.explanation.connections.sort_by_key(|connection| connection.packet);
        self.explanation
    }

    fn explain(&mut self) {
        let finished = self.collector.finished.drain(..);
        self.explanation.connections.extend(finished.filter_map(|connection| Connection::explain(&connection)));
    }
}

/// Explains a capture. Where it breaks off, what was whole is explained, and the error says where that was.
pub fn explain(source: &mut (impl Source + ?Sized)) -> (Explanation, Option<Error>) {
    let mut explainer = Explainer::default();
    let broken = loop {
        match source.next() {
            Ok(Some(packet)) => explainer.add(&packet),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    let mut explanation = explainer.finish();
    for connection in &mut explanation.connections {
        let name = |end: SocketAddr| source.name(end.ip()).map(str::to_owned);
        connection.names = [name(connection.client), name(connection.server)];
    }
    (explanation, broken)
}
