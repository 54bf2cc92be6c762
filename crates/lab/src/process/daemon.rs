//! Programs that run until they are stopped.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::AsFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout},
    sys::signal::Signal,
    unistd::{SysconfVar, sysconf},
};

use super::{EXIT_TIMEOUT, ProcessError, end, name, signal};
use crate::{deadline::Deadline, spawn::Spawn};

/// A program that runs until it is stopped; dropping stops it.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    program: String,
    log: PathBuf,
}

impl Daemon {
    /// Starts it on a host, with its output going to the file `log`.
    pub fn start(host: &dyn Spawn, command: &mut Command, log: &Path) -> Result<Self, ProcessError> {
        let program = name(command);
        let start = |source| ProcessError::Start { program: program.clone(), source };
        let out = File::create(log).map_err(start)?;
        let err = out.try_clone().map_err(start)?;
        command.process_group(0).stdin(Stdio::null()).stdout(out).stderr(err);
        host.prepare(command);
        let child = command.spawn().map_err(start)?;
        Ok(Self { child, program, log: log.to_owned() })
    }

    /// The same, with its standard input and output for the caller, and its standard error going to `log`.
    pub fn start_with_pipes(
        host: &dyn Spawn,
        command: &mut Command,
        log: &Path,
    ) -> Result<(Self, ChildStdin, ChildStdout), ProcessError> {
        let program = name(command);
        let start = |source| ProcessError::Start { program: program.clone(), source };
        let err = File::create(log).map_err(start)?;
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(err);
        host.prepare(command);
        let mut child = command.spawn().map_err(start)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let daemon = Self { child, program: program.clone(), log: log.to_owned() };
        let (input, output) = pipes.ok_or_else(|| start(io::ErrorKind::BrokenPipe.into()))?;
        Ok((daemon, input, output))
    }

    /// Waits for a line of its standard output.
    pub fn line(&mut self, output: &mut ChildStdout, deadline: &Deadline) -> Result<String, ProcessError> {
        let mut line = Vec::new();
        loop {
            let mut fds = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
            let time = PollTimeout::try_from(deadline.slice()).unwrap_or(PollTimeout::ZERO);
            if nix::poll::poll(&mut fds, time).is_ok_and(|ready| ready > 0) {
                let mut buffer = [0; 16 * 1024];
                match output.read(&mut buffer) {
                    Ok(read) if read > 0 => line.extend_from_slice(&buffer[..read]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    _ => {
                        let _ = self.child.wait();
                        self.check()?;
                        return Err(ProcessError::Ended { program: self.program.clone() });
                    }
                }
            }
            if line.last() == Some(&b'\n') {
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if let Err(stop) = deadline.check() {
                self.kill();
                return Err(ProcessError::Stopped { program: self.program.clone(), stop, said: String::new() });
            }
        }
    }

    /// An error if it has exited. It quotes the first line of the output, which usually names the reason; later lines
    /// are consequences.
    pub fn check(&mut self) -> Result<(), ProcessError> {
        let Ok(Some(status)) = self.child.try_wait() else { return Ok(()) };
        let printed = std::fs::read_to_string(&self.log).unwrap_or_default();
        Err(ProcessError::Failed { program: self.program.clone(), status, said: first_line(&printed) })
    }

    /// The process group of all its processes.
    pub(crate) fn group(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The processor time of its process group, and of its children that have ended and were waited for.
    pub fn processor_time(&self) -> Option<Duration> {
        let group = self.child.id().to_string();
        let ticks = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|process| {
            let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
            // proc_pid_stat(5), after the name, which may hold anything: the group is the third field, the
            // times are from the twelfth on, those of children that were waited for among them.
            let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
            let times = || fields.get(11..15)?.iter().map(|time| time.parse::<u64>().ok()).sum::<Option<u64>>();
            if *fields.get(2)? == group { times() } else { None }
        });
        let per_second = sysconf(SysconfVar::CLK_TCK).ok()?? as f64;
        Some(Duration::from_secs_f64(ticks.sum::<u64>() as f64 / per_second))
    }

    /// Kills it with all its children.
    pub fn kill(&mut self) {
        end(&mut self.child);
    }

    /// Sends SIGTERM, waits a bounded time, then kills it with all its children.
    pub fn stop(&mut self) {
        signal(&self.child, Signal::SIGTERM);
        let deadline = Deadline::for_cleanup(EXIT_TIMEOUT);
        while deadline.check().is_ok() {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
        end(&mut self.child);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The first non-empty line, and the next one if the first ends with a colon.
fn first_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let rest = lines.next().filter(|_| first.ends_with(':'));
    rest.map_or_else(|| first.to_owned(), |rest| format!("{first} {rest}"))
}
