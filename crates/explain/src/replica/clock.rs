//! The replica's time: nanoseconds since the transfer's trigger.

use std::time::Duration;

/// A point in time or a duration; up to 584 years.
pub(super) type Nanos = u64;

pub(super) const MILLISECOND: Nanos = 1_000_000;
pub(super) const SECOND: Nanos = 1_000_000_000;

pub(super) fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}
