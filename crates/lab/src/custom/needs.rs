//! What a program of the user's own needs.

use std::collections::BTreeMap;

use super::program;
use crate::process::Missing;

/// What a custom contender or server needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Programs, with the package that brings each.
    pub programs: BTreeMap<String, String>,
    /// Whether only root can run it.
    pub root: bool,
}

impl Needs {
    /// The first program that is not installed.
    pub(crate) fn missing(&self) -> Option<Missing> {
        let missing = self.programs.iter().find(|(name, _)| program::find(name).is_none());
        missing.map(|(what, package)| Missing { what: what.clone(), package: package.clone().into() })
    }
}
