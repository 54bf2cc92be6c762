//! Ground truth for `explain`: captures of real programs, each with a known cause.
//!
//! The scenarios in `explain`'s own tests are simulated by its authors, so they contain what its authors think a network
//! does. Here nothing is simulated but the links. A **case** draws a network, a congestion control and two real programs
//! at random, turns one **knob** (a small buffer, a server that computes, loss …) and measures a transfer. Then it turns
//! the knob back and measures again, over the same network. The knob is the label; the difference of the two durations
//! is its true cost. `explain` sees neither.
//!
//! ```text
//! seed ─ draw ─> case: two scenarios ─ measure ─> captures of three places ─ explain ─> account ─ judge ─> results ─> table
//!         knobs         scenario      testbed, programs ╰ variants                      account
//! ```
//!
//! This is no experiment file, because nothing of one fits: a case has no contenders that take turns and no samples,
//! every case has another network, and what is judged is not the time but what is said about it.
//!
//! Even seeds are for those who change `explain`: they may look at every case. Odd seeds are for reports, and nobody
//! should look into their captures.

pub mod account;
pub mod case;
mod draw;
pub mod facts;
pub mod judge;
pub mod knobs;
pub mod measure;
mod programs;
pub mod results;
mod run;
pub mod scenario;
mod table;
mod testbed;
#[cfg(test)]
mod tests;
mod variants;

pub use programs::Installed;
pub use run::{CASES, TruthEvent, TruthOutcome, TruthRun};
pub use table::render;

/// The place of captures at the client.
pub const CLIENT: &str = "client";

/// The place of captures at the router.
pub const MIDDLE: &str = "middle";

/// The place of captures at the server.
pub const SERVER: &str = "server";

/// The captures at client and server, explained together.
pub const BOTH: &str = "both";

/// Where captures are taken.
pub const VANTAGES: [&str; 3] = [CLIENT, MIDDLE, SERVER];
