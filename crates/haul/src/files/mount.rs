//! `haul mount` and `haul unmount`: a share as a folder.
//!
//! In the background, the work is done by a second process, this program started again. The first one waits until the share
//! is mounted, so that its exit status tells, and until then both use the terminal, so that the second can ask for a password.

pub(crate) mod fstab;

use std::{
    env,
    error::Error,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::{self, ExitCode, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use clap::builder::ValueParser;
use mount::{Mount, Options};
use nix::{
    errno::Errno,
    mount::{MntFlags, umount2},
    sys::stat::{Mode, umask},
    unistd::{dup2_stderr, dup2_stdout, getegid, geteuid, setsid},
};
use units::{Size, Span};

use crate::files::{
    Outcome,
    options::{ConnectionOptions, Lock},
    runtime::{Stop, run_until_stopped_within},
    session::{Session, location::remote_locations},
    transfer::login,
};
use crate::say;

/// Marks the process in the background.
const BACKGROUND: &str = "HAUL_MOUNT_BACKGROUND";
/// How long a mount may take to end.
const FAREWELL: Duration = Duration::from_secs(80);
/// How long unmounting may wait for locks to be released.
const SETTLING: Duration = Duration::from_secs(20);
/// What it prints when the share is mounted.
const MOUNTED: &str = "mounted";

/// Mount a folder of a server as a local folder
///
/// Programs then work with its files as with local ones. A file is uploaded when a program closes it: when close() succeeds,
/// the server has the whole file. Needs /dev/fuse, and for ordinary users the package fuse3. See the book's page "Mount".
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder on the server
    #[arg(value_name = "URL")]
    url: String,
    /// Empty local folder to mount on
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Stay in the foreground; Ctrl-C unmounts
    #[arg(short, long)]
    foreground: bool,
    /// How long to believe what the server has listed: after this time, changes made elsewhere are seen
    #[arg(long, value_name = "TIME", default_value = "10s")]
    fresh: Span,
    /// Folder for cached file contents [default: ~/.cache/haul]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Maximum size of the cached contents of closed files
    #[arg(long, value_name = "SIZE", default_value = "10GiB")]
    cache_size: Size,
    /// Which files to lock on the server while programs change them, if it supports locks
    #[arg(long, value_enum, value_name = "WHICH", default_value = "edit")]
    lock: Lock,
    /// Refuse all changes
    #[arg(long)]
    read_only: bool,
    /// Let other users use the mount too (for ordinary users, /etc/fuse.conf must say user_allow_other)
    #[arg(long)]
    allow_other: bool,
    /// Owner of all files, as a number [default: you]
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,
    /// Group of all files, as a number [default: yours]
    #[arg(long, value_name = "GID")]
    gid: Option<u32>,
    /// Permission bits that all files lack, in octal [default: yours]
    #[arg(long, value_name = "MASK", value_parser = ValueParser::new(octal))]
    umask: Option<u32>,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Unmount a share
#[derive(clap::Args)]
pub(crate) struct UnmountArgs {
    /// The folder it is mounted on
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

fn octal(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mask| *mask <= 0o777)
        .ok_or_else(|| "not an octal number up to 777, such as 027".into())
}

pub(super) fn run(args: Args) -> Outcome {
    let folder = args.folder.canonicalize().map_err(|error| format!("{}: {error}", args.folder.display()))?;
    if !folder.is_dir() {
        return Err(format!("{}: not a folder, so nothing can be mounted on it", folder.display()).into());
    }
    if args.foreground || env::var_os(BACKGROUND).is_some() {
        run_until_stopped_within(FAREWELL, |stop| serve(args, folder, stop))
    } else {
        start_in_background()
    }
}

/// Starts this program again, and waits until it has mounted the share or failed.
fn start_in_background() -> Outcome {
    let mut command = process::Command::new(env::current_exe()?);
    let arguments = fstab::translated(env::args_os().collect())?;
    let mut child = command.args(&arguments[1..]).env(BACKGROUND, "1").stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    if line.trim_end() == MOUNTED {
        return Ok(ExitCode::SUCCESS);
    }
    // It has said why.
    let status = child.wait()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(1)))
}

async fn serve(args: Args, folder: PathBuf, stop: Arc<Stop>) -> Outcome {
    let urls = remote_locations(std::slice::from_ref(&args.url))?;
    let remote = &urls[0];
    let session = Session::brief(remote, &args.connection).await?;
    let options = options(&args, session.url(&remote.path))?;
    let log = options.cache.join("mount.log");
    let base = remote.path.clone().as_folder(true);
    let mut mount = Mount::new(session.dav.clone(), base, folder.clone(), options).await?;
    if env::var_os(BACKGROUND).is_some() {
        detach(&log)?;
    } else {
        say(format_args!("{} is mounted on {}; Ctrl-C unmounts it", args.url, folder.display()));
    }
    let ended = tokio::select! {
        () = mount.ended() => true,
        () = stop.notified().notified() => false,
    };
    let unmounted = mount.unmount().await;
    match unmounted {
        Err(error) if !ended => Err(format!("cannot unmount {}: {error}", folder.display()).into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Tells the waiting process that the share is mounted, and leaves the terminal. From now on, messages go to a log file.
fn detach(log: &Path) -> Result<(), Box<dyn Error>> {
    crate::print(format!("{MOUNTED}\n").as_bytes())?;
    let _ = setsid();
    let null = File::options().write(true).open("/dev/null")?;
    let log = File::options().create(true).append(true).mode(0o600).open(log).or_else(|_| null.try_clone())?;
    dup2_stdout(&null)?;
    dup2_stderr(&log)?;
    Ok(())
}

fn options(args: &Args, source: String) -> Result<Options, Box<dyn Error>> {
    let cache = args.cache_dir.clone().or_else(mount::default_cache);
    let cache = cache.ok_or("no cache folder: neither HOME nor XDG_CACHE_HOME is set; use --cache-dir")?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&cache)
        .map_err(|error| format!("cannot create the cache folder {}: {error}", cache.display()))?;
    let own_umask = umask(Mode::empty());
    umask(own_umask);
    Ok(Options {
        source,
        fresh: args.fresh.0,
        cache,
        cache_size: args.cache_size.0,
        read_only: args.read_only,
        allow_other: args.allow_other,
        uid: args.uid.unwrap_or_else(|| geteuid().as_raw()),
        gid: args.gid.unwrap_or_else(|| getegid().as_raw()),
        umask: args.umask.unwrap_or_else(|| own_umask.bits()),
        lock: args.lock.into(),
        lock_owner: login().unwrap_or_else(|| "haul".into()),
    })
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

pub(super) fn unmount(args: &UnmountArgs) -> Outcome {
    let folder = &args.folder;
    settle(folder);
    match umount2(folder, MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) => return Ok(ExitCode::SUCCESS),
        Err(Errno::EPERM) => {}
        Err(Errno::EINVAL) => return Err(format!("{}: nothing is mounted there", folder.display()).into()),
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
