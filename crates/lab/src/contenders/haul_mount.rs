//! Longhaul's own mount, `haul mount`, with its defaults: close(2) returns when the server has the file. `haul-mount-back`
//! is the same with `--write back`: close(2) returns when the file is safe in the journal on the client, so that a sample
//! ends when the server has it.
//!
//! Its cache is the sample's own, and new. With `writers`, so many files are written at a time.

use std::ffi::OsStr;

use super::{
    Contender, Failure, Prepared, Registered, SampleSetup,
    foreground_mount::ForegroundMount,
    haul,
    mounted::{Mounted, no_fuse},
};
use crate::{
    process::command,
    servers::{Http, Server},
    work::Work,
};

pub(super) const REGISTERED: Registered = Registered {
    name: "haul-mount",
    parameters: &[("writers", 1)],
    make: |values| Box::new(HaulMount { name: values.name(), writers: values.get("writers"), is_back: false }),
};
pub(super) const BACK: Registered = Registered {
    name: "haul-mount-back",
    parameters: &[("writers", 1)],
    make: |values| Box::new(HaulMount { name: values.name(), writers: values.get("writers"), is_back: true }),
};

struct HaulMount {
    name: String,
    writers: u32,
    /// Whether files are written to the journal first.
    is_back: bool,
}

impl Contender for HaulMount {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &str {
        if self.is_back {
            "haul mount, write-back: files are uploaded behind close(2) from a journal"
        } else {
            "haul mount, write-through, files read and written one after another as cp does"
        }
    }

    fn mounts(&self) -> bool {
        true
    }

    /// Over TLS it chooses HTTP/2 by ALPN.
    fn http(&self, tls: bool) -> Http {
        if tls { Http::Two } else { Http::One }
    }

    fn unable(&self, _work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        no_fuse().or_else(|| haul::program().err())
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("options".to_owned(), if self.is_back { "--write back" } else { "none" }.to_owned())]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let options: &[&str] = if self.is_back { &["--write", "back"] } else { &[] };
        let mount = mount(sample, self.is_back, options)?;
        Ok(Box::new(Mounted::new(mount, sample, self.writers).warmed()?))
    }
}

/// A mount of the server's root with these options.
pub(super) fn mount<S: AsRef<OsStr>>(
    sample: &SampleSetup,
    writes_behind: bool,
    options: &[S],
) -> Result<ForegroundMount, Failure> {
    let program = haul::program().map_err(Failure::Engine)?;
    ForegroundMount::new("haul", sample, writes_behind, |point| {
        let mut command = command(&program, sample.scratch);
        command.args(["mount", "--foreground", "--cache-dir"]).arg(sample.scratch.join("cache")).args(options);
        if let Some(certificates) = sample.certificates {
            command.arg("--ca").arg(&certificates.ca_file);
        }
        command.arg(sample.server()).arg(point);
        Ok(command)
    })
}
