//! Removing what a killed server left behind.
//!
//! Unfinished uploads lie beside their targets, anywhere in the tree, so the whole tree is walked once
//! at start, in the background. A file that another living server is still writing is locked and stays.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{Dir, FileType, OFlags};
use tokio_util::sync::CancellationToken;

use super::draft::remove_abandoned;
use super::root::{Root, is_unfinished};

/// Walks the tree until done or told to stop. Returns how many files were removed.
pub(crate) fn sweep(root: &Root, stop: &CancellationToken) -> usize {
    let mut removed = 0;
    let mut ahead = vec![PathBuf::from(".")];
    while let Some(path) = ahead.pop() {
        if stop.is_cancelled() {
            break;
        }
        let Ok(dir) = root.open_beneath(&path, OFlags::RDONLY | OFlags::DIRECTORY) else { continue };
        let Ok(entries) = Dir::read_from(&dir) else { continue };
        for entry in entries.flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if is_unfinished(name.as_bytes()) {
                removed += usize::from(remove_abandoned(&dir, name));
            } else if matches!(entry.file_type(), FileType::Directory | FileType::Unknown)
                && name != "."
                && name != ".."
            {
                ahead.push(path.join(name));
            }
        }
    }
    removed
}
