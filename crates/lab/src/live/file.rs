//! The file through which other processes watch and cancel a run.
//!
//! `haul lab watch` may begin after the run and end before it, so the run does not know its watchers. It keeps
//! `live.json` up to date, which is also its sign of life, and stops when a file `cancel` appears beside it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::Live;
use crate::results::{self, ResultsError};

/// The file with the state of the run.
const LIVE: &str = "live.json";

/// The file whose existence cancels the run.
const CANCEL: &str = "cancel";

/// The path of a run's live file.
pub fn file(folder: &Path) -> PathBuf {
    folder.join(LIVE)
}

/// The path of the file that cancels a run when it exists.
pub fn cancel_file(folder: &Path) -> PathBuf {
    folder.join(CANCEL)
}

/// Removes the files that exist only during a run.
pub fn remove_files(folder: &Path) {
    for name in [LIVE, CANCEL] {
        let _ = fs::remove_file(folder.join(name));
    }
}

/// Writes the state of a run. A reader sees either the old file or the new one.
pub fn write(folder: &Path, live: &Live) -> io::Result<()> {
    output::replace(&file(folder), 0o666, &serde_json::to_vec(live)?)
}

/// Reads the state of a run.
pub fn read(file: &Path) -> Result<Live, ResultsError> {
    let json = fs::read(file).map_err(|error| ResultsError::read(file, error))?;
    serde_json::from_slice(&json).map_err(|error| ResultsError::read(file, error))
}

/// The folder of the run `id` if it is in progress; without an id, of the newest run in progress.
pub fn in_progress(runs: &Path, id: Option<&str>) -> Result<Option<PathBuf>, ResultsError> {
    let is_live = |folder: &PathBuf| file(folder).exists();
    let Some(id) = id else {
        return Ok(results::ids(runs)?.into_iter().map(|id| runs.join(id)).find(is_live));
    };
    Ok([runs.join(id), PathBuf::from(id)].into_iter().find(is_live))
}
