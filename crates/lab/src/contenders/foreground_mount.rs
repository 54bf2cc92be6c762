//! A mount whose program stays in the foreground, as a child of ours: `haul mount --foreground`, `rclone mount`.
//!
//! The server's root is mounted and not the task's folder, as with davfs2: a program may list the folder that it mounts at
//! once, before the clock starts.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use super::{
    Failure, SampleSetup, io_failure,
    mounted::{MountPoint, PAUSE},
    unmount::{force, is_mounted, unmount_when_idle},
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
        unmount_when_idle(&self.point, &deadline)?;
        // It has nothing left to do, and ends by itself or by the signal.
        self.program.stop();
        Ok(())
    }

    fn abort(&mut self) {
        force(&self.point);
        self.program.kill();
        // A program that was mounting just now.
        force(&self.point);
    }
}

impl Drop for ForegroundMount {
    fn drop(&mut self) {
        self.abort();
    }
}
