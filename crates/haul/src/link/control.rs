//! The control socket: `haul link --control PATH …`, and `haul link set PATH loss=1%` beside it.
//!
//! A request is one change per line, up to the end of the stream. The response is a line `ok` with the changed cables
//! below it, or a line `error` with a sentence. Both sides wait for a bounded time. The socket belongs to its user alone.

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    io::{self, Read, Write},
    net::Shutdown,
    os::{
        fd::AsFd,
        unix::{
            fs::{FileTypeExt, MetadataExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use link::{spec::Change, topology::Network};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::stat::{Mode, umask},
};

/// Maximum time for a request, and for its response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long a killed link may still hold its socket.
const LEFTOVER: Duration = Duration::from_secs(3);

/// The pause after a client could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum length of a request or response, in bytes.
const LIMIT: usize = 1 << 16;

/// Change a running link
///
/// The link must have been started with `--control PATH`. All changes are applied together, or none.
#[derive(clap::Args)]
pub(crate) struct SetArgs {
    /// The socket of `haul link --control`
    #[arg(value_name = "PATH")]
    socket: PathBuf,

    /// Values to change: rate=10mbit, loss.up=1% (one direction), wan.rtt=80ms (a cable of a topology)
    #[arg(value_name = "[CABLE.]KEY=VALUE", required = true)]
    changes: Vec<Change>,
}

/// A socket on which a running link can be changed. Dropping it removes it.
pub(crate) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl Socket {
    /// Creates the socket. Call it while the process has one thread: it changes the umask for a moment.
    pub(crate) fn bind(path: &Path) -> Result<Self, Box<dyn Error>> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("cannot create the control socket {}: the path is in use; choose another", path.display())
            }
            _ => format!("cannot create the control socket {}: {error}", path.display()),
        };
        let start = Instant::now();
        let listener = loop {
            match bind_private(path) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && start.elapsed() < LEFTOVER => {
                    if !remove_leftover(path) {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
                bound => break bound.map_err(failed)?,
            }
        };
        listener.set_nonblocking(true)?;
        let file = fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned(), file: (file.dev(), file.ino()) })
    }

    /// Answers requests until the other end of `over` is closed.
    pub(crate) fn serve(&self, network: &Network, over: &UnixStream) {
        loop {
            let mut files =
                [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN), PollFd::new(over.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut files, PollTimeout::NONE);
            if files[1].any().unwrap_or(true) {
                return;
            }
            match self.listener.accept() {
                // A client that is gone or too slow only harms itself.
                Ok((stream, _)) => drop(answer(stream, network, over)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without a free file descriptor the client stays in the queue, and poll would return at once.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let is_ours = |file: fs::Metadata| (file.dev(), file.ino()) == self.file;
        if fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates a socket that only its user may connect to.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let before = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    bound
}

/// Removes the socket of a killed link, on which nobody listens; returns whether there was one.
///
/// Another link may remove it at the same time and listen on a new one. So the file is first moved aside, and moved back
/// if it is not the one that was refused.
fn remove_leftover(path: &Path) -> bool {
    let Ok(before) = fs::symlink_metadata(path) else { return false };
    let is_refused = || UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if !before.file_type().is_socket() || !is_refused() {
        return false;
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{}", std::process::id()));
    let aside = PathBuf::from(aside);
    if fs::rename(path, &aside).is_err() {
        return false;
    }
    let is_same =
        fs::symlink_metadata(&aside).is_ok_and(|file| (file.dev(), file.ino()) == (before.dev(), before.ino()));
    if !is_same {
        // Unlike a rename, this overwrites nothing.
        let _ = fs::hard_link(&aside, path);
    }
    let _ = fs::remove_file(&aside);
    is_same
}

fn answer(mut stream: UnixStream, network: &Network, over: &UnixStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let response = match read(&mut stream, Some(over)) {
        Ok(request) => match apply(&request, network) {
            Ok(cables) => format!("ok\n{cables}"),
            Err(error) => format!("error\n{error}\n"),
        },
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
        Err(error) => format!("error\ncannot read the request: {error}\n"),
    };
    stream.write_all(response.as_bytes())
}

/// Applies the changes of a request; returns a line for each cable that has changed.
fn apply(request: &str, network: &Network) -> Result<String, Box<dyn Error>> {
    let changes = request.lines().map(str::parse).collect::<Result<Vec<Change>, _>>()?;
    let mut cables = String::new();
    for (cable, spec) in network.change(&changes)? {
        writeln!(cables, "{cable}: {spec}")?;
    }
    Ok(cables)
}

/// Reads to the end of the stream, until the time is up or the other end of `over` is closed.
fn read(stream: &mut UnixStream, over: Option<&UnixStream>) -> io::Result<String> {
    let end = Instant::now() + TIMEOUT;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut files = vec![PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
        files.extend(over.map(|over| PollFd::new(over.as_fd(), PollFlags::POLLIN)));
        let ready = poll(&mut files, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO))?;
        if ready == 0 || files.get(1).is_some_and(|over| over.any().unwrap_or(true)) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stream.read(&mut buffer)? {
            0 => return String::from_utf8(text).map_err(io::Error::other),
            length if text.len() + length <= LIMIT => text.extend_from_slice(&buffer[..length]),
            _ => return Err(io::Error::other(format!("it is longer than {LIMIT} bytes"))),
        }
    }
}

/// `haul link set`.
pub(crate) fn set(args: &SetArgs) -> Result<ExitCode, Box<dyn Error>> {
    let response = request(args).map_err(|error| {
        let path = args.socket.display();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                format!("no link listens at {path}; start one with `haul link --control {path}`")
            }
            io::ErrorKind::TimedOut => {
                format!("the link at {path} did not answer within {} s; the change may still happen", TIMEOUT.as_secs())
            }
            _ => format!("cannot change the link at {path}: {error}"),
        }
    })?;
    match response.split_once('\n') {
        Some(("ok", changed)) => {
            changed.lines().for_each(crate::say);
            Ok(ExitCode::SUCCESS)
        }
        Some(("error", why)) => Err(why.trim_end().into()),
        _ => Err(format!("the link at {} ended before it answered", args.socket.display()).into()),
    }
}

fn request(args: &SetArgs) -> io::Result<String> {
    let mut lines = String::new();
    for change in &args.changes {
        let mut change = change.clone();
        if change.is_path() {
            // Relative to this process, not to the link's.
            let path = std::path::absolute(change.value())?;
            change = change.with_value(path.to_string_lossy().into_owned());
        }
        let _ = writeln!(lines, "{change}");
    }
    let mut stream = UnixStream::connect(&args.socket)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(lines.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    read(&mut stream, None)
}
