//! What is said while files move: on the terminal, in a log, and as events for programs.

use std::path::{Path, PathBuf};

use super::{journal::Journal, report::Report};
use crate::usage;

/// What is said while files move.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Output")]
pub(super) struct Verbosity {
    /// Print a line for each file that is copied, deleted or skipped; twice: also for each that is unchanged
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print nothing but warnings and errors
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Append a line for each file to FILE, with the time; with -vv also for each that is unchanged
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Try at most N times, each time what failed before
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    retries: u32,
    /// Write each event to FILE as it happens, as JSON lines (`-`: standard output)
    #[arg(long, value_name = "FILE|-")]
    events: Option<PathBuf>,
}

/// How much is told: the greater, the more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Errors and warnings.
    Always,
    /// How it ended.
    Usual,
    /// Each file that something was done about.
    Verbose,
    /// Each file.
    All,
}

impl Verbosity {
    /// What is told to the person.
    pub(super) fn level(&self) -> Level {
        match self.verbose {
            0 if self.quiet => Level::Always,
            0 => Level::Usual,
            1 => Level::Verbose,
            _ => Level::All,
        }
    }

    /// The log and the events, begun.
    pub(super) fn journal(
        &self,
        command: &'static str,
        report: &Report,
    ) -> Result<Journal, Box<dyn std::error::Error>> {
        let to_stdout = self.events.as_deref() == Some(Path::new("-"));
        if to_stdout && report.owns_stdout() {
            return Err(usage("--json and --events cannot both go to standard output: write one of them to a file"));
        }
        Journal::begin(command, self.log_file.as_deref(), self.level().max(Level::Verbose), self.events.as_deref())
    }

    /// How often it is tried, at most.
    pub(super) fn retries(&self) -> u32 {
        self.retries.max(1)
    }

    /// Whether standard output belongs to the events.
    pub(super) fn owns_stdout(&self) -> bool {
        self.events.as_deref() == Some(Path::new("-"))
    }
}
