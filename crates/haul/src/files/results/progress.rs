//! Progress of a transfer: a bar on a terminal, and a last line.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use dav::transfer::{Event, INTERRUPTED, Summary};
use serde::Serialize;

use crate::files::{
    options::output::{Level, OutputOptions},
    results::Results,
    results::bar::{Bar, Counts},
    results::event_log::{EventLog, What},
    results::failures::Failures,
    results::format,
};
use crate::say;

/// A change made, or that a dry run would make.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Change {
    did: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// Receives a transfer's events, and shows them.
pub(crate) struct Progress {
    bar: Bar,
    state: Mutex<State>,
    dry_run: bool,
    /// Whether changes are kept for the JSON.
    keep: bool,
    /// Whether each change of a dry run is printed.
    show: bool,
    /// What is printed on the terminal.
    level: Level,
    /// What is done to a file: copied or moved.
    done: &'static str,
}

#[derive(Default)]
struct State {
    /// Failures that are not printed yet.
    failures: Failures,
    /// The last failure printed; all files of a folder may fail for the same reason.
    told: String,
    changes: Vec<Change>,
    journal: Option<EventLog>,
}

impl Progress {
    pub(crate) fn new(
        report: &Results,
        dry_run: bool,
        output_options: &OutputOptions,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let journal = Some(output_options.journal(report.command(), report)?);
        let level = output_options.level();
        let bar = Bar::new(!dry_run && level > Level::Always);
        let state = State { journal, ..State::default() }.into();
        let show = dry_run && !report.owns_stdout() && !output_options.owns_stdout();
        let done = if report.command() == "mv" { "moved" } else { "copied" };
        Ok(Self { bar, state, dry_run, keep: report.is_kept(), show, level, done })
    }

    /// Something happened.
    pub(crate) fn on_event(&self, event: &Event<'_>) {
        let mut state = self.state();
        if let Some(what) = What::of(event) {
            let broken = state.journal.as_mut().and_then(|journal| journal.write(&what, self.dry_run));
            if let Some(why) = broken {
                self.bar.suspend(|| say(why));
            }
            // Failures, notes and a dry run's changes are printed below.
            if let Some((level, line)) = what.line(self.dry_run)
                && (Level::Verbose..=self.level).contains(&level)
                && (!self.show || matches!(what, What::Skipped { .. }))
            {
                self.bar.suspend(|| say(line));
            }
        }
        match *event {
            Event::Found { files, bytes } => self.bar.count(|counts| {
                counts.files += files;
                counts.bytes += bytes;
            }),
            Event::Moved { bytes } => self.bar.count(|counts| counts.moved += bytes),
            Event::Done { path, bytes } => {
                self.bar.count(|counts| counts.settled += 1);
                self.change(&mut state, self.done, path, Some(bytes));
            }
            Event::Skipped { bytes, .. } => self.bar.count(|counts| {
                counts.settled += 1;
                counts.skipped += 1;
                counts.bytes_skipped += bytes;
            }),
            Event::Deleted { path } => self.change(&mut state, "deleted", path, None),
            Event::Made { path } => self.change(&mut state, "made", path, None),
            Event::Failed { path, why } => {
                self.bar.count(|counts| counts.settled = counts.files.min(counts.settled + 1));
                self.fail(&mut state, path, why);
            }
            // The program says so when it ends.
            Event::Note(INTERRUPTED) => {}
            Event::Note(text) => self.bar.suspend(|| say(text)),
        }
        let due = state.failures.due(Instant::now());
        self.print_failures(due);
    }

    /// Prints a failure, or lets it wait for others with the same reason.
    fn fail(&self, state: &mut State, path: &str, why: &dav::Error) {
        let message = why.to_string();
        if self.level < Level::Verbose {
            state.failures.add(&format::name(path.as_bytes()), &message, &why.reason());
        } else if message != state.told {
            self.bar.suspend(|| say(&message));
            state.told = message;
        }
    }

