//! `rclone mount`, with one of the two cache modes that let programs write anywhere in a file: `writes` caches only the
//! files that are opened for writing, `full` all of them.
//!
//! An upload begins right after close(2) (`--vfs-write-back 0s`); by default it begins five seconds later, which would
//! be all that a sample measures. close(2) returns before, so that the sample ends when the server has the file. A save
//! in place is confirmed at the server before the next one begins, as for davfs2: rclone merges two that follow each other
//! closely. `git clone` gets a second: git renames the files that it has just written, and rclone 1.60 fails to rename a
//! file that it is uploading (`could not lock config file .git/config: File exists`).

use super::{
    Contender, Failure, Prepared, Registered, SampleSetup, Values,
    foreground_mount::ForegroundMount,
    mounted::{Mounted, no_fuse, no_user_name},
    rclone::{RCLONE, REMOTE, configure},
};
use crate::{
    process::Program,
    servers::{Http, Server},
    work::{Job, Work},
};

/// rclone's default is four uploads at a time.
const PARAMETERS: &[(&str, u32)] = &[("writers", 1), ("transfers", 4)];

pub(super) const WRITES: Registered = Registered {
    name: "rclone-mount-writes",
    parameters: PARAMETERS,
    make: |values| Box::new(RcloneMount::new(values, "writes")),
};
pub(super) const FULL: Registered = Registered {
    name: "rclone-mount-full",
    parameters: PARAMETERS,
    make: |values| Box::new(RcloneMount::new(values, "full")),
};

struct RcloneMount {
    name: String,
    mode: &'static str,
    writers: u32,
    transfers: u32,
}

impl RcloneMount {
    fn new(values: &Values, mode: &'static str) -> Self {
        let [writers, transfers] = ["writers", "transfers"].map(|name| values.get(name));
        Self { name: values.name(), mode, writers, transfers }
    }
}

impl Contender for RcloneMount {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &'static str {
        if self.mode == "full" {
            "rclone mount that caches all files, uploading behind close(2)"
        } else {
            "rclone mount that caches written files, uploading behind close(2)"
        }
    }

    fn mounts(&self) -> bool {
        true
    }

    fn needs(&self) -> &'static [Program] {
        const FUSERMOUNT: Program = Program { name: "fusermount3", package: "fuse3", version: "-V" };
        &[RCLONE, FUSERMOUNT]
    }

    /// It supports HTTP/2 only over TLS.
    fn http(&self, tls: bool) -> Http {
        if tls { Http::Two } else { Http::One }
    }

    fn unable(&self, _work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        no_fuse().or_else(|| no_user_name("fusermount"))
    }

    fn settings(&self) -> Vec<(String, String)> {
        let options = format!(
            "--vfs-cache-mode {} --vfs-write-back 0s (git clone: 1s) --transfers {}",
            self.mode, self.transfers
        );
        vec![("options".to_owned(), options), ("webdav vendor".to_owned(), "other".to_owned())]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let mount = ForegroundMount::new("rclone", sample, true, |point| {
            let mut command = RCLONE.command(sample.scratch)?;
            configure(&mut command, sample, sample.server());
            let is_clone = sample.task.work().chore().is_some_and(|chore| chore.job == Job::GitClone);
            command.arg("mount").args(["--vfs-cache-mode", self.mode]);
            command.args(["--vfs-write-back", if is_clone { "1s" } else { "0s" }]);
            command.arg("--transfers").arg(self.transfers.to_string()).arg("--cache-dir");
            command.arg(sample.scratch.join("cache")).args(["--log-level", "ERROR", REMOTE]).arg(point);
            Ok(command)
        })?;
        Ok(Box::new(Mounted::new(mount, sample, self.writers).warmed()?))
    }
}
