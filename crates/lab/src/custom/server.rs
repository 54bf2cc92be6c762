//! A server of the user's own, as data.

use std::collections::BTreeMap;

use super::{CustomError, Needs, program, template::Template, with};
use crate::{experiment::advice, servers};

/// A text of a custom server, by the key of the experiment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerStep {
    /// Serves until it is stopped.
    Command,
    /// Prepares a sample, before the server starts.
    Setup,
    /// Prints the version, for the record.
    Version,
    /// Not a command, but the text of the file `{config}`.
    Config,
}

/// All texts, by their keys.
pub const SERVER_STEPS: [(&str, ServerStep); 4] = [
    ("command", ServerStep::Command),
    ("setup", ServerStep::Setup),
    ("version", ServerStep::Version),
    ("config", ServerStep::Config),
];

/// The placeholders of all of them.
const PLACEHOLDERS: [&str; 9] = ["address", "port", "dir", "cert", "key", "access-log", "config", "home", "tmp"];

/// A server of the user's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomServer {
    name: &'static str,
    steps: BTreeMap<ServerStep, Template>,
    needs: Needs,
    environment: BTreeMap<String, Template>,
}

impl CustomServer {
    /// A server with these texts, of which `command` is required.
    pub fn new(name: &str, steps: BTreeMap<ServerStep, String>) -> Result<Self, CustomError> {
        super::check_name(name)?;
        let error = |why: String| CustomError { step: None, why };
        if servers::named(name).is_some() {
            return Err(error(format!(
                "there is a server `{name}` already; give yours another name, as in `my-{name}`"
            )));
        }
        let steps: BTreeMap<_, _> = steps.into_iter().map(|(step, text)| (step, Template::parse(&text))).collect();
        let command = steps.get(&ServerStep::Command).filter(|command| !command.text().trim().is_empty());
        let command = command.ok_or_else(|| error(format!("the server `{name}` needs a `command`")))?;
        let texts = steps.iter().filter(|(step, _)| **step != ServerStep::Config).map(|(_, text)| text);
        if let Some(unknown) = texts.flat_map(Template::names).find(|name| !PLACEHOLDERS.contains(name)) {
            return Err(error(format!("a server has no placeholder {{{unknown}}}; {}", advice(unknown, PLACEHOLDERS))));
        }
        if !command.has(&["port", "config"]) {
            return Err(error(format!("the command of the server `{name}` needs {{port}}, or {{config}} with it")));
        }
        // As long as the program runs: servers have static names, and there are few of these.
        let name = name.to_owned().leak();
        Ok(Self { name, steps, needs: Needs::default(), environment: BTreeMap::new() })
    }

    /// A server by its command alone, named after the program.
    pub fn by_command(command: &str) -> Result<Self, CustomError> {
        let name = with::free(&with::name_of(command), |name| servers::named(name).is_some());
        let server = Self::new(&name, [(ServerStep::Command, command.to_owned())].into())?;
        match server.missing_program() {
            Some(program) => Err(CustomError { step: None, why: format!("there is no program `{program}`") }),
            None => Ok(server),
        }
    }

    /// The same server, which needs this.
    #[must_use]
    pub fn needing(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    /// The same server, whose programs get these environment variables.
    #[must_use]
    pub fn with_environment(self, variables: BTreeMap<String, String>) -> Self {
        let parsed = |(name, value): (String, String)| (name, Template::parse(&value));
        Self { environment: variables.into_iter().map(parsed).collect(), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it needs.
    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Its own environment variables.
    pub(crate) fn environment(&self) -> &BTreeMap<String, Template> {
        &self.environment
    }

    /// One of its texts.
    pub(crate) fn step(&self, step: ServerStep) -> Option<&Template> {
        self.steps.get(&step)
    }

    /// Whether one of its texts has this placeholder.
    pub(crate) fn has(&self, placeholder: &str) -> bool {
        self.steps.values().any(|text| text.has(&[placeholder]))
    }

    /// The program of its command, if it does not exist.
    pub(crate) fn missing_program(&self) -> Option<String> {
        let program = self.step(ServerStep::Command)?.program()?;
        program::find(&program).is_none().then_some(program)
    }
}
