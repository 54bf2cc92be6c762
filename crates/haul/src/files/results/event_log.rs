//! A transfer's log for people (`--log-file`) and its events for programs (`--events`), as it happens.
//!
//! Each is written line by line, so that it can be followed while the transfer goes on. A full disk does not stop the
//! transfer: it is told once, and the command fails in the end.

use std::{
    error::Error,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    time::SystemTime,
};

use dav::transfer::{Event, Summary};
use serde::Serialize;

use crate::files::{options::output::Level, results::format};

const SCHEMA: &str = "longhaul.transfer-event/1";

/// The log and the events of one transfer.
pub(crate) struct EventLog {
    log: Option<File>,
    level: Level,
    events: Option<Box<dyn Write + Send>>,
    broken: Option<String>,
}

/// A line of the events.
#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    time: String,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Serialize, Clone)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum What<'a> {
    Begin { command: &'static str },
    Found { files: u64, bytes: u64 },
    Copied { path: &'a str, bytes: u64 },
    Skipped { path: &'a str, bytes: u64, why: String },
    Deleted { path: &'a str },
    Made { path: &'a str },
    Failed { path: &'a str, why: String },
    Note { text: &'a str },
    End { files: u64, bytes: u64, skipped: u64, folders: u64, deleted: u64, failed: u64, took_s: f64 },
}

impl<'a> What<'a> {
    /// What is written of an event; none if nothing is.
    pub(crate) fn of(event: &Event<'a>) -> Option<Self> {
        Some(match *event {
            Event::Found { files, bytes } => Self::Found { files, bytes },
            Event::Moved { .. } => return None,
            Event::Done { path, bytes } => Self::Copied { path, bytes },
            Event::Skipped { path, bytes, why } => Self::Skipped { path, bytes, why: why.to_string() },
            Event::Deleted { path } => Self::Deleted { path },
            Event::Made { path } => Self::Made { path },
            Event::Failed { path, why } => Self::Failed { path, why: why.to_string() },
            Event::Note(text) => Self::Note { text },
        })
    }

    pub(crate) fn end(summary: &Summary) -> Self {
        let Summary { files, bytes, skipped, folders, deleted, failed, took } = summary;
        Self::End {
            files: *files,
            bytes: *bytes,
            skipped: *skipped,
            folders: *folders,
            deleted: *deleted,
            failed: failed.len() as u64,
            took_s: took.as_secs_f64(),
        }
    }

    /// The event in a line for a person, and how much it matters; none for what is only counted.
    pub(crate) fn line(&self, dry_run: bool) -> Option<(Level, String)> {
        let named = |did: &str, would: &str, path: &str| {
            let verb = if dry_run { would } else { did };
            format!("{verb} {}", format::name(path.as_bytes()))
        };
        Some(match self {
            Self::Begin { .. } | Self::Found { .. } | Self::End { .. } => return None,
            Self::Copied { path, bytes } => {
                (Level::Verbose, format!("{} ({})", named("copied", "would copy", path), format::size(*bytes)))
            }
            Self::Skipped { path, why, .. } => {
                let level = if why == "unchanged" { Level::All } else { Level::Verbose };
                (level, format!("{}: {why}", named("skipped", "would skip", path)))
            }
            Self::Deleted { path } => (Level::Verbose, named("deleted", "would delete", path)),
            Self::Made { path } => (Level::Verbose, named("made folder", "would make folder", path)),
            Self::Failed { why, .. } => (Level::Always, why.clone()),
            Self::Note { text } => (Level::Always, (*text).to_owned()),
        })
    }
}

impl EventLog {
    pub(crate) fn begin(
        command: &'static str,
        log: Option<&Path>,
        level: Level,
        events: Option<&Path>,
    ) -> Result<Self, Box<dyn Error>> {
        let cannot = |path: &Path, error: io::Error| format!("cannot write to {}: {error}", path.display());
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map_err(|error| cannot(path, error))
        };
        let events: Option<Box<dyn Write + Send>> = match events {
            None => None,
            Some(path) if path == Path::new("-") => Some(Box::new(io::stdout())),
            Some(path) => Some(Box::new(File::create(path).map_err(|error| cannot(path, error))?)),
        };
        let mut journal = Self { log: log.map(open).transpose()?, level, events, broken: None };
        match journal.write(&What::Begin { command }, false) {
            Some(why) => Err(why.into()),
            None => Ok(journal),
        }
    }

    /// Writes what has happened; why that could not be done, the first time.
    pub(crate) fn write(&mut self, what: &What<'_>, dry_run: bool) -> Option<String> {
        if self.log.is_none() && self.events.is_none() {
            return None;
        }
        let written = self.log_line(what.line(dry_run)).and_then(|()| self.event(what));
        match written {
            Err(error) if self.broken.is_none() => {
                let why = format!("cannot write the log or the events: {error}; they end here");
                (self.log, self.events, self.broken) = (None, None, Some(why.clone()));
                Some(why)
            }
            _ => None,
        }
    }

    /// Writes a sentence into the log alone.
    pub(crate) fn log(&mut self, text: &str) -> Option<String> {
        let written = self.log_line(Some((Level::Always, text.to_owned())));
        written.err().map(|error| format!("cannot write the log: {error}"))
    }

    /// Why it is not whole, if it is not.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    fn log_line(&mut self, line: Option<(Level, String)>) -> io::Result<()> {
        match (&mut self.log, line) {
            (Some(log), Some((level, text))) if level <= self.level => {
                // In one piece: others may write to the same file.
                log.write_all(format!("{} {text}\n", format::second(SystemTime::now())).as_bytes())
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, what: &What<'_>) -> io::Result<()> {
        let Some(events) = &mut self.events else { return Ok(()) };
        let line = Line { schema: SCHEMA, time: format::millisecond(SystemTime::now()), what: what.clone() };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        match events.write_all(&text).and_then(|()| events.flush()) {
            // Whoever has stopped reading does not mind.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.events = None,
            written => return written,
        }
        Ok(())
    }
}
