//! Output during a transfer: on the terminal, in a log file, and as events for programs.

use std::path::{Path, PathBuf};

use crate::files::{results::Results, results::event_log::EventLog};
use crate::usage;

/// Output during a transfer.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputOptions {
    /// Print a line for each file copied, deleted or skipped; -vv also for unchanged files
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print only warnings and errors
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// Append a line with the time for each file to FILE; with -vv also for unchanged files
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Maximum number of attempts; each one retries what failed before
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    retries: u32,
    /// Write events to FILE as they happen, as JSON lines (`-`: standard output)
    #[arg(long, value_name = "FILE|-")]
    events: Option<PathBuf>,
}

/// How much is printed, in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Errors and warnings.
    Always,
    /// The last line.
    Usual,
    /// Each changed file.
    Verbose,
    /// Each file.
    All,
}

impl OutputOptions {
    /// Whether each failure is printed by itself.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    /// What is printed on the terminal.
    pub(crate) fn level(&self) -> Level {
        match self.verbose {
            0 if self.quiet => Level::Always,
            0 => Level::Usual,
            1 => Level::Verbose,
            _ => Level::All,
        }
    }

    /// Opens the log and the events.
    pub(crate) fn journal(
        &self,
        command: &'static str,
        report: &Results,
    ) -> Result<EventLog, Box<dyn std::error::Error>> {
        let to_stdout = self.events.as_deref() == Some(Path::new("-"));
        if to_stdout && report.owns_stdout() {
            return Err(usage("--json and --events cannot both use standard output; write one of them to a file"));
        }
        EventLog::begin(command, self.log_file.as_deref(), self.level().max(Level::Verbose), self.events.as_deref())
    }

    /// Maximum number of attempts.
    pub(crate) fn retries(&self) -> u32 {
        self.retries.max(1)
    }

    /// Whether events go to standard output.
    pub(crate) fn owns_stdout(&self) -> bool {
        self.events.as_deref() == Some(Path::new("-"))
    }
}
