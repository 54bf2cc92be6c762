//! Unmounting, for all contenders that mount.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path, thread};

use nix::{
    errno::Errno,
    mount::{MntFlags, umount2},
};

use super::{Failure, io_failure, mounted::PAUSE};
use crate::deadline::Deadline;

/// Unmounts as soon as nothing uses the mount any longer.
pub(super) fn unmount_when_idle(point: &Path, deadline: &Deadline) -> Result<(), Failure> {
    while let Err(errno) = umount2(point, MntFlags::empty()) {
        if errno != Errno::EBUSY || deadline.check().is_err() {
            return Err(io_failure("unmount", point)(errno.into()));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Takes a mount away from whatever uses it, and from a file system that does not answer.
pub(super) fn force(point: &Path) {
    if is_mounted(point) {
        let _ = umount2(point, MntFlags::MNT_FORCE);
        let _ = umount2(point, MntFlags::MNT_DETACH);
    }
}

/// Whether something is mounted there, as the kernel lists it; a look at the folder itself could block.
pub(super) fn is_mounted(point: &Path) -> bool {
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    // proc_pid_mountinfo(5): the fifth field. Our scratch folders have no blanks, which it would escape.
    let mut points = mounts.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.any(|listed| OsStr::from_bytes(listed) == point.as_os_str())
}
