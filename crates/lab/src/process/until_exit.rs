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

use super::{Output, Pipe, ProcessError, STDERR_TAIL, end, name, wait_for_output};
use crate::{deadline::Deadline, spawn::Spawn};

/// The number of lines that an error quotes.
const LINES: usize = 5;

/// The output that is kept of a program whose whole output matters, in bytes.
const STDOUT_TAIL: usize = 16 << 20;

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
    let program = format!("{what} ({})", name(command));
    let start = |source| ProcessError::Start { program: program.clone(), source };
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
            let [stdout, stderr, _] = pipes.map(|pipe| pipe.text());
            let said = Output { stdout, stderr }.last_lines();
            return Err(ProcessError::Stopped { program: what.to_owned(), stop, said });
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::spawn::Local;

    fn sh(script: &str, time: Duration) -> Result<Output, ProcessError> {
        let mut command = Command::new("/bin/sh");
        run_until_exit(&Local, command.args(["-c", script]), &Deadline::for_cleanup(time), "it")
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn exit_ends_the_wait_although_the_output_stays_open() {
        let start = Instant::now();
        let output = sh("echo a; echo b >&2; sleep 600 & echo $!", LONG).unwrap();
        assert!(start.elapsed() < LONG);
        assert_eq!(output.stderr, "b\n");
        let (first, process) = output.stdout.trim().split_once('\n').unwrap();
        assert_eq!(first, "a");
        nix::sys::signal::kill(Pid::from_raw(process.parse().unwrap()), nix::sys::signal::Signal::SIGKILL).unwrap();
    }

    #[test]
    fn output_is_complete() {
        let output = sh("seq 100000; seq 3 >&2", LONG).unwrap();
        assert_eq!((output.stdout.lines().count(), output.stderr.as_str()), (100_000, "1\n2\n3\n"));
    }

    #[test]
    fn failure_quotes_the_last_lines() {
        let error = sh("seq 7 >&2; exit 3", LONG).unwrap_err();
        assert_eq!(error.to_string(), "it failed (exit status: 3): 3 | 4 | 5 | 6 | 7");
        assert_eq!(sh("echo no; exit 1", LONG).unwrap_err().to_string(), "it failed (exit status: 1): no");
        let error = sh("echo stuck >&2; sleep 600", Duration::from_secs(2)).unwrap_err();
        assert_eq!(error.to_string(), "it did not finish within 2s and was killed: stuck");
        let mut missing = Command::new("/no/such-program");
        let error = run_until_exit(&Local, &mut missing, &Deadline::for_cleanup(LONG), "it").unwrap_err();
        assert!(error.to_string().starts_with("cannot start it (such-program): No such file"), "{error}");
    }
}
