//! How often to ask the kernel for its congestion window (`TCP_INFO`).
//!
//! The scheduler gets the window with the end of each exchange. To a near server, the system call would take longer than
//! what else the exchange needs of the processor, and tell nothing new: a window opens by no more than what was sent and
//! acknowledged since (RFC 5681 §3.1). So an answer is used again for a few milliseconds, until a few kilobytes more were
//! sent.

use std::time::Duration;

use tokio::time::Instant;

use crate::pool::Window;

const MAX_AGE: Duration = Duration::from_millis(5);
/// Three segments: less than a third of the initial window (RFC 6928).
const MAX_SENT: u64 = 4 * 1024;

/// The kernel's window when it was looked up last, and the bytes written until then.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KernelWindow(Option<(Instant, u64, Window)>);

impl KernelWindow {
    /// The window, looked up if it may have changed.
    pub(super) fn get(&mut self, written: u64, now: Instant, look: impl FnOnce() -> Option<Window>) -> Option<Window> {
        let is_fresh = |(at, sent, _): &(Instant, u64, Window)| now - *at < MAX_AGE && written - sent < MAX_SENT;
        self.0 = self.0.filter(is_fresh).or_else(|| look().map(|window| (now, written, window)));
        self.0.map(|(_, _, window)| window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_is_looked_up_after_some_time_or_some_bytes() {
        let (start, mut window, mut looks) = (Instant::now(), KernelWindow::default(), 0);
        let mut get = |written, after| {
            window.get(written, start + after, || {
                looks += 1;
                Some(Window { bytes: looks, ..Window::default() })
            })
        };
        let mut bytes = |written, after| get(written, after).unwrap().bytes;
        assert_eq!(bytes(100, Duration::ZERO), 1);
        assert_eq!(bytes(100 + MAX_SENT - 1, MAX_AGE / 2), 1);
        assert_eq!(bytes(100 + MAX_SENT, MAX_AGE / 2), 2, "the window may have opened");
        assert_eq!(bytes(100 + MAX_SENT, MAX_AGE), 2, "it is half as old");
        assert_eq!(bytes(100 + MAX_SENT, MAX_AGE * 3 / 2), 3, "packets may have been lost since");
    }

    #[test]
    fn unknown_window_stays_unknown() {
        let mut window = KernelWindow::default();
        assert_eq!(window.get(0, Instant::now(), || None), None);
    }
}
