//! What git needs wherever it runs.

use std::{path::Path, process::Command};

use super::{GIT, WorkError, prepare};

/// Makes git(1) accept a folder of another owner, which a mount may show.
pub(super) fn accept_owner(git: &mut Command) {
    git.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
}

/// Makes a folder's files a repository with one commit and one pack, as after a clone.
///
/// A network file system keeps no inode numbers and no times of change. Git's own advice for it is to compare sizes and
/// modification times only; otherwise `git status` would read every file.
pub(super) fn commit(folder: &Path) -> Result<(), WorkError> {
    let git = |arguments: &[&str]| {
        prepare(GIT, folder, |git| {
            git.args(["-c", "user.name=lab", "-c", "user.email=lab@example.org"]).args(arguments);
        })
    };
    git(&["init", "--quiet", "--initial-branch=main"])?;
    git(&["config", "core.checkStat", "minimal"])?;
    git(&["config", "core.trustctime", "false"])?;
    git(&["config", "core.fileMode", "false"])?;
    git(&["add", "--all"])?;
    git(&["commit", "--quiet", "--message=files"])?;
    git(&["repack", "-a", "-d", "-q"])
}
