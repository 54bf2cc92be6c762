//! When a cable began.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

/// The moment from which a stage counts its time: when the first packet came, in whichever
/// direction. The stages of both directions share it; clones are one.
///
/// A stage has no clock and is built before its cable runs, so it cannot know an earlier moment;
/// and what is to happen "after 5 s" is to happen to the traffic, not to the preparations.
#[derive(Debug, Clone, Default)]
pub struct Start(Arc<OnceLock<Instant>>);

impl Start {
    /// The start, which is `now` if nothing came before.
    pub(crate) fn at(&self, now: Instant) -> Instant {
        *self.0.get_or_init(|| now)
    }

    /// The start, if there was one.
    pub(crate) fn get(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}
