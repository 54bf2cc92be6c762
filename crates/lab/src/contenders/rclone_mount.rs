//! `rclone mount`, with one of the two cache modes that let programs write anywhere in a file: `writes` caches only the
//! files that are opened for writing, `full` all of them.
//!
//! An upload begins right after close(2) (`--vfs-write-back 0s`); by default it begins five seconds later, which would
//! be all that a sample measures. close(2) returns before, so that the sample ends when the server has the file. A save
//! in place is confirmed at the server before the next one begins, as for davfs2: rclone merges two that follow each other
//! closely.

use super::{
    Contender, Failure, Prepared, Registered, SampleSetup,
    foreground_mount::ForegroundMount,
    mounted::{Mounted, no_fuse},
    rclone::{RCLONE, REMOTE, configure},
};
use crate::{
    process::Program,
    servers::{Http, Server},
    work::Work,
};

const WRITERS: &[(&str, u32)] = &[("writers", 1)];

pub(super) const WRITES: Registered = Registered {
    name: "rclone-mount-writes",
    parameters: WRITERS,
    make: |values| Box::new(RcloneMount { name: values.name(), mode: "writes", writers: values.get("writers") }),
};
pub(super) const FULL: Registered = Registered {
    name: "rclone-mount-full",
    parameters: WRITERS,
    make: |values| Box::new(RcloneMount { name: values.name(), mode: "full", writers: values.get("writers") }),
};

struct RcloneMount {
    name: String,
    mode: &'static str,
    writers: u32,
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

    fn needs_root(&self) -> bool {
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
        no_fuse()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let options = format!("--vfs-cache-mode {} --vfs-write-back 0s", self.mode);
        vec![("options".to_owned(), options), ("webdav vendor".to_owned(), "other".to_owned())]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let mount = ForegroundMount::new("rclone", sample, true, |point| {
            let mut command = RCLONE.command(sample.scratch)?;
            configure(&mut command, sample, sample.server());
            command.arg("mount").args(["--vfs-cache-mode", self.mode, "--vfs-write-back", "0s", "--cache-dir"]);
            command.arg(sample.scratch.join("cache")).args(["--log-level", "ERROR", REMOTE]).arg(point);
            Ok(command)
        })?;
        Ok(Box::new(Mounted::new(mount, sample, self.writers)))
    }
}
