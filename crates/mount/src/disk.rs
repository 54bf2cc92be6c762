//! Work that waits for the disk, on a thread of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::errno::Errno;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task,
};

use crate::share::Result;

/// Does such work. EIO if it panics. A runtime of one thread, as simulations have, does it itself: another thread would end
/// sooner or later in each run, and a seed would not repeat it.
pub(crate) async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    if Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread {
        return task::spawn_blocking(work).await.map_err(|_| Errno::EIO);
    }
    // Others go on meanwhile.
    task::yield_now().await;
    let done = catch_unwind(AssertUnwindSafe(work)).map_err(|_| Errno::EIO);
    task::yield_now().await;
    done
}
