//! Contenders and servers of the user's own in an experiment file.
//!
//! `[contender.NAME]` describes a contender if it has a command, and changes the settings of one of ours otherwise:
//! settings are numbers. In a contender of the user's own, numbers are the values of placeholders.

use std::{borrow::Cow, collections::BTreeMap, ops::Range, sync::Arc};

use serde::Deserialize;
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

use super::{
    KnownContender,
    did_you_mean::{advice, nearest},
    mistake::Fault,
};
use crate::custom::{CustomContender, CustomServer, Needs, SERVER_STEPS, STEPS};

/// The keys of a contender or server besides its texts.
const OTHER_KEYS: [&str; 3] = ["needs", "root", "env"];

/// Their values.
const OTHER_VALUES: [&str; 3] = [
    "a table of programs with their packages, as in `{ rclone = \"rclone\" }`",
    "`true` or `false`",
    "a table of variables with their values, as in `{ LANG = \"C\" }`",
];

/// A contender of the file, with the places of its name and of its texts.
#[derive(Debug)]
pub(super) struct CustomTable {
    pub(super) contender: Arc<CustomContender>,
    name: Range<usize>,
    texts: BTreeMap<&'static str, Range<usize>>,
}

/// The contenders and servers of a file.
#[derive(Debug, Default)]
pub(super) struct CustomTables {
    pub(super) contenders: Vec<CustomTable>,
    pub(super) servers: Vec<Arc<CustomServer>>,
}

/// What a table has besides its texts.
#[derive(Debug, Default, Deserialize)]
struct Others {
    #[serde(default)]
    needs: BTreeMap<String, String>,
    #[serde(default)]
    root: bool,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

impl CustomTables {
    /// Removes them from a document. Of a contender, the settings stay.
    pub(super) fn take(document: &mut DeTable<'_>) -> Result<Self, Fault> {
        let mut taken = Self::default();
        for (name, span, table) in tables(document, "contender")? {
            let keys = STEPS.map(|(key, _)| key);
            // A text may also be the wrong value of a setting of ours.
            let is_custom = |(key, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                matches!(value.get_ref(), DeValue::String(_)) && nearest(key.get_ref(), keys).is_some()
            };
            let is_known = |key: &Spanned<Cow<'_, str>>| keys.contains(&key.get_ref().as_ref());
            if !table.keys().any(is_known) && !table.iter().any(is_custom) {
                continue;
            }
            let (texts, others) = split(table, &keys, true)?;
            let steps = STEPS.iter().filter_map(|(key, step)| Some((*step, texts.get(key)?.get_ref().clone())));
            let contender = CustomContender::new(&name, steps.collect()).map_err(|error| {
                let text = error.step.and_then(|step| texts.get(step.key()));
                Fault::new(text.map_or(span.clone(), Spanned::span), error.why)
            })?;
            let Others { needs, root, env } = others;
            let contender = contender.needing(Needs { programs: needs, root }).with_environment(env);
            let texts = texts.into_iter().map(|(key, text)| (key, text.span())).collect();
            taken.contenders.push(CustomTable { contender: Arc::new(contender), name: span, texts });
        }
        for (name, span, table) in tables(document, "server")? {
            let (texts, others) = split(table, &SERVER_STEPS.map(|(key, _)| key), false)?;
            let steps = SERVER_STEPS.iter().filter_map(|(key, step)| Some((*step, texts.get(key)?.get_ref().clone())));
            let server = CustomServer::new(&name, steps.collect()).map_err(|error| Fault::new(span, error.why))?;
            let Others { needs, root, env } = others;
            let server = server.needing(Needs { programs: needs, root }).with_environment(env);
            taken.servers.push(Arc::new(server));
        }
        document.remove("server");
        Ok(taken)
    }

