//! Running other people's programs: finding them, starting them on a host, and killing them with all their children at
//! a deadline.
//!
//! The end of a program is detected by the end of its output: both pipes close when it exits. Waiting for them with
//! poll(2) adds no polling interval to a measurement, needs no thread, and keeps the last lines for the error message.
//! Each program leads a process group of its own, which is killed as a whole.

mod daemon;
mod until_exit;

use std::{
    borrow::Cow,
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout},
    sys::{
        signal::{Signal, killpg},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::{Gid, Pid, Uid, User},
};

pub use daemon::Daemon;
pub use until_exit::run_until_exit;
pub(crate) use until_exit::{last_lines, wait_for_exit};

use crate::{
    deadline::{Deadline, Stop},
    spawn::{Local, Spawn},
};

/// Bytes kept from the end of standard error.
const STDERR_TAIL: usize = 4096;

/// How long a daemon may take to exit before it is killed, and a program to say its version.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A program, and what brings it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The name of its file.
    pub name: &'static str,
    /// The Debian package to install, or the script of this repository that builds it: `scripts/….sh`.
    pub package: &'static str,
    /// The argument that makes it print its version.
    pub version: &'static str,
}

/// A program or module that is not installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not installed{}", advice(package))]
pub struct Missing {
    /// What was looked for.
    pub what: String,
    /// The Debian package to install, or the script that builds it; empty if unknown.
    pub package: Cow<'static, str>,
}

fn advice(package: &str) -> String {
    match package {
        "" => String::new(),
        script if script.starts_with("scripts/") => format!("; build it with `{script}`, in Longhaul's repository"),
        package => format!("; install it with `apt-get install {package}`"),
    }
}

/// A program that failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It exited with a failure.
    #[error("{program} failed ({status}){}", quote(said))]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// Its error message, usually the last line of its output.
        said: String,
    },
    /// It exited too early.
    #[error("{program} exited early")]
    Ended {
        /// The program.
        program: String,
    },
    /// It was killed at the deadline or by an interrupt.
    #[error("{program} {stop} and was killed{}", quote(said))]
    Stopped {
        /// The program.
        program: String,
        /// Why it was ended.
        stop: Stop,
        /// The last line it printed to standard error.
        said: String,
    },
}

fn quote(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

impl Program {
    /// Its path, searched for in `sbin` folders and among the repository's own tools too.
    pub fn find(&self) -> Result<PathBuf, Missing> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
            .chain(std::env::current_exe().ok().as_deref().and_then(tools))
            .map(|folder| folder.join(self.name))
            .find(|file| file.is_file())
            .ok_or_else(|| Missing { what: self.name.to_owned(), package: self.package.into() })
    }

    /// The [`command`] that runs it.
    pub fn command(&self, scratch: &Path) -> Result<Command, Missing> {
        Ok(command(&self.find()?, scratch))
    }

    /// The first line of its version text; empty if it prints none.
    pub fn version(&self) -> String {
        self.says(self.version).lines().next().unwrap_or_default().to_owned()
    }

    /// Its output for this argument alone, on standard output or error.
    pub fn says(&self, argument: &str) -> String {
        let said = self
            .command(Path::new("/"))
            .ok()
            .and_then(|mut command| collect(&Local, command.arg(argument), &Deadline::for_cleanup(EXIT_TIMEOUT)).ok());
        said.map_or_else(String::new, |(_, output)| [output.stdout, output.stderr].concat())
    }
}

/// The folder of the programs that the repository's scripts build, for a program that was built there too: `target/tools/bin`.
fn tools(program: &Path) -> Option<PathBuf> {
    program.ancestors().find(|folder| folder.ends_with("target")).map(|target| target.join("tools/bin"))
}

/// A command with `scratch` as home and temporary folder, and with nothing else of our environment: no proxy and no
/// personal setting of the user may affect a result.
pub fn command(program: &Path, scratch: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir(scratch).env("HOME", scratch).env("TMPDIR", scratch).env("LC_ALL", "C");
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// A program's output.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Its standard output, whole.
    pub stdout: String,
    /// The end of its standard error.
    pub stderr: String,
}

/// Runs a program to its end on a host and returns its output. The error of a failed program quotes its last line.
pub fn run(host: &dyn Spawn, command: &mut Command, deadline: &Deadline) -> Result<Output, ProcessError> {
    run_with_complaint(host, command, deadline, last_line)
}

