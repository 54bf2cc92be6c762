//! What if: how long a transfer would take otherwise.

use std::time::Duration;

/// How long a transfer would take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The time.
    pub duration: Duration,
    /// By how much the re-simulation misses the time that was observed, as a share of it.
    pub model_error: f64,
}
