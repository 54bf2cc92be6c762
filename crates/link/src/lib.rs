//! Hosts and cables: a network on one machine, between real kernel TCP stacks, without root.
//!
//! Delay, loss and middleboxes decide how long people wait for their files, and developers have none of them on their
//! machines. The kernel's emulator (`netem`) is often missing and always needs root; proxies see no packets, and
//! simulators have no real TCP. So here a **host** ([`host`]) is a network namespace, and a **cable** ([`cable`]) is a
//! pair of TUN devices with our own relay between them, which decides the fate of each packet.
//!
//! ```text
//! program ─ TCP ─ TUN ─┐                                                        ┌─ TUN ─ TCP ─ program
//!                      └─ relay ─ split ─ tap ─ stage ─ stage ─ … ─ tap ─ relay ─┘
//! ```
//!
//! Each direction has a relay (in [`cable`]), which reads from one device and writes to the other. It splits the segments
//! that the kernel leaves to the network card (TSO). The stages of a direction form a [`chain`] of pure state machines
//! ([`stage`], [`stages`], [`middleboxes`]), which get packets with times and decide what leaves when. A
//! [`spec::LinkSpec`] describes them as text; [`lanes`] puts them in the order of each direction. A [`tap`] captures the
//! packets at one end. A [`topology`] joins more than two hosts. Everything runs in a [`sandbox`] that the kernel cleans
//! up, and [`calibrate`] measures the accuracy of the emulation on this machine.
//!
//! A link in a test is in `examples/link_in_a_test.rs`. Without a network, the stages run in simulated time:
//!
//! ```
//! use std::time::{Duration, Instant};
//! use link::{
//!     chain::{Chain, Output},
//!     packet::Packet,
//!     spec::LinkSpec,
//! };
//! use units::Span;
//!
//! let spec = LinkSpec { rtt: Span(Duration::from_millis(18)).into(), ..LinkSpec::default() };
//! let mut up = Chain::new(spec.lanes()?.up.stages);
//! let (start, mut output) = (Instant::now(), Output::default());
//! up.push(0, Packet::new(vec![0; 100]), start, &mut output);
//! up.run(start + Duration::from_secs(1), &mut output);
//! assert_eq!(output.delivered[0].0 - start, Duration::from_millis(9));
//! # Ok::<(), link::spec::SpecError>(())
//! ```

/// The examples of the README are compiled with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod addresses;
pub mod cable;
pub mod calibrate;
pub mod chain;
mod headers;
pub mod host;
pub mod lanes;
pub mod lateness;
mod mailbox;
pub mod middleboxes;
mod netlink;
mod offload;
pub mod outside;
pub mod packet;
mod realtime;
pub mod sandbox;
pub mod spec;
pub mod stage;
pub mod stages;
pub mod tap;
pub mod topology;
mod tun;
mod tx_timestamps;

#[cfg(test)]
mod test_packets;
