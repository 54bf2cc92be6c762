//! The server's clock is ahead of ours, or behind.

use crate::behaviour::Behaviour;

/// Seconds ahead.
pub(super) struct ClockOffset(pub(super) i64);

impl Behaviour for ClockOffset {
    fn clock_offset(&self) -> i64 {
        self.0
    }
}
