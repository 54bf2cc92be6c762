//! A replica of a transfer: a small deterministic re-simulation from what was inferred.

mod model;
mod units;

pub use model::{AckRule, Acks, Before, Congestion, Loss, Model, Nagle, Path, Pause, Receiver, Sender, Until, Writes};
pub use units::{Bytes, Rate, UnitError};
