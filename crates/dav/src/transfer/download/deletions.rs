//! Mirrors: what exists locally and not on the server.

use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::Download;
use crate::{
    Error, terminal_safe,
    transfer::{
        Event,
        filter::Scope,
        lock, marked,
        name_folding::{is_same_file, key},
        plan::too_many,
        random,
        temporary_files::{is_temporary, old_since, sweep},
    },
};

impl Download<'_> {
    /// Deletes old temporary files of earlier runs in a folder.
    pub(super) fn delete_stale(&self, local: &Path) {
        let Some(since) = old_since(self.options) else { return };
        for path in sweep(local, since) {
            let path = terminal_safe(path.as_os_str().as_bytes());
            (self.watch)(Event::Note(&format!("deleted {path}, a temporary file of an earlier run")));
        }
    }

    /// Schedules the deletion of what the server does not have.
    pub(super) fn collect_deletions(&self, local: &Path, kept: &HashSet<&[u8]>, scope: &Scope) {
        let mut extras = Vec::new();
        match self.deletable_in(local, kept, scope, &mut extras) {
            Ok(_) => lock(&self.mirror.deletions).extend(extras),
            Err((local, error)) => {
                self.report_failure(&local.display().to_string(), Error::local("list", local, error));
            }
        }
    }

    /// Collects what to delete in a folder; returns whether that is all of its contents. A folder that the server does
    /// not have is deleted as a whole, unless the filter excludes something in it.
    fn deletable_in(
        &self,
        local: &Path,
        kept: &HashSet<&[u8]>,
        scope: &Scope,
        extras: &mut Vec<PathBuf>,
    ) -> Result<bool, (PathBuf, io::Error)> {
        let options = self.options;
        let filter = Some(&options.filter).filter(|filter| !filter.is_empty() && !options.delete_excluded);
        let failed = |error| (local.to_owned(), error);
        let mut all = !scope.passing;
        let respelt = self.case_renamed(local, kept);
        for entry in fs::read_dir(local).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (name, path) = (entry.file_name(), entry.path());
            if is_temporary(name.as_bytes()) || kept.contains(name.as_bytes()) {
                all = false;
                continue;
            }
            if respelt.contains(&path) {
                all = false;
                continue;
            }
            let Some(filter) = filter else {
                extras.push(path);
                continue;
            };
            let kind = entry.metadata().map_err(failed)?;
            if !kind.is_dir() && filter.file(scope, name.as_bytes(), Some(kind.len()), kind.modified().ok()) {
                extras.push(path);
            } else if let (true, Some(below)) = (kind.is_dir(), filter.folder(scope, name.as_bytes())) {
                let mut found = Vec::new();
                if self.deletable_in(&path, &HashSet::new(), &below, &mut found)? {
                    extras.push(path);
                } else {
                    extras.append(&mut found);
                    all = false;
                }
            } else {
                all = false;
            }
        }
        Ok(all)
    }

    /// Local names that refer to the same file as a name on the server: on a case-insensitive file system, if only the
    /// case has changed. They are renamed at the end.
    fn case_renamed(&self, local: &Path, kept: &HashSet<&[u8]>) -> HashSet<PathBuf> {
        let entries = fs::read_dir(local).into_iter().flatten().flatten();
        let here: HashSet<OsString> = entries.map(|entry| entry.file_name()).collect();
        let missing = kept.iter().filter(|name| !here.contains(OsStr::from_bytes(name)));
        let missing: HashMap<Vec<u8>, &[u8]> = missing.map(|name| (key(name), *name)).collect();
        let mut respelt = HashSet::new();
        for name in here.iter().filter(|name| !kept.contains(name.as_bytes())) {
            let Some(new) = missing.get(&key(name.as_bytes())) else { continue };
            let (old, new) = (local.join(name), local.join(OsStr::from_bytes(new)));
            if is_same_file(&old, &new) {
                respelt.insert(old.clone());
                lock(&self.mirror.case_renames).push((old, new));
            }
        }
        respelt
    }

    /// Renames files and folders whose names differ from the server's only in case, via a third name: rename(2) does
    /// nothing if both names refer to one file.
    pub(super) fn apply_case_renames(&self) {
        for (old, new) in
            std::mem::take(&mut *lock(&self.mirror.case_renames)).into_iter().filter(|_| !self.options.dry_run)
        {
            let name = new.file_name().unwrap_or_default().as_bytes();
            let third = new.with_file_name(OsStr::from_bytes(&marked(name, random(&old), "old")));
            let renamed = fs::rename(&old, &third)
                .and_then(|()| fs::rename(&third, &new).inspect_err(|_| drop(fs::rename(&third, &old))));
            if let Err(error) = renamed {
                self.report_failure(&old.display().to_string(), Error::local("rename", old, error));
            }
        }
    }

    /// Reports files of the user's list that the server does not have.
    pub(super) fn report_missing(&self) {
        for name in self.options.filter.missing() {
            let why = io::Error::other("it is in the list of files, but not on the server");
            self.report_failure(&name, Error::local("download", &name, why));
        }
    }

    /// Deletes what the server does not have, unless something failed.
    pub(super) fn delete_removed(&self) {
        let extras = std::mem::take(&mut *lock(&self.mirror.deletions));
        if !extras.is_empty() && !self.options.ignore_errors && !lock(&self.summary).failed.is_empty() {
            return (self.watch)(Event::Note("local deletions skipped because of earlier errors"));
        }
        if let Some(most) = self.options.max_delete {
            let doomed = extras.iter().map(|path| count(path)).sum();
            if doomed > most {
                let error = io::Error::other(too_many(doomed, most));
                return self
                    .report_failure(&self.target.display().to_string(), Error::local("mirror to", self.target, error));
            }
        }
        for path in extras {
            let folder = fs::symlink_metadata(&path).is_ok_and(|kind| kind.is_dir());
            let kept = if self.options.dry_run { Ok(true) } else { self.move_to_backup(&path) };
            let deleted = match (kept, folder) {
                (Err(error), _) => Err(error),
                (Ok(true), _) => Ok(()),
                (_, true) => fs::remove_dir_all(&path),
                (_, false) => fs::remove_file(&path),
            };
            let name = path.display().to_string();
            match deleted {
                Ok(()) => {
                    lock(&self.summary).deleted += 1;
                    (self.watch)(Event::Deleted { path: &name });
                }
                // The leftover of an interrupted download has been used.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.report_failure(&name, Error::local("delete", path, error)),
            }
        }
    }
}

/// Number of files and folders that a deletion removes.
fn count(path: &Path) -> u64 {
    if !fs::symlink_metadata(path).is_ok_and(|kind| kind.is_dir()) {
        return 1;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    1 + entries.map(|entry| count(&entry.path())).sum::<u64>()
}
