//! A file system that a command of the user's own mounts, with our usual work in it.
//!
//! The program may stay in the foreground or go to the background: what counts is that the kernel lists the mount. It
//! is unmounted by the command for that, or else by umount(2), which ends most file systems.

use std::{
    fs,
    path::{Path, PathBuf},
    rc::Rc,
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    mount::{MntFlags, umount2},
};

use super::{
    Failure,
    custom::Session,
    io_failure,
    mounted::{MountPoint, PAUSE},
    unmount::{force, is_mounted},
};
use crate::{
    custom::Step,
    deadline::Deadline,
    process::{Daemon, ProcessError, last_lines},
};

/// How long a mount may take to appear after its program has gone to the background.
const APPEARS: Duration = Duration::from_secs(5);

/// Time limit of unmounting.
const UNMOUNT: Duration = Duration::from_secs(30);

/// A mount; dropping it unmounts, in bounded time.
pub(super) struct CustomMount<'a> {
    session: Rc<Session<'a>>,
    folder: PathBuf,
    point: PathBuf,
    program: Daemon,
    is_unmounted: bool,
}

impl<'a> CustomMount<'a> {
    /// Mounts on `point`.
    pub(super) fn new(session: Rc<Session<'a>>, point: PathBuf) -> Result<Self, Failure> {
        let sample = session.sample;
        let template = session.template(Step::Mount).ok_or_else(|| Failure::Engine("it mounts nothing".to_owned()))?;
        let log = sample.scratch.join("mount.log");
        let program = Daemon::start(sample.client, &mut session.command(template, &[]), &log)?;
        let mut mount = Self { folder: point.join(&sample.task.folder), session, point, program, is_unmounted: false };
        let mut background: Option<Deadline> = None;
        while !is_mounted(&mount.point) {
            let said = || last_lines(&fs::read_to_string(&log).unwrap_or_default());
            match mount.program.check() {
                Err(ProcessError::Failed { status, .. }) if !status.success() => {
                    return Err(ProcessError::Failed { program: "its mount".to_owned(), status, said: said() }.into());
                }
                Err(_) if background.as_ref().is_some_and(|deadline| deadline.check().is_err()) => {
                    let why = format!("its mount command ended, and nothing is mounted on {{dir}}: {}", said());
                    return Err(Failure::Engine(why.trim_end_matches([' ', ':']).to_owned()));
                }
                Err(_) => drop(background.get_or_insert_with(|| sample.deadline.within(APPEARS))),
                Ok(()) => {}
            }
            let waited = sample.deadline.check();
            waited.map_err(|stop| Failure::Stopped { what: "mounting".to_owned(), stop })?;
            thread::sleep(PAUSE);
        }
        Ok(mount)
    }

    fn still_mounted(&self) -> Failure {
        Failure::Engine(format!("{} is still mounted after its unmount", self.point.display()))
    }
}

impl MountPoint for CustomMount<'_> {
    fn name(&self) -> &'static str {
        "custom"
    }

    fn point(&self) -> &Path {
        &self.point
    }

    fn folder(&self) -> &Path {
        &self.folder
    }

    /// Nothing says that it does not; a complete file is seen at the first look.
    fn writes_behind(&self) -> bool {
        true
    }

    fn unmount(mut self) -> Result<(), Failure> {
        let deadline = Deadline::for_cleanup(UNMOUNT);
        self.session.step(Step::Unmount, &deadline)?;
        let has_command = self.session.template(Step::Unmount).is_some();
        while is_mounted(&self.point) {
            let left = if has_command { Err(Errno::EBUSY) } else { umount2(&self.point, MntFlags::empty()) };
            match left {
                Err(Errno::EBUSY) if deadline.check().is_ok() => thread::sleep(PAUSE),
                Err(Errno::EBUSY) => return Err(self.still_mounted()),
                Err(errno) => return Err(io_failure("unmount", &self.point)(errno.into())),
                Ok(()) => {}
            }
        }
        self.is_unmounted = true;
        self.program.stop();
        Ok(())
    }

    fn abort(&mut self) {
        force(&self.point);
        self.program.kill();
        // A program in the background.
        self.session.sample.client.end_programs(Duration::ZERO);
        force(&self.point);
    }
}

impl Drop for CustomMount<'_> {
    fn drop(&mut self) {
        if !self.is_unmounted {
            self.abort();
        }
    }
}
