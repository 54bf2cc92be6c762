//! `git status` in a clone: git looks at every file and lists every folder, and reads a few files of its own.
//!
//! The clone has a changed file and a new one, so that an answer without looking is wrong.

use std::{
    fs,
    io::Write,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{Done, Failure, GIT, Place, Task, WorkError, git, timed};
use crate::work::{AGE, io_error, verify::same_names};

const NEW: &str = "new.txt";

pub(super) fn prepare(task: &Task, folder: &Path) -> Result<(), WorkError> {
    git::commit(folder)?;
    let changed = folder.join(task.name(0));
    let append = fs::File::options().append(true).open(&changed).and_then(|mut file| file.write_all(b"more"));
    append.map_err(io_error("change", &changed))?;
    let new = folder.join(NEW);
    fs::write(&new, "").map_err(io_error("write", &new))?;
    // Younger than the files, as git requires of its index, and older than a second.
    let then = SystemTime::now() - AGE / 2;
    age(&folder.join(".git"), then)?;
    [changed, new].iter().try_for_each(|file| set_modified(file, then + Duration::from_secs(1)))
}

/// Sets the modification time of all files below a folder.
fn age(folder: &Path, then: SystemTime) -> Result<(), WorkError> {
    for entry in fs::read_dir(folder).map_err(io_error("list", folder))? {
        let path = entry.map_err(io_error("list", folder))?.path();
        if path.is_dir() { age(&path, then)? } else { set_modified(&path, then)? }
    }
    Ok(())
}

fn set_modified(file: &Path, then: SystemTime) -> Result<(), WorkError> {
    // Git's packs are read-only, even for their owner.
    let opened = fs::File::open(file).and_then(|open| open.set_modified(then));
    opened.map_err(io_error("set the time of", file))
}

pub(super) fn run(place: &Place) -> Result<Done, Failure> {
    let (output, done) = timed(|| {
        place.program(GIT, |git| {
            git::accept_owner(git);
            git.arg("-C").arg(place.folder).args(["status", "--porcelain"]);
        })
    })?;
    let expected = [format!(" M {}", place.task.name(0)), format!("?? {NEW}")];
    same_names("git status", output.stdout.lines().map(str::to_owned), &expected)?;
    Ok(done)
}
