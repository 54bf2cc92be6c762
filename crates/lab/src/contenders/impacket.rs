//! impacket in place of smbclient: a client library that shares no code with Samba. A script keeps one session and does the
//! work that it is told, one file after another. Python's start and the session setup are before the clock.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{ChildStdin, ChildStdout},
};

use serde_json::{Value, json};

use super::{Failure, Pc, SampleSetup, io_failure};
use crate::{
    deadline::Deadline,
    process::{Daemon, Missing, command},
    work::{Task, Work},
};

/// Debian's, for which Debian's package of impacket is.
const PYTHON: &str = "/usr/bin/python3";
const LIBRARY: &str = "/usr/lib/python3/dist-packages/impacket";
const SCRIPT: &str = include_str!("impacket_session.py");

pub(super) fn missing() -> Option<Missing> {
    let is_there = Path::new(PYTHON).is_file() && Path::new(LIBRARY).is_dir();
    (!is_there).then(|| Missing { what: "impacket".to_owned(), package: "python3-impacket".into() })
}

/// The folder of its metadata carries the version.
pub(super) fn version() -> String {
    let packages = Path::new(LIBRARY).parent().and_then(|folder| fs::read_dir(folder).ok());
    let mut names = packages.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let found = names.find_map(|name| {
        let name = name.to_str()?.strip_prefix("impacket-")?.to_owned();
        name.split_once(".egg").or_else(|| name.split_once(".dist")).map(|(version, _)| version.to_owned())
    });
    found.unwrap_or_else(|| "unknown".to_owned())
}

/// A session; fields are dropped in order, and without input the script ends.
pub(super) struct Session {
    input: ChildStdin,
    output: ChildStdout,
    script: Daemon,
}

impl Session {
    /// Starts the script on the desktop computer, and waits until it is in the share.
    pub(super) fn begin(sample: &SampleSetup, pc: Pc, share: &str) -> Result<Self, Failure> {
        let mut command = command(Path::new(PYTHON), sample.scratch);
        command.args(["-c", SCRIPT]).arg(pc.share.ip().to_string()).arg(pc.share.port().to_string()).arg(share);
        let log = sample.scratch.join("impacket.log");
        let (script, input, output) = Daemon::start_with_pipes(pc.host, &mut command, &log)?;
        let mut session = Self { input, output, script };
        session.script.line(&mut session.output, &sample.deadline)?;
        Ok(session)
    }

    /// Does the work; a listing returns names.
    pub(super) fn work(&mut self, task: &Task, deadline: &Deadline) -> Result<Option<Vec<String>>, Failure> {
        let mut wanted = json!({ "folder": task.folder, "make": task.folders() });
        match task.work() {
            Work::Upload { .. } | Work::Tree { .. } | Work::Edit { .. } => {
                wanted["put"] = task.writes().map(|(file, _, name)| json!([file, name])).collect();
            }
            Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => {
                wanted["get"] = task.names().iter().map(|name| json!([name, task.target.join(name)])).collect();
            }
            Work::List { .. } | Work::LookUp { .. } | Work::Chore(_) => wanted["list"] = true.into(),
        }
        writeln!(self.input, "{wanted}").map_err(io_failure("write to", Path::new("impacket")))?;
        let line = self.script.line(&mut self.output, deadline)?;
        let found: Value = serde_json::from_str(&line).unwrap_or_default();
        let names = found.as_array().map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        Ok(names)
    }
}
