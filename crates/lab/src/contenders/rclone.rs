//! rclone copy, with its defaults: four transfers, eight checkers.
//!
//! It makes one attempt only (`--retries 1`), since the time of a sample with retries means nothing. A save in place is
//! `rclone copyto`, one process per save, with `--ignore-times`: plain WebDAV has no settable modification time and no
//! hash, so rclone would skip a version of the same size.

use std::process::Command;

use super::{Contender, Failure, Prepared, Ready, Registered, SampleSetup};
use crate::{
    process::{Program, run},
    servers::{Http, Server},
    work::{Done, Work},
};

pub(super) const RCLONE: Program = Program { name: "rclone", package: "rclone", version: "version" };
pub(super) const REMOTE: &str = ":webdav:";

pub(super) const REGISTERED: Registered = Registered {
    name: "rclone",
    parameters: &[("transfers", 4), ("checkers", 8)],
    make: |values| {
        let (transfers, checkers) = (values.get("transfers"), values.get("checkers"));
        Box::new(Rclone { name: values.name(), transfers, checkers })
    },
};

#[derive(Clone)]
struct Rclone {
    name: String,
    transfers: u32,
    checkers: u32,
}

impl Contender for Rclone {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &'static str {
        "rclone copy, 4 parallel transfers by default"
    }

    fn needs(&self) -> &'static [Program] {
        &[RCLONE]
    }

    /// It supports HTTP/2 only over TLS.
    fn http(&self, tls: bool) -> Http {
        if tls { Http::Two } else { Http::One }
    }

    fn unable(&self, _work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        None
    }

    fn settings(&self) -> Vec<(String, String)> {
        let options = format!("--transfers {} --checkers {} --retries 1", self.transfers, self.checkers);
        vec![("options".to_owned(), options), ("webdav vendor".to_owned(), "other".to_owned())]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let this = self.clone();
        Ok(Box::new(Ready(move || this.work(sample))))
    }
}

impl Rclone {
    fn work(&self, sample: &SampleSetup) -> Result<Done, Failure> {
        let task = sample.task;
        let mut done = Done::default();
        let run = |command: &mut Command| run(sample.client, command, &sample.deadline);
        match task.work() {
            Work::Upload { .. } | Work::Tree { .. } => {
                run(self.command(sample)?.arg("copy").arg(&task.source).arg(REMOTE))?;
            }
            Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => {
                run(self.command(sample)?.args(["copy", REMOTE]).arg(&task.target))?;
            }
            Work::List { .. } | Work::LookUp { .. } | Work::Chore(_) => {
                // Each line: size, date, time, name.
                let lines = run(self.command(sample)?.args(["lsl", REMOTE]))?.stdout;
                let names = lines.lines().filter_map(|line| line.split_whitespace().nth(3));
                done.listing = Some(names.map(str::to_owned).collect());
            }
            Work::Edit { .. } => {
                for (file, _, name) in task.writes() {
                    let target = format!("{REMOTE}{name}");
                    run(self.command(sample)?.args(["copyto", "--ignore-times"]).arg(&file).arg(target))?;
                }
            }
        }
        Ok(done)
    }

    /// rclone with its remote in the environment, where other users could not see a password.
    fn command(&self, sample: &SampleSetup) -> Result<Command, Failure> {
        let mut command = RCLONE.command(sample.scratch)?;
        configure(&mut command, sample, &sample.url);
        command.arg("--transfers").arg(self.transfers.to_string());
        command.arg("--checkers").arg(self.checkers.to_string());
        command.args(["--retries", "1", "--log-level", "ERROR"]);
        Ok(command)
    }
}

/// Tells rclone in its environment that its remote is the WebDAV folder `url`.
pub(super) fn configure(command: &mut Command, sample: &SampleSetup, url: &str) {
    command.env("RCLONE_WEBDAV_URL", url).env("RCLONE_WEBDAV_VENDOR", "other");
    command.env("RCLONE_CONFIG", sample.scratch.join("rclone.conf"));
    if let Some(certificates) = sample.certificates {
        command.env("RCLONE_CA_CERT", &certificates.ca_file);
    }
}
