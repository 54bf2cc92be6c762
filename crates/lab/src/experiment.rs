//! An experiment: one question, asked of many clients over several networks.
//!
//! The file is TOML: where the question comes from, the networks, the workloads, the contenders, and the sentences of the
//! source as claims. It passes through three forms:
//!
//! 1. `file` mirrors the text; every name knows its position in it;
//! 2. [`Experiment`] is checked: every name refers to something, every quantity is in range (`check` turns the first form
//!    into this one, or into a [`Mistake`] with line, column and the nearest valid name);
//! 3. [`Plan`] is what to run: the cells of the selected networks, workloads and contenders, in a fair order.
//!
//! The quick race is a part of the same file: it may leave out networks, workloads and contenders and use fewer files,
//! but a name means the same in both, so that each claim is written once.
//!
//! This module knows no contender; the caller passes those it can start ([`Known`]).

mod check;
mod custom;
mod did_you_mean;
mod file;
mod mistake;
mod plan;
mod server_stack;
mod workload;

use std::{fmt, path::Path, sync::Arc, time::Duration};

use units::Rate;

use crate::{
    claims::Claim,
    contenders::Parameters,
    custom::{CustomContender, CustomServer},
    work::Work,
};

pub(crate) use did_you_mean::advice;
pub use did_you_mean::nearest;
pub use link::spec::LinkSpec;
use link::spec::named;
pub use mistake::Mistake;
pub use plan::{Block, Cell, Plan, PlanError, Selection};
pub use server_stack::Stack;

/// What the caller can start: the names that an experiment may use.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The contenders.
    pub contenders: &'a [KnownContender<'a>],
    /// The servers.
    pub servers: &'a [&'a str],
}

/// A contender that the caller can start.
#[derive(Debug, Clone)]
pub struct KnownContender<'a> {
    /// Its name, as in `rclone`.
    pub name: &'a str,
    /// Whether it is a model: the request sequence of a client that cannot run here.
    pub model: bool,
    /// The contender that sends the same requests straight to the server, if this one sends them through a program on
    /// the way.
    pub requests_of: Option<&'a str>,
    /// The settings that an experiment may vary, as in `transfers`.
    pub settings: Vec<&'a str>,
}

/// An experiment whose names and quantities have been checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// The file's name without its ending: `webdav-race`.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its question.
    pub question: String,
    /// The source of the question.
    pub source: Source,
    /// The networks, in the file's order.
    pub networks: Vec<Network>,
    /// The workloads, in the file's order.
    pub workloads: Vec<Workload>,
    /// The contenders, a swept one once per value.
    pub contenders: Vec<Row>,
    /// The servers that it may use; the first that is installed is the default.
    pub servers: Vec<String>,
    /// Those of the servers that it describes itself.
    pub custom_servers: Vec<Arc<CustomServer>>,
    /// Whether to use TLS.
    pub tls: bool,
    /// Samples per cell.
    pub samples: u32,
    /// Runs of each cell before its first sample, which do not count.
    pub warmup: u32,
    /// The quick part.
    pub quick: Option<Quick>,
    /// The claims of the source.
    pub claims: Vec<Claim>,
    /// The names of contenders that were [added](Self::add): they run unless others are selected by name among them.
    pub added: Vec<String>,
}

impl Experiment {
    /// Reads an experiment file.
    pub fn read(path: &Path, known: Known<'_>) -> Result<Self, ReadError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ReadError::File { path: path.display().to_string(), source })?;
        Ok(Self::parse(&text, path, known)?)
    }

    /// Reads an experiment from its text; `path` gives its name and appears in error messages.
    pub fn parse(text: &str, path: &Path, known: Known<'_>) -> Result<Self, Mistake> {
        let name = path.file_stem().map_or_else(|| "experiment".into(), |stem| stem.to_string_lossy().into_owned());
        file::File::parse(text)
            .and_then(|file| check::experiment(file, name, known))
            .map_err(|fault| fault.at(text, path))
    }

