//! Removes leftovers of a killed server: unfinished uploads, and property files that no file refers to.
//!
//! Unfinished uploads are beside their targets, anywhere in the tree, so the whole tree is walked once at start, in the
//! background. A file that another running server writes is locked, and stays.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{Dir, FileType, OFlags};
use tokio_util::sync::CancellationToken;

use super::properties;
use super::property_files;
use super::root::{Root, is_own, is_unfinished};
use super::staged_upload::remove_abandoned;

/// Walks the tree until it is done or stopped. Returns the number of files removed. Property files stay if a part of
/// the tree could not be read.
pub(crate) fn sweep(root: &Root, stop: &CancellationToken) -> usize {
    let mut removed = 0;
    // Sets that exist before the walk can be told apart from those created during it.
    let sets = property_files::all(root);
    let (mut referred, mut all_seen) = (HashSet::new(), true);
    let mut ahead = vec![PathBuf::from(".")];
    while let Some(path) = ahead.pop() {
        if stop.is_cancelled() {
            break;
        }
        let Ok(dir) = root.open_beneath(&path, OFlags::RDONLY | OFlags::DIRECTORY) else {
            all_seen = false;
            continue;
        };
        let Ok(entries) = Dir::read_from(&dir) else {
            all_seen = false;
            continue;
        };
        for entry in entries.flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if is_unfinished(name.as_bytes()) {
                removed += usize::from(remove_abandoned(&dir, name));
                continue;
            }
            if is_own(name.as_bytes()) {
                continue;
            }
            let has_properties =
                matches!(entry.file_type(), FileType::RegularFile | FileType::Directory | FileType::Unknown);
            if !sets.is_empty() && has_properties && name != ".." {
                match properties::open(&dir, name) {
                    Ok(file) => referred.extend(properties::raw(file).and_then(|value| properties::reference(&value))),
                    Err(_) => all_seen = false,
                }
            }
            if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) && name != "." && name != ".." {
                ahead.push(path.join(name));
            }
        }
    }
    if all_seen && !stop.is_cancelled() {
        removed += property_files::sweep(root, sets, &referred);
    }
    removed
}
