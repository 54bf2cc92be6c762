//! placeholder

pub mod assemble;
pub mod claims;
pub mod compare;
pub mod experiment;
pub mod floor;
pub mod results;
pub mod stats;
pub mod table;
mod words;

#[cfg(test)]
mod example;
