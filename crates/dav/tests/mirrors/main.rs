//! Mirrors of folders that are not as simple as files with names and times.

#[path = "../common/mod.rs"]
mod common;

mod clocks;
mod kinds;
mod leftovers;
mod names;
mod spelling;
