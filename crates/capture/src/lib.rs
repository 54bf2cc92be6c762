//! Packet captures in and out.
//!
//! A capture is what Longhaul measures with and what it explains: a tap on a cable writes one, and
//! whoever waits for a slow server brings one. Captures come in many formats, and what is asked of
//! them is always the same: which packets passed, when, and in which direction. So there is one
//! [`Packet`] and one way to get the next, [`Source`]; each format is a module that reads itself
//! into packets, and nothing that looks at packets knows where they came from.
//!
//! ```text
//!               ┌─ gzip, zstd ─┐   ┌── pcapng::Reader ──────────────┐
//! file, stdin ──┤              ├───┼── pcap::Reader, snoop::Reader ─┼── Source ── Packet, Packet, …
//!               └──────────────┘   └── printed::{snoop, tcpdump} ───┘                │
//!                                                              Fragments, summary, whoever explains
//!
//! tap ── pcapng::Writer ── file
//! ```
//!
//! - [`open()`] takes a capture of any format from a file or standard input and recognises it.
//! - [`pcapng`] is what our taps write: times in nanoseconds, a direction for each packet. [`pcap`] and
//!   [`snoop`] are what older tools write, and [`printed`] is what is left of a capture in a report.
//! - [`Packet::network`] finds the IP packet behind any link's header; [`Fragments`] puts together what
//!   was cut up on the way.
//! - [`tcp`] is the segment in a packet, with the options of its header; [`Packet::udp`] the datagram.
//! - [`summary`] counts what a race has to report: connections opened, packets and bytes each way.
//!
//! Packets are borrowed from the reader, one at a time, so a capture of any size is read in the
//! memory of a few blocks of it. Input may be anything: a broken capture gives an [`Error`] that names the
//! file and the packet (or the line), after every packet that was still whole.

mod ahead;
mod compressed;
mod error;
pub mod fragments;
mod input;
mod link;
mod open;
mod order;
mod packet;
pub mod pcap;
pub mod pcapng;
pub mod printed;
pub mod snoop;
pub mod summary;
pub mod tcp;
mod transport;

pub use error::Error;
pub use fragments::Fragments;
pub use open::{FORMATS, Format, UnknownFormat, open, read};
pub use packet::{Direction, LinkType, Packet, Source};
pub use summary::Summary;