/// Like [`run`], for a program whose error message `complaint` extracts from the end of standard error.
pub fn run_with_complaint(
    host: &dyn Spawn,
    command: &mut Command,
    deadline: &Deadline,
    complaint: fn(&str) -> String,
) -> Result<Output, ProcessError> {
    let (status, output) = collect(host, command, deadline)?;
    if status.success() {
        return Ok(output);
    }
    // Some programs print errors to standard output.
    let said = Some(complaint(&output.stderr)).filter(|said| !said.is_empty());
    let said = said.unwrap_or_else(|| last_line(&output.stdout));
    Err(ProcessError::Failed { program: name(command), status, said })
}

fn collect(host: &dyn Spawn, command: &mut Command, deadline: &Deadline) -> Result<(ExitStatus, Output), ProcessError> {
    let program = name(command);
    let start = |source| ProcessError::Start { program: program.clone(), source };
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    host.prepare(command);
    let mut child = command.spawn().map_err(start)?;
    let mut pipes = [
        Pipe::new(child.stdout.take().map(OwnedFd::from), usize::MAX),
        Pipe::new(child.stderr.take().map(OwnedFd::from), STDERR_TAIL),
    ];
    loop {
        if pipes.iter().any(Pipe::open) {
            wait_for_output(&mut pipes, deadline.slice());
        } else if has_ended(&child) {
            host.ended(child.id().cast_signed());
            let status = child.wait().map_err(start)?;
            let [stdout, stderr] = pipes.map(|pipe| pipe.text());
            return Ok((status, Output { stdout, stderr }));
        } else {
            thread::sleep(Duration::from_micros(100));
        }
        if let Err(stop) = deadline.check() {
            end(&mut child);
            return Err(ProcessError::Stopped { program, stop, said: last_line(&pipes[1].text()) });
        }
    }
}

/// Whether it has ended; it is not reaped.
fn has_ended(child: &Child) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let status = waitid(Id::Pid(Pid::from_raw(child.id().cast_signed())), flags);
    // An error is for `wait` to report.
    !matches!(status, Ok(WaitStatus::StillAlive))
}

/// One of a program's output streams, with all it printed, or the last `keep` bytes.
struct Pipe {
    file: Option<File>,
    bytes: Vec<u8>,
    keep: usize,
}

impl Pipe {
    fn new(end: Option<OwnedFd>, keep: usize) -> Self {
        Self { file: end.map(File::from), bytes: Vec::new(), keep }
    }

    fn open(&self) -> bool {
        self.file.is_some()
    }

    /// Reads what is available, without waiting.
    fn read(&mut self) {
        let mut buffer = [0; 16 * 1024];
        match self.file.as_mut().map(|file| file.read(&mut buffer)) {
            Some(Ok(n)) if n > 0 => {
                self.bytes.extend_from_slice(&buffer[..n]);
                let surplus = self.bytes.len().saturating_sub(self.keep);
                self.bytes.drain(..surplus);
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => self.file = None,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Reads what there is within a time; returns whether there was something.
fn wait_for_output(pipes: &mut [Pipe], time: Duration) -> bool {
    let mut open: Vec<&mut Pipe> = pipes.iter_mut().filter(|pipe| pipe.open()).collect();
    let mut fds: Vec<PollFd> =
        open.iter().flat_map(|pipe| &pipe.file).map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN)).collect();
    let ready: Vec<bool> = match nix::poll::poll(&mut fds, PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO)) {
        Ok(_) => fds.iter().map(|fd| fd.any().unwrap_or(true)).collect(),
        Err(_) => Vec::new(),
    };
    for (pipe, _) in open.iter_mut().zip(&ready).filter(|(_, ready)| **ready) {
        pipe.read();
    }
    ready.contains(&true)
}

/// Kills a program with all its children, and reaps it.
fn end(child: &mut Child) {
    signal(child, Signal::SIGKILL);
    let _ = child.wait();
}

fn signal(child: &Child, signal: Signal) {
    if let Ok(id) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(id), signal);
    }
}

