//! A mount whose program stays in the foreground, as a child of ours: `haul mount --foreground`, `rclone mount`.
//!
//! The server's root is mounted and not the task's folder, as with davfs2: a program may list the folder that it mounts at
//! once, before the clock starts.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    mount::{MntFlags, umount2},
};

use super::{
    Failure, SampleSetup, io_failure,
    mounted::{MountPoint, PAUSE},
};
use crate::{deadline::Deadline, process::Daemon};

/// A mount; dropping it unmounts, in bounded time.
pub(super) struct ForegroundMount {
    name: &'static str,
    folder: PathBuf,
    point: PathBuf,
    writes_behind: bool,
    program: Daemon,
}

impl ForegroundMount {
    /// Creates the mount point, starts the program that `command` makes for it, and waits until it has mounted the share.
    pub(super) fn new(
        name: &'static str,
        sample: &SampleSetup,
        writes_behind: bool,
        command: impl FnOnce(&Path) -> Result<Command, Failure>,
    ) -> Result<Self, Failure> {
        let point = sample.scratch.join("mount");
        fs::create_dir_all(&point).map_err(io_failure("create", &point))?;
        // The kernel lists the mount under its canonical path.
        let point = point.canonicalize().map_err(io_failure("find", &point))?;
        let program = Daemon::start(sample.client, &mut command(&point)?, &sample.scratch.join("mount.log"))?;
        let mut mount = Self { name, folder: point.join(&sample.task.folder), point, writes_behind, program };
        while !is_mounted(&mount.point) {
            mount.program.check()?;
            let waited = sample.deadline.check();
            waited.map_err(|stop| Failure::Stopped { what: format!("mounting with {name}"), stop })?;
            thread::sleep(PAUSE);
        }
        Ok(mount)
    }
}

impl MountPoint for ForegroundMount {
    fn name(&self) -> &'static str {
        self.name
    }

    fn point(&self) -> &Path {
        &self.point
    }

    fn folder(&self) -> &Path {
        &self.folder
    }

    fn writes_behind(&self) -> bool {
        self.writes_behind
    }

    fn unmount(mut self) -> Result<(), Failure> {
        let deadline = Deadline::for_cleanup(Duration::from_secs(30));
        while let Err(errno) = umount2(&self.point, MntFlags::empty()) {
            if errno != Errno::EBUSY || deadline.check().is_err() {
                return Err(io_failure("unmount", &self.point)(errno.into()));
            }
            thread::sleep(PAUSE);
        }
        // It has nothing left to do, and ends by itself or by the signal.
        self.program.stop();
        Ok(())
    }

    fn abort(&mut self) {
        if is_mounted(&self.point) {
            let _ = umount2(&self.point, MntFlags::MNT_FORCE);
            let _ = umount2(&self.point, MntFlags::MNT_DETACH);
        }
        self.program.kill();
        // A program that was mounting just now.
        if is_mounted(&self.point) {
            let _ = umount2(&self.point, MntFlags::MNT_DETACH);
        }
    }
}

impl Drop for ForegroundMount {
    fn drop(&mut self) {
        self.abort();
    }
}

/// Whether something is mounted there, as the kernel lists it; a look at the folder itself could block.
pub(super) fn is_mounted(point: &Path) -> bool {
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    // proc_pid_mountinfo(5): the fifth field. Our scratch folders have no blanks, which it would escape.
    let mut points = mounts.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.any(|listed| OsStr::from_bytes(listed) == point.as_os_str())
}
