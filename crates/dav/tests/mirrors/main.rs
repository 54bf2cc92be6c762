//! Mirrors: clocks, colliding names, special files, temporary files, and two servers.

#[path = "../common/mod.rs"]
mod common;

mod between_servers;
mod clocks;
mod name_collisions;
mod special_files;
mod spelling;
mod temporary_files;
