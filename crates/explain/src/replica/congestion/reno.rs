//! RFC 5681: slow start, then one packet more per round trip; half after a loss.

use super::{Control, Feedback, Window};

#[derive(Debug, Default)]
pub(super) struct Reno {
    /// Packets acknowledged since the window last grew.
    counted: u32,
}

impl Control for Reno {
    fn acknowledged(&mut self, feedback: &Feedback, window: &mut Window) {
        if !feedback.limited {
            return;
        }
        let left =
            if window.in_slow_start() { window.slow_start(feedback.acknowledged) } else { feedback.acknowledged };
        if left > 0 {
            self.counted += left;
            window.size += self.counted / window.size;
            self.counted %= window.size;
        }
    }

    fn lost(&mut self, window: Window) -> u32 {
        self.counted = 0;
        (window.size / 2).max(2)
    }
}
