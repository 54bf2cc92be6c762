//! Folders of mounts whose contents do not outlive them.
//!
//! A mount that is killed leaves its folder behind, and the next one with the same cache folder removes it. Whether its mount
//! still runs is what the lock of the file `lock` tells, which is locked before it has this name.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use tempfile::TempDir;

use super::{LOCK, keep_spared};
use crate::unsaved;

const PREFIX: &str = "mount-";
/// Where release 0.1 had the contents that outlived their mounts.
const EARLIER: &str = "contents";

/// A folder of one mount, which goes with it.
pub(super) struct Temporary {
    folder: TempDir,
    _lock: File,
}

impl Temporary {
    pub(super) fn new(cache: &Path) -> io::Result<Self> {
        let only_ours = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(only_ours).tempdir_in(cache)?;
        let unlocked = folder.path().join("lock.new");
        let lock = File::create(&unlocked)?;
        lock.try_lock()?;
        fs::rename(unlocked, folder.path().join(LOCK))?;
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let has_spared = |entries: fs::ReadDir| entries.flatten().any(|entry| unsaved::is_spared(&entry.path()));
        if fs::read_dir(self.path()).is_ok_and(has_spared) {
            self.folder.disable_cleanup(true);
        }
    }
}

/// Removes the folders of mounts that were killed, and of release 0.1, whose names nobody finds any more, unless a content in
/// them cannot be kept.
pub(super) fn clear(cache: &Path) {
    let entries = |folder| fs::read_dir(folder).into_iter().flatten().flatten();
    let killed = entries(cache.to_owned()).filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    for entry in killed.chain(entries(cache.join(EARLIER))) {
        let folder = entry.path();
        // Without the file, its mount begins just now.
        let Ok(lock) = File::open(folder.join(LOCK)) else { continue };
        if lock.try_lock().is_ok() && keep_spared(&folder, cache).unwrap_or(false) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}
