//! Hosts and cables: a network on one machine, without root.

pub mod chain;
mod headers;
pub mod middleboxes;
mod offload;
pub mod packet;
pub mod spec;
pub mod stage;
pub mod stages;
pub mod units;

#[cfg(test)]
mod testing;
