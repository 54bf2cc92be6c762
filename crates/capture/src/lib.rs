//! Packet captures in and out.
//!
//! Longhaul measures with captures and explains them: a tap on a cable writes one, and users bring their own. Captures
//! come in many formats, and the questions are always the same: which packets passed, when, and in which direction. So
//! there is one [`Packet`] and one trait to get the next, [`Source`]. Each format is a module that reads packets, and
//! code that uses packets does not know the format.
//!
//! ```text
//!               ┌─ gzip, zstd ─┐   ┌── pcapng::Reader ──────────────┐
//! file, stdin ──┤              ├───┼── pcap::Reader, snoop::Reader ─┼── Source ── Packet, Packet, …
//!               └──────────────┘   └── printed::{snoop, tcpdump} ───┘                │
//!                                                              Fragments, summary, explain
//!
//! tap ── pcapng::Writer ── file
//! ```
//!
//! - [`open()`] opens a file or standard input, and detects the format.
//! - Our taps write [`pcapng`]: times in nanoseconds, a direction for each packet. Older tools write [`pcap`] and
//!   [`snoop`], and [`printed`] reads the text output of tcpdump and snoop.
//! - [`Packet::network`] finds the IP packet after any link-layer header and inside of tunnels; [`Fragments`] reassembles IP
//!   fragments.
//! - [`tcp`] parses the segment in a packet, with its options; [`Packet::udp`] the datagram, [`Packet::undelivered`] a report
//!   that a segment was not delivered.
//! - [`summary`] counts what a race reports: connections, and packets and bytes in each direction.
//!
//! Packets are borrowed from the reader, one at a time, so a capture of any size needs only a few blocks of memory. A
//! broken capture gives an [`Error`] with the file and the packet (or the line), after all packets before it.
//!
//! ```
//! use capture::{Direction, LinkType, Source, Summary, pcapng};
//! use std::time::Duration;
//!
//! let mut writer = pcapng::Writer::new(Vec::new())?;
//! let interface = writer.interface("client", LinkType::RAW, None)?;
//! writer.packet(interface, Duration::from_secs(1), Some(Direction::Outbound), &[0x45; 40])?;
//!
//! let file = writer.into_output();
//! let mut reader = capture::read(&file[..], "an example", None)?;
//! let summary = Summary::of(&mut reader)?;
//! assert_eq!((summary.outbound.packets, summary.outbound.bytes), (1, 40));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/connections.rs` prints the connections of a capture.

/// The examples of the README are compiled with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod byte_order;
mod decompress;
mod encapsulation;
mod error;
pub mod fragments;
mod icmp;
mod input;
mod link_layer;
mod link_rates;
mod link_types;
mod only_ip;
mod open;
mod packet;
pub mod pcap;
pub mod pcapng;
pub mod printed;
mod read_ahead;
pub mod snoop;
pub mod summary;
pub mod tcp;
mod transport;
mod tunnel;
mod wifi;

pub use error::Error;
pub use fragments::Fragments;
pub use icmp::Undelivered;
pub use link_rates::LinkRates;
pub use open::{FORMATS, Format, UnknownFormat, open, read};
pub use packet::{Direction, Drops, LinkType, Packet, Source};
pub use summary::Summary;
