//! `tar c`: the folder packed into an archive on the client. The archive is a file, since tar reads nothing if it is
//! /dev/null.

use super::{Done, Failure, Output, Place, TAR, same_files, timed};
use crate::{contenders::io_failure, process::ProcessError};

pub(super) fn run(place: &Place) -> Result<Done, Failure> {
    let archive = place.task.target.join("archive.tar");
    let (_, done) = timed(|| {
        let packed = place.program(TAR, |tar| {
            tar.arg("-cf").arg(&archive).arg("-C").arg(place.folder).arg(".");
        });
        packed.or_else(unless_changed)
    })?;
    let unpacked = place.task.target.join("unpacked");
    let _ = std::fs::remove_dir_all(&unpacked);
    std::fs::create_dir(&unpacked).map_err(io_failure("create", &unpacked))?;
    place.program(TAR, |tar| {
        tar.arg("-xf").arg(&archive).arg("-C").arg(&unpacked);
    })?;
    same_files(&unpacked, &place.task.names(), &place.task.payload.contents)?;
    Ok(done)
}

/// Tar's status 1 says that something changed while it was read, such as a folder's time on davfs2, which learns it when it
/// lists the folder. The archive's content is checked in any case.
fn unless_changed(failure: Failure) -> Result<Output, Failure> {
    match failure {
        Failure::Process(ProcessError::Failed { status, .. }) if status.code() == Some(1) => Ok(Output::default()),
        failure => Err(failure),
    }
}
