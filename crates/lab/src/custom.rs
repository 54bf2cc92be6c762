//! Programs of the user's own, as contenders and servers: described by commands, in an experiment file or on the
//! command line.
//!
//! **A command is written as in a shell.** Placeholders stand for what differs from sample to sample: `./mine put {dir}
//! {url}`. A command without any character that is special to a shell is started directly, as make does, so that no
//! shell's start is measured; any other is run by `sh -c`. Values are quoted for the place where they stand
//! ([`template`]). Each value is in the environment as well (`{dir}` is `HAUL_DIR`), for scripts. Rejected: never a
//! shell, since a stranger's first command has a `*` or a `&&` in it; always a shell, since its start is measured too,
//! and an error in a program's name reads worse.
//!
//! **It runs where the other contenders run**, on the client's host, with a deadline, in a process group of its own,
//! and with its output captured. Its working directory is the user's, so that `./mine` and `python3 mine.py` work. It
//! inherits the environment (a Python program needs its `VIRTUAL_ENV`), without proxies, which the emulated network
//! does not reach, and without the user's home: what a program stores there would make its second sample faster than
//! its first, and no other contender has that advantage. `{home}` is the user's.
//!
//! **Nothing is believed.** After the work, the files are compared byte for byte with what was asked for, as for every
//! contender: on the server after an upload, in `{dir}` after a download. A `verify` command may check more.
//!
//! **No password is in a command line**, which other users can read. A command that uses `{netrc}` gets a server that
//! asks for a password, which is in that file and in the environment.

mod needs;
pub(crate) mod program;
mod server;
pub mod template;
mod with;

use std::collections::{BTreeMap, BTreeSet};

use self::template::Template;
pub use self::{
    needs::Needs,
    server::{CustomServer, SERVER_STEPS, ServerStep},
    with::{WithError, with},
};
use crate::{
    contenders::Parameters,
    experiment::nearest,
    work::{Work, WorkKind},
};

/// The command of a custom contender for one purpose, by the key of the experiment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Does the work of every kind that has no command of its own.
    Command,
    /// Uploads the files in `{dir}`, with their folders.
    Upload,
    /// Downloads the files into `{dir}`.
    Download,
    /// Lists the folder.
    List,
    /// Saves `{file}` in place.
    Edit,
    /// Mounts the server's root on `{dir}`.
    Mount,
    /// Unmounts it.
    Unmount,
    /// Prepares a sample, before the clock starts.
    Setup,
    /// Cleans up after a sample.
    Teardown,
    /// Checks the result, after the clock has stopped.
    Verify,
    /// Prints the version, for the record.
    Version,
    /// Not a command, but the text of the file `{config}`.
    Config,
}

/// All steps, by their keys.
pub const STEPS: [(&str, Step); 12] = [
    ("command", Step::Command),
    ("upload", Step::Upload),
    ("download", Step::Download),
    ("list", Step::List),
    ("edit", Step::Edit),
    ("mount", Step::Mount),
    ("unmount", Step::Unmount),
    ("setup", Step::Setup),
    ("teardown", Step::Teardown),
    ("verify", Step::Verify),
    ("version", Step::Version),
    ("config", Step::Config),
];

/// The placeholders of every step.
const EVERYWHERE: [&str; 10] = ["url", "dir", "urls", "work", "address", "port", "ca", "home", "config", "tmp"];

/// The placeholders of single steps.
const SOMEWHERE: [&str; 4] = ["file", "name", "netrc", "served"];

impl Step {
    /// Its key.
    pub fn key(self) -> &'static str {
        STEPS.iter().find(|(_, step)| *step == self).map_or("", |(key, _)| key)
    }

    /// The step with the command for work of this kind.
    pub(crate) fn of(kind: WorkKind) -> Self {
        match kind {
            WorkKind::Upload => Self::Upload,
            WorkKind::Download => Self::Download,
            WorkKind::List => Self::List,
            WorkKind::Edit => Self::Edit,
        }
    }

    /// Whether it does a sample's work.
    fn works(self) -> bool {
        matches!(self, Self::Command | Self::Upload | Self::Download | Self::List | Self::Edit)
    }

    /// Whether it has this placeholder, which is one of [`SOMEWHERE`].
    fn has(self, placeholder: &str) -> bool {
        match placeholder {
            "served" => self == Self::Verify,
            "netrc" => self != Self::Version,
            _ => matches!(self, Self::Command | Self::Upload | Self::Download | Self::Edit),
        }
    }
}

/// A program of the user's own as a contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomContender {
    name: String,
    steps: BTreeMap<Step, Template>,
    needs: Needs,
    environment: BTreeMap<String, Template>,
    /// Whether `command` is for one kind of work only, that of the first workload of a run.
    is_for_first: bool,
    /// The only kind of work that `command` is for.
    only: Option<WorkKind>,
}

