//! rclone copy: the distribution's, the newest as it comes, and the newest as its manual would have it for this work.
//!
//! After every PUT rclone asks for the file's properties (PROPFIND), so that a file takes two requests, four files at a time
//! by default. Its WebDAV backend lets 10 ms pass between any two requests, whatever the link: a constant until version 1.63,
//! which brought `--webdav-pacer-min-sleep` (rclone/rclone#6897). Debian 12 has 1.60.
//!
//! `rclone-tuned` has no pause, and the number of transfers that was fastest of 16, 32, 64 and 128 (200 files of 10 KiB over 18 ms
//! and over 140 ms). Its manual offers more, which gained nothing there: `--no-traverse` asks for each file instead of for the
//! folder, `--no-check-dest` saves one request, `--size-only` matters for files that exist, and with `--disable-http2` each
//! transfer pays for a handshake.
//!
//! It makes one attempt only (`--retries 1`), since the time of a sample with retries means nothing. A save in place is
//! `rclone copyto`, one process per save, with `--ignore-times`: plain WebDAV has no settable modification time and no
//! hash, so rclone would skip a version of the same size.

use std::process::Command;

use super::{Contender, Failure, Prepared, Ready, Registered, SampleSetup, Values};
use crate::{
    process::{Program, run},
    servers::{Http, Server},
    work::{Done, Work},
};

pub(super) const RCLONE: Program = Program { name: "rclone", package: "rclone", version: "version" };
/// The newest, beside the distribution's.
pub(super) const NEW: Program = Program { name: "rclone-new", package: "scripts/rclone.sh", version: "version" };
pub(super) const REMOTE: &str = ":webdav:";

/// No pause between two requests.
pub(super) const NO_PAUSE: [&str; 2] = ["--webdav-pacer-min-sleep", "0"];

const DEFAULTS: &[(&str, u32)] = &[("transfers", 4), ("checkers", 8)];

pub(super) const REGISTERED: Registered = Registered {
    name: "rclone",
    parameters: DEFAULTS,
    make: |values| {
        let about = "rclone copy: a PUT and a PROPFIND for each file, 4 files at a time by default; before version 1.63 with \
             a fixed pause of 10 ms between any two requests";
        Box::new(Rclone::new(values, RCLONE, about, &[]))
    },
};

pub(super) const NEWEST: Registered = Registered {
    name: "rclone-new",
    parameters: DEFAULTS,
    make: |values| {
        let about = "the newest rclone as it comes: a PUT and a PROPFIND for each file, 4 files at a time, and by default still \
             10 ms between any two requests";
        Box::new(Rclone::new(values, NEW, about, &[]))
    },
};

pub(super) const TUNED: Registered = Registered {
    name: "rclone-tuned",
    parameters: &[("transfers", 128), ("checkers", 32)],
    make: |values| {
        let about = "the newest rclone tuned by its manual: no pause between requests, 128 files at a time; still a PUT and a \
             PROPFIND for each";
        Box::new(Rclone::new(values, NEW, about, &NO_PAUSE))
    },
};

#[derive(Clone)]
struct Rclone {
    name: String,
    program: Program,
    about: &'static str,
    transfers: u32,
    checkers: u32,
    options: &'static [&'static str],
}

impl Rclone {
    fn new(values: &Values, program: Program, about: &'static str, options: &'static [&'static str]) -> Self {
        let [transfers, checkers] = ["transfers", "checkers"].map(|name| values.get(name));
        Self { name: values.name(), program, about, transfers, checkers, options }
    }
}

impl Contender for Rclone {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &str {
        self.about
    }

    fn needs(&self) -> &[Program] {
        std::slice::from_ref(&self.program)
    }

    /// It supports HTTP/2 only over TLS.
    fn http(&self, tls: bool) -> Http {
        if tls { Http::Two } else { Http::One }
    }

    fn unable(&self, _work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        None
    }

    fn settings(&self) -> Vec<(String, String)> {
        let mut options = format!("--transfers {} --checkers {} --retries 1", self.transfers, self.checkers);
        for option in self.options {
            options.push(' ');
            options.push_str(option);
        }
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
        let mut command = self.program.command(sample.scratch)?;
        configure(&mut command, sample, &sample.url);
        command.arg("--transfers").arg(self.transfers.to_string());
        command.arg("--checkers").arg(self.checkers.to_string());
        command.args(["--retries", "1", "--log-level", "ERROR"]).args(self.options);
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
