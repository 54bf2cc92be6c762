//! A captured transfer as the replica sees it: the inferred model, and the time that the model must reproduce.

use std::{sync::OnceLock, time::Duration};

use units::Size;

use super::{Model, Pause, Prediction, PredictionError, Since, WhatIf, replay};
use crate::causes::{CauseTimes, LEAD};

/// The largest number of chunks for which pauses are added.
const MAX_CHUNKS: u32 = 10_000;

/// The longest time that the ends may spend on a chunk besides a round trip. A longer time has another cause.
const MAX_CHUNK_TIME: Duration = Duration::from_millis(50);

/// The largest ratio of the replica's time and the captured one at which a change is still predicted.
const MAX_RATIO: u32 = 3;

/// A captured transfer's model and its observed duration.
#[derive(Debug, Clone)]
pub(crate) struct RecordedTransfer {
    pub(crate) model: Model,
    pub(crate) observed: Duration,
    /// The time before the first byte by cause. The model knows only its sum.
    lead: CauseTimes,
    /// The checked replica: each finding and each form of output asks for it.
    prediction: OnceLock<Box<Result<Prediction, PredictionError>>>,
}

/// How long a transfer would take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// From its trigger to its last byte.
    pub duration: Duration,
    /// Where nine in ten measured times were, relative to their prediction; none where this change was not measured.
    pub range: Option<[Duration; 2]>,
    /// The replica's error: how much longer it takes than the captured transfer, as a share of the latter. None where the
    /// change only takes away time before the data, so that nothing had to be simulated.
    pub model_error: Option<f64>,
}

impl RecordedTransfer {
    pub(crate) fn new(model: Model, observed: Duration, lead: CauseTimes) -> Self {
        Self { model, observed, lead, prediction: OnceLock::new() }
    }

    /// Adds time before the first byte, which another capture shows with its causes.
    pub(crate) fn add_lead(&mut self, times: &CauseTimes, more: Duration) {
        self.model.before.time += more;
        self.observed += more;
        for cause in LEAD {
            self.lead[cause] = times[cause];
        }
        self.prediction = OnceLock::new();
    }

    /// The basis of predictions, if the replica reproduces the transfer.
    pub(crate) fn prediction(&self) -> Result<&Prediction, &PredictionError> {
        let check = || Box::new(Prediction::new(self.model_with_chunk_pauses(), self.observed));
        Result::as_ref(self.prediction.get_or_init(check))
    }

    pub(crate) fn what_if(&self, what_if: &WhatIf, bytes: Option<Size>) -> Result<Predicted, PredictionError> {
        let prediction = self.prediction().map_err(Clone::clone)?;
        let model_error = prediction.model_error();
        let replayed = match bytes {
            Some(bytes) => prediction.of_bytes(bytes).with(what_if),
            None => prediction.with(what_if),
        };
        let duration = replayed?.saturating_sub(self.saved(what_if));
        let range = if bytes.is_none() { what_if.interval(duration) } else { None };
        Ok(Predicted { duration, range, model_error: Some(model_error) })
    }

    /// How long the transfer would take with this change, which removes its main cause.
    ///
    /// What such a cause costs exactly, a replica often misses: which of its writes a program made when its buffer was full,
    /// which of the packets behind a loss the sender held back. But without the cause nothing of that remains. So here the
    /// replica may take another time than the captured transfer, within limits; but only if it is known from measurements how
    /// far such predictions were off.
    pub(crate) fn without(&self, what_if: &WhatIf) -> Result<Predicted, PredictionError> {
        let (observed, replayed) = match self.prediction() {
            Ok(_) => return self.what_if(what_if, None),
            Err(PredictionError::Declined { observed, replayed })
                if *replayed <= *observed * MAX_RATIO && *observed <= *replayed * MAX_RATIO =>
            {
                (*observed, *replayed)
            }
            Err(error) => return Err(error.clone()),
        };
        let after = replay(&what_if.apply(&self.model_with_chunk_pauses()))?.duration;
        let duration = after.saturating_sub(self.saved(what_if));
        let model_error = replayed.as_secs_f64() / observed.as_secs_f64().max(1e-9) - 1.0;
        let range = what_if.interval(duration).ok_or(PredictionError::Declined { observed, replayed })?;
        Ok(Predicted { duration, range: Some(range), model_error: Some(model_error) })
    }

    /// The time that a change saves which only takes away the wait for `100 Continue`; none for other changes.
    pub(crate) fn saved_before_data(&self, what_if: &WhatIf) -> Option<Duration> {
        let before = &self.model.before;
        what_if.is_no_expect().then(|| self.model.path.rtt / 2 * before.held_trips + before.held_time)
    }

    /// The time before the first byte that a change saves.
    fn saved(&self, what_if: &WhatIf) -> Duration {
        Duration::from_nanos(what_if.removed().map(|cause| self.lead[cause]).sum())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_that_is_wrong_predicts_only_what_was_measured() {
        let model = Model::new(Size(200_000), Duration::from_millis(80));
        let replayed = replay(&model).expect("a valid model").duration;
        let recorded = RecordedTransfer::new(model, replayed.mul_f64(0.6), CauseTimes::default());
        let without = |what_if: &str| recorded.without(&what_if.parse().expect("a change"));
        assert!(matches!(without("initial-window=40"), Err(PredictionError::Declined { .. })));
        assert!(without("no-loss").expect("measured").range.is_some());
    }
}