    fn print_failures(&self, lines: Vec<String>) {
        for line in lines {
            self.bar.suspend(|| say(line));
        }
    }

    fn change(&self, state: &mut State, did: &'static str, path: &str, bytes: Option<u64>) {
        if self.show {
            let would = match did {
                "moved" => "move",
                "copied" => "copy",
                "deleted" => "delete",
                _ => "make",
            };
            // A closed pipe is no error.
            let _ = crate::print(format!("{would} {}\n", format::name(path.as_bytes())).as_bytes());
        }
        if self.keep {
            state.changes.push(Change { did, path: path.to_owned(), bytes });
        }
    }

    /// Starts another attempt for failed files.
    pub(crate) fn begin_again(&self, why: &str) {
        self.print_waiting();
        self.on_event(&Event::Note(why));
        self.bar.count(|counts| *counts = Counts::default());
        self.state().told.clear();
    }

    /// Removes the bar, and prints the failures that wait.
    pub(crate) fn clear(&self) {
        self.bar.clear();
        self.print_waiting();
    }

    fn print_waiting(&self) {
        let lines = self.state().failures.take();
        self.print_failures(lines);
    }

    /// Prints the last line and writes the JSON.
    pub(crate) fn finish(&self, mut report: Results, summary: &Summary) -> crate::files::Outcome {
        let line = last_line(summary, self.done, self.dry_run);
        if report.is_good() && self.level > Level::Always {
            say(&line);
        }
        let mut state = self.state();
        if let Some(journal) = &mut state.journal {
            journal.write(&What::end(summary), self.dry_run);
            let _ = journal.log(&line);
            if let Some(why) = journal.broken() {
                report.note("--log-file, --events", why);
            }
        }
        drop(state);
        for (path, why) in &summary.failed {
            report.note(path, why);
        }
        report.finish(Done {
            dry_run: self.dry_run,
            files: summary.files,
            bytes: summary.bytes,
            skipped: summary.skipped,
            folders: summary.folders,
            deleted: summary.deleted,
            took_s: summary.took.as_secs_f64(),
            changes: std::mem::take(&mut self.state().changes),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Serialize)]
struct Done {
    dry_run: bool,
    files: u64,
    bytes: u64,
    skipped: u64,
    folders: u64,
    deleted: u64,
    took_s: f64,
    changes: Vec<Change>,
}

/// What was done and what failed.
fn last_line(summary: &Summary, done: &str, dry_run: bool) -> String {
    let Summary { files, bytes, skipped, folders, deleted, failed, took } = summary;
    let would = if dry_run { "would be " } else { "" };
    let mut parts = vec![format!("{} ({}) {would}{done}", format::count(*files, "file"), format::size(*bytes))];
    if !dry_run && *files > 0 {
        let rate = *bytes as f64 / took.as_secs_f64().max(0.001);
        parts[0].extend([" in ", &format::took(*took), ", ", &format::size(rate as u64), "/s"]);
    }
    let mut also = |number: u64, what: String| {
        if number > 0 {
            parts.push(what);
        }
    };
    also(*skipped, format!("{skipped} skipped"));
    also(*folders, format!("{} {would}created", format::count(*folders, "folder")));
    also(*deleted, format!("{deleted} {would}deleted"));
    also(failed.len() as u64, format!("{} failed", failed.len()));
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn last_line_shows_only_nonzero_counts() {
        let took = Duration::from_millis(200);
        let mut summary = Summary { files: 200, bytes: 2_048_000, took, ..Summary::default() };
        assert_eq!(last_line(&summary, "copied", false), "200 files (2.0 MiB) copied in 0.20 s, 9.8 MiB/s");
        summary.skipped = 1;
        summary.folders = 2;
        summary.deleted = 3;
        assert_eq!(
            last_line(&summary, "copied", true),
            "200 files (2.0 MiB) would be copied; 1 skipped; 2 folders would be created; 3 would be deleted"
        );
    }
}
