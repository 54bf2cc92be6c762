//! Giving memory back to the system.
//!
//! glibc keeps what is freed, in an arena for each few threads, for allocations that may never come. After many clients at
//! once, most of their memory would stay with the server for good; and while pieces become smaller (`budget`), the larger
//! ones before them leave gaps.

use std::sync::Arc;
use std::time::Duration;

use crate::budget::Held;

/// How often to look whether there is something to give back.
const INTERVAL: Duration = Duration::from_secs(10);

/// How often to give back after the last request began or ended: what was kept for it goes later.
const TIMES: u32 = 3;

/// Gives memory back now and then, as long as requests begin and end, and for a while after that.
pub(crate) async fn give_back(all: Arc<Held>) {
    let (mut seen, mut left) = ((0, 0), 0);
    loop {
        tokio::time::sleep(INTERVAL).await;
        let now = (all.begun(), all.requests());
        if seen != now {
            (seen, left) = (now, TIMES);
        }
        if left > 0 {
            left -= 1;
            let _ = tokio::task::spawn_blocking(trim).await;
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    #[expect(unsafe_code, reason = "malloc_trim(3) touches only what nobody has; no safe crate has it")]
    // SAFETY: it has no preconditions, and may be called by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
