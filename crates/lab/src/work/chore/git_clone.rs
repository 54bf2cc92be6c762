//! `git clone` of a local repository into the mount: besides the files, git writes, renames and reads its own.

use std::{fs, path::Path};

use super::{Done, Failure, GIT, Place, Task, WorkError, git, prepare as run_before};
use crate::work::{
    io_error,
    verify::{files_below, same_content, same_names},
};

/// The clone's name, on the server and, as it should be, on the client.
const CLONE: &str = "clone";

pub(super) fn prepare(task: &Task) -> Result<(), WorkError> {
    git::commit(&task.source)?;
    run_before(GIT, &task.target, |git| {
        git.args(["clone", "--quiet"]).arg(&task.source).arg(CLONE);
    })
}

pub(super) fn run(place: &Place) -> Result<Done, Failure> {
    place.program(GIT, |git| {
        git::accept_owner(git);
        git.args(["clone", "--quiet"]).arg(&place.task.source).arg(place.folder.join(CLONE));
    })?;
    Ok(Done::default())
}

/// The server has the files that a clone on the client has. Their contents are the same too, except for git's notes on
/// times and on the file system.
pub(super) fn verify(task: &Task, folder: &Path) -> Result<(), WorkError> {
    let (ours, theirs) = (task.target.join(CLONE), folder.join(CLONE));
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    files_below(&ours, "", &mut expected)?;
    files_below(&theirs, "", &mut found)?;
    same_names(&theirs.display().to_string(), found.into_iter(), &expected)?;
    for name in expected.iter().filter(|name| !name.ends_with('/')) {
        let (ours, theirs) = (ours.join(name), theirs.join(name));
        let content = fs::read(&ours).map_err(io_error("read", &ours))?;
        if [".git/index", ".git/config"].contains(&name.as_str()) || name.starts_with(".git/logs/") {
            let length = fs::metadata(&theirs).map_err(io_error("look at", &theirs))?.len();
            if length == 0 {
                return Err(WorkError::Wrong(format!("{} is empty", theirs.display())));
            }
        } else {
            same_content(&theirs, &content)?;
        }
    }
    Ok(())
}
