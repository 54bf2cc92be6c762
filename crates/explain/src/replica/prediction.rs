//! Predictions, only if the replica reproduces the captured transfer.

use std::time::Duration;

use units::Size;

use super::{Model, ReplayError, WhatIf, replay};
use crate::number_format::time_text;

/// The maximum model error. Beyond it, the replica simulates something else, and its predictions are worth nothing.
const MAX_ERROR: f64 = 0.10;

/// A model that reproduces a captured transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    model: Model,
    error: f64,
    /// The replica's duration, for the captured number of bytes.
    replayed: Option<Duration>,
}

/// Why nothing is predicted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PredictionError {
    /// The model cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The replay takes a different time than the captured transfer.
    #[error(
        "no prediction: the transfer took {}, but replayed from this capture it takes {}, a difference of more than 10 %",
        time_text(*observed),
        time_text(*replayed)
    )]
    Declined {
        /// The duration of the captured transfer.
        observed: Duration,
        /// The duration of the replay.
        replayed: Duration,
    },
}

impl Prediction {
    /// Checks a model against the captured transfer, which took `observed` between the events with which the model begins
    /// and ends.
    pub fn new(model: Model, observed: Duration) -> Result<Self, PredictionError> {
        let replayed = replay(&model)?.duration;
        let error = (replayed.as_secs_f64() - observed.as_secs_f64()) / observed.as_secs_f64();
        // The error is not a number if both durations are zero.
        if error.abs() <= MAX_ERROR || replayed == observed {
            let error = if replayed == observed { 0.0 } else { error };
            Ok(Self { model, error, replayed: Some(replayed) })
        } else {
            Err(PredictionError::Declined { observed, replayed })
        }
    }

    /// How much longer the replica takes, as a share of the captured duration: 0.02 is 2 % too slow, −0.02 too fast.
    pub fn model_error(&self) -> f64 {
        self.error
    }

    /// The same transfer with another number of bytes; losses, pauses and stalls occur equally often per byte.
    #[must_use]
    pub fn of_bytes(&self, bytes: Size) -> Self {
        Self { model: self.model.scaled(bytes), error: self.error, replayed: None }
    }

    /// The duration of the transfer with these changes; without changes, that of its replica.
    pub fn with(&self, what_if: &WhatIf) -> Result<Duration, ReplayError> {
        match self.replayed {
            Some(replayed) if what_if.is_empty() => Ok(replayed),
            _ => replay(&what_if.apply(&self.model)).map(|replay| replay.duration),
        }
    }
}
