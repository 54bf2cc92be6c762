//! `haul unmount`: waits for what the server does not have yet, and unmounts.

use std::{
    ffi::OsString,
    fs::File,
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::{self, ExitCode},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use mount::Report;
use nix::{
    errno::Errno,
    mount::{MntFlags, umount2},
};

use super::{mount_table, status::summary};
use crate::files::Outcome;
use crate::say;

/// How long unmounting may wait for locks to be released.
const SETTLING: Duration = Duration::from_secs(20);
/// How long it waits while the server takes nothing from the journal.
const STALLED: Duration = Duration::from_secs(20);
/// After this time it says what it waits for.
const SILENT: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(100);

/// Unmount a share
///
/// With --write back, it first waits until the server has everything, as long as uploads go on. Ctrl-C leaves the share
/// mounted.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder it is mounted on
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let folder = &args.folder;
    if is_free(folder) {
        return Err(nothing_there(folder).into());
    }
    let left = journal_of(folder).and_then(|journal| wait(&journal).transpose()).transpose();
    let left = left.map_err(|error| format!("cannot read the journal of {}: {error}", folder.display()))?;
    settle(folder);
    let status = unmount(folder)?;
    if let Some(left) = left.filter(|_| status == ExitCode::SUCCESS) {
        say(format_args!(
            "{}: it stays in the journal, and the next haul mount of {} uploads it; see haul mount status",
            summary(&left),
            left.share
        ));
    }
    Ok(status)
}

/// Whether certainly nothing is mounted on a folder.
fn is_free(folder: &Path) -> bool {
    let is_free = |place: PathBuf| mount_table::on(&place).is_ok_and(|mount| mount.is_none());
    // The folder of a mount that has died cannot be resolved, but its parent can.
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = folder.file_name().and_then(|name| Some(parent.canonicalize().ok()?.join(name)));
    place.is_some_and(is_free) && folder.canonicalize().is_ok_and(is_free)
}

fn nothing_there(folder: &Path) -> String {
    format!("{}: nothing is mounted there; `haul mount status` lists the mounts", folder.display())
}

/// The folder of a mount's journal, if it has one.
fn journal_of(folder: &Path) -> Option<PathBuf> {
    let mut path = vec![0; 4096];
    let length = rustix::fs::getxattr(folder, mount::JOURNAL_ATTRIBUTE, &mut path[..]).ok()?;
    path.truncate(length);
    Some(OsString::from_vec(path).into())
}

/// Waits until the server has everything, or takes nothing more. Returns what is left then.
fn wait(journal: &Path) -> io::Result<Option<Report>> {
    let begin = Instant::now();
    let (mut least, mut since, mut said) = (usize::MAX, begin, false);
    loop {
        let report = Report::read(journal.to_owned())?;
        let count = report.pending.len();
        if count == 0 {
            return Ok(None);
        }
        if count < least {
            (least, since) = (count, Instant::now());
        }
        let all_failed = report.pending.iter().all(|file| file.failure.is_some());
        if since.elapsed() > STALLED || (all_failed && since.elapsed() > SILENT) {
            return Ok(Some(report));
        }
        if begin.elapsed() > SILENT && !said {
            said = true;
            say(format_args!("{}; waiting for it (Ctrl-C leaves the share mounted)", summary(&report)));
        }
        thread::sleep(LOOK);
    }
}

/// Waits, within a bound, until the mount has done what goes on after close(2): fsync(2) of its folder does.
fn settle(folder: &Path) {
    let (folder, (done, is_done)) = (folder.to_owned(), mpsc::channel::<()>());
    thread::spawn(move || {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        drop(done);
    });
    let _ = is_done.recv_timeout(SETTLING);
}

fn unmount(folder: &Path) -> Outcome {
    match umount2(folder, MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) => return Ok(ExitCode::SUCCESS),
        Err(Errno::EPERM) => {}
        Err(Errno::EINVAL) => return Err(nothing_there(folder).into()),
        Err(Errno::EBUSY) => {
            return Err(format!("{}: in use; close its files and leave it first", folder.display()).into());
        }
        Err(error) => return Err(format!("cannot unmount {}: {}", folder.display(), error.desc()).into()),
    }
    // An ordinary user's helper, which has the right to do it. It says what is wrong.
    let status =
        process::Command::new("fusermount3").arg("-u").arg(folder).status().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "fusermount3 is not installed: install the package fuse3, or run this as root".into()
            }
            _ => format!("cannot start fusermount3: {error}"),
        })?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
