//! Removing and renaming files, together with their property files.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use rustix::fs::AtFlags;

use super::metadata::Meta;
use super::root::Root;
use super::{properties, property_files};

/// Removes a file, or an empty directory with `AtFlags::REMOVEDIR`.
pub(crate) fn remove(root: &Root, dir: impl AsFd, name: &OsStr, flags: AtFlags) -> rustix::io::Result<()> {
    let set = properties::open(&dir, name).ok().and_then(properties::last_reference);
    rustix::fs::unlinkat(&dir, name, flags)?;
    if let Some(set) = set {
        property_files::remove(root, &set);
    }
    Ok(())
}

/// Renames a file or directory, possibly over another.
pub(crate) fn rename(
    root: &Root,
    (source, old): (impl AsFd, &OsStr),
    (target, new): (impl AsFd, &OsStr),
) -> rustix::io::Result<()> {
    let identity = |dir, name| Meta::of_name(dir, name).ok().map(|meta| meta.identity());
    // Two spellings of a name are one file where the file system ignores case.
    let same = identity(source.as_fd(), old) == identity(target.as_fd(), new);
    let replaced = if same { None } else { properties::open(&target, new).ok() };
    let set = replaced.and_then(properties::last_reference);
    rustix::fs::renameat(&source, old, &target, new)?;
    if let Some(set) = set {
        property_files::remove(root, &set);
    }
    Ok(())
}
