//! A command of the user's own, in the mounted folder: a build, a database, a benchmark of file systems.
//!
//! The work is done when the command exits and, if there is one, the command that verifies the server's folder succeeds.
//! A mount may write behind, so it is tried until it does.

use std::{collections::BTreeMap, fs, path::Path, process::Command, time::Duration};

use serde::Serialize;

use super::{Done, Failure, Place, Task, WorkError};
use crate::{
    custom::{
        program::{self, Environment},
        template::{Template, Values},
    },
    deadline::Deadline,
    experiment::advice,
    process::{Missing, run_until_exit},
    spawn::Local,
    work::io_error,
};

/// The placeholders of the command, which sees the mount.
const DURING: [&str; 4] = ["dir", "local", "home", "tmp"];

/// The placeholders of what prepares and verifies the server's folder.
const AROUND: [&str; 4] = ["served", "local", "home", "tmp"];

/// Time limit of what prepares and verifies.
const TIME_LIMIT: Duration = Duration::from_mins(1);

/// A command of the user's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChoreCommand {
    pub(super) run: Template,
    setup: Option<Template>,
    pub(super) verify: Option<Template>,
}

impl ChoreCommand {
    /// The command of the work, what prepares the server's folder, and what verifies it; an error is a sentence.
    pub fn new(run: &str, setup: Option<&str>, verify: Option<&str>) -> Result<Self, String> {
        let [run, setup, verify] = [Some(run), setup, verify].map(|text| text.map(Template::parse));
        let run = run.filter(|run| !run.text().trim().is_empty()).ok_or("the command is empty")?;
        let command = Self { run, setup, verify };
        let around = command.setup.iter().chain(&command.verify).map(|text| (text, AROUND));
        for (text, known) in std::iter::once((&command.run, DURING)).chain(around) {
            if let Some(name) = text.names().into_iter().find(|name| !known.contains(name)) {
                return Err(format!("`{}` has no placeholder {{{name}}}; {}", text.text(), advice(name, known)));
            }
        }
        Ok(command)
    }

    fn texts(&self) -> impl Iterator<Item = &Template> {
        std::iter::once(&self.run).chain(&self.setup).chain(&self.verify)
    }

    /// The first program that is not installed.
    pub(crate) fn missing(&self) -> Option<Missing> {
        let what = self.texts().filter_map(Template::program).find(|program| program::find(program).is_none())?;
        Some(Missing { what, package: "".into() })
    }

    pub(super) fn prepare(&self, task: &Task, served: &Path) -> Result<(), WorkError> {
        let Some(setup) = &self.setup else { return Ok(()) };
        let mut command = command(setup, task, &[("served", served)])?;
        let done = run_until_exit(&Local, &mut command, &Deadline::for_cleanup(TIME_LIMIT), "its setup");
        done.map(drop).map_err(|error| WorkError::Wrong(error.to_string()))
    }

    pub(super) fn run(&self, place: &Place) -> Result<Done, Failure> {
        let mut command = command(&self.run, place.task, &[("dir", place.folder)])?;
        run_until_exit(&Local, &mut command, place.deadline, "the command")?;
        Ok(Done::default())
    }

    pub(super) fn verify(&self, task: &Task, served: &Path) -> Result<(), WorkError> {
        let Some(verify) = &self.verify else { return Ok(()) };
        let mut command = command(verify, task, &[("served", served)])?;
        let done = run_until_exit(&Local, &mut command, &Deadline::for_cleanup(TIME_LIMIT), "its verify");
        done.map(drop).map_err(|error| WorkError::Wrong(error.to_string()))
    }
}

fn command(template: &Template, task: &Task, places: &[(&str, &Path)]) -> Result<Command, WorkError> {
    let scratch = task.source.parent().unwrap_or(&task.source);
    let home = program::home(scratch);
    fs::create_dir_all(&home).map_err(io_error("create", &home))?;
    let more = [("local", task.target.as_path()), ("tmp", scratch)];
    let text = |(name, path): &(&str, &Path)| ((*name).to_owned(), path.to_string_lossy().into_owned());
    let mut values: Values = places.iter().chain(&more).map(text).collect();
    values.insert("home".to_owned(), program::users_home());
    let own = BTreeMap::new();
    let environment = Environment { values: &values, own: &own, scratch, trust: None, credentials: None };
    Ok(environment.command(template))
}
