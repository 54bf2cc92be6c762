//! A command's results as JSON (`--json`), its errors, and its exit status.

pub(super) mod bar;
pub(super) mod event_log;
pub(super) mod format;
pub(super) mod progress;

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::Serialize;

use crate::files::Outcome;
use crate::say;

const SCHEMA: &str = "longhaul.files/1";

/// A command's results while it runs.
pub(super) struct Results {
    command: &'static str,
    json: Option<PathBuf>,
    failed: Vec<Failed>,
    differs: bool,
}

/// A failure.
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

impl Results {
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

    /// Prints to standard output, unless the JSON goes there.
    pub(super) fn print(&self, text: &str) -> Result<(), Box<dyn std::error::Error>> {
        if self.owns_stdout() { Ok(()) } else { crate::print(text.as_bytes()) }
    }

    /// Prints and records a failure.
    pub(super) fn fail(&mut self, path: impl Display, why: impl Display) {
        say(&why);
        self.note(path, why);
    }

    /// Records a failure that has been printed already.
    pub(super) fn note(&mut self, path: impl Display, why: impl Display) {
        self.failed.push(Failed { path: path.to_string(), why: why.to_string() });
    }

    /// Records a difference: not a failure, but the exit status is 1.
    pub(super) fn differs(&mut self) {
        self.differs = true;
    }

    /// Writes the JSON, and returns the exit status.
    pub(super) fn finish(self, found: impl Serialize) -> Outcome {
        if let Some(path) = &self.json {
            let document = Document { schema: SCHEMA, command: self.command, found, failed: &self.failed };
            // Streamed: it may be large.
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
