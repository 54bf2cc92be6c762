//! Bounded waits: every program, thread and poll of the lab gets a [`Deadline`], which also holds the flag that Ctrl-C
//! sets, and checks it between short waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The longest wait between two checks, and so the longest reaction time to Ctrl-C.
const SLICE: Duration = Duration::from_millis(50);

/// Why work was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The deadline passed.
    #[error("did not finish within {0:.0?}")]
    TimedOut(Duration),
    /// The run was interrupted.
    #[error("was interrupted")]
    Cancelled,
}

/// A deadline, and a flag that ends the wait earlier.
#[derive(Debug, Clone)]
pub struct Deadline {
    start: Instant,
    time: Duration,
    cancel: Arc<AtomicBool>,
}

impl Deadline {
    /// From now on, for at most `time`, unless `cancel` becomes true before.
    pub fn new(time: Duration, cancel: Arc<AtomicBool>) -> Self {
        Self { start: Instant::now(), time, cancel }
    }

    /// For cleanup, which an interrupted run also does: no flag ends it.
    pub fn for_cleanup(time: Duration) -> Self {
        Self::new(time, Arc::default())
    }

    /// The same flag, with a deadline `time` from now if that is earlier.
    #[must_use]
    pub fn within(&self, time: Duration) -> Self {
        Self::new(time.min(self.left()), self.cancel.clone())
    }

    /// The same flag, with a deadline `time` from now.
    #[must_use]
    pub fn extended(&self, time: Duration) -> Self {
        Self::new(time, self.cancel.clone())
    }

    /// Fails if the wait is over.
    pub fn check(&self) -> Result<(), Stop> {
        if self.cancel.load(Ordering::Relaxed) {
            Err(Stop::Cancelled)
        } else if self.left().is_zero() {
            Err(Stop::TimedOut(self.time))
        } else {
            Ok(())
        }
    }

    /// The longest wait before the next [`check`](Self::check).
    pub fn slice(&self) -> Duration {
        self.left().min(SLICE)
    }

    /// The time left.
    pub fn left(&self) -> Duration {
        self.time.saturating_sub(self.start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_ends_by_time_or_flag() {
        let cancel = Arc::new(AtomicBool::new(false));
        let deadline = Deadline::new(Duration::from_mins(1), cancel.clone());
        assert_eq!(deadline.check(), Ok(()));
        assert_eq!(deadline.within(Duration::ZERO).check(), Err(Stop::TimedOut(Duration::ZERO)));
        cancel.store(true, Ordering::Relaxed);
        assert_eq!(deadline.check(), Err(Stop::Cancelled));
        assert_eq!(deadline.within(Duration::ZERO).check(), Err(Stop::Cancelled));
        assert_eq!(Deadline::for_cleanup(Duration::from_mins(1)).check(), Ok(()));
    }
}
