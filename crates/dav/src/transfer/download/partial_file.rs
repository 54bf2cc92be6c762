//! The file that a download is written to until it is complete.

use std::{
    fs,
    io::{self, Seek, SeekFrom},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, process::geteuid};

/// Where a file is written first.
pub(super) struct PartialFile {
    pub(super) place: PathBuf,
    /// What is there already, and right.
    pub(super) has: u64,
    /// The file, if it is left for the next run when this one is interrupted. It is written by this, under our lock:
    /// its name may come to lead elsewhere.
    pub(super) left: Option<fs::File>,
}

impl PartialFile {
    /// The file, to be written from the end of what is there.
    pub(super) fn open(&self) -> io::Result<fs::File> {
        let mut file = match &self.left {
            Some(file) => file.try_clone()?,
            None => fs::File::options().create(true).truncate(false).write(true).open(&self.place)?,
        };
        // What is beyond is of no use.
        file.set_len(self.has)?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    }
}

/// The file at a place that others can foretell, made if there is none, and locked; none if another process writes it.
/// In a folder that is not only ours, something may have been put there for us: a link, a pipe, another's file.
pub(super) fn ours_alone(place: &Path) -> Option<fs::File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = fs::File::options().create(true).truncate(false).write(true).custom_flags(flags).open(place).ok()?;
    let it = file.metadata().ok()?;
    let ours = it.is_file() && it.nlink() == 1 && it.uid() == geteuid().as_raw();
    // Between the two, whoever held the lock may have given it its name.
    let is_there = || fs::symlink_metadata(place).is_ok_and(|there| (there.dev(), there.ino()) == (it.dev(), it.ino()));
    (ours && file.try_lock().is_ok() && is_there()).then_some(file)
}
