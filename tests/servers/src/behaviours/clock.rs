//! The server's clock is not ours.

use crate::behaviour::Behaviour;

/// Seconds ahead.
pub(super) struct Clock(pub(super) i64);

impl Behaviour for Clock {
    fn ahead(&self) -> i64 {
        self.0
    }
}
