//! Selects what is copied, and what a mirror may delete on the other side.
//!
//! Both sides are filtered with the same rules, each with the facts of its own files: what is excluded on one side is neither
//! copied nor deleted on the other. An excluded folder is not listed at all, unless something in it may be included.
//!
//! A file that is excluded locally by its size or age may be included on the server, with another size under the same name.
//! It is kept too: the walk over the source records its name.

mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use self::rules::Rules;
pub use self::rules::{BadPattern, Rule};
use super::FileFacts;

/// Selects the files to copy, and to compare in a mirror.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    rules: Rules,
    /// Minimum and maximum length in bytes.
    sizes: (Option<u64>, Option<u64>),
    /// Files changed before the first or after the second time are excluded.
    times: (Option<SystemTime>, Option<SystemTime>),
    names: Option<Arc<Names>>,
}

/// The files of a list, by their paths in the source, and whether each was found.
#[derive(Debug, Default)]
struct Names {
    files: Mutex<BTreeMap<Vec<u8>, bool>>,
    folders: BTreeSet<Vec<u8>>,
}

/// The state of the filter in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Its path from the root of the source, with a `/` at its end; empty for the root.
    path: Vec<u8>,
    /// The first rule that matches it or a folder that it is in.
    rule: Option<usize>,
    /// Whether the folder itself is excluded, and is only traversed for something below.
    pub(crate) passing: bool,
}

impl Scope {
    fn at(&self, name: &[u8]) -> Vec<u8> {
        [&self.path, name].concat()
    }
}

impl Filter {
    /// A filter with these rules; the first that matches decides.
    pub fn new(rules: &[Rule]) -> Result<Self, BadPattern> {
        Ok(Self { rules: Rules::new(rules)?, ..Self::default() })
    }

    /// Only files whose length is within these bounds.
    #[must_use]
    pub fn sizes(self, least: Option<u64>, most: Option<u64>) -> Self {
        Self { sizes: (least, most), ..self }
    }

    /// Only files whose time is within these bounds.
    #[must_use]
    pub fn times(self, first: Option<SystemTime>, last: Option<SystemTime>) -> Self {
        Self { times: (first, last), ..self }
    }

    /// Only these files, by their paths in the source.
    #[must_use]
    pub fn only(self, files: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut names = Names::default();
        for file in files {
            let clean: Vec<&[u8]> =
                file.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")).collect();
            for end in 1..clean.len() {
                names.folders.insert(clean[..end].join(&b'/'));
            }
            names.files.get_mut().unwrap_or_else(PoisonError::into_inner).insert(clean.join(&b'/'), false);
        }
        Self { names: Some(Arc::new(names)), ..self }
    }

    /// Whether it includes everything.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.names.is_none() && (self.sizes, self.times) == Default::default()
    }

    /// The same for names alone, without sizes and ages.
    #[must_use]
    pub fn of_names(&self) -> Self {
        Self { rules: self.rules.clone(), names: self.names.clone(), ..Self::default() }
    }

    /// Whether a file's size and age are included. An unknown size or age excludes nothing.
    pub fn takes(&self, file: &FileFacts) -> bool {
        self.facts(file.length, file.modified)
    }

    /// Whether a folder below the root is excluded with its contents.
    pub fn leaves_out<'a>(&self, folder: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let mut scope = Some(Scope::default());
        for name in folder {
            scope = scope.and_then(|above| self.folder(&above, name));
        }
        scope.is_none()
    }

    /// The files of the list that were not found.
    pub(crate) fn missing(&self) -> Vec<String> {
        let Some(names) = &self.names else { return Vec::new() };
        let files = names.files.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = files.iter().filter(|(_, met)| !**met);
        missing.map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// Enters a folder; none if it is excluded with its contents.
    pub(crate) fn folder(&self, within: &Scope, name: &[u8]) -> Option<Scope> {
        let mut path = within.at(name);
        if let Some(names) = &self.names
            && !names.folders.contains(&path)
        {
            return None;
        }
        let rule = earlier(within.rule, self.rules.first(&path, true));
        let passing = !self.rules.includes(rule);
        if passing && !rule.is_some_and(|rule| self.rules.may_include_below(&path, rule)) {
            return None;
        }
        path.push(b'/');
        Some(Scope { path, rule, passing })
    }

    /// Whether a file is included. Unknown facts do not exclude it.
    pub(crate) fn file(&self, within: &Scope, name: &[u8], length: Option<u64>, modified: Option<SystemTime>) -> bool {
        self.name(within, name) && self.facts(length, modified)
    }

    /// Whether a file is included by its name.
    pub(crate) fn name(&self, within: &Scope, name: &[u8]) -> bool {
        if self.names.is_none() && self.rules.is_empty() {
            return true;
        }
        let path = within.at(name);
        let listed = self.names.as_ref().is_none_or(|names| {
            let mut files = names.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.get_mut(&path).map(|met| *met = true).is_some()
        });
        listed && self.rules.includes(earlier(within.rule, self.rules.first(&path, false)))
    }

    /// Whether a file is included by its size and time.
    pub(crate) fn facts(&self, length: Option<u64>, modified: Option<SystemTime>) -> bool {
        is_within(length, self.sizes) && is_within(modified, self.times)
    }
}

/// The earlier of two rules, if any.
fn earlier(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    a.into_iter().chain(b).min()
}

fn is_within<T: PartialOrd>(value: Option<T>, (least, most): (Option<T>, Option<T>)) -> bool {
    let Some(value) = value else { return true };
    least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most)
}

#[cfg(test)]
mod tests;
