//! The stages, one file each.

mod delay;

pub use delay::Delay;
