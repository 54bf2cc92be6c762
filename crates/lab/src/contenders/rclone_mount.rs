//! `rclone mount`, with one of the two cache modes that let programs write anywhere in a file: `writes` caches only the
//! files that are opened for writing, `full` all of them. The newest version is tuned by its manual: no pause between
//! requests, 32 uploads at a time, folders remembered for an hour.
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
    rclone::{NEW, NO_PAUSE, RCLONE, REMOTE, configure},
};
use crate::{
    process::Program,
    servers::{Http, Server},
    work::{Job, Work},
};

/// rclone's default is four uploads at a time.
const PARAMETERS: &[(&str, u32)] = &[("writers", 1), ("transfers", 4)];

const FUSERMOUNT: Program = Program { name: "fusermount3", package: "fuse3", version: "-V" };

pub(super) const WRITES: Registered = Registered {
    name: "rclone-mount-writes",
    parameters: PARAMETERS,
    make: |values| {
        let about = "rclone mount that caches written files and uploads them behind close(2), a PUT and a PROPFIND for each, 4 at \
             a time by default; before version 1.63 with a fixed pause of 10 ms between any two requests";
        Box::new(RcloneMount::new(values, RCLONE, about, "writes", &[]))
    },
};
pub(super) const FULL: Registered = Registered {
    name: "rclone-mount-full",
    parameters: PARAMETERS,
    make: |values| {
        let about = "rclone mount that caches all files, otherwise like rclone-mount-writes";
        Box::new(RcloneMount::new(values, RCLONE, about, "full", &[]))
    },
};
pub(super) const TUNED: Registered = Registered {
    name: "rclone-mount-tuned",
    parameters: &[("writers", 1), ("transfers", 32)],
    make: |values| {
        let about = "the newest rclone mount, caching all files, tuned by its manual: no pause between requests, 32 uploads at a \
             time behind close(2), folders remembered for an hour";
        Box::new(RcloneMount::new(values, NEW, about, "full", &["--dir-cache-time", "1h", NO_PAUSE[0], NO_PAUSE[1]]))
    },
};

struct RcloneMount {
    name: String,
    programs: [Program; 2],
    about: &'static str,
    mode: &'static str,
    writers: u32,
    transfers: u32,
    options: &'static [&'static str],
}

impl RcloneMount {
    fn new(
        values: &Values,
        program: Program,
        about: &'static str,
        mode: &'static str,
        options: &'static [&'static str],
    ) -> Self {
        let [writers, transfers] = ["writers", "transfers"].map(|name| values.get(name));
        Self { name: values.name(), programs: [program, FUSERMOUNT], about, mode, writers, transfers, options }
    }
}

impl Contender for RcloneMount {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &str {
        self.about
    }

    fn mounts(&self) -> bool {
        true
    }

    fn needs(&self) -> &[Program] {
        &self.programs
    }

    /// It supports HTTP/2 only over TLS.
    fn http(&self, tls: bool) -> Http {
        if tls { Http::Two } else { Http::One }
    }

    fn unable(&self, _work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        no_fuse().or_else(|| no_user_name("fusermount"))
    }

    fn settings(&self) -> Vec<(String, String)> {
        let mut options = format!(
            "--vfs-cache-mode {} --vfs-write-back 0s (git clone: 1s) --transfers {}",
            self.mode, self.transfers
        );
        for option in self.options {
            options.push(' ');
            options.push_str(option);
        }
        vec![("options".to_owned(), options), ("webdav vendor".to_owned(), "other".to_owned())]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let mount = ForegroundMount::new("rclone", sample, true, |point| {
            let mut command = self.programs[0].command(sample.scratch)?;
            configure(&mut command, sample, sample.server());
            let is_clone = sample.task.work().chore().is_some_and(|chore| chore.job == Job::GitClone);
            command.arg("mount").args(["--vfs-cache-mode", self.mode]);
            command.args(["--vfs-write-back", if is_clone { "1s" } else { "0s" }]);
            command.arg("--transfers").arg(self.transfers.to_string()).arg("--cache-dir");
            command.arg(sample.scratch.join("cache")).args(["--log-level", "ERROR"]);
            command.args(self.options).arg(REMOTE).arg(point);
            Ok(command)
        })?;
        Ok(Box::new(Mounted::new(mount, sample, self.writers).warmed()?))
    }
}
