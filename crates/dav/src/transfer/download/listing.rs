//! A folder as its listing comes in.
//!
//! A long listing takes round trips to arrive, and each of its names is all that is needed to fetch a file. So what a
//! folder holds is passed on entry by entry, and its first files are here before its last name is.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    sync::Arc,
};

use tokio::sync::mpsc::UnboundedSender;

use super::{Download, FileFacts, Folder, RemoteFile, sync_snapshot::FolderSnapshot};
use crate::{
    Entry, Error, PathError, PathProblem, RemotePath,
    requests::Depth,
    terminal_safe,
    transfer::{
        is_temporary, lock,
        name_folding::{TakenNames, are_one_here},
    },
};

/// What a listing has found.
pub(super) enum Found {
    Folder(Folder),
    File(RemoteFile),
}

/// What is known of a folder so far.
struct Contents<'a> {
    work: &'a Download<'a>,
    path: RemotePath,
    here: Here,
    folder: Folder,
    /// The names so far, and whether they are folders.
    names: HashMap<Box<[u8]>, bool>,
    /// The names that are passed on.
    taken: TakenNames,
    /// All of it, if it is to be remembered.
    kept: Option<FolderSnapshot>,
    /// The first entry that has no place in it, why, and how many more there are.
    odd: Option<(String, u64)>,
    found: &'a UnboundedSender<Found>,
}

/// The folder on this side.
enum Here {
    /// Its listing has not begun.
    Unknown,
    Made(Arc<Folder>),
    /// It cannot be made, or is a file.
    Nowhere,
}

impl Download<'_> {
    /// Lists a folder, makes it here, and passes on what is in it.
    pub(super) async fn folder(&self, folder: Folder, found: &UnboundedSender<Found>) {
        let (path, named) = (folder.path.clone(), folder.named);
        let (known, kept) = match &*lock(&self.remembered) {
            Some(known) => (known.content(&path).cloned(), Some(FolderSnapshot::default())),
            None => (None, None),
        };
        let mut contents = Contents {
            work: self,
            path: path.clone(),
            here: Here::Unknown,
            folder,
            names: HashMap::new(),
            taken: TakenNames::default(),
            kept,
            odd: None,
            found,
        };
        if let Some(known) = known {
            return contents.recalled(known);
        }
        let listed = self.dav.list(&path, Depth::One, self.options.wanted(), |entry| contents.take(entry)).await;
        match listed {
            Ok(()) => contents.end(),
            // Some servers will not list a file by a folder's name.
            Err(error) if named && matches!(contents.here, Here::Unknown) => {
                self.no_folder(contents.folder, error, found).await;
            }
            Err(error) => self.failed(&path.to_string(), error),
        }
    }

    /// What the user has named may be a file.
    async fn no_folder(&self, folder: Folder, error: Error, found: &UnboundedSender<Found>) {
        let path = folder.path.as_folder(false);
        let none = || Error::Differs { path: path.clone(), why: "there is nothing at this path on the server".into() };
        let error = match self.dav.stat(&path, self.options.wanted()).await {
            Ok(Some(entry)) if !entry.path.is_folder() => {
                match self.source_file(entry.path, &folder.place, FileFacts::of(entry.properties)) {
                    Ok(Some(find)) => return drop(found.send(Found::File(find))),
                    Ok(None) => return,
                    Err(error) => error,
                }
            }
            Ok(None) => none(),
            _ => error,
        };
        self.failed(&path.to_string(), error);
    }
}

