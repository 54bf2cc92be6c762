//! From packets to causes: what the time of a transfer was spent on, and how long it would take otherwise.

pub mod replica;
