//! The start time of a cable's traffic.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

/// Time zero of a stage: the arrival of the first packet in either direction. Clones share it, so that the stages of both
/// directions have the same.
///
/// A stage has no clock and is built before its cable runs, so it cannot know an earlier time. Besides, "after 5 s" is
/// meant relative to the traffic, not to the preparations.
#[derive(Debug, Clone, Default)]
pub struct Start(Arc<OnceLock<Instant>>);

impl Start {
    /// The start; `now` becomes the start if this is the first packet.
    pub(crate) fn at(&self, now: Instant) -> Instant {
        *self.0.get_or_init(|| now)
    }

    /// The start, if a packet has arrived.
    pub(crate) fn get(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}
