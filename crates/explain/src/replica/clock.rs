//! The replica's time: nanoseconds since the transfer's first cause.

use std::time::Duration;

/// A moment or a length of time. 584 years fit.
pub(super) type Nanos = u64;

pub(super) const MILLISECOND: Nanos = 1_000_000;
pub(super) const SECOND: Nanos = 1_000_000_000;

pub(super) fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}