    /// The contenders as those that the file may name, after these.
    pub(super) fn known<'a>(&'a self, ours: &'a [KnownContender<'a>]) -> Result<Vec<KnownContender<'a>>, Fault> {
        let mut known = ours.to_vec();
        for table in &self.contenders {
            let name = table.contender.name();
            if ours.iter().any(|one| one.name == name) {
                let why = format!("there is a contender `{name}` already; give yours another name, as in `my-{name}`");
                return Err(Fault::new(table.name.clone(), why));
            }
            let settings = table.contender.parameters();
            known.push(KnownContender { name, model: false, requests_of: None, settings });
        }
        Ok(known)
    }

    /// The contender of this name.
    pub(super) fn contender(&self, name: &str) -> Option<&CustomTable> {
        self.contenders.iter().find(|table| table.contender.name() == name)
    }
}

impl CustomTable {
    /// The place of its name.
    pub(super) fn name_span(&self) -> Range<usize> {
        self.name.clone()
    }

    /// The place of a text.
    pub(super) fn span(&self, key: &str) -> Range<usize> {
        self.texts.get(key).unwrap_or(&self.name).clone()
    }
}

/// The tables below a key: `[contender.NAME]`.
fn tables<'a, 'i>(document: &'a mut DeTable<'i>, key: &str) -> Result<Tables<'a, 'i>, Fault> {
    let Some(value) = document.get_mut(key) else { return Ok(Vec::new()) };
    let not_a_table = |span| Fault::new(span, format!("expected `[{key}.NAME]` with the keys of a {key}"));
    let span = value.span();
    let DeValue::Table(named) = value.get_mut() else { return Err(not_a_table(span)) };
    let mut tables = Vec::new();
    for (name, value) in named.iter_mut() {
        match value.get_mut() {
            DeValue::Table(table) => tables.push((name.get_ref().clone().into_owned(), name.span(), table)),
            _ => return Err(not_a_table(name.span())),
        }
    }
    Ok(tables)
}

/// Tables by name, with the place of the name.
type Tables<'a, 'i> = Vec<(String, Range<usize>, &'a mut DeTable<'i>)>;

/// Takes the texts with these keys out of a table, and the other keys. Numbers stay if the table may have settings.
fn split(
    table: &mut DeTable<'_>,
    keys: &[&'static str],
    may_have_settings: bool,
) -> Result<(BTreeMap<&'static str, Spanned<String>>, Others), Fault> {
    let is_setting = |value: &DeValue<'_>| matches!(value, DeValue::Integer(_) | DeValue::Array(_));
    for (key, value) in table.iter() {
        let name = key.get_ref().as_ref();
        let is_known =
            keys.contains(&name) || OTHER_KEYS.contains(&name) || may_have_settings && is_setting(value.get_ref());
        if !is_known {
            let known = keys.iter().chain(&OTHER_KEYS).copied().collect::<Vec<_>>();
            return Err(Fault::new(key.span(), format!("unknown key `{name}`; {}", advice(name, known))));
        }
    }
    let mut texts = BTreeMap::new();
    for key in keys {
        if let Some(value) = table.remove(*key) {
            let span = value.span();
            let text = Spanned::<String>::deserialize(ValueDeserializer::from(value));
            texts.insert(*key, text.map_err(|_| Fault::new(span, format!("`{key}` must be a string in quotes")))?);
        }
    }
    let mut rest = DeTable::new();
    for (key, expected) in OTHER_KEYS.into_iter().zip(OTHER_VALUES) {
        let Some((key, value)) = table.remove_entry(key) else { continue };
        if !matches!((key.get_ref().as_ref(), value.get_ref()), ("root", DeValue::Boolean(_)) | (_, DeValue::Table(_)))
        {
            return Err(Fault::new(value.span(), format!("`{}` must be {expected}", key.get_ref())));
        }
        rest.insert(key, value);
    }
    let whole = Spanned::new(0..0, DeValue::Table(rest));
    Ok((texts, Others::deserialize(ValueDeserializer::from(whole))?))
}
