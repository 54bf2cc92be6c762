//! From a transfer that was seen to what it would have taken: but only if the replica of what was seen is true.

use std::time::Duration;

use units::Size;

use super::{Model, ReplayError, WhatIf, replay};
use crate::format::time_text;

/// Beyond this, a replica is of something else, and what it says of changes is worth nothing.
const MOST_ERROR: f64 = 0.10;

/// A model whose replay takes as long as the transfer did.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    model: Model,
    error: f64,
}

/// Why nothing is predicted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PredictionError {
    /// The model has no replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The replay takes another time than the transfer.
    #[error(
        "no prediction: the transfer took {} and its replica {}, more than 10 % off; \
         a capture of the whole connection at the sender's end tells more",
        time_text(*observed),
        time_text(*replayed)
    )]
    Declined {
        /// What was seen.
        observed: Duration,
        /// What the replica took.
        replayed: Duration,
    },
}

impl Prediction {
    /// A prediction from a transfer that took `observed`, between the events that the model begins and ends with.
    pub fn new(model: Model, observed: Duration) -> Result<Self, PredictionError> {
        let replayed = replay(&model)?.duration;
        let error = (replayed.as_secs_f64() - observed.as_secs_f64()) / observed.as_secs_f64();
        // Not a number where nothing was observed and nothing replayed.
        if error.abs() <= MOST_ERROR || replayed == observed {
            Ok(Self { model, error: if replayed == observed { 0.0 } else { error } })
        } else {
            Err(PredictionError::Declined { observed, replayed })
        }
    }

    /// How much longer the replica took, as a share of what was observed: 0.02 is 2 % too slow, −0.02 too fast.
    pub fn model_error(&self) -> f64 {
        self.error
    }

    /// The same with more or fewer bytes, everything that happened on the way happening as often per byte.
    #[must_use]
    pub fn of_bytes(&self, bytes: Size) -> Self {
        Self { model: self.model.scaled(bytes), error: self.error }
    }

    /// What the transfer takes with these changes; with none, what its replica takes.
    pub fn with(&self, what_if: &WhatIf) -> Result<Duration, ReplayError> {
        replay(&what_if.apply(&self.model)).map(|replay| replay.duration)
    }
}
