//! The name for a version whose place another version has.

use std::time::SystemTime;

use dav::RemotePath;

/// How many names are tried.
const NAMES: u64 = 100;

/// The names to try for a version that was closed at this time, beside the file at `path`: the first one that the server does
/// not have (`If-None-Match: *`), or that has the same content, from an attempt whose answer was lost. The time makes them
/// the same at each attempt. `None` if they are too long.
pub fn names_beside(path: &RemotePath, closed: SystemTime) -> Option<impl Iterator<Item = RemotePath> + use<>> {
    let seconds = closed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    path.conflicting(seconds)?;
    let path = path.clone();
    // There may be one of this second already.
    Some((seconds..seconds.saturating_add(NAMES)).filter_map(move |seconds| path.conflicting(seconds)))
}
