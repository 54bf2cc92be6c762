//! `haul mount` and `haul unmount`: a share as a folder.
//!
//! In the background, the work is done by a second process, this program started again. The first one waits until the share
//! is mounted, so that its exit status tells, and until then both use the terminal, so that the second can ask for a password.

pub(crate) mod fstab;
mod mount_table;
mod status;
pub(crate) mod unmount;

use std::{
    env,
    error::Error,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{self, ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};

use clap::builder::ValueParser;
use mount::{Mount, Options, Report, Write};
use nix::{
    libc,
    sys::stat::{Mode, umask},
    unistd::{dup2_stderr, dup2_stdout, getegid, geteuid, setsid},
};
use transport::stable_hash;
use units::{Size, Span};

use crate::files::{
    Outcome,
    options::{ConnectionOptions, Lock},
    runtime::{Stop, run_service},
    session::{Session, location::remote_locations, settings},
    transfer::login,
};
use crate::say;

/// Marks the process in the background.
const BACKGROUND: &str = "HAUL_MOUNT_BACKGROUND";
/// How long a mount may take to end.
const FAREWELL: Duration = Duration::from_secs(80);
/// What it prints when the share is mounted.
const MOUNTED: &str = "mounted";

/// Mount a folder of a server as a local folder
///
/// Programs then work with its files as with local ones. A file is uploaded when a program closes it: when close() succeeds,
/// the server has the whole file. Needs /dev/fuse, and for ordinary users the package fuse3. See the book's page "Mount a share, also
/// at boot (fstab)".
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Folder on the server
    #[arg(value_name = "URL", required = true)]
    url: Option<String>,
    /// Empty local folder to mount on; created if it does not exist
    #[arg(value_name = "DIR", required = true)]
    folder: Option<PathBuf>,
    /// Stay in the foreground; Ctrl-C unmounts
    #[arg(short, long)]
    foreground: bool,
    /// How long to believe what the server has listed: after this time, changes made elsewhere are seen
    #[arg(long, value_name = "TIME", default_value = "10s")]
    fresh: Span,
    /// Folder for cached file contents [default: ~/.cache/longhaul/mount]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Maximum size of the cached contents of closed files, which outlive the mount
    #[arg(long, value_name = "SIZE", default_value = "10GiB")]
    cache_size: Size,
    /// What close() waits for
    #[arg(long, value_enum, value_name = "MODE", default_value = "through")]
    write: WriteMode,
    /// Maximum size of what the server does not have yet, with --write back; writers then wait
    #[arg(long, value_name = "SIZE", default_value = "10GiB")]
    journal_size: Size,
    /// Which files to lock on the server while programs change them, if it supports locks
    #[arg(long, value_enum, value_name = "WHICH", default_value = "edit")]
    lock: Lock,
    /// Refuse all changes
    #[arg(long, visible_alias = "ro")]
    read_only: bool,
    /// List dead properties among the extended attributes of files; each listing costs a round trip per file
    #[arg(long)]
    properties: bool,
    /// Offer no extended attributes, so that the kernel answers programs that ask for them, as Samba does for each file
    #[arg(long, conflicts_with = "properties")]
    no_xattr: bool,
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

#[derive(clap::Subcommand)]
enum Command {
    Status(status::Args),
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum WriteMode {
    /// The server has the whole file
    Through,
    /// The file is safe in a journal on the local disk, and its upload follows; fsync() still waits for the server
    Back,
}

fn octal(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mask| *mask <= 0o777)
        .ok_or_else(|| "not an octal number up to 777, such as 027".into())
}

pub(super) fn run(args: Args) -> Outcome {
    if let Some(Command::Status(args)) = &args.command {
        return status::run(args);
    }
    let folder = args.folder.clone().unwrap_or_default();
    let is_new = create(&folder)?;
    let ended = mount_point(&folder).and_then(|place| {
        if args.foreground || env::var_os(BACKGROUND).is_some() {
            run_service(FAREWELL, |stop| serve(args, place, stop))
        } else {
            start_in_background()
        }
    });
    // After a mount it stays, since the next one needs it.
    if is_new && !ended.as_ref().is_ok_and(|status| *status == ExitCode::SUCCESS) {
        let _ = fs::remove_dir(folder);
    }
    ended
}

/// Creates the folder to mount on, if its parent exists. Returns whether it did.
fn create(folder: &Path) -> Result<bool, Box<dyn Error>> {
    match fs::create_dir(folder) {
        Ok(()) => Ok(true),
        // The checks of the mount point follow.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = folder.display();
            Err(format!("{name}: the folder above it does not exist; create it with `mkdir -p {name}`").into())
        }
        Err(error) => Err(format!("cannot create the folder {}: {error}", folder.display()).into()),
    }
}

