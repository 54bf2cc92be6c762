//! The clock on the wall, which names the versions that are stored beside another one.
//!
//! The names decide what is sent, so in a simulation they come from its own time.

use std::{cell::Cell, time::SystemTime};

use tokio::time::Instant;

thread_local! {
    /// A time of day, and when it was.
    static SIMULATED: Cell<Option<(SystemTime, Instant)>> = const { Cell::new(None) };
}

/// The time of day.
pub fn now() -> SystemTime {
    SIMULATED.get().map_or_else(SystemTime::now, |(time, since)| time + since.elapsed())
}

/// It is this time now, and goes on with the clock of tokio, for the code that runs in this thread.
pub fn simulate(time: SystemTime) {
    SIMULATED.set(Some((time, Instant::now())));
}
