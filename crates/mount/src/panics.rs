//! Panics: faults of this program, which has printed them by then.
//!
//! One ends an operation in an error for whoever waits for it, and no thread of the kernel's requests and no task of the mount
//! ends with it. What an operation has taken, it gives back when it is dropped.

use std::{
    panic::{self, AssertUnwindSafe},
    time::Duration,
};

use futures_util::FutureExt;
use nix::errno::Errno;
use tokio::time::sleep;

use crate::share::Result;

/// The pause before a task begins again.
const PAUSE: Duration = Duration::from_secs(1);

/// An operation, or EIO if it panics.
pub(crate) async fn caught<T>(operation: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(operation).catch_unwind().await.unwrap_or(Err(Errno::EIO))
}

/// Does something at once, and drops it if it panics: replies to the kernel are EIO then.
pub(crate) fn guarded(work: impl FnOnce()) {
    let _ = panic::catch_unwind(AssertUnwindSafe(work));
}

/// A task that begins again after a panic.
pub(crate) async fn restarted<F: Future<Output = ()>>(task: impl Fn() -> F) {
    while AssertUnwindSafe(task()).catch_unwind().await.is_err() {
        sleep(PAUSE).await;
    }
}
