//! Reading and writing results. A reader never sees half of a file: see [`output`].

use std::{fmt::Display, path::Path};

use serde::Serialize;

use super::{RunResult, SCHEMA};
use crate::testbed::RUN;

/// Why results cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The results cannot be written.
    #[error("cannot write the results to {path}: {why}; free some space or choose another folder")]
    Write {
        /// Which file or folder.
        path: String,
        /// What the system says.
        why: String,
    },
    /// The results would be on the tmpfs that root's runs have on [`RUN`].
    #[error(
        "cannot write the results to {path}: runs of root mount a tmpfs on {RUN}, where they would be lost; choose another folder"
    )]
    Volatile {
        /// Which file.
        path: String,
    },
    /// The results cannot be read.
    #[error("cannot read the results in {path}: {why}")]
    Read {
        /// Which file or folder.
        path: String,
        /// What the system says, or where the JSON is wrong.
        why: String,
    },
    /// It is another kind of JSON.
    #[error("{path} has schema `{found}`, but this version of haul reads `{SCHEMA}`; use the version that wrote it")]
    Schema {
        /// Which file.
        path: String,
        /// What it says it is.
        found: String,
    },
    /// No such run.
    #[error("unknown run `{id}` in {folder}; {advice}")]
    Unknown {
        /// What was asked for.
        id: String,
        /// Where it was looked for.
        folder: String,
        /// What may have been meant.
        advice: String,
    },
}

impl ResultsError {
    pub(super) fn write(path: &Path, why: impl Display) -> Self {
        Self::Write { path: path.display().to_string(), why: why.to_string() }
    }

    pub(crate) fn read(path: &Path, why: impl Display) -> Self {
        Self::Read { path: path.display().to_string(), why: why.to_string() }
    }
}

/// Writes a run, or what runs come to, as JSON, by the rules of [`output::write`].
pub fn write(path: &Path, results: &impl Serialize) -> Result<(), ResultsError> {
    output::write(path, |to| {
        serde_json::to_writer_pretty(&mut *to, results)?;
        to.write_all(b"\n")
    })
    .map_err(|error| ResultsError::write(path, error))
}

/// Reads a run's JSON.
pub fn read(path: &Path) -> Result<RunResult, ResultsError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let json = std::fs::read(path).map_err(|error| ResultsError::read(path, error))?;
    let head: Head = serde_json::from_slice(&json).map_err(|error| ResultsError::read(path, error))?;
    if head.schema.as_deref() != Some(SCHEMA) {
        let found = head.schema.unwrap_or_else(|| "none".into());
        return Err(ResultsError::Schema { path: path.display().to_string(), found });
    }
    serde_json::from_slice(&json).map_err(|error| ResultsError::read(path, error))
}
