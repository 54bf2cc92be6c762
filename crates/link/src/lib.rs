//! Hosts and cables: a network on one machine, between real kernel TCP stacks, without root.
//!
//! Delay, loss and middleboxes decide how long people wait for their files, and none of them is at
//! hand where software is written. The kernel's own emulator (`netem`) is often not there and never
//! without root; proxies have no packets, and simulators no real TCP. So: a **host** ([`host`]) is a
//! network namespace, a **cable** ([`cable`]) is a pair of TUN devices with a program of ours between
//! them, and what happens to a packet on the way is decided there, packet by packet.
//!
//! ```text
//! program ─ TCP ─ TUN ─┐                                                        ┌─ TUN ─ TCP ─ program
//!                      └─ relay ─ split ─ tap ─ stage ─ stage ─ … ─ tap ─ relay ─┘
//! ```
//!
//! Each direction has a relay (the driver in [`cable`]), which reads from one device and writes to
//! the other. Segments that the kernel leaves to its network card to cut are cut here ([`packet`]).
//! The stages of a direction form a [`chain`]: pure state machines ([`stage`], [`stages`],
//! [`middleboxes`]), which get packets and times and say what leaves when. A [`spec::LinkSpec`] says
//! in words which there are; [`lanes`] puts them in the order of each direction. A [`tap`] records what
//! passes an end. Everything lives in a [`sandbox`] that the kernel clears away, and [`calibrate`]
//! says how true all this is on the machine at hand.

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
mod tun;
mod tx_timestamps;

#[cfg(test)]
mod testing;