/// The folder to mount on: empty, and not a mount already.
fn mount_point(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let name = folder.display();
    let found = folder.canonicalize().and_then(|path| Ok((fs::metadata(&path)?, path)));
    let (about, path) = found.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOTCONN) => format!("{name}: the mount there has died; run `haul unmount {name}` first"),
        _ => format!("{name}: {error}"),
    })?;
    if !about.is_dir() {
        return Err(format!("{name}: not a folder, so nothing can be mounted on it").into());
    }
    if mount_table::on(&path).is_ok_and(|mount| mount.is_some_and(|mount| mount.is_fuse())) {
        return Err(
            format!("{name}: something is mounted there already; `haul unmount {name}` unmounts a share").into()
        );
    }
    if fs::read_dir(&path).map_err(|error| format!("{name}: {error}"))?.next().is_some() {
        return Err(format!("{name}: not empty, and the share would hide what is in it; use an empty folder").into());
    }
    Ok(path)
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
    let url = args.url.clone().unwrap_or_default();
    let urls = remote_locations(std::slice::from_ref(&url))?;
    let remote = &urls[0];
    let session = Session::for_mount(remote, &args.connection).await?;
    // What a server has sent that need not prove who it is, is not for mounts that ask for the proof.
    let identity =
        stable_hash("longhaul.account/1", &[&session.who.to_be_bytes(), &[u8::from(args.connection.insecure)]]);
    let account = session.user.clone().unwrap_or_default();
    let options = Options { identity: Some(identity), ..options(&args, session.url(&remote.path), account)? };
    let log = options.cache.join("mount.log");
    let base = remote.path.clone().as_folder(true);
    let source = options.source.clone();
    let mounted = Mount::new(session.dav.clone(), base, folder.clone(), options).await;
    let mut mount = mounted.map_err(|error| match error {
        mount::Error::Dav(error) => format!("cannot mount {source}: {error}").into(),
        error => Box::<dyn Error>::from(error),
    })?;
    if env::var_os(BACKGROUND).is_some() {
        detach(&log)?;
    } else {
        say(format_args!("{url} is mounted on {}; Ctrl-C unmounts it", folder.display()));
    }
    let ended = tokio::select! {
        () = mount.ended() => true,
        () = stop.notified().notified() => false,
    };
    let journal = mount.journal();
    let unmounted = mount.unmount().await;
    let left = journal.and_then(|journal| Report::read(journal).ok()).filter(|report| !report.pending.is_empty());
    if let Some(left) = left {
        say(format_args!("{}; it stays in the journal for the next mount", status::summary(&left)));
    }
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

fn options(args: &Args, source: String, account: String) -> Result<Options, Box<dyn Error>> {
    let cache = default_cache(args.cache_dir.as_deref())?;
    output::durable::create_folder(&cache)
        .map_err(|error| format!("cannot create the cache folder {}: {error}", cache.display()))?;
    let own_umask = umask(Mode::empty());
    umask(own_umask);
    Ok(Options {
        source,
        identity: None,
        account,
        fresh: args.fresh.0,
        cache,
        cache_size: args.cache_size.0,
        write: match args.write {
            WriteMode::Through => Write::Through,
            WriteMode::Back => Write::Back { journal_size: args.journal_size.0 },
        },
        read_only: args.read_only,
        attributes: !args.no_xattr,
        properties: args.properties,
        allow_other: args.allow_other,
        uid: args.uid.unwrap_or_else(|| geteuid().as_raw()),
        gid: args.gid.unwrap_or_else(|| getegid().as_raw()),
        umask: args.umask.unwrap_or_else(|| own_umask.bits()),
        lock: args.lock.into(),
        lock_owner: login().unwrap_or_else(|| "haul".into()),
    })
}

/// The folder for caches and journals.
fn default_cache(given: Option<&Path>) -> Result<PathBuf, Box<dyn Error>> {
    let usual = || Some(settings::base("XDG_CACHE_HOME", ".cache")?.join("longhaul/mount"));
    let cache = given.map(Path::to_owned).or_else(usual);
    cache.ok_or_else(|| "no cache folder: neither HOME nor XDG_CACHE_HOME is set; use --cache-dir".into())
}
