//! The TOML structure of an experiment file. Names keep their position, for error messages.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};
use units::{Size, Span};

use super::{LinkSpec, Stack, custom::CustomTables, mistake::Fault};
use crate::{claims::Check, work::Job};

/// Entries by name; each name has its position.
pub(super) type Named<T> = BTreeMap<Spanned<String>, T>;

// One field for each key of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) title: String,
    pub(super) question: String,
    pub(super) source: Source,
    pub(super) servers: Vec<Spanned<String>>,
    #[serde(default = "yes")]
    pub(super) tls: bool,
    pub(super) samples: Spanned<u32>,
    #[serde(default)]
    pub(super) warmup: u32,
    pub(super) contenders: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) contender: Named<Named<Sweep>>,
    pub(super) network: Named<LinkSpec>,
    /// The keys of a network that do not describe its link; removed before the link is parsed.
    #[serde(skip)]
    pub(super) ends: BTreeMap<String, Ends>,
    /// Programs of the user's own; removed before the rest is parsed.
    #[serde(skip)]
    pub(super) custom: CustomTables,
    pub(super) workload: Named<Spanned<Workload>>,
    pub(super) quick: Option<Quick>,
    #[serde(default)]
    pub(super) claim: Vec<Claim>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    pub(super) title: String,
    pub(super) author: Option<String>,
    pub(super) url: Option<String>,
    pub(super) file: Option<String>,
    #[serde(default)]
    pub(super) conditions: Named<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub(super) kind: Kind,
    folders: Option<Spanned<u32>>,
    files: Option<Spanned<u32>>,
    size: Option<Spanned<Sizes>>,
    entries: Option<Spanned<u32>>,
    times: Option<Spanned<u32>>,
    objects: Option<Spanned<Sizes>>,
    idle: Option<Spanned<Span>>,
    page: Option<Spanned<String>>,
    #[serde(rename = "at-once")]
    at_once: Option<Spanned<u32>>,
    job: Option<Spanned<Job>>,
    warm: Option<Spanned<bool>>,
    command: Option<Spanned<CommandText>>,
    #[serde(default)]
    pub(super) networks: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) contenders: Vec<Spanned<String>>,
}

impl Workload {
    pub(super) fn amounts(&self) -> Amounts {
        let Self { folders, files, size, entries, times, objects, idle, page, at_once, job, warm, command, .. } =
            self.clone();
        Amounts { folders, files, size, entries, times, objects, idle, page, at_once, job, warm, command }
    }
}

/// One size, or several, which the files take in turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a size like \"10KiB\", or a list of sizes")]
pub(super) enum Sizes {
    One(Size),
    InTurn(Vec<Size>),
}

/// A command of the user's own as a chore: alone, or with others around it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a command, or a table with `run`, `setup` and `verify`")]
pub(super) enum CommandText {
    Run(String),
    Table(CommandTable),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandTable {
    pub(super) run: String,
    pub(super) setup: Option<String>,
    pub(super) verify: Option<String>,
}

/// A network without its link.
#[derive(Debug, Default)]
pub(super) struct Ends {
    pub(super) note: Option<String>,
    pub(super) server: Stack,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Upload,
    Tree,
    Download,
    Page,
    Load,
    Visits,
    List,
    LookUp,
    Edit,
    Chore,
}

/// The amounts of a workload; the quick part may change them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Amounts {
    pub(super) folders: Option<Spanned<u32>>,
    pub(super) files: Option<Spanned<u32>>,
    pub(super) size: Option<Spanned<Sizes>>,
    pub(super) entries: Option<Spanned<u32>>,
    pub(super) times: Option<Spanned<u32>>,
    pub(super) objects: Option<Spanned<Sizes>>,
    pub(super) idle: Option<Spanned<Span>>,
    pub(super) page: Option<Spanned<String>>,
    #[serde(rename = "at-once")]
    pub(super) at_once: Option<Spanned<u32>>,
    pub(super) job: Option<Spanned<Job>>,
    pub(super) warm: Option<Spanned<bool>>,
    pub(super) command: Option<Spanned<CommandText>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quick {
    pub(super) networks: Option<Vec<Spanned<String>>>,
    pub(super) workloads: Option<Vec<Spanned<String>>>,
    pub(super) contenders: Option<Vec<Spanned<String>>>,
    pub(super) samples: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) workload: Named<Amounts>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) id: Spanned<String>,
    pub(super) said: String,
    pub(super) workload: Spanned<String>,
    pub(super) network: Spanned<String>,
    pub(super) check: Spanned<Check<Spanned<String>>>,
    #[serde(default)]
    pub(super) refuted_by: String,
}

/// One value of a setting, or several to sweep over.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a number or a list of numbers")]
pub(super) enum Sweep {
    One(u32),
    Many(Vec<u32>),
}

impl File {
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let mut document = DeTable::parse(text)?;
        let ends = take_ends(document.get_mut())?;
        let custom = CustomTables::take(document.get_mut())?;
        let whole = document.span();
        let table = DeValue::Table(document.into_inner());
        let file = Self::deserialize(ValueDeserializer::from(Spanned::new(whole, table)))?;
        Ok(Self { ends, custom, ..file })
    }
}

fn take_ends(document: &mut DeTable<'_>) -> Result<BTreeMap<String, Ends>, Fault> {
    let Some(DeValue::Table(networks)) = document.get_mut("network").map(Spanned::get_mut) else {
        return Ok(BTreeMap::new());
    };
    let mut ends = BTreeMap::new();
    for (name, network) in networks.iter_mut() {
        let DeValue::Table(network) = network.get_mut() else { continue };
        let note = network.remove("note").map(|note| {
            let span = note.span();
            String::deserialize(ValueDeserializer::from(note))
                .map_err(|_| Fault::new(span, "`note` must be a string in quotes"))
        });
        let server = network.remove("server").map(|server| {
            let span = server.span();
            let server = Stack::deserialize(ValueDeserializer::from(server))?;
            server.complaint().map_or(Ok(server), |complaint| Err(Fault::new(span, complaint)))
        });
        let end = Ends { note: note.transpose()?, server: server.transpose()?.unwrap_or_default() };
        ends.insert(name.get_ref().clone().into_owned(), end);
    }
    Ok(ends)
}
