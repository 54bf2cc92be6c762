//! Taking names away, with the properties of what had them.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use rustix::fs::AtFlags;

use super::meta::Meta;
use super::root::Root;
use super::{large, properties};

/// Removes a file, or an empty directory with `AtFlags::REMOVEDIR`.
pub(crate) fn remove(root: &Root, dir: impl AsFd, name: &OsStr, flags: AtFlags) -> rustix::io::Result<()> {
    let set = properties::open(&dir, name).ok().and_then(properties::last_reference);
    rustix::fs::unlinkat(&dir, name, flags)?;
    if let Some(set) = set {
        large::remove(root, &set);
    }
    Ok(())
}

/// Moves a name over another, or to where there is none.
pub(crate) fn rename(
    root: &Root,
    (source, old): (impl AsFd, &OsStr),
    (target, new): (impl AsFd, &OsStr),
) -> rustix::io::Result<()> {
    let identity = |dir, name| Meta::of_name(dir, name).ok().map(|meta| meta.identity());
    // Two spellings of one name, where the file system takes them for the same, are one file.
    let same = identity(source.as_fd(), old) == identity(target.as_fd(), new);
    let replaced = if same { None } else { properties::open(&target, new).ok() };
    let set = replaced.and_then(properties::last_reference);
    rustix::fs::renameat(&source, old, &target, new)?;
    if let Some(set) = set {
        large::remove(root, &set);
    }
    Ok(())
}
