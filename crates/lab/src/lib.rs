//! placeholder

pub mod assemble;
pub mod claims;
pub mod experiment;
pub mod floor;
pub mod results;
pub mod stats;
mod words;
