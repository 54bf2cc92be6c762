//! Trees moved to and from a server that goes wrong.
//!
//! After every fault each file is whole on the right side, or as it was before and named as failed with its reason;
//! nothing is doubled, mixed or left behind; and the next run, with the fault gone, completes the work.

#[path = "../common/mod.rs"]
mod common;

mod bulk;
mod chunks;
mod downloads;
mod locks;
mod parts;
mod property;
mod reports;
mod uploads;
