//! What a command found, did and could not do, for a program that asked for it (`--json`), and how it ends.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::Serialize;

use super::Outcome;
use crate::say;

const SCHEMA: &str = "longhaul.files/1";

/// A command's report, while it runs.
pub(super) struct Report {
    command: &'static str,
    json: Option<PathBuf>,
    failed: Vec<Failed>,
    differs: bool,
}

/// Something that was not done.
#[derive(Debug, Clone, Serialize)]
struct Failed {
    path: String,
    why: String,
}

#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'static str,
    command: &'static str,
    #[serde(flatten)]
    found: T,
    failed: &'a [Failed],
}

impl Report {
    pub(super) fn new(command: &'static str, json: Option<&Path>) -> Self {
        Self { command, json: json.map(Path::to_owned), failed: Vec::new(), differs: false }
    }

    /// Whose it is.
    pub(super) fn command(&self) -> &'static str {
        self.command
    }

    /// Whether a program reads it.
    pub(super) fn is_kept(&self) -> bool {
        self.json.is_some()
    }

    /// Whether standard output belongs to the JSON.
    pub(super) fn owns_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Whether all went well until now.
    pub(super) fn is_good(&self) -> bool {
        self.failed.is_empty()
    }

    /// Prints for a person, unless standard output is a program's.
    pub(super) fn print(&self, text: &str) -> Result<(), Box<dyn std::error::Error>> {
        if self.owns_stdout() { Ok(()) } else { crate::print(text.as_bytes()) }
    }

    /// Something was not done: tells why, in a sentence that names it.
    pub(super) fn fail(&mut self, path: impl Display, why: impl Display) {
        say(&why);
        self.note(path, why);
    }

    /// The same, where the person has been told.
    pub(super) fn note(&mut self, path: impl Display, why: impl Display) {
        self.failed.push(Failed { path: path.to_string(), why: why.to_string() });
    }

    /// What was compared is not the same: nothing has failed, and the exit status says so.
    pub(super) fn differs(&mut self) {
        self.differs = true;
    }

    /// The end: writes the JSON, with what was found in it.
    pub(super) fn finish(self, found: impl Serialize) -> Outcome {
        if let Some(path) = &self.json {
            let document = Document { schema: SCHEMA, command: self.command, found, failed: &self.failed };
            // As it is made: it may be long.
            let written = output::write(path, |to| {
                serde_json::to_writer_pretty(&mut *to, &document)?;
                to.write_all(b"\n")
            });
            written.map_err(|error| {
                let place = if self.owns_stdout() { "standard output".into() } else { path.display().to_string() };
                format!("cannot write the JSON to {place}: {error}")
            })?;
        }
        Ok(if self.is_good() && !self.differs { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