    /// Adds contenders, which take part in every workload for which they have a command, in the quick part too.
    pub fn add(&mut self, contenders: impl IntoIterator<Item = CustomContender>) {
        for custom in contenders.into_iter().map(Arc::new) {
            let name = custom.name().to_owned();
            if let Some(quick) = &mut self.quick {
                quick.contenders.push(name.clone());
            }
            self.added.push(name.clone());
            let row =
                Row { contender: name, settings: Parameters::new(), model: false, requests_of: None, custom: None };
            self.contenders.push(Row { custom: Some(custom), ..row });
        }
    }

    /// Gives `contender` one row for each of `values` of its `setting`, in place of the rows it has.
    pub fn sweep(&mut self, contender: &str, setting: &str, values: &[u32]) -> Result<(), PlanError> {
        let index = self.contenders.iter().position(|row| row.contender == contender);
        let Some(index) = index else {
            let names: Vec<&str> = self.contenders.iter().map(|row| row.contender.as_str()).collect();
            let advice = did_you_mean::advice(contender, names);
            return Err(PlanError::Unknown { what: "contender", name: contender.to_owned(), advice });
        };
        let swept = Row { settings: Parameters::new(), ..self.contenders[index].clone() };
        let parameters = swept.custom.as_ref().map(|custom| custom.parameters());
        if let Some(parameters) = parameters.filter(|parameters| !parameters.contains(&setting)) {
            let advice = did_you_mean::advice(setting, parameters);
            return Err(PlanError::Unknown { what: "placeholder", name: setting.to_owned(), advice });
        }
        self.contenders.retain(|row| row.contender != contender);
        let rows = values.iter().map(|value| Row { settings: [(setting.to_owned(), *value)].into(), ..swept.clone() });
        self.contenders.splice(index..index, rows);
        Ok(())
    }

    /// Adds the networks of these names that are known everywhere ([`named`]), unless the file has its own.
    pub fn add_named_networks(&mut self, names: &[String]) {
        for known in named::ALL.into_iter().filter(|known| names.iter().any(|name| name == known.name)) {
            if self.networks.iter().any(|network| network.names().any(|name| name == known.name)) {
                continue;
            }
            self.networks.push(Network {
                name: known.name.to_owned(),
                link: known.spec(),
                note: Some(known.source.to_owned()),
                server: Stack::default(),
                variant_of: None,
            });
        }
    }

    /// Makes one network for each of `values` of the `setting` out of every network.
    pub fn sweep_networks(&mut self, setting: &str, values: &[String]) -> Result<(), PlanError> {
        let mut variants = Vec::new();
        for network in &self.networks {
            for value in values {
                let variant = network.with(setting, value);
                variants.push(variant.map_err(|why| PlanError::NetworkSetting {
                    setting: setting.to_owned(),
                    value: value.clone(),
                    why,
                })?);
            }
        }
        self.networks = variants;
        Ok(())
    }
}

/// Why there is no experiment.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read experiment {path}: {source}; `haul lab list` lists the built-in ones")]
    File {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file has a mistake.
    #[error(transparent)]
    Mistake(#[from] Mistake),
}

/// Where a question and its claims come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The title of the article.
    pub title: String,
    /// Its author, if named.
    pub author: Option<String>,
    /// Where to read it: an address or a file.
    pub at: Option<String>,
    /// The conditions under which it measured: [`SERVER`] or the name of a network or a contender, and its own.
    pub conditions: Vec<(String, String)>,
}

/// The name of the server among the conditions of a source.
pub const SERVER: &str = "server";

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)?;
        if let Some(author) = &self.author {
            write!(f, ", {author}")?;
        }
        self.at.as_ref().map_or(Ok(()), |at| write!(f, ", {at}"))
    }
}

/// A network of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Its name in the file.
    pub name: String,
    /// What to emulate.
    pub link: LinkSpec,
    /// A note on what it stands for.
    pub note: Option<String>,
    /// The settings of the server.
    pub server: Stack,
    /// The network in the file of which it is a variant, if it is one.
    pub variant_of: Option<String>,
}

