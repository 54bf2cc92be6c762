//! Running a program until it exits, although programs that it has started go on and keep its output open: a daemon
//! that a script starts, a connection that stays open for the next command.
//!
//! [`run`](super::run) waits for the end of the output, which such programs put off. A thread waits for the exit
//! instead, and closes a pipe of ours, so that poll(2) sees both without a polling interval.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::wait::{Id, WaitPidFlag, waitid},
    unistd::Pid,
};

use super::{Output, Pipe, ProcessError, STDERR_TAIL, end, wait_for_output};
use crate::{deadline::Deadline, spawn::Spawn};

/// The number of lines that an error quotes.
const LINES: usize = 5;

/// The output that is kept of a program whose whole output matters, in bytes.
const STDOUT_TAIL: usize = 64 << 20;

/// The reads that empty a pipe, which holds 64 KiB (pipe(7)), with some to spare.
const READS: usize = 8;

/// Runs a program until it exits, and returns its output; `what` names it in errors, which quote its last lines.
pub fn run_until_exit(
    host: &dyn Spawn,
    command: &mut Command,
    deadline: &Deadline,
    what: &str,
) -> Result<Output, ProcessError> {
    let (status, output) = wait_for_exit(host, command, deadline, what)?;
    if status.success() {
        return Ok(output);
    }
    Err(ProcessError::Failed { program: what.to_owned(), status, said: output.last_lines() })
}

impl Output {
    /// The last lines of standard error, or of standard output if there are none: some programs print errors there.
    pub(crate) fn last_lines(&self) -> String {
        let said = Some(last_lines(&self.stderr)).filter(|said| !said.is_empty());
        said.unwrap_or_else(|| last_lines(&self.stdout))
    }
}

/// Runs a program until it exits, and returns its status and its output.
pub(crate) fn wait_for_exit(
    host: &dyn Spawn,
    command: &mut Command,
    deadline: &Deadline,
    what: &str,
) -> Result<(ExitStatus, Output), ProcessError> {
    let start = |source| ProcessError::Start { program: what.to_owned(), source };
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    host.prepare(command);
    let mut child = command.spawn().map_err(start)?;
    let exit = exit_of(&child).map_err(|error| {
        end(&mut child);
        start(error)
    })?;
    let mut pipes = [
        Pipe::new(child.stdout.take().map(OwnedFd::from), STDOUT_TAIL),
        Pipe::new(child.stderr.take().map(OwnedFd::from), STDERR_TAIL),
        Pipe::new(Some(exit), 0),
    ];
    while pipes[2].open() {
        wait_for_output(&mut pipes, deadline.slice());
        if let Err(stop) = deadline.check() {
            end(&mut child);
            return Err(ProcessError::Stopped { program: what.to_owned(), stop, said: last_lines(&pipes[1].text()) });
        }
    }
    host.ended(child.id().cast_signed());
    let status = child.wait().map_err(start)?;
    // What it printed is in the pipes, and others may go on printing.
    let _ = (0..READS).all(|_| wait_for_output(&mut pipes, Duration::ZERO));
    let [stdout, stderr, _] = pipes.map(|pipe| pipe.text());
    Ok((status, Output { stdout, stderr }))
}

/// A pipe that ends when the program exits; the program is not reaped.
fn exit_of(child: &Child) -> io::Result<OwnedFd> {
    let (exit, open) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    let id = Id::Pid(Pid::from_raw(child.id().cast_signed()));
    thread::Builder::new().name("exit".to_owned()).spawn(move || {
        let _ = waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        drop(open);
    })?;
    Ok(exit)
}

/// The last lines that are not empty, in one.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join(" | ")
}
