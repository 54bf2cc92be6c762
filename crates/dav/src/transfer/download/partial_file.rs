//! The file that a download is written to until it is complete.

use std::{
    fs,
    io::{self, Seek, SeekFrom},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, process::geteuid};

/// A file that is still incomplete.
pub(super) struct PartialFile {
    pub(super) path: PathBuf,
    /// The number of valid bytes that an earlier run left.
    pub(super) has: u64,
    /// The open and locked file, if it stays for the next run when this one is interrupted. Writes go through this
    /// handle, because the name may come to refer to something else.
    pub(super) left: Option<fs::File>,
}

impl PartialFile {
    /// Opens the file for writing after the valid bytes.
    pub(super) fn open(&self) -> io::Result<fs::File> {
        let mut file = match &self.left {
            Some(file) => file.try_clone()?,
            None => fs::File::options().create(true).truncate(false).write(true).open(&self.path)?,
        };
        // Bytes beyond are of no use.
        file.set_len(self.has)?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    }
}

/// Opens or creates a file under a predictable name and locks it; none if another process is writing it. In a shared
/// folder somebody may have put something else there: a link, a pipe, another user's file.
pub(super) fn ours_alone(local: &Path) -> Option<fs::File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = fs::File::options().create(true).truncate(false).write(true).custom_flags(flags).open(local).ok()?;
    let it = file.metadata().ok()?;
    let ours = it.is_file() && it.nlink() == 1 && it.uid() == geteuid().as_raw();
    // Before this lock, its previous holder may have renamed the file to its final name.
    let is_there = || fs::symlink_metadata(local).is_ok_and(|there| (there.dev(), there.ino()) == (it.dev(), it.ino()));
    (ours && file.try_lock().is_ok() && is_there()).then_some(file)
}
