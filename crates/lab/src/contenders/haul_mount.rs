//! Longhaul's own mount, `haul mount`, with its defaults: close(2) returns when the server has the file.
//!
//! Its cache is the sample's own, and new. With `writers`, so many files are written at a time.

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
    make: |values| Box::new(HaulMount { name: values.name(), writers: values.get("writers") }),
};

struct HaulMount {
    name: String,
    writers: u32,
}

impl Contender for HaulMount {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &'static str {
        "haul mount, write-through, files read and written one after another as cp does"
    }

    fn needs_root(&self) -> bool {
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
        vec![("options".to_owned(), "none".to_owned())]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let program = haul::program().map_err(Failure::Engine)?;
        let mount = ForegroundMount::new("haul", sample, false, |point| {
            let mut command = command(&program, sample.scratch);
            command.args(["mount", "--foreground", "--cache-dir"]).arg(sample.scratch.join("cache"));
            if let Some(certificates) = sample.certificates {
                command.arg("--ca").arg(&certificates.ca_file);
            }
            command.arg(sample.server()).arg(point);
            Ok(command)
        })?;
        Ok(Box::new(Mounted::new(mount, sample, self.writers)))
    }
}
