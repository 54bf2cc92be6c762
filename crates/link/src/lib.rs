//! Hosts and cables: a network on one machine, without root.

pub mod cable;
pub mod calibrate;
pub mod chain;
mod departures;
mod headers;
pub mod host;
mod inbox;
pub mod lanes;
pub mod lateness;
pub mod middleboxes;
mod netlink;
mod offload;
pub mod packet;
mod punctual;
pub mod sandbox;
pub mod spec;
pub mod stage;
pub mod stages;
pub mod tap;
mod tun;
pub mod units;

#[cfg(test)]
mod testing;
