//! placeholder

pub mod assemble;
pub mod claims;
pub mod compare;
#[cfg(test)]
mod example;
pub mod experiment;
pub mod floor;
pub mod results;
pub mod stats;
pub mod table;
mod words;
