//! davfs2: the server's root mounted as a file system. The files are copied by a thread of ours, which reads and writes
//! them like `cp`; a save in place truncates and writes the existing file, and a listing is `ls -l`.
//!
//! The mount has the source article's settings (`delay_upload 0`, locks on or off) and four of ours:
//! - the run's own certificate authority;
//! - `buf_size 64`, because since Linux 6.16 davfs2 does not work with its default of 16 KiB (alisarctl/davfs2#22);
//! - `ignore_dav_header 1`, because nginx's dav-ext announces class 2 without class 1 (RFC 4918, section 18.2), and
//!   davfs2 then gives up;
//! - `drop_weak_etags 1` for saves in place. Apache's `ETag` of a file that changed within the last second is weak.
//!   By default davfs2 removes the `W/` and sends the rest as `If-Match`, which a weak tag never matches (RFC 9110,
//!   section 13.1.1). The second of two saves within a second then gets 412, and davfs2 moves the file to lost+found
//!   although close(2) has succeeded.
//!
//! `davfs2-tuned` has what davfs2.conf(5) offers for speed: no locks, no look at the server before a new file is written
//! (`precheck 0`), one PROPFIND instead of many when several files are opened (`gui_optimize 1`), and longer memory of files
//! and folders (`file_refresh`, `dir_refresh`). Nothing there lets it do two things at a time.
//!
//! With locks, each new file is LOCK, PUT, HEAD, UNLOCK *on a new connection* (seen in Apache's log). LOCK is not
//! idempotent, and neon, davfs2's HTTP library, sends such requests only on new connections: on a reused one it could
//! not know whether the server had acted before the connection broke (`ne_begin_request` in `ne_request.c`). So a lock
//! costs two round trips for requests and two for the handshakes of TCP and TLS 1.3.
//!
//! close(2) returns before the server has the file: davfs2 begins to send when the kernel reports that the file's last
//! handle is closed (FUSE_RELEASE). A sample therefore ends when the server has the file; the lock is released after
//! that. A save in place must be confirmed before the next one begins, or davfs2 may merge the two: another thread that
//! starts a program keeps a handle open until exec(2). davfs2 has no call that confirms a save (fsync(2) reaches only
//! its cache). So we poll the server's file, from every 0.2 ms on, within the clock. This saves no time, since davfs2
//! serves the next open(2) only after the server's response.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use nix::{
    mount::{MntFlags, umount2},
    sys::signal::{Signal, kill},
    unistd::{Gid, Group, Pid, Uid, chown},
};

use super::{
    Contender, Failure, Prepared, Registered, SampleSetup, io_failure,
    mounted::{MountPoint, Mounted, PAUSE, no_fuse},
    unmount::unmount_when_idle,
};
use crate::{
    deadline::{Deadline, Stop},
    process::{Program, ordinary_user, run},
    servers::{Http, Server},
    work::Work,
};

pub(super) const MOUNT: Program = Program { name: "mount.davfs", package: "davfs2", version: "-V" };
/// Where davfs2 keeps the process ids of its daemons.
const PIDS: &str = "/run/mount.davfs";

pub(super) const LOCKS: Registered =
    Registered { name: "davfs2", parameters: &[], make: |_| Box::new(Davfs2 { mode: Mode::Locks }) };
pub(super) const NO_LOCKS: Registered =
    Registered { name: "davfs2-nolocks", parameters: &[], make: |_| Box::new(Davfs2 { mode: Mode::NoLocks }) };
pub(super) const TUNED: Registered =
    Registered { name: "davfs2-tuned", parameters: &[], make: |_| Box::new(Davfs2 { mode: Mode::Tuned }) };

/// How davfs2 is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// As in the article, with locks.
    Locks,
    /// The same without locks.
    NoLocks,
    /// For speed, by its manual.
    Tuned,
}

impl Mode {
    /// The settings that differ between modes.
    fn options(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Locks => &[("use_locks", "1")],
            Self::NoLocks => &[("use_locks", "0")],
            Self::Tuned => &[
                ("use_locks", "0"),
                ("precheck", "0"),
                ("gui_optimize", "1"),
                ("file_refresh", "60"),
                ("dir_refresh", "3600"),
                ("table_size", "16384"),
            ],
        }
    }
}

struct Davfs2 {
    mode: Mode,
}

impl Contender for Davfs2 {
    fn name(&self) -> String {
        match self.mode {
            Mode::Locks => LOCKS.name,
            Mode::NoLocks => NO_LOCKS.name,
            Mode::Tuned => TUNED.name,
        }
        .to_owned()
    }

    fn describe(&self) -> &str {
        match self.mode {
            Mode::Locks => {
                "davfs2 mount with locks, one file after another as cp does: LOCK on a new connection, PUT, HEAD, UNLOCK for each"
            }
            Mode::NoLocks => "davfs2 mount without locks, one file after another as cp does: PUT and HEAD for each",
            Mode::Tuned => {
                "davfs2 mount tuned by its manual: no locks, no check before a new file, folders remembered; still one file after \
                 another, PUT and HEAD for each"
            }
        }
    }

    fn needs_root(&self) -> bool {
        true
    }

    fn mounts(&self) -> bool {
        true
    }

    fn needs(&self) -> &[Program] {
        &[MOUNT]
    }

    fn http(&self, _tls: bool) -> Http {
        Http::One
    }

    fn unable(&self, _work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        no_fuse()
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings(self.mode)
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        Ok(Box::new(Mounted::new(Mount::new(sample, self.mode)?, sample, 1).warmed()?))
    }
}

