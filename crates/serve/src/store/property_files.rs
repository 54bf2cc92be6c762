//! Property sets that do not fit into an extended attribute: ext4 has about 4 KiB for all attributes of a file.
//!
//! Each set is a file in the folder [`FOLDER`] of the served directory, with a random name that the attribute refers
//! to. So the reference moves with the file, whoever moves it, and the set stays in place. Sets are immutable: a change
//! writes a new set, updates the attribute atomically, and removes the old set. A crash in between leaves an orphaned
//! set.
//!
//! A set is removed with the last hard link of its file, and when the file is replaced. Files deleted without the
//! server (`rm`) leave their sets. The server sweeps orphaned sets at start, in two rounds, because it may miss a file
//! that is moved during the sweep: a set that no file refers to is renamed at one start, and removed at a later start
//! if it still has that name. It is readable under both names.
//!
//! # Alternatives
//! Several attributes for one set do not help: the limit applies to their sum. Sets named after their files would be
//! lost by a local `mv`. Inode numbers are reused.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use ring::rand::SecureRandom;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::root::Root;

/// The folder of the sets. It is neither listed nor reachable.
pub(crate) const FOLDER: &str = ".haul-properties";

/// Suffix of a set that no file was found to refer to.
const ORPHAN: &str = ".orphan";

/// Maximum size of a set in bytes.
pub(crate) const MAX_SIZE: usize = 256 * 1024;

/// The name of a set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Id(String);

impl Id {
    /// Parses an attribute's reference. Other programs can write attributes too: only our own names are accepted.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_ours = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_ours.then(|| Id(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn names(&self) -> [String; 2] {
        [self.0.clone(), format!("{}{ORPHAN}", self.0)]
    }
}

/// Writes a set to disk.
pub(crate) fn write(root: &Root, set: &[u8]) -> rustix::io::Result<Id> {
    let folder = match folder(root) {
        Err(Errno::NOENT) => {
            let top = root.open_beneath(Path::new("."), OFlags::RDONLY | OFlags::DIRECTORY)?;
            match rustix::fs::mkdirat(&top, FOLDER, Mode::RWXU) {
                Err(Errno::EXIST) => {}
                made => made.and_then(|()| rustix::fs::fsync(&top))?,
            }
            folder(root)?
        }
        opened => opened?,
    };
    let mut random = [0; 16];
    ring::rand::SystemRandom::new().fill(&mut random).map_err(|_| Errno::IO)?;
    let id = Id(random.iter().fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    }));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(&folder, id.as_str(), flags, Mode::RUSR | Mode::WUSR)?);
    let written = file.write_all(set).and_then(|()| file.sync_all());
    let written = written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
    let written = written.and_then(|()| rustix::fs::fsync(&folder));
    if let Err(errno) = written {
        remove(root, &id);
        return Err(errno);
    }
    Ok(id)
}

/// Reads a set. `None` if it is missing.
pub(crate) fn read(root: &Root, id: &Id) -> Option<Vec<u8>> {
    let folder = folder(root).ok()?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |name: &String| rustix::fs::openat(&folder, name, flags, Mode::empty()).ok();
    let mut set = Vec::new();
    File::from(id.names().iter().find_map(open)?).take(MAX_SIZE as u64).read_to_end(&mut set).ok()?;
    Some(set)
}

/// Removes a set. If that fails, a later start does.
pub(crate) fn remove(root: &Root, id: &Id) {
    let Ok(folder) = folder(root) else { return };
    for name in id.names() {
        let _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty());
    }
}

/// Removes all sets of a served directory that is about to be removed.
pub(crate) fn remove_all(parent: &OwnedFd) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(parent, FOLDER, flags, Mode::empty())?;
    for entry in Dir::read_from(&folder)?.flatten() {
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            rustix::fs::unlinkat(&folder, entry.file_name(), AtFlags::empty())?;
        }
    }
    rustix::fs::unlinkat(parent, FOLDER, AtFlags::REMOVEDIR)
}

fn folder(root: &Root) -> rustix::io::Result<OwnedFd> {
    root.open_beneath(Path::new(FOLDER), OFlags::RDONLY | OFlags::DIRECTORY)
}

/// All sets, and whether each was orphaned at an earlier start.
pub(crate) fn all(root: &Root) -> Vec<(Id, bool)> {
    let Some(entries) = folder(root).ok().and_then(|folder| Dir::read_from(folder).ok()) else { return Vec::new() };
    let parse = |name: &str| match name.strip_suffix(ORPHAN) {
        Some(id) => Some((Id::parse(id)?, true)),
        None => Some((Id::parse(name)?, false)),
    };
    entries.flatten().filter_map(|entry| parse(entry.file_name().to_str().ok()?)).collect()
}

/// Sweeps the sets in `sets` that no file was found to refer to, as described above. Returns the number removed.
pub(crate) fn sweep(root: &Root, sets: Vec<(Id, bool)>, referred: &HashSet<Id>) -> usize {
    let Ok(folder) = folder(root) else { return 0 };
    let mut removed = 0;
    for (id, was_orphan) in sets {
        let [name, orphan] = id.names();
        let _ = match (referred.contains(&id), was_orphan) {
            (true, true) => rustix::fs::renameat(&folder, orphan, &folder, name),
            (true, false) => continue,
            (false, false) => rustix::fs::renameat(&folder, name, &folder, orphan),
            (false, true) => {
                removed += 1;
                rustix::fs::unlinkat(&folder, orphan, AtFlags::empty())
            }
        };
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_is_removed_at_the_second_start_that_sees_no_file_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let (kept, lost) = (write(&root, b"kept").unwrap(), write(&root, b"lost").unwrap());
        let referred = HashSet::from([kept.clone()]);
        assert_eq!(sweep(&root, all(&root), &referred), 0);
        assert_eq!(read(&root, &lost).unwrap(), b"lost", "still there for one that was moved meanwhile");
        let both = HashSet::from([kept.clone(), lost.clone()]);
        assert_eq!(sweep(&root, all(&root), &both), 0);
        assert_eq!(sweep(&root, all(&root), &referred), 0);
        assert_eq!(sweep(&root, all(&root), &referred), 1);
        assert_eq!((read(&root, &lost), read(&root, &kept)), (None, Some(b"kept".to_vec())));
    }

    #[test]
    fn only_generated_names_count_as_property_files() {
        assert!(Id::parse("0123456789abcdef0123456789abcdef").is_some());
        for name in [
            "",
            "../../../../../../../../etc/passwd",
            "0123456789abcdef0123456789abcde/",
            "0123456789ABCDEF0123456789ABCDEF",
        ] {
            assert_eq!(Id::parse(name), None, "{name}");
        }
    }
}
