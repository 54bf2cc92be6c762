//! The names of our temporary files, and the removal of stale ones.
//!
//! A run that was killed, or that may be resumed, leaves temporary files. Nobody else uses such names ([`marked`]), so they
//! are never content: they are neither listed nor transferred, and a mirror does not delete them, because another run may be
//! using them. A later run deletes stale ones: those that have not changed for a day, by the clock of their side, or for a
//! week if the run itself may resume such files; locally only if no process has locked them.

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
/// Prefix of the staged uploads of `haul serve`, which deletes them itself.
const SERVED: &[u8] = b".haul-upload-";

/// A hidden, random name for an incomplete file `name`.
pub(crate) fn temporary_name(name: &[u8]) -> Vec<u8> {
    part_name(name, random(name))
}

/// A hidden name for an incomplete file `name`.
pub(crate) fn part_name(name: &[u8], mark: u64) -> Vec<u8> {
    marked(name, mark, "part")
}

/// A hidden name that contains a mark, and at most 200 bytes of `name`, since file systems allow 255 bytes.
pub(crate) fn marked(name: &[u8], mark: u64, extension: &str) -> Vec<u8> {
    let mut end = name.len().min(200);
    // Not within a character.
    while end < name.len() && end > 190 && name[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    [b".", &name[..end], format!(".{mark:016x}.{extension}").as_bytes()].concat()
}

/// Whether a name is that of one of our temporary files.
pub fn is_temporary(name: &[u8]) -> bool {
    is_transfer_part(name) || name.strip_prefix(SERVED).is_some_and(is_mark)
}

/// Whether it belongs to an upload or a download: `.NAME.0123456789abcdef.part`.
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

/// Files that have not changed since then are stale; none if nothing is to be deleted.
pub(crate) fn old_since(options: &Options) -> Option<SystemTime> {
    let days = if options.resume { 7 } else { 1 };
    SystemTime::now().checked_sub(Duration::from_hours(days * 24)).filter(|_| !options.dry_run)
}

/// Deletes the stale temporary files in a local folder; returns them.
pub(crate) fn sweep(folder: &Path, old_since: SystemTime) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let old = entries.filter(|entry| is_transfer_part(entry.file_name().as_bytes())).map(|entry| entry.path());
    old.filter(|path| delete(path, old_since).is_ok_and(|deleted| deleted)).collect()
}

/// Deletes a temporary file, if it is stale and no process has locked it; returns whether it did.
fn delete(path: &Path, old_since: SystemTime) -> io::Result<bool> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = fs::File::options().write(true).custom_flags(flags).open(path)?;
    let it = file.metadata()?;
    let ours = it.is_file() && it.nlink() == 1 && it.uid() == geteuid().as_raw();
    if !ours || it.modified()? > old_since || file.try_lock().is_err() {
        return Ok(false);
    }
    // The previous holder of the lock may have renamed it to its final name.
    let there = fs::symlink_metadata(path)?;
    let same = (there.dev(), there.ino()) == (it.dev(), it.ino());
    if same { fs::remove_file(path).map(|()| true) } else { Ok(false) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{marked, temporary_name};

    #[test]
    fn only_generated_names_count_as_temporary() {
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
