//! Longhaul's own client, `haul cp` and `haul ls`, started as a user starts it.
//!
//! Its home folder is the sample's own, which is new each time, and it inherits no environment. So every sample has to
//! learn the server's pipelining support and RTT again. Only the twenty saves of an edit share what the first one
//! learned.
//!
//! An upload names the files or folders. A download names the folder, which costs a listing, as it does for a user; a
//! single file is named itself.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{Contender, Failure, Prepared, Ready, Registered, SampleSetup, Values, io_failure};
use crate::{
    process::{command, run_with_complaint},
    servers::{Http, Server},
    work::{Done, Work},
};

const CONNECTIONS: &[(&str, u32)] = &[("connections", 6)];

macro_rules! registered {
    ($name:literal, $describe:literal, $parameters:expr, $options:expr) => {
        Registered {
            name: $name,
            parameters: $parameters,
            make: |values| Box::new(Haul::new(values, $describe, $options)),
        }
    };
}

pub(super) const DEFAULT: Registered = registered!(
    "haul",
    "haul cp -r with its defaults: six connections, and several requests in flight on each, over HTTP/1.1 or HTTP/2 as the server allows",
    CONNECTIONS,
    &[]
);
pub(super) const NO_PIPELINING: Registered = registered!(
    "haul-no-pipelining",
    "haul cp -r with one request at a time on each of six connections",
    CONNECTIONS,
    &["--pipeline", "off"]
);
pub(super) const HTTP2: Registered = registered!(
    "haul-http2",
    "haul cp -r over HTTP/2 only: all requests in flight on one connection, which begins with a small window",
    &[],
    &["--http", "2"]
);
pub(super) const HTTP3: Registered = registered!(
    "haul-http3",
    "haul cp -r over HTTP/3: all requests in flight on one connection over QUIC",
    &[],
    &["--http", "3"]
);
pub(super) const LOCKS: Registered = registered!(
    "haul-locks",
    "haul cp -r with a lock around every upload: LOCK, PUT, UNLOCK in turn, of many files at once",
    CONNECTIONS,
    &["--lock", "always"]
);

#[derive(Clone)]
struct Haul {
    name: String,
    describe: &'static str,
    options: Vec<String>,
}

impl Haul {
    fn new(values: &Values, describe: &'static str, options: &[&str]) -> Self {
        let mut options: Vec<String> = options.iter().map(ToString::to_string).collect();
        for (name, default) in values.registered.parameters {
            let value = values.get(name);
            if value != *default {
                options.extend([format!("--{name}"), value.to_string()]);
            }
        }
        Self { name: values.name(), describe, options }
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    fn speaks_http3(&self) -> bool {
        self.options.windows(2).any(|option| option == ["--http", "3"])
    }
}

impl Contender for Haul {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &str {
        self.describe
    }

    /// Over TLS it chooses HTTP/2 by ALPN. Without TLS it uses HTTP/2 only if told to.
    fn http(&self, tls: bool) -> Http {
        if tls || self.has("--http") { Http::Two } else { Http::One }
    }

    fn unable(&self, work: &Work, server: &dyn Server, tls: bool) -> Option<String> {
        let locks = self.has("--lock") && !work.writes();
        let http3 = self.speaks_http3();
        program()
            .err()
            .or_else(|| locks.then(|| "only uploads are locked".to_owned()))
            .or_else(|| (http3 && !tls).then(|| "HTTP/3 needs TLS".to_owned()))
            .or_else(|| (http3 && !server.http3()).then(|| format!("{} has no HTTP/3", server.name())))
    }

    fn settings(&self) -> Vec<(String, String)> {
        let options = if self.options.is_empty() { "none".to_owned() } else { self.options.join(" ") };
        vec![("options".to_owned(), options)]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let this = self.clone();
        let program = program().map_err(Failure::Engine)?;
        if let Work::Download { files: 2.., .. } = sample.task.work() {
            // Otherwise `haul cp -r` would copy into it.
            let target = &sample.task.target;
            std::fs::remove_dir(target).map_err(io_failure("remove", target))?;
        }
        Ok(Box::new(Ready(move || this.work(&program, sample))))
    }
}

impl Haul {
    fn work(&self, program: &Path, sample: &SampleSetup) -> Result<Done, Failure> {
        let task = sample.task;
        let mut done = Done::default();
        let run = |command: &mut Command| run_with_complaint(sample.client, command, &sample.deadline, complaint);
        match task.work() {
            Work::Upload { .. } => {
                let files = task.writes().map(|(file, ..)| file);
                run(self.command(program, sample, "cp").arg("-r").args(files).arg(&sample.url))?;
            }
            Work::Tree { .. } => {
                let folders = task.folders().into_iter().map(|folder| task.source.join(folder));
                run(self.command(program, sample, "cp").arg("-r").args(folders).arg(&sample.url))?;
            }
            Work::Download { files: 1, .. } => {
                let name = task.names().concat();
                let (from, to) = (format!("{}{name}", sample.url), task.target.join(name));
                run(self.command(program, sample, "cp").arg(from).arg(to))?;
            }
            Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => {
                run(self.command(program, sample, "cp").arg("-r").arg(&sample.url).arg(&task.target))?;
            }
            Work::List { .. } | Work::LookUp { .. } | Work::Chore(_) => {
                // Each line ends with the name.
                let lines = run(self.command(program, sample, "ls").arg("-l").arg(&sample.url))?.stdout;
                let names = lines.lines().filter_map(|line| line.split_whitespace().last());
                done.listing = Some(names.map(str::to_owned).collect());
            }
            Work::Edit { .. } => {
                for (file, _, name) in task.writes() {
                    run(self.command(program, sample, "cp").arg(&file).arg(format!("{}{name}", sample.url)))?;
                }
            }
        }
        Ok(done)
    }

    fn command(&self, program: &Path, sample: &SampleSetup, verb: &str) -> Command {
        let mut command = command(program, sample.scratch);
        command.arg(verb);
        // A listing has no options for locks and pipelining.
        command.args(self.options.iter().filter(|_| verb == "cp" || self.has("--http")));
        if let Some(certificates) = sample.certificates {
            command.arg("--ca").arg(&certificates.ca_file);
        }
        command
    }
}

/// The last failure and the count of failures: each failure is a line, and the last line counts them.
fn complaint(stderr: &str) -> String {
    let mut lines = stderr.lines().map(|line| line.strip_prefix("haul: ").unwrap_or(line).trim());
    let last = lines.next_back().unwrap_or_default();
    match lines.next_back() {
        Some(why) => format!("{why} ({last})"),
        None => last.to_owned(),
    }
}

/// The program: this one, or in a test, the one built beside it.
pub(super) fn program() -> Result<PathBuf, String> {
    let ourselves = std::env::current_exe().map_err(|error| format!("cannot tell which program this is: {error}"))?;
    if ourselves.file_stem().is_some_and(|name| name == "haul") {
        return Ok(ourselves);
    }
    let beside = ourselves.ancestors().skip(1).take(2).map(|folder| folder.join("haul")).find(|file| file.is_file());
    beside.ok_or_else(|| "haul is not built beside this program; run `cargo build -p haul`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_quotes_last_reason_and_count() {
        let said = "haul: PUT /a: no room (507)\nhaul: PUT /b: no room (507)\nhaul: 0 files (0 B) copied; 2 failed\n";
        assert_eq!(complaint(said), "PUT /b: no room (507) (0 files (0 B) copied; 2 failed)");
        assert_eq!(complaint("haul: cannot connect\n"), "cannot connect");
        assert_eq!(complaint(""), "");
    }
}
