//! What is here and not on the server, in a mirror.

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
    /// Deletes what earlier runs have left behind in a folder.
    pub(super) fn sweep(&self, place: &Path) {
        let Some(since) = old_since(self.options) else { return };
        for path in sweep(place, since) {
            let path = terminal_safe(path.as_os_str().as_bytes());
            (self.watch)(Event::Note(&format!("deleted {path}, which an earlier run has left")));
        }
    }

    /// Keeps in mind what the server does not have.
    pub(super) fn note_extras(&self, place: &Path, kept: &HashSet<&[u8]>, scope: &Scope) {
        let mut extras = Vec::new();
        match self.deletable_in(place, kept, scope, &mut extras) {
            Ok(_) => lock(&self.extras).extend(extras),
            Err((place, error)) => {
                self.failed(&place.display().to_string(), Error::local("list", place, error));
            }
        }
    }

    /// What of a folder is to be deleted, but for what is kept; whether that is all that is in it. A folder that the
    /// server has not is deleted as one, unless something in it is left out: then all else in it is.
    fn deletable_in(
        &self,
        place: &Path,
        kept: &HashSet<&[u8]>,
        scope: &Scope,
        extras: &mut Vec<PathBuf>,
    ) -> Result<bool, (PathBuf, io::Error)> {
        let options = self.options;
        let filter = Some(&options.filter).filter(|filter| !filter.is_empty() && !options.delete_excluded);
        let failed = |error| (place.to_owned(), error);
        let mut all = !scope.passing;
        let respelt = self.respelt(place, kept);
        for entry in fs::read_dir(place).map_err(failed)? {
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

    /// What has another name here than on the server, and is the same file: where names are folded, a name of which only
    /// the case has changed leads to it. It gets its new name in the end.
    fn respelt(&self, place: &Path, kept: &HashSet<&[u8]>) -> HashSet<PathBuf> {
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        let here: HashSet<OsString> = entries.map(|entry| entry.file_name()).collect();
        let missing = kept.iter().filter(|name| !here.contains(OsStr::from_bytes(name)));
        let missing: HashMap<Vec<u8>, &[u8]> = missing.map(|name| (key(name), *name)).collect();
        let mut respelt = HashSet::new();
        for name in here.iter().filter(|name| !kept.contains(name.as_bytes())) {
            let Some(new) = missing.get(&key(name.as_bytes())) else { continue };
            let (old, new) = (place.join(name), place.join(OsStr::from_bytes(new)));
            if is_same_file(&old, &new) {
                respelt.insert(old.clone());
                lock(&self.respellings).push((old, new));
            }
        }
        respelt
    }

    /// Gives files and folders the names that they have on the server by now. By way of a third name: where both names
    /// lead to one file, a rename from one to the other does nothing.
    pub(super) fn respell(&self) {
        for (old, new) in std::mem::take(&mut *lock(&self.respellings)).into_iter().filter(|_| !self.options.dry_run) {
            let name = new.file_name().unwrap_or_default().as_bytes();
            let third = new.with_file_name(OsStr::from_bytes(&marked(name, random(&old), "old")));
            let renamed = fs::rename(&old, &third)
                .and_then(|()| fs::rename(&third, &new).inspect_err(|_| drop(fs::rename(&third, &old))));
            if let Err(error) = renamed {
                self.failed(&old.display().to_string(), Error::local("rename", old, error));
            }
        }
    }

    /// The files of the user's list that the server does not have.
    pub(super) fn name_missing(&self) {
        for name in self.options.filter.missing() {
            let why = io::Error::other("it is in the list of files, and not on the server");
            self.failed(&name, Error::local("download", &name, why));
        }
    }

    /// Deletes what the server does not have, if all else went well.
    pub(super) fn delete_extras(&self) {
        let extras = std::mem::take(&mut *lock(&self.extras));
        if !extras.is_empty() && !self.options.ignore_errors && !lock(&self.summary).failed.is_empty() {
            return (self.watch)(Event::Note("nothing was deleted here, since not everything went well"));
        }
        if let Some(most) = self.options.max_delete {
            let doomed = extras.iter().map(|path| count(path)).sum();
            if doomed > most {
                let error = io::Error::other(too_many(doomed, most));
                return self.failed(&self.root.display().to_string(), Error::local("mirror to", self.root, error));
            }
        }
        for path in extras {
            let folder = fs::symlink_metadata(&path).is_ok_and(|kind| kind.is_dir());
            let kept = if self.options.dry_run { Ok(true) } else { self.put_away(&path) };
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
                // What was left of an interrupted download has been used up.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.failed(&name, Error::local("delete", path, error)),
            }
        }
    }
}

/// How many files and folders go with one.
fn count(path: &Path) -> u64 {
    if !fs::symlink_metadata(path).is_ok_and(|kind| kind.is_dir()) {
        return 1;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    1 + entries.map(|entry| count(&entry.path())).sum::<u64>()
}