impl Network {
    /// The names that select it: its own, and that of the network in the file.
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.variant_of.as_deref())
    }

    /// The same network with another value of a setting: `near rtt=10ms`.
    fn with(&self, setting: &str, value: &str) -> Result<Self, String> {
        let mut link = serde_json::to_value(&self.link).map_err(|error| error.to_string())?;
        link[setting] = value.into();
        let link = serde_json::from_value(link).map_err(|error| error.to_string())?;
        let variant_of = Some(self.variant_of.as_ref().unwrap_or(&self.name).clone());
        Ok(Self { name: format!("{} {setting}={value}", self.name), link, variant_of, ..self.clone() })
    }

    /// The round-trip time of the empty link.
    pub fn rtt(&self) -> Duration {
        self.link.rtt.total()
    }

    /// The rate from the client to the server, if there is a limit.
    pub fn up(&self) -> Option<Rate> {
        self.link.rate.map(|rate| rate.up)
    }

    /// The rate from the server to the client, if there is a limit.
    pub fn down(&self) -> Option<Rate> {
        self.link.rate.map(|rate| rate.down)
    }

    /// Its description: `18ms RTT, 100mbit, queue 150p, loss 0.1%; server: initial window 3`.
    pub fn describe(&self) -> String {
        let link = self.link.to_string();
        if self.server.is_default() { link } else { format!("{link}; server: {}", self.server) }
    }

    /// Its parameters, as in the experiment file.
    pub fn record(&self) -> serde_json::Value {
        let mut record = serde_json::to_value(&self.link).unwrap_or_default();
        if let Some(record) = record.as_object_mut().filter(|_| !self.server.is_default()) {
            record.insert("server".to_owned(), serde_json::to_value(&self.server).unwrap_or_default());
        }
        record
    }
}

/// A workload of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its name in the file.
    pub name: String,
    /// Its work.
    pub work: Work,
    /// Its networks; all if empty.
    pub networks: Vec<String>,
    /// Its contenders, or rows of them; all if empty.
    pub contenders: Vec<String>,
}

impl Workload {
    /// Whether it has a cell for this row and network.
    fn meets(&self, network: &Network, row: &Row) -> bool {
        let one_of =
            |list: &[String], names: &[&str]| list.is_empty() || list.iter().any(|kept| names.contains(&kept.as_str()));
        let networks: Vec<&str> = network.names().collect();
        one_of(&self.networks, &networks) && one_of(&self.contenders, &[&row.name(), &row.contender])
    }
}

/// A contender with the settings of this experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The contender's name: `rclone`.
    pub contender: String,
    /// Its settings and their values.
    pub settings: Parameters,
    /// Whether it is a model.
    pub model: bool,
    /// The contender that sends the same requests straight to the server, if this one sends them through a program on
    /// the way.
    pub requests_of: Option<String>,
    /// Its commands, if it is a program of the user's own.
    pub custom: Option<Arc<CustomContender>>,
}

impl Row {
    /// The name of the row, with all its settings: `rclone transfers=16`.
    pub fn name(&self) -> String {
        self.settings.iter().fold(self.contender.clone(), |name, (key, value)| format!("{name} {key}={value}"))
    }

    /// The row in a run that begins with this work.
    fn in_run(self, first: Option<&Work>) -> Self {
        let custom = self.custom.as_ref().zip(first).map(|(custom, first)| Arc::new(custom.in_run(first)));
        Self { custom: custom.or(self.custom), ..self }
    }
}

/// The quick part of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quick {
    /// The networks it keeps.
    pub networks: Vec<String>,
    /// The workloads it keeps, with their smaller sizes.
    pub workloads: Vec<Workload>,
    /// The rows it keeps.
    pub contenders: Vec<String>,
    /// Samples per cell.
    pub samples: u32,
}

#[cfg(test)]
mod tests;
