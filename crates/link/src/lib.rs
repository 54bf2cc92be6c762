//! Hosts and cables: a network on one machine, without root.

pub mod chain;
mod offload;
pub mod packet;
pub mod stage;
pub mod stages;
pub mod tap;
pub mod units;
