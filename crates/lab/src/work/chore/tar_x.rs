//! `tar x`: an archive of small files unpacked into the mount. It sets each file's modification time, as tar does for
//! everybody; as root it would also set owner and mode, which an ordinary user's tar does not.

use std::path::PathBuf;

use super::{Done, Failure, Place, TAR, Task, WorkError, prepare as run_before};

pub(super) fn prepare(task: &Task) -> Result<(), WorkError> {
    run_before(TAR, &task.source, |tar| {
        tar.arg("-cf").arg(archive(task)).args(task.folders());
    })
}

fn archive(task: &Task) -> PathBuf {
    task.target.join("archive.tar")
}

pub(super) fn run(place: &Place) -> Result<Done, Failure> {
    place.program(TAR, |tar| {
        tar.args(["--no-same-owner", "--no-same-permissions", "-xf"]).arg(archive(place.task));
        tar.arg("-C").arg(place.folder);
    })?;
    Ok(Done::default())
}
