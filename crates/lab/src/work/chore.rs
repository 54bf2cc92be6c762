//! Chores: what people do in a mounted folder, with the programs they do it with.
//!
//! A mount has to serve programs that know nothing of HTTP: each asks its own questions, in its own order. So a chore runs
//! the real program where there is one. Its work is the same for all: files of one size in folders side by side, on the
//! server before the sample, or on the client if the chore brings them there. One chore is one small file here.
//!
//! A chore that reads can be *warm*: it is done twice, and only the second time counts. The first is part of the
//! contender's preparation.

mod cat;
mod command;
mod cp;
mod git;
mod git_clone;
mod git_status;
mod grep;
mod ls;
mod pread;
mod tar_c;
mod tar_x;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use serde::{Deserialize, Serialize};
use units::Size;

pub use self::command::ChoreCommand;
use super::{Done, Task, WorkError, verify::same_files};
use crate::{
    contenders::Failure,
    deadline::Deadline,
    process::{self, Output, Program},
    spawn::Local,
};

/// A chore, and the files it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chore {
    /// What is done.
    pub job: Job,
    /// The number of folders, side by side.
    pub folders: u32,
    /// The number of files in all folders together.
    pub files: u32,
    /// The size of each file.
    pub size: Size,
    /// Whether it has been done once before the clock starts.
    pub warm: bool,
    /// The command, if the job is one of the user's own.
    pub command: Option<Box<ChoreCommand>>,
}

/// What is done, by the name of the program or the system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// `cp -r` into the mount, until it returns; the server may have the files later.
    Cp,
    /// `tar x` of an archive, until the server has the files.
    TarX,
    /// `git clone` of a local repository, until the server has the clone.
    GitClone,
    /// `ls -lR`.
    LsLr,
    /// `grep -r`.
    GrepR,
    /// `tar c` of the folder.
    TarC,
    /// `git status` in a clone.
    GitStatus,
    /// pread(2) of 4 KiB in the middle of each file.
    Pread,
    /// Each file read from front to back, as `cat` does.
    Cat,
    /// A command of the user's own.
    Command,
}

const TAR: Program = Program { name: "tar", package: "tar", version: "--version" };
const GIT: Program = Program { name: "git", package: "git", version: "--version" };
const LS: Program = Program { name: "ls", package: "coreutils", version: "--version" };
const CP: Program = Program { name: "cp", package: "coreutils", version: "--version" };
const GREP: Program = Program { name: "grep", package: "grep", version: "--version" };

impl Job {
    /// Whether it brings files to the server.
    pub fn writes(self) -> bool {
        matches!(self, Self::Cp | Self::TarX | Self::GitClone)
    }

    /// The program it runs.
    pub fn program(self) -> Option<Program> {
        match self {
            Self::Cp => Some(CP),
            Self::TarX | Self::TarC => Some(TAR),
            Self::GitClone | Self::GitStatus => Some(GIT),
            Self::LsLr => Some(LS),
            Self::GrepR => Some(GREP),
            Self::Pread | Self::Cat | Self::Command => None,
        }
    }
}

impl Chore {
    /// The bytes of files that must cross the link.
    pub(super) fn payload(&self) -> u64 {
        let all = u64::from(self.files).saturating_mul(self.size.as_bytes());
        match self.job {
            _ if self.warm => 0,
            Job::LsLr | Job::GitStatus | Job::Command => 0,
            Job::Pread => u64::from(self.files).saturating_mul(pread::LENGTH as u64).min(all),
            Job::Cp | Job::TarX | Job::GitClone | Job::GrepR | Job::TarC | Job::Cat => all,
        }
    }

    /// Whether it changes what is on the server, although it brings no files there.
    pub(crate) fn may_change_files(&self) -> bool {
        self.command.as_ref().is_some_and(|command| command.verify.is_some())
    }

    /// Changes the random content of the files as the chore needs it.
    pub(super) fn edit(&self, contents: &mut [Vec<u8>]) {
        if self.job == Job::GrepR {
            grep::edit(contents);
        }
    }

    /// Prepares the client, where the task's files are if the chore brings them to the server.
    pub(super) fn prepare_client(&self, task: &Task) -> Result<(), WorkError> {
        match self.job {
            Job::TarX => tar_x::prepare(task),
            Job::GitClone => git_clone::prepare(task),
            _ => Ok(()),
        }
    }

