//! Reading and writing results. A file is written beside its place and moved there when it
//! is whole, so that nobody ever reads half of one.

use std::{
    fmt::Display,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use serde::Serialize;
use tempfile::Builder;

use super::{RunResult, SCHEMA};

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
    /// The results cannot be read.
    #[error("cannot read the results in {path}: {why}")]
    Read {
        /// Which file or folder.
        path: String,
        /// What the system says, or where the JSON is wrong.
        why: String,
    },
    /// It is another kind of JSON.
    #[error("{path} has the schema `{found}`, and this haul reads `{SCHEMA}`; use the version that wrote it")]
    Schema {
        /// Which file.
        path: String,
        /// What it says it is.
        found: String,
    },
    /// No such run.
    #[error("there is no run called `{id}` in {folder}; {advice}")]
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

    pub(super) fn read(path: &Path, why: impl Display) -> Self {
        Self::Read { path: path.display().to_string(), why: why.to_string() }
    }
}

/// Writes a run, or what runs come to, as JSON; `-` is the standard output, whose reader may be gone (`| head`).
pub fn write(path: &Path, results: &impl Serialize) -> Result<(), ResultsError> {
    let mut json = serde_json::to_vec_pretty(results).map_err(|error| ResultsError::write(path, error))?;
    json.push(b'\n');
    if path == Path::new("-") {
        return match io::stdout().write_all(&json) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(ResultsError::write(path, error)),
            _ => Ok(()),
        };
    }
    replace(path, &json)
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

/// Puts `bytes` at `path`, all or nothing.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), ResultsError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fill = || -> io::Result<()> {
        // Readable as any new file is: the process's umask is taken from this.
        let anyone = std::fs::Permissions::from_mode(0o666);
        let mut file = Builder::new().prefix(".writing-").permissions(anyone).tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    fill().map_err(|error| ResultsError::write(path, error))
}