pub(super) fn settings(mode: Mode) -> Vec<(String, String)> {
    let common = [
        ("delay_upload", "0"),
        ("buf_size", "64"),
        ("ignore_dav_header", "1"),
        ("drop_weak_etags", "1 for saves in place, otherwise 0"),
    ];
    let all = mode.options().iter().copied().chain(common);
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A davfs2 mount of the server; dropping it unmounts, in bounded time.
///
/// The server's root is mounted and not the task's folder, because davfs2 reads the folder
/// that it mounts at once: a listing would have been made before the clock starts.
pub(super) struct Mount {
    /// The task's folder, in the mount.
    folder: PathBuf,
    /// The mount point.
    point: PathBuf,
    mounted: bool,
}

impl Mount {
    pub(super) fn new(sample: &SampleSetup, mode: Mode) -> Result<Self, Failure> {
        let point = sample.scratch.join("mount");
        let cache = sample.scratch.join("cache");
        for path in [&point, &cache] {
            fs::create_dir_all(path).map_err(io_failure("create", path))?;
        }
        // davfs2 names its files after the mount point as the kernel shows it.
        let point = point.canonicalize().map_err(io_failure("find", &point))?;
        // root checks it, and the daemon's user writes into it.
        let group = Group::from_name("davfs2").ok().flatten().map_or(Gid::from_raw(0), |group| group.gid);
        chown(&cache, Some(Uid::from_raw(0)), Some(group))
            .map_err(|errno| io_failure("give away", &cache)(errno.into()))?;
        fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o775))
            .map_err(io_failure("open", &cache))?;
        let conf = sample.scratch.join("davfs2.conf");
        fs::write(&conf, configuration(sample, mode, &cache)).map_err(io_failure("write", &conf))?;

        let mount = Self { folder: point.join(&sample.task.folder), point, mounted: true };
        let mut command = MOUNT.command(sample.scratch)?;
        let (uid, gid) = ordinary_user().unwrap_or((Uid::current(), Gid::current()));
        let options = format!("conf={},uid={uid},gid={gid}", conf.display());
        command.arg("-o").arg(options).arg(sample.server()).arg(&mount.point);
        run(sample.client, &mut command, &sample.deadline)?;
        Ok(mount)
    }

    /// The daemon: the program with this mount point on its command line. Its PID file may not exist yet.
    fn daemon(&self) -> Option<Pid> {
        let is_daemon = |id: &i32| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let mut arguments = line.split(|byte| *byte == 0).map(OsStr::from_bytes);
            let program = arguments.next().and_then(|program| Path::new(program).file_name());
            program == Some(OsStr::new(MOUNT.name)) && arguments.any(|argument| argument == self.point.as_os_str())
        };
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut ids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
        ids.find(is_daemon).map(Pid::from_raw)
    }

    /// davfs2's name for it: the mount point with dashes for slashes.
    fn pid_file(&self) -> PathBuf {
        let point = self.point.to_string_lossy();
        Path::new(PIDS).join(format!("{}.pid", point.trim_matches('/').replace('/', "-")))
    }
}

impl MountPoint for Mount {
    fn name(&self) -> &'static str {
        "davfs2"
    }

    fn point(&self) -> &Path {
        &self.point
    }

    fn folder(&self) -> &Path {
        &self.folder
    }

    fn writes_behind(&self) -> bool {
        true
    }

    /// Unmounts and waits until the daemon has ended, and with that has written all.
    ///
    /// davfs2's own umount.davfs does the same but looks every three seconds.
    fn unmount(mut self) -> Result<(), Failure> {
        let deadline = Deadline::for_cleanup(Duration::from_secs(30));
        let daemon = self.daemon();
        unmount_when_idle(&self.point, &deadline)?;
        self.mounted = false;
        match daemon.map(|daemon| wait_ended(daemon, &deadline)) {
            Some(Err(stop)) => Err(Failure::Stopped { what: "davfs2's daemon".to_owned(), stop }),
            _ => Ok(()),
        }
    }

    fn abort(&mut self) {
        let daemon = self.daemon();
        if self.mounted {
            let _ = umount2(&self.point, MntFlags::MNT_FORCE);
            let _ = umount2(&self.point, MntFlags::MNT_DETACH);
            self.mounted = false;
        }
        if let Some(daemon) = daemon {
            let _ = kill(daemon, Signal::SIGKILL);
            let _ = wait_ended(daemon, &Deadline::for_cleanup(Duration::from_secs(5)));
            let _ = fs::remove_file(self.pid_file());
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.abort();
    }
}

/// Waits for the end of a process that is not our child.
fn wait_ended(process: Pid, deadline: &Deadline) -> Result<(), Stop> {
    let state = format!("/proc/{process}/stat");
    // It stays a zombie until its parent, often PID 1, reaps it.
    while fs::read_to_string(&state).is_ok_and(|state| !state.contains(") Z ")) {
        deadline.check()?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn configuration(sample: &SampleSetup, mode: Mode, cache: &Path) -> String {
    let trust = sample
        .certificates
        .map_or(String::new(), |certificates| format!("trust_ca_cert \"{}\"\n", certificates.ca_file.display()));
    let drop_weak_etags = u8::from(matches!(sample.task.work(), Work::Edit { .. }));
    let options: Vec<String> = mode.options().iter().map(|(name, value)| format!("{name} {value}\n")).collect();
    let options = options.concat();
    format!(
        "ask_auth 0
cache_dir \"{cache}\"
delay_upload 0
buf_size 64
ignore_dav_header 1
drop_weak_etags {drop_weak_etags}
{options}{trust}",
        cache = cache.display(),
    )
}