fn name(command: &Command) -> String {
    let program = Path::new(command.get_program());
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

/// The last non-empty line.
fn last_line(text: &str) -> String {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// The user that a server runs as if we are root, since it refuses root or drops its privileges; `None` if we are an
/// ordinary user.
pub fn ordinary_user() -> Option<(Uid, Gid)> {
    const NOBODY: u32 = 65534;
    nix::unistd::geteuid().is_root().then(|| {
        let nobody = User::from_name("nobody").ok().flatten();
        nobody.map_or((Uid::from_raw(NOBODY), Gid::from_raw(NOBODY)), |user| (user.uid, user.gid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SH: Program = Program { name: "sh", package: "dash", version: "--version" };

    fn sh(script: &str, time: Duration) -> Result<Output, ProcessError> {
        let mut command = SH.command(Path::new("/")).unwrap();
        run(&Local, command.args(["-c", script]), &Deadline::for_cleanup(time))
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn output_is_complete() {
        let output = sh("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo err >&2", LONG).unwrap();
        assert_eq!(output.stdout.lines().count(), 20000);
        assert_eq!(output.stderr, "err\n");
    }

    #[test]
    fn reading_continues_after_one_stream_ends() {
        let output = sh("exec 2>&-; echo a", LONG).unwrap();
        assert_eq!(output.stdout, "a\n");
        let output = sh("exec >&-; echo b >&2", LONG).unwrap();
        assert_eq!(output.stderr, "b\n");
        sh("exec >&- 2>&-; exit 0", LONG).unwrap();
    }

    #[test]
    fn failure_quotes_last_line() {
        let error = sh("echo first >&2; echo 'no such thing' >&2; exit 3", LONG).unwrap_err();
        assert_eq!(error.to_string(), "sh failed (exit status: 3): no such thing");
        let error = sh("kill -9 $$", LONG).unwrap_err();
        assert_eq!(error.to_string(), "sh failed (signal: 9 (SIGKILL))");
    }

    #[test]
    fn hanging_program_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child");
        let script = format!("sleep 600 & echo $! > {}; echo stuck >&2; wait", file.display());
        let error = sh(&script, Duration::from_secs(3)).unwrap_err();
        assert!(matches!(error, ProcessError::Stopped { .. }), "{error}");
        assert!(error.to_string().ends_with("and was killed: stuck"), "{error}");
        let child = Pid::from_raw(std::fs::read_to_string(file).unwrap().trim().parse().unwrap());
        let state = format!("/proc/{child}/stat");
        let deadline = Deadline::for_cleanup(LONG);
        // Dead, or a zombie until it is reaped.
        while std::fs::read_to_string(&state).is_ok_and(|state| !state.contains(") Z ")) {
            deadline.check().unwrap();
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn missing_program_names_its_package() {
        let program = Program { name: "no-such-program", package: "no-such-package", version: "-V" };
        let error = program.find().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no-such-program is not installed; install it with `apt-get install no-such-package`"
        );
        let program = Program { name: "no-such-program", package: "scripts/no-such.sh", version: "-V" };
        assert_eq!(
            program.find().unwrap_err().to_string(),
            "no-such-program is not installed; build it with `scripts/no-such.sh`, in Longhaul's repository"
        );
    }

    #[test]
    fn tools_of_the_repository_are_found_from_any_build() {
        let tools = |program: &str| super::tools(Path::new(program));
        let expected = Some(PathBuf::from("/src/target/tools/bin"));
        assert_eq!(tools("/src/target/release/haul"), expected);
        assert_eq!(tools("/src/target/debug/deps/lab-1234"), expected);
        assert_eq!(tools("/usr/bin/haul"), None);
    }

    #[test]
    fn processor_time_of_daemon_includes_children() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = SH.command(Path::new("/")).unwrap();
        // A shell that sleeps, and a child that works.
        command.args(["-c", "sh -c 'while :; do :; done' & sleep 600"]);
        let daemon = Daemon::start(&Local, &mut command, &folder.path().join("log")).unwrap();
        let deadline = Deadline::for_cleanup(LONG);
        while daemon.processor_time().unwrap() < Duration::from_millis(50) {
            deadline.check().unwrap();
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn exited_daemon_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = SH.command(Path::new("/")).unwrap();
        command.args(["-c", "echo line 5:; echo port taken; echo exiting; exit 1"]);
        let mut daemon = Daemon::start(&Local, &mut command, &folder.path().join("log")).unwrap();
        let deadline = Deadline::for_cleanup(LONG);
        let error = loop {
            if let Err(error) = daemon.check() {
                break error;
            }
            deadline.check().unwrap();
            thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(error.to_string(), "sh failed (exit status: 1): line 5: port taken");
    }
}
