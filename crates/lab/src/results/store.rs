//! Reading and writing results. A reader never sees half of a file: see [`output`].

use std::{fmt::Display, path::Path};

use serde::Serialize;

use super::{RunResult, SCHEMA};
use crate::{claims::Verdict, testbed::RUN};

/// Why results cannot be written, read or found.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The results cannot be written.
    #[error("cannot write the results to {path}: {why}; free some space or choose another folder")]
    Write {
        /// The file or folder.
        path: String,
        /// What the system says.
        why: String,
    },
    /// The results would be on the tmpfs that root's runs have on [`RUN`].
    #[error(
        "cannot write the results to {path}: runs of root mount a tmpfs on {RUN}, where they would be lost; choose another folder"
    )]
    Volatile {
        /// The file.
        path: String,
    },
    /// The results cannot be read.
    #[error("cannot read the results in {path}: {why}")]
    Read {
        /// The file or folder.
        path: String,
        /// What the system says, or where the JSON is wrong.
        why: String,
    },
    /// The JSON has another schema.
    #[error("{path} has schema `{found}`, but this version of haul reads `{SCHEMA}`; use the version that wrote it")]
    Schema {
        /// The file.
        path: String,
        /// Its schema.
        found: String,
    },
    /// No such run.
    #[error("unknown run `{id}` in {folder}; {advice}")]
    Unknown {
        /// The name.
        id: String,
        /// The folder that was searched.
        folder: String,
        /// Advice: the nearest name, or all names.
        advice: String,
    },
}

impl ResultsError {
    pub(crate) fn write(path: &Path, why: impl Display) -> Self {
        Self::Write { path: path.display().to_string(), why: why.to_string() }
    }

    pub(crate) fn read(path: &Path, why: impl Display) -> Self {
        Self::Read { path: path.display().to_string(), why: why.to_string() }
    }
}

/// Writes results as JSON with [`output::write`].
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
    let mut run: RunResult = serde_json::from_slice(&json).map_err(|error| ResultsError::read(path, error))?;
    for claim in &mut run.claims {
        // Builds before the verdict "not judged" called these inconclusive, too.
        if claim.verdict == Verdict::Inconclusive && claim.ci95.is_none() && !claim.model {
            claim.verdict = Verdict::NotJudged;
        }
    }
    Ok(run)
}
