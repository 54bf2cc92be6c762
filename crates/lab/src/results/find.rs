//! Finding runs: their folders, ids and times.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    time::SystemTime,
};

use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};

use super::{ResultsError, RunResult, read};
use crate::experiment::nearest;

/// A time as in `started`: RFC 3339, UTC, whole seconds.
pub(crate) fn timestamp(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at);
    at.replace_nanosecond(0).unwrap_or(at).format(&Rfc3339).unwrap_or_default()
}

/// Creates the folder of a new run, `YYYYMMDD-HHMMSS-NAME` in `runs`, with a number at the end if the name exists.
pub fn create_folder(runs: &Path, name: &str, at: SystemTime) -> Result<PathBuf, ResultsError> {
    let stamp = OffsetDateTime::from(at)
        .format(format_description!("[year][month][day]-[hour][minute][second]"))
        .map_err(|error| ResultsError::write(runs, error))?;
    std::fs::create_dir_all(runs).map_err(|error| ResultsError::write(runs, error))?;
    for n in 1..=100 {
        let id = if n == 1 { format!("{stamp}-{name}") } else { format!("{stamp}-{name}-{n}") };
        let folder = runs.join(id);
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(ResultsError::write(&folder, error)),
        }
    }
    Err(ResultsError::write(runs, "a hundred runs started in the same second"))
}

/// A run in a list.
#[derive(Debug)]
pub struct ListedRun {
    /// The name of its folder.
    pub id: String,
    /// Its results, or why there are none: it is in progress, or was stopped.
    pub run: Result<RunResult, ResultsError>,
}

/// The runs in `runs`, newest first.
pub fn list(runs: &Path) -> Result<Vec<ListedRun>, ResultsError> {
    let listed = |id: String| ListedRun { run: read(&runs.join(&id).join("run.json")), id };
    Ok(ids(runs)?.into_iter().map(listed).collect())
}

/// The results of a run, given by its id, folder or file; without one, of the newest run with results.
pub fn find(runs: &Path, id: Option<&str>) -> Result<RunResult, ResultsError> {
    read(&locate(runs, id)?)
}

/// The path of these results.
pub fn locate(runs: &Path, id: Option<&str>) -> Result<PathBuf, ResultsError> {
    let Some(id) = id else {
        let newest = list(runs)?.into_iter().find(|listed| listed.run.is_ok());
        let newest = newest.map(|listed| runs.join(listed.id).join("run.json"));
        return newest.ok_or_else(|| ResultsError::read(runs, "no finished run there; `haul race` makes one"));
    };
    for path in [runs.join(id), PathBuf::from(id)] {
        match path.join("run.json") {
            file if file.exists() => return Ok(file),
            _ if path.is_file() => return Ok(path),
            _ => {}
        }
    }
    let ids = ids(runs)?;
    let advice = match nearest(id, ids.iter().map(String::as_str)) {
        Some(id) => format!("did you mean `{id}`?"),
        None => "`haul lab list` lists the runs".to_owned(),
    };
    Err(ResultsError::Unknown { id: id.to_owned(), folder: runs.display().to_string(), advice })
}

/// The names of the runs' folders in `runs`, newest first.
pub fn ids(runs: &Path) -> Result<Vec<String>, ResultsError> {
    let entries = match std::fs::read_dir(runs) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| ResultsError::read(runs, error))?,
    };
    let mut ids: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    Ok(ids)
}
