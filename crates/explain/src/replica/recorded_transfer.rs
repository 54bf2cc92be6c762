//! A captured transfer as the replica sees it: the inferred model, and the time that the model must reproduce.

use std::{sync::OnceLock, time::Duration};

use units::Size;

use super::{Model, Pause, Prediction, PredictionError, Since, WhatIf, replay};

/// The largest number of chunks for which pauses are added.
const MAX_CHUNKS: u32 = 10_000;

/// The longest time that the ends may spend on a chunk besides a round trip. A longer time has another cause.
const MAX_CHUNK_TIME: Duration = Duration::from_millis(50);

/// A captured transfer's model and its observed duration.
#[derive(Debug, Clone)]
pub(crate) struct RecordedTransfer {
    pub(crate) model: Model,
    pub(crate) observed: Duration,
    /// The part of the time before the first byte that a lost SYN took. The model's handshake is free of loss.
    pub(crate) syn_retry: Duration,
    /// The checked replica: each finding and each form of output asks for it.
    prediction: OnceLock<Box<Result<Prediction, PredictionError>>>,
}

/// How long a transfer would take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// From its trigger to its last byte.
    pub duration: Duration,
    /// The replica's error: how much longer it takes than the captured transfer, as a share of the latter.
    pub model_error: f64,
}

impl RecordedTransfer {
    pub(crate) fn new(model: Model, observed: Duration, syn_retry: Duration) -> Self {
        Self { model, observed, syn_retry, prediction: OnceLock::new() }
    }

    /// The basis of predictions, if the replica reproduces the transfer.
    pub(crate) fn prediction(&self) -> Result<&Prediction, &PredictionError> {
        let check = || Box::new(Prediction::new(self.model_with_chunk_pauses(), self.observed));
        Result::as_ref(self.prediction.get_or_init(check))
    }

    pub(crate) fn what_if(&self, what_if: &WhatIf, bytes: Option<Size>) -> Result<Predicted, PredictionError> {
        let prediction = self.prediction().map_err(Clone::clone)?;
        let model_error = prediction.model_error();
        let saved = if what_if.removes_loss() { self.syn_retry } else { Duration::ZERO };
        let replayed = match bytes {
            Some(bytes) => prediction.of_bytes(bytes).with(what_if),
            None => prediction.with(what_if),
        };
        let duration = replayed?.saturating_sub(saved);
        Ok(Predicted { duration, model_error })
    }

    /// The model with a pause before each chunk: the time of the ends themselves, which the model does not explain.
    fn model_with_chunk_pauses(&self) -> Model {
        let mut model = self.model.clone();
        let chunk = model.writes.in_flight.and(model.writes.chunk);
        let (Some(Size(chunk)), Ok(replayed)) = (chunk, replay(&model)) else { return model };
        let bytes = model.bytes.0;
        let missing = self.observed.saturating_sub(replayed.duration);
        let waits = u32::try_from(bytes.saturating_sub(1) / chunk.max(1)).unwrap_or(u32::MAX);
        let Some(each) = missing.checked_div(waits) else { return model };
        let significant = missing * 50 > self.observed;
        if significant
            && waits <= MAX_CHUNKS
            && model.writes.pauses.is_empty()
            && each <= model.path.rtt + MAX_CHUNK_TIME
        {
            // The last chunk's pause happens only if more data follows.
            let ends = (1..=bytes / chunk).map(|count| count * chunk);
            model.writes.pauses = ends.map(|at| Pause { at, time: each, since: Since::Acknowledged }).collect();
        }
        model
    }
}
