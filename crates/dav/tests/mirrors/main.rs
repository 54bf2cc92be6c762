//! Mirrors of folders that are not as simple as files with names and times.

#[path = "../common/mod.rs"]
mod common;

mod between;
mod clocks;
mod name_collisions;
mod special_files;
mod spelling;
mod temporary_files;
