//! The shape of an experiment file. Names keep their place in the text, for the mistakes.

use std::{borrow::Cow, collections::BTreeMap};

use link::units::Size;
use serde::Deserialize;
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

use super::{LinkSpec, mistake::Fault};
use crate::claims::Check;

/// Entries under names, where a name knows its place.
pub(super) type Named<T> = BTreeMap<Spanned<String>, T>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) title: String,
    pub(super) question: String,
    pub(super) source: Source,
    pub(super) servers: Vec<Spanned<String>>,
    pub(super) samples: Spanned<u32>,
    pub(super) contenders: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) contender: Named<Named<Sweep>>,
    pub(super) network: Named<LinkSpec>,
    /// Taken out of the text before a network is read: the description of a link has no notes.
    #[serde(skip)]
    pub(super) notes: BTreeMap<String, String>,
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
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub(super) kind: Kind,
    folders: Option<Spanned<u32>>,
    files: Option<Spanned<u32>>,
    size: Option<Spanned<Size>>,
    entries: Option<Spanned<u32>>,
    times: Option<Spanned<u32>>,
}

impl Workload {
    pub(super) fn amounts(&self) -> Amounts {
        let Self { folders, files, size, entries, times, .. } = self.clone();
        Amounts { folders, files, size, entries, times }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Upload,
    Tree,
    Download,
    List,
    Edit,
}

/// How much there is to do; the quick race may give less.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Amounts {
    pub(super) folders: Option<Spanned<u32>>,
    pub(super) files: Option<Spanned<u32>>,
    pub(super) size: Option<Spanned<Size>>,
    pub(super) entries: Option<Spanned<u32>>,
    pub(super) times: Option<Spanned<u32>>,
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
}

/// One value of a setting, or all that it shall take in turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "a setting is a number, or a list of numbers")]
pub(super) enum Sweep {
    One(u32),
    Many(Vec<u32>),
}

impl File {
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let mut document = DeTable::parse(text)?;
        let notes = take_notes(document.get_mut())?;
        let whole = document.span();
        let table = DeValue::Table(document.into_inner());
        let file = Self::deserialize(ValueDeserializer::from(Spanned::new(whole, table)))?;
        Ok(Self { notes, ..file })
    }
}

fn take_notes(document: &mut DeTable<'_>) -> Result<BTreeMap<String, String>, Fault> {
    let Some(DeValue::Table(networks)) = document.get_mut("network").map(Spanned::get_mut) else {
        return Ok(BTreeMap::new());
    };
    let mut notes = BTreeMap::new();
    for (name, network) in networks.iter_mut() {
        let DeValue::Table(network) = network.get_mut() else { continue };
        let Some(note) = network.remove("note") else { continue };
        let span = note.span();
        let DeValue::String(note) = note.into_inner() else {
            return Err(Fault::new(span, "a note is a text in quotes"));
        };
        notes.insert(name.get_ref().clone().into_owned(), Cow::into_owned(note));
    }
    Ok(notes)
}