impl Contents<'_> {
    fn take(&mut self, entry: Result<Entry, PathError>) {
        match entry {
            Ok(entry) if entry.path.same_place(&self.path) => self.itself(entry),
            Ok(entry) => match entry.status.filter(|status| !status.is_success()) {
                Some(status) => {
                    self.misplaced(&entry.path.to_string(), &format!("the server does not tell of it: {status}"));
                }
                None => self.within(entry),
            },
            Err(PathError { path, why: PathProblem::TooDeep(_) }) => {
                self.misplaced(&path, "the server lists it where it cannot be");
            }
            Err(error) => self.misplaced(&error.path, "its name cannot be used here"),
        }
    }

    fn itself(&mut self, entry: Entry) {
        if entry.path.is_folder() || !self.folder.named {
            self.here_in_time();
        } else if matches!(self.here, Here::Unknown) {
            self.here = Here::Nowhere;
            match self.work.source_file(entry.path, &self.folder.place, FileFacts::of(entry.properties)) {
                Ok(Some(find)) => self.pass(Found::File(find)),
                Ok(None) => {}
                Err(error) => self.work.failed(&self.path.to_string(), error),
            }
        }
    }

    fn within(&mut self, entry: Entry) {
        let Some(name) = entry.path.name().filter(|name| !is_temporary(name)).map(Box::<[u8]>::from) else { return };
        if !self.here_in_time() {
            return;
        }
        let folder = entry.path.is_folder();
        match self.names.insert(name.clone(), folder) {
            None => {
                let facts = (!folder).then(|| FileFacts::of(entry.properties));
                if let Some(kept) = &mut self.kept {
                    match facts.clone() {
                        Some(facts) => drop(kept.files.insert(name.clone(), facts)),
                        None => drop(kept.folders.insert(name.clone())),
                    }
                }
                self.one(name, facts);
            }
            Some(before) if before == folder => {}
            Some(_) => {
                let name = String::from_utf8_lossy(&name).into_owned();
                self.misplaced(&name, "the server lists a file and a folder of this name");
            }
        }
    }

    /// Passes on a file, or a folder, which has no facts.
    fn one(&mut self, name: Box<[u8]>, facts: Option<FileFacts>) {
        let (filter, scope) = (&self.work.options.filter, &self.folder.scope);
        let Some(facts) = facts else {
            let Some(scope) = filter.folder(scope, &name) else { return self.left_out(&name) };
            let Ok(path) = self.path.join(&name, true) else { return };
            if !self.is_alone(&name) {
                return;
            }
            let place = self.folder.place.join(OsStr::from_bytes(&name));
            let above = self.folder.scope.passing.then(|| Arc::new(self.folder.clone()));
            let folder = Folder { path, place, named: false, fresh: false, alias: None, scope, above };
            return self.pass(Found::Folder(folder));
        };
        if !filter.file(scope, &name, facts.length, facts.modified) {
            return self.left_out(&name);
        }
        if let Some(folder) = self.here()
            && self.is_alone(&name)
        {
            self.pass(Found::File(RemoteFile { folder, name, facts }));
        }
    }

    /// Whether a name is no other's here. Else it is refused: the two would become one.
    fn is_alone(&mut self, name: &[u8]) -> bool {
        let (place, dry) = (&self.folder.place, self.work.options.dry_run);
        let is_one = |one: &[u8], other: &[u8]| !dry && are_one_here(place, one, other);
        let Err(other) = self.taken.take(name, is_one) else { return true };
        let Ok(path) = self.path.join(name, false) else { return false };
        let why = format!("here it would become one with {}: rename one of them on the server", terminal_safe(&other));
        self.work.failed(&path.to_string(), Error::Differs { path, why });
        false
    }

    /// What the filter leaves out stays here as it is, unless it is to be deleted.
    fn left_out(&mut self, name: &[u8]) {
        if self.work.options.delete_excluded {
            self.names.remove(name);
        }
    }

    /// What is in it is known without a listing.
    fn recalled(mut self, known: FolderSnapshot) {
        self.kept = None;
        if self.here_in_time() {
            let folders = known.folders.into_iter().map(|name| (name, None));
            let files = known.files.into_iter().map(|(name, facts)| (name, Some(facts)));
            for (name, facts) in folders.chain(files) {
                self.names.insert(name.clone(), facts.is_none());
                self.one(name, facts);
            }
        }
        self.end();
    }

    /// Whether it may be gone on. The folder is made now, unless it is left out itself.
    fn here_in_time(&mut self) -> bool {
        self.folder.scope.passing || self.here().is_some()
    }

    /// The folder, made here when it is first asked for.
    fn here(&mut self) -> Option<Arc<Folder>> {
        if matches!(self.here, Here::Unknown) {
            let made = self.work.make_above(&self.folder).and_then(|()| self.work.make(&self.folder));
            self.here = match made {
                Ok(fresh) => Here::Made(Arc::new(Folder { fresh, ..self.folder.clone() })),
                Err(error) => {
                    let error = Error::local("make", &self.folder.place, error);
                    self.work.failed(&self.path.to_string(), error);
                    Here::Nowhere
                }
            };
        }
        if let Here::Made(folder) = &self.here { Some(folder.clone()) } else { None }
    }

    /// All has been said. What could not be made was not gone through.
    fn end(mut self) {
        let is_odd = self.odd.is_some();
        if let Some((why, more)) = self.odd.take() {
            let why = if more > 0 { format!("{why}, and {more} more like it") } else { why };
            self.work.failed(&self.path.to_string(), Error::Differs { path: self.path.clone(), why });
        }
        let passed = self.folder.scope.passing && matches!(self.here, Here::Unknown);
        let fresh = if passed {
            !fs::symlink_metadata(&self.folder.place).is_ok_and(|there| there.is_dir())
        } else {
            let Some(here) = self.here() else { return };
            here.fresh
        };
        if let (Some(kept), Some(known)) = (self.kept.take(), &mut *lock(&self.work.remembered)) {
            known.keep(self.path.clone(), kept);
        }
        if !fresh {
            self.work.sweep(&self.folder.place);
        }
        if self.work.options.delete && !fresh && !is_odd {
            let kept: HashSet<&[u8]> = self.names.keys().map(|name| &**name).collect();
            self.work.note_extras(&self.folder.place, &kept, &self.folder.scope);
        }
    }

    /// A folder with anything odd in it is not remembered. It is named itself, and once: the listing may be another
    /// folder's, and then nothing of this one is here.
    fn misplaced(&mut self, name: &str, why: &str) {
        self.kept = None;
        match &mut self.odd {
            Some((_, more)) => *more += 1,
            None => self.odd = Some((format!("{why} ({name})"), 0)),
        }
    }

    /// Whoever is to hear of it is there until all listings have ended.
    fn pass(&self, found: Found) {
        let _ = self.found.send(found);
    }
}