impl CustomContender {
    /// A contender with these steps; an error says what is wrong with which of them.
    pub fn new(name: &str, steps: BTreeMap<Step, String>) -> Result<Self, CustomError> {
        let steps: BTreeMap<Step, Template> =
            steps.into_iter().map(|(step, text)| (step, Template::parse(&text))).collect();
        check_name(name)?;
        let wrong = |step: Step, why: String| Err(CustomError { step: Some(step), why });
        for (step, template) in &steps {
            if *step != Step::Config && template.text().trim().is_empty() {
                return wrong(*step, format!("`{}` is empty", step.key()));
            }
            if let Some(misplaced) =
                template.names().into_iter().find(|name| SOMEWHERE.contains(name) && !step.has(name))
            {
                return wrong(*step, format!("`{}` has no placeholder {{{misplaced}}}", step.key()));
            }
        }
        let worker = steps.keys().find(|step| step.works());
        match (worker, steps.contains_key(&Step::Mount)) {
            (None, false) => {
                let why = format!("`{name}` needs a command that does the work, or one that mounts");
                return Err(CustomError { step: None, why });
            }
            (Some(worker), true) => {
                return wrong(*worker, format!("`{}` and `mount` exclude each other", worker.key()));
            }
            _ => {}
        }
        if steps.contains_key(&Step::Unmount) && !steps.contains_key(&Step::Mount) {
            return wrong(Step::Unmount, "`unmount` needs `mount`".to_owned());
        }
        let (needs, environment) = (Needs::default(), BTreeMap::new());
        Ok(Self { name: name.to_owned(), steps, needs, environment, is_for_first: false, only: None })
    }

    /// The same contender, which needs this.
    #[must_use]
    pub fn needing(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    /// The same contender, whose programs get these environment variables.
    #[must_use]
    pub fn with_environment(self, variables: BTreeMap<String, String>) -> Self {
        let parsed = |(name, value): (String, String)| (name, Template::parse(&value));
        Self { environment: variables.into_iter().map(parsed).collect(), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it needs.
    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Its own environment variables.
    pub(crate) fn environment(&self) -> &BTreeMap<String, Template> {
        &self.environment
    }

    /// The text of a step, if it has that.
    pub(crate) fn step(&self, step: Step) -> Option<&Template> {
        self.steps.get(&step)
    }

    /// Whether it mounts the server.
    pub(crate) fn mounts(&self) -> bool {
        self.steps.contains_key(&Step::Mount)
    }

    /// Its commands as they were written, for readers.
    pub fn describe(&self) -> String {
        let shown = |step: &Step| !matches!(step, Step::Config | Step::Version);
        let one = |(step, template): (&Step, &Template)| match step {
            Step::Command => template.text().to_owned(),
            step => format!("{}: {}", step.key(), template.text()),
        };
        self.steps.iter().filter(|(step, _)| shown(step)).map(one).collect::<Vec<_>>().join("; ")
    }

    /// The placeholders that are no values of ours: numbers that the user sets.
    pub fn parameters(&self) -> Vec<&str> {
        let names: BTreeSet<&str> = self.texts().flat_map(Template::names).collect();
        names.into_iter().filter(|name| !EVERYWHERE.contains(name) && !SOMEWHERE.contains(name)).collect()
    }

    fn texts(&self) -> impl Iterator<Item = &Template> {
        // A configuration has braces of its own.
        self.steps
            .iter()
            .filter(|(step, _)| **step != Step::Config)
            .map(|(_, text)| text)
            .chain(self.environment.values())
    }

    /// The step with a placeholder that is not among these settings, and what to say about it.
    pub fn unset(&self, settings: &Parameters) -> Option<(Step, String)> {
        let name = self.parameters().into_iter().find(|name| !settings.contains_key(*name))?;
        let step = self.steps.iter().find(|(_, text)| text.has(&[name])).map_or(Step::Command, |(step, _)| *step);
        let of = &self.name;
        let known: Vec<&str> = EVERYWHERE.iter().chain(&SOMEWHERE).copied().collect();
        let why = match nearest(name, known.iter().copied()) {
            Some(near) => format!("unknown placeholder {{{name}}} of `{of}`; did you mean {{{near}}}?"),
            None => format!(
                "placeholder {{{name}}} of `{of}` has no value; give it a number with `{name} = 4` or \
                 `--sweep {of}.{name}=4`, or use one of {{{}}}",
                known.join("}, {")
            ),
        };
        Some((step, why))
    }

    /// Marks its `command` as one for one kind of work, that of the first workload of a run, unless the command says
    /// for itself what it is for.
    fn for_first_workload(self) -> Self {
        let is_for_first = self.step(Step::Command).is_some_and(|command| !command.has(&["work"]));
        Self { is_for_first, ..self }
    }

    /// The contender in a run whose first workload is this.
    #[must_use]
    pub fn in_run(&self, first: &Work) -> Self {
        Self { only: first.kind().filter(|_| self.is_for_first), ..self.clone() }
    }

    /// The command for work of this kind.
    pub(crate) fn command(&self, kind: WorkKind) -> Option<&Template> {
        let general = || self.step(Step::Command).filter(|_| self.only.is_none_or(|only| only == kind));
        self.step(Step::of(kind)).or_else(general)
    }

    /// Whether its server asks for a password.
    pub(crate) fn signs_in(&self) -> bool {
        self.steps.values().chain(self.environment.values()).any(|text| text.has(&["netrc"]))
    }

    /// The program that a command starts and that does not exist, with the command.
    pub fn missing_program(&self) -> Option<(&str, String)> {
        let commands = self.steps.iter().filter(|(step, _)| **step != Step::Config).map(|(_, text)| text);
        let mut programs = commands.filter_map(|text| Some((text.text(), text.program()?)));
        programs.find(|(_, program)| program::find(program).is_none())
    }
}

/// Whether it can be the name of a custom contender or server.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Fails for a name that could not be told from a setting, `rclone transfers=4`.
fn check_name(name: &str) -> Result<(), CustomError> {
    let why = || format!("`{name}` is no name; use lowercase letters, digits and dashes, and begin with a letter");
    if is_name(name) { Ok(()) } else { Err(CustomError { step: None, why: why() }) }
}

/// What is wrong with a custom contender or server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct CustomError {
    /// The step that is wrong; none if it is the whole.
    pub step: Option<Step>,
    /// In one sentence.
    pub why: String,
}
