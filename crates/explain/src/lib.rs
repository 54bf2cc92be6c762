//! Explains where the time of captured transfers went, and predicts how long they would take with another setting.
//!
//! Packet analysers flag events, a retransmission here, a full window there; none says what the time was spent on.
//! This crate answers that question for any capture, from any vantage point, to the nanosecond: every instant of a
//! transfer belongs to exactly one [`Cause`], and the causes' times add up to the transfer's duration.
//!
//! ```text
//! capture ─> collect        connections: segments of 32 bytes, and the HTTP, TLS and DNS that `read` can read
//!               │           system, hop_limits, send_order: what only the raw headers say about the ends and their packets
//!               │
//!               ├─> infer   vantage          the distance between capture point and each end
//!               │           exchange         which bytes are a request, which its response
//!               │           survey           MSS, bottleneck rate, size of the sender's writes
//!               │           control_frames   small TLS records that are no message; HTTP/2's window inside TLS
//!               │           sender_state     what the sender knew and was allowed when it sent each packet
//!               ▼
//!         critical_path     walk, timeline: which event released this packet?
//!               │           causes: which cause claims which part of the wait?
//!               ▼
//!         analyse           transfers, their times and findings (explanation, finding); phases, and counters of packets
//!               │
//!               ├─> replica  runs a transfer again, with a change
//!               ├─> combine  captures of both ends; page loads over several connections
//!               ▼
//!         render            text for the terminal, JSON for programs, a page that shows packets
//! ```
//!
//! The replica exists because subtracting a cause's cost would be wrong: without the cause, packets would be sent at
//! other times, and other causes would show. So the transfer is simulated again, with the model that was inferred.
//!
//! # Example
//!
//! ```no_run
//! # fn main() -> Result<(), capture::Error> {
//! let mut source = capture::open("slow.pcapng".as_ref(), None)?;
//! let (explanation, error) = explain::explain(&mut *source);
//! for transfer in explanation.connections.iter().flat_map(|connection| &connection.transfers) {
//!     println!("{} took {:.1?}", transfer.request, transfer.duration);
//!     for finding in &transfer.findings {
//!         println!("  {:.1?}: {}", finding.cost, finding.why);
//!     }
//! }
//! // A capture that breaks off is explained up to there.
//! error.map_or(Ok(()), Err)
//! # }
//! ```

/// The examples of the README are compiled with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod analyse;
mod causes;
mod collect;
mod combine;
mod counters;
mod critical_path;
mod duplicate_filter;
mod echo;
mod ending;
mod explanation;
mod finding;
mod hop_limits;
mod infer;
mod known_link;
mod number_format;
mod packet_store;
mod packet_trace;
mod parallel;
mod phases;
mod read;
pub mod render;
pub mod replica;
mod segment;
mod send_order;
mod sent_ranges;
mod side;
mod stream_offset;
mod surroundings;
mod system;
mod worker_threads;

pub use causes::{Cause, CauseTimes, evidence::Fix};
pub use combine::{
    neighbours::Neighbour,
    one_way_delay::{OneWay, OneWayDelays},
    page_load::{PageLoad, PageStep, page_loads},
    pair_captures::{PairedConnection, pair_captures},
};
pub use ending::{Ending, Failure};
pub use explanation::{Connection, Coverage, Direction, Explanation, Transfer};
pub use finding::Finding;
pub use infer::{ack_policy::AckPolicy, vantage::Vantage};
pub use known_link::KnownLink;
pub use number_format::{bytes, rate_text, time_text};
pub use packet_store::PacketStore;
pub use replica::Predicted;
pub use side::Side;
pub use worker_threads::{KeepPackets, explain, explain_keeping, explain_on};
