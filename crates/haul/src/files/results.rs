//! A command's results as JSON (`--json`), its errors, and its exit status.

pub(super) mod bar;
pub(super) mod event_log;
pub(super) mod failures;
pub(super) mod format;
pub(super) mod progress;

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::Serialize;

use crate::files::{Outcome, results::failures::Failures};
use crate::say;

const SCHEMA: &str = "longhaul.files/1";

/// A command's results while it runs.
pub(super) struct Results {
    command: &'static str,
    json: Option<PathBuf>,
    failed: Vec<Failed>,
    /// What is not printed yet.
    unprinted: Failures,
    /// Whether each failure is printed by itself, at once.
    lists_each: bool,
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
        let (failed, unprinted) = Default::default();
        Self { command, json: json.map(Path::to_owned), failed, unprinted, lists_each: false, differs: false }
    }

    /// With each failure on a line of its own (`--verbose`).
    pub(super) fn listing_each_failure(mut self, lists_each: bool) -> Self {
        self.lists_each = lists_each;
        self
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

    /// Records a failure, and prints it: at once, or with others of the same reason at the end.
    pub(super) fn fail(&mut self, path: impl Display, why: impl Display) {
        let (path, why) = (path.to_string(), why.to_string());
        if self.lists_each {
            say(&why);
        } else {
            let reason = why.split_once(&format!("{path}: ")).map_or(&*why, |(_, reason)| reason);
            self.unprinted.add(&path, &why, reason);
        }
        self.note(path, why);
    }

    /// Prints the failures that wait.
    pub(super) fn print_failures(&mut self) {
        self.unprinted.take().iter().for_each(say);
    }

    /// Records a failure that has been printed already.
    pub(super) fn note(&mut self, path: impl Display, why: impl Display) {
        self.failed.push(Failed { path: path.to_string(), why: why.to_string() });
    }

    /// Records a difference: not a failure, but the exit status is 1.
    pub(super) fn differs(&mut self) {
        self.differs = true;
    }

    /// Prints the failures, writes the JSON, and returns the exit status.
    pub(super) fn finish(mut self, found: impl Serialize) -> Outcome {
        self.print_failures();
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

/// The failures of an interrupted command are printed too.
impl Drop for Results {
    fn drop(&mut self) {
        self.print_failures();
    }
}
