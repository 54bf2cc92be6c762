//! The `haul` program.
fn main() {}
