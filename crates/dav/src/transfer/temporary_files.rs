//! Temporary files of ours that a run has left behind, because it was killed or may go on with them.
//!
//! Their names are made by [`marked`], and nobody else makes such names: they are never content. They are neither
//! listed nor moved, and a mirror does not take them for something that is to be deleted: another run may be at work on
//! them. What is old is deleted by a run that comes by. Old is what has not changed for a day, by the clock of the side
//! that it is on, or for a week in a run that goes on with such files; and here only what no process has locked.

use std::{
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{fs::OFlags, process::geteuid};

use super::{Options, random};

const DIGITS: usize = 16;
/// The unfinished uploads of `haul serve`, which deletes them itself.
const SERVED: &[u8] = b".haul-upload-";

/// A name beside `name` for what is not whole yet, hidden and new each time.
pub(crate) fn temporary_name(name: &[u8]) -> Vec<u8> {
    part_name(name, random(name))
}

/// A name beside `name` for what is not whole yet, hidden.
pub(crate) fn part_name(name: &[u8], mark: u64) -> Vec<u8> {
    marked(name, mark, "part")
}

/// A hidden name with a mark in it. File systems take 255 bytes: of a long name only a part is in it.
pub(crate) fn marked(name: &[u8], mark: u64, extension: &str) -> Vec<u8> {
    let mut end = name.len().min(200);
    // Not within a character, where it is text.
    while end < name.len() && end > 190 && name[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    [b".", &name[..end], format!(".{mark:016x}.{extension}").as_bytes()].concat()
}

/// Whether a name is one of ours for what is not whole yet.
pub fn is_temporary(name: &[u8]) -> bool {
    is_transfer_part(name) || name.strip_prefix(SERVED).is_some_and(is_mark)
}

/// Whether it is one of an upload's or a download's: `.NAME.0123456789abcdef.part`.
pub(crate) fn is_transfer_part(name: &[u8]) -> bool {
    let bare = name.strip_suffix(b".part").or_else(|| name.strip_suffix(b".upload"));
    let parts = bare.and_then(|bare| bare.split_at_checked(bare.len().checked_sub(DIGITS)?));
    parts.is_some_and(|(start, mark)| {
        start.len() > 2 && start.starts_with(b".") && start.ends_with(b".") && is_mark(mark)
    })
}

fn is_mark(text: &[u8]) -> bool {
    text.len() == DIGITS && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What has not changed since then is old; none if nothing is to be deleted.
pub(crate) fn old_since(options: &Options) -> Option<SystemTime> {
    let days = if options.resume { 7 } else { 1 };
    SystemTime::now().checked_sub(Duration::from_hours(days * 24)).filter(|_| !options.dry_run)
}

/// Deletes what is old in a folder here: what was deleted.
pub(crate) fn sweep(folder: &Path, old_since: SystemTime) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let old = entries.filter(|entry| is_transfer_part(entry.file_name().as_bytes())).map(|entry| entry.path());
    old.filter(|path| delete(path, old_since).is_ok_and(|deleted| deleted)).collect()
}

/// Deletes a file of ours, if it is old and no process has locked it; whether it did.
fn delete(path: &Path, old_since: SystemTime) -> io::Result<bool> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = fs::File::options().write(true).custom_flags(flags).open(path)?;
    let it = file.metadata()?;
    let ours = it.is_file() && it.nlink() == 1 && it.uid() == geteuid().as_raw();
    if !ours || it.modified()? > old_since || file.try_lock().is_err() {
        return Ok(false);
    }
    // Whoever held the lock until now may have given it its name.
    let there = fs::symlink_metadata(path)?;
    let same = (there.dev(), there.ino()) == (it.dev(), it.ino());
    if same { fs::remove_file(path).map(|()| true) } else { Ok(false) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{marked, temporary_name};

    #[test]
    fn all_names_that_are_made_are_known_and_no_others() {
        for name in [&b"a"[..], b".hidden", "ü".repeat(127).as_bytes(), b"\xff", b"a.b.part", b" "] {
            assert!(is_temporary(&temporary_name(name)) && is_temporary(&marked(name, 7, "upload")));
            assert!(!is_temporary(name) && !is_temporary(&marked(name, 7, "old")));
        }
        for name in ["", ".part", "..0123456789abcdef.part", "x.0123456789abcdef.part", ".a.0123456789abcdeg.part"] {
            assert!(!is_temporary(name.as_bytes()), "{name}");
        }
        assert!(is_temporary(b".haul-upload-0123456789abcdef") && !is_temporary(b".haul-upload-0123456789abcdef0"));
    }
}
