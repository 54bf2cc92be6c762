//! Ends the test program if a test hangs.
//!
//! The mount is a part of the test program. A thread that waits for it in the kernel keeps the program from ending, even
//! if it is killed, and the mount's end of the connection is never closed. So the watchdog aborts the mounts first.

use std::{
    fs,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use nix::mount::{MntFlags, umount2};

/// What no test takes, even on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_mins(2);

/// Runs a test, and ends the program with the test's name if it takes too long.
#[allow(dead_code, reason = "one of the test programs needs another bound")]
pub(crate) fn bounded<T>(name: &str, test: impl FnOnce() -> T) -> T {
    bounded_by(BOUND, name, test)
}

/// The same with another bound.
pub(crate) fn bounded_by<T>(bound: Duration, name: &str, test: impl FnOnce() -> T) -> T {
    let (done, is_done) = channel::<()>();
    let name = name.to_owned();
    thread::spawn(move || {
        if is_done.recv_timeout(bound) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs: it has taken {bound:?}; the test program ends");
            abort_mounts();
            std::process::exit(1);
        }
    });
    let result = test();
    drop(done);
    result
}

/// Lets all calls to the mounts of this program fail.
fn abort_mounts() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for mount in mounts.lines().filter(|mount| mount.contains(" - fuse") && mount.contains("/haul-mount")) {
        if let Some(folder) = mount.split(' ').nth(4) {
            let _ = umount2(folder, MntFlags::MNT_FORCE | MntFlags::MNT_DETACH);
        }
    }
}
