//! What a download would replace or delete, kept in another folder here.
//!
//! What is replaced stays at its place until the new one is there, and has a second name in the backup.

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
    /// Keeps a file that is to be replaced, if that is wanted.
    pub(super) fn keep_copy(&self, place: &Path) -> Result<(), Error> {
        let Some(backup) = self.backup_of(place) else { return Ok(()) };
        keep(place, &backup).map_err(|error| Error::local("keep a backup in", backup, error))
    }

    /// Moves what is to be deleted to the backup; whether one is kept.
    pub(super) fn put_away(&self, place: &Path) -> io::Result<bool> {
        let Some(backup) = self.backup_of(place) else { return Ok(false) };
        if let Some(folder) = backup.parent() {
            fs::create_dir_all(folder)?;
        }
        move_to(place, &backup).map(|()| true)
    }

    fn backup_of(&self, place: &Path) -> Option<PathBuf> {
        let Some(Backup::Here(backup)) = &self.options.backup else { return None };
        Some(backup.join(place.strip_prefix(self.root).ok()?))
    }
}

/// A second name for a file, or a copy where it is on another file system.
fn keep(place: &Path, backup: &Path) -> io::Result<()> {
    let Some((folder, name)) = backup.parent().zip(backup.file_name()) else { return Ok(()) };
    fs::create_dir_all(folder)?;
    let second = folder.join(OsStr::from_bytes(&temporary_name(name.as_bytes())));
    if fs::hard_link(place, &second).is_err() {
        fs::copy(place, &second)?;
        let modified = fs::metadata(place)?.modified()?;
        fs::File::options().write(true).open(&second)?.set_modified(modified)?;
    }
    let renamed = fs::rename(&second, backup);
    // Two names of one file stay two when one is to become the other.
    let _ = fs::remove_file(&second);
    renamed
}

/// A folder that is there from earlier is added to; a file is replaced.
fn move_to(place: &Path, backup: &Path) -> io::Result<()> {
    let folder = fs::symlink_metadata(place)?.is_dir();
    if !folder || !backup.is_dir() {
        match fs::rename(place, backup) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            moved => return moved,
        }
    }
    if !folder {
        keep(place, backup)?;
        return fs::remove_file(place);
    }
    fs::create_dir_all(backup)?;
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        move_to(&entry.path(), &backup.join(entry.file_name()))?;
    }
    fs::remove_dir(place)
}
