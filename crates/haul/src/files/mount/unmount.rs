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

use super::{
    mount_table::{self, Entry},
    status::summary,
};
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
    let mount = find(folder)?;
    let left = journal_of(folder).and_then(|journal| wait(&journal).transpose()).transpose();
    let left = left.map_err(|error| format!("cannot read the journal of {}: {error}", folder.display()))?;
    settle(folder);
    unmount(folder)?;
    if let Some(left) = left {
        say(format_args!(
            "{}: it stays in the journal, and the next haul mount of {} uploads it; see haul mount status",
            summary(&left),
            left.share
        ));
    }
    mount.map_or(Ok(()), |mount| must_be_gone(folder, &mount.device))?;
    Ok(ExitCode::SUCCESS)
}

/// The mount on a folder, if that can be told. An error if certainly nothing is mounted there.
fn find(folder: &Path) -> Result<Option<Entry>, String> {
    // The folder of a mount that has died cannot be resolved, but its parent can.
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let in_parent = folder.file_name().and_then(|name| Some(parent.canonicalize().ok()?.join(name)));
    let found = [in_parent, folder.canonicalize().ok()].map(|place| mount_table::on(&place?).ok());
    let is_free = found.iter().all(|found| matches!(found, Some(None)));
    if is_free { Err(nothing_there(folder)) } else { Ok(found.into_iter().flatten().flatten().next()) }
}

/// Fails if other mount namespaces, as containers and services have, keep what was unmounted here. The program of the mount
/// goes on until all are gone.
fn must_be_gone(folder: &Path, device: &str) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let holders = mount_table::holders(device);
        if holders.is_empty() && !mount_table::is_alive(device) {
            return Ok(());
        }
        // One that ends at this moment does not count.
        if begin.elapsed() > SILENT {
            let holder = match &holders[..] {
                [] => {
                    format!("`sudo grep -l ' {device} ' /proc/*/mountinfo` finds who has it in another mount namespace")
                }
                [holder] => holder.to_string(),
                [holder, others @ ..] => format!("{holder} ({} more namespaces have it)", others.len()),
            };
            return Err(format!("{}: unmounted here, but the mount goes on: {holder}", folder.display()));
        }
        thread::sleep(LOOK);
    }
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

fn unmount(folder: &Path) -> Result<(), String> {
    let name = folder.display();
    let busy = || {
        format!(
            "{name}: in use; `fuser -vm {name}` (or `lsof {name}`) lists the programs that have files open or work there; \
             end them, then unmount it again"
        )
    };
    match umount2(folder, MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) => return Ok(()),
        Err(Errno::EPERM) => {}
        Err(Errno::EINVAL) => return Err(nothing_there(folder)),
        Err(Errno::EBUSY) => return Err(busy()),
        Err(error) => return Err(format!("cannot unmount {name}: {}", error.desc())),
    }
    // An ordinary user's helper, which has the right to do it.
    let mut helper = process::Command::new("fusermount3");
    let ended = helper.arg("-u").arg(folder).env("LC_ALL", "C").output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            "fusermount3 is not installed: install the package fuse3, or run this as root".into()
        }
        _ => format!("cannot start fusermount3: {error}"),
    })?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(if said.contains("busy") { busy() } else { format!("cannot unmount {name}: {}", said.trim_end()) })
}
