//! Local backups of what a download replaces or deletes.
//!
//! A replaced file stays in place until the new one is complete, and gets a second name in the backup.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::Download;
use crate::{
    Error,
    transfer::{Backup, temporary_name},
};

impl Download<'_> {
    /// Backs up a file before it is replaced, if there is a backup folder.
    pub(super) fn back_up_copy(&self, local: &Path) -> Result<(), Error> {
        let Some(backup) = self.backup_path(local) else { return Ok(()) };
        keep(local, &backup).map_err(|error| Error::local("keep a backup in", backup, error))
    }

    /// Moves something to the backup instead of deleting it; returns whether there is a backup folder.
    pub(super) fn move_to_backup(&self, local: &Path) -> io::Result<bool> {
        let Some(backup) = self.backup_path(local) else { return Ok(false) };
        if let Some(folder) = backup.parent() {
            fs::create_dir_all(folder)?;
        }
        move_to(local, &backup).map(|()| true)
    }

    fn backup_path(&self, local: &Path) -> Option<PathBuf> {
        let Some(Backup::Here(backup)) = &self.options.backup else { return None };
        Some(backup.join(local.strip_prefix(self.target).ok()?))
    }
}

/// Hard-links a file, or copies it to another file system.
fn keep(local: &Path, backup: &Path) -> io::Result<()> {
    let Some((folder, name)) = backup.parent().zip(backup.file_name()) else { return Ok(()) };
    fs::create_dir_all(folder)?;
    let second = folder.join(OsStr::from_bytes(&temporary_name(name.as_bytes())));
    if fs::hard_link(local, &second).is_err() {
        fs::copy(local, &second)?;
        let modified = fs::metadata(local)?.modified()?;
        fs::File::options().write(true).open(&second)?.set_modified(modified)?;
    }
    let renamed = fs::rename(&second, backup);
    // rename(2) does nothing if both names refer to one file.
    let _ = fs::remove_file(&second);
    renamed
}

/// Moves a file, replacing an older one, or merges a folder into an older one.
fn move_to(local: &Path, backup: &Path) -> io::Result<()> {
    let folder = fs::symlink_metadata(local)?.is_dir();
    if !folder || !backup.is_dir() {
        match fs::rename(local, backup) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            moved => return moved,
        }
    }
    if !folder {
        keep(local, backup)?;
        return fs::remove_file(local);
    }
    fs::create_dir_all(backup)?;
    for entry in fs::read_dir(local)? {
        let entry = entry?;
        move_to(&entry.path(), &backup.join(entry.file_name()))?;
    }
    fs::remove_dir(local)
}
