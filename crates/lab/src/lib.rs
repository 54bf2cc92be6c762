//! Experiments, contenders, statistics, claims, results.

pub mod bounds;
pub mod certs;
pub mod contenders;
pub mod models;
pub mod place;
pub mod process;
pub mod servers;
pub mod work;
