//! Sleeping precisely.

use std::time::{Duration, Instant};

/// The runtime's timer rounds up to milliseconds, which would add up over many short waits. So a thread sleeps through
/// the last few milliseconds.
const ROUGH: Duration = Duration::from_millis(3);

/// Waits so long, as precisely as the system does.
pub async fn sleep(time: Duration) {
    let until = Instant::now() + time;
    if let Some(rough) = time.checked_sub(ROUGH) {
        tokio::time::sleep(rough).await;
    }
    let rest = move || std::thread::sleep(until.saturating_duration_since(Instant::now()));
    let _ = tokio::task::spawn_blocking(rest).await;
}