    /// Prepares the task's `folder` on the server, where its files are unless the chore brings them there.
    pub(super) fn prepare_server(&self, task: &Task, folder: &Path) -> Result<(), WorkError> {
        match (self.job, &self.command) {
            (Job::GitStatus, _) => git_status::prepare(task, folder),
            (Job::Command, Some(command)) => command.prepare(task, folder),
            _ => Ok(()),
        }
    }

    /// Checks what the server has in the task's `folder`, if the chore brings files there. A chore that reads has
    /// checked what it read.
    pub(super) fn verify(&self, task: &Task, folder: &Path) -> Result<(), WorkError> {
        match self.job {
            Job::Cp | Job::TarX => same_files(folder, &task.names(), &task.payload.contents),
            Job::GitClone => git_clone::verify(task, folder),
            Job::Command => self.command.as_ref().map_or(Ok(()), |command| command.verify(task, folder)),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Display for Chore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { job, folders, files, size, warm, command } = self;
        let what = match job {
            Job::Command => &format!("`{}` with", command.as_ref().map_or("", |command| command.run.text())),
            Job::Cp => "cp -r, until it returns, of",
            Job::TarX => "tar x of",
            Job::GitClone => "git clone of",
            Job::LsLr => "ls -lR of",
            Job::GrepR => "grep -r over",
            Job::TarC => "tar c of",
            Job::GitStatus => "git status in a clone of",
            Job::Pread => "read 4KiB in the middle of",
            Job::Cat => "read",
        };
        let [files_word, folders_word] = [(files, "file"), (folders, "folder")]
            .map(|(count, word)| if *count == 1 { word.to_owned() } else { format!("{word}s") });
        write!(f, "{what} {files} {files_word} of {size} in {folders} {folders_word}")?;
        if *warm { write!(f, ", for the second time") } else { Ok(()) }
    }
}

/// A chore in a mounted folder, on a thread of the client's host.
pub struct Place<'a> {
    /// The task.
    pub task: &'a Task,
    /// The task's folder, in the mount.
    pub folder: &'a Path,
    /// When to give up.
    pub deadline: &'a Deadline,
}

impl Place<'_> {
    /// Does the chore once, and checks what it read.
    pub fn run(&self, chore: &Chore) -> Result<Done, Failure> {
        match chore.job {
            Job::Cp => cp::run(self),
            Job::TarX => tar_x::run(self),
            Job::GitClone => git_clone::run(self),
            Job::LsLr => ls::run(self),
            Job::GrepR => grep::run(self),
            Job::TarC => tar_c::run(self),
            Job::GitStatus => git_status::run(self),
            Job::Pread => pread::run(self),
            Job::Cat => cat::run(self),
            Job::Command => match &chore.command {
                Some(command) => command.run(self),
                None => Ok(Done::default()),
            },
        }
    }

    /// Runs a program to its end. The thread is on the client's host, and programs inherit that.
    fn program(&self, program: Program, arguments: impl FnOnce(&mut Command)) -> Result<Output, Failure> {
        let mut command = program.command(&self.task.target)?;
        arguments(&mut command);
        Ok(process::run(&Local, &mut command, self.deadline)?)
    }

    /// The path of the task's file in the mount.
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The result and the time of something that only reads: its check comes after the clock.
fn timed<T>(read: impl FnOnce() -> Result<T, Failure>) -> Result<(T, Done), Failure> {
    let start = Instant::now();
    let result = read()?;
    Ok((result, Done { took: Some(start.elapsed()), ..Done::default() }))
}

/// Runs a program of the preparation, on this machine's own files.
fn prepare(program: Program, folder: &Path, arguments: impl FnOnce(&mut Command)) -> Result<(), WorkError> {
    let failed = |why: &dyn std::fmt::Display| WorkError::Wrong(format!("{} cannot prepare: {why}", program.name));
    let mut command = program.command(folder).map_err(|missing| failed(&missing))?;
    arguments(&mut command);
    let deadline = Deadline::for_cleanup(std::time::Duration::from_mins(1));
    process::run(&Local, &mut command, &deadline).map(drop).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests;
