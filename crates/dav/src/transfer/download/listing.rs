//! One folder while its listing arrives.
//!
//! A long listing takes several round trips, and each name in it suffices to start a download. So entries are passed on one
//! by one, and the first files are complete before the last name arrives.

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

/// A discovered folder or file.
pub(super) enum Found {
    Folder(Folder),
    File(RemoteFile),
}

/// The state of a folder while its listing arrives.
struct Contents<'a> {
    work: &'a Download<'a>,
    path: RemotePath,
    here: Here,
    folder: Folder,
    /// The names so far, and whether each is a folder.
    names: HashMap<Box<[u8]>, bool>,
    /// The names that were passed on.
    taken: TakenNames,
    /// The contents, if they are to be saved in the snapshot.
    kept: Option<FolderSnapshot>,
    /// The first invalid entry, with the reason, and the number of others.
    odd: Option<(String, u64)>,
    found: &'a UnboundedSender<Found>,
}

/// The local folder.
enum Here {
    /// Its listing has not begun.
    Unknown,
    Made(Arc<Folder>),
    /// It cannot be created, or is a file.
    Nowhere,
}

impl Download<'_> {
    /// Lists a folder, creates it locally, and passes on its contents.
    pub(super) async fn list_folder(&self, folder: Folder, found: &UnboundedSender<Found>) {
        let (path, named) = (folder.path.clone(), folder.named);
        let (known, kept) = match &*lock(&self.sync.snapshot) {
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
            return contents.take_snapshot(known);
        }
        let listed =
            self.dav.list(&path, Depth::One, self.options.requested_properties(), |entry| contents.take(entry)).await;
        match listed {
            Ok(()) => contents.end(),
            // Some servers refuse to list a file under a folder's URL.
            Err(error) if named && matches!(contents.here, Here::Unknown) => {
                self.not_a_folder(contents.folder, error, found).await;
            }
            Err(error) => self.report_failure(&path.to_string(), error),
        }
    }

    /// A source may be a file.
    async fn not_a_folder(&self, folder: Folder, error: Error, found: &UnboundedSender<Found>) {
        let path = folder.path.as_folder(false);
        let none = || Error::Differs { path: path.clone(), why: "not found on the server".into() };
        let error = match self.dav.stat(&path, self.options.requested_properties()).await {
            Ok(Some(entry)) if !entry.path.is_folder() => {
                match self.named_file(entry.path, &folder.local, FileFacts::of(entry.properties)) {
                    Ok(Some(remote)) => return drop(found.send(Found::File(remote))),
                    Ok(None) => return,
                    Err(error) => error,
                }
            }
            Ok(None) => none(),
            _ => error,
        };
        self.report_failure(&path.to_string(), error);
    }
}

impl Contents<'_> {
    fn take(&mut self, entry: Result<Entry, PathError>) {
        match entry {
            Ok(entry) if entry.path.same_place(&self.path) => self.itself(entry),
            Ok(entry) => match entry.status.filter(|status| !status.is_success()) {
                Some(status) => {
                    self.misplaced(
                        &entry.path.to_string(),
                        &format!("the server gives no properties for an entry: {status}"),
                    );
                }
                None => self.within(entry),
            },
            Err(PathError { path, why: PathProblem::TooDeep(_) }) => {
                self.misplaced(&path, "the server lists an entry of another folder");
            }
            Err(error) => self.misplaced(&error.path, "the server lists an entry with an invalid name"),
        }
    }

    fn itself(&mut self, entry: Entry) {
        if entry.path.is_folder() || !self.folder.named {
            self.here_in_time();
        } else if matches!(self.here, Here::Unknown) {
            self.here = Here::Nowhere;
            match self.work.named_file(entry.path, &self.folder.local, FileFacts::of(entry.properties)) {
                Ok(Some(remote)) => self.pass(Found::File(remote)),
                Ok(None) => {}
                Err(error) => self.work.report_failure(&self.path.to_string(), error),
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
                self.misplaced(&name, "the server lists a file and a folder of the same name");
            }
        }
    }

    /// Passes on a file, or a folder (without facts).
    fn one(&mut self, name: Box<[u8]>, facts: Option<FileFacts>) {
        let (filter, scope) = (&self.work.options.filter, &self.folder.scope);
        let Some(facts) = facts else {
            let Some(scope) = filter.folder(scope, &name) else { return self.left_out(&name) };
            let Ok(path) = self.path.join(&name, true) else { return };
            if !self.is_alone(&name) {
                return;
            }
            let local = self.folder.local.join(OsStr::from_bytes(&name));
            let parent = self.folder.scope.passing.then(|| Arc::new(self.folder.clone()));
            let folder = Folder { path, local, named: false, is_new: false, rename_to: None, scope, parent };
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

    /// Whether a name collides with no other one on the local file system; otherwise it is reported.
    fn is_alone(&mut self, name: &[u8]) -> bool {
        let (local, dry) = (&self.folder.local, self.work.options.dry_run);
        let is_one = |one: &[u8], other: &[u8]| !dry && are_one_here(local, one, other);
        let Err(other) = self.taken.take(name, is_one) else { return true };
        let Ok(path) = self.path.join(name, false) else { return false };
        let why = format!(
            "its name collides with {} on the local file system; rename one of them on the server",
            terminal_safe(&other)
        );
        self.work.report_failure(&path.to_string(), Error::Differs { path, why });
        false
    }

    /// An excluded name stays untouched, unless excluded names are to be deleted.
    fn left_out(&mut self, name: &[u8]) {
        if self.work.options.delete_excluded {
            self.names.remove(name);
        }
    }

    /// Takes the contents from the snapshot instead of a listing.
    fn take_snapshot(mut self, known: FolderSnapshot) {
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

    /// Creates the folder, unless the filter excludes it; returns whether to continue.
    fn here_in_time(&mut self) -> bool {
        self.folder.scope.passing || self.here().is_some()
    }

    /// The local folder, created at the first call.
    fn here(&mut self) -> Option<Arc<Folder>> {
        if matches!(self.here, Here::Unknown) {
            let made = self.work.make_above(&self.folder).and_then(|()| self.work.make(&self.folder));
            self.here = match made {
                Ok(is_new) => Here::Made(Arc::new(Folder { is_new, ..self.folder.clone() })),
                Err(error) => {
                    let error = Error::local("make", &self.folder.local, error);
                    self.work.report_failure(&self.path.to_string(), error);
                    Here::Nowhere
                }
            };
        }
        if let Here::Made(folder) = &self.here { Some(folder.clone()) } else { None }
    }

    /// The listing is complete.
    fn end(mut self) {
        let is_odd = self.odd.is_some();
        if let Some((why, more)) = self.odd.take() {
            let why = if more > 0 { format!("{why}, and {more} more like this") } else { why };
            self.work.report_failure(&self.path.to_string(), Error::Differs { path: self.path.clone(), why });
        }
        let passed = self.folder.scope.passing && matches!(self.here, Here::Unknown);
        let is_new = if passed {
            !fs::symlink_metadata(&self.folder.local).is_ok_and(|there| there.is_dir())
        } else {
            let Some(here) = self.here() else { return };
            here.is_new
        };
        if let (Some(kept), Some(known)) = (self.kept.take(), &mut *lock(&self.work.sync.snapshot)) {
            known.keep(self.path.clone(), kept);
        }
        if !is_new {
            self.work.delete_stale(&self.folder.local);
        }
        if self.work.options.delete && !is_new && !is_odd {
            let kept: HashSet<&[u8]> = self.names.keys().map(|name| &**name).collect();
            self.work.collect_deletions(&self.folder.local, &kept, &self.folder.scope);
        }
    }

    /// Notes an invalid entry. The folder is then not saved in the snapshot. The error is reported once, for the
    /// folder: the listing may belong to another folder.
    fn misplaced(&mut self, name: &str, why: &str) {
        self.kept = None;
        match &mut self.odd {
            Some((_, more)) => *more += 1,
            None => self.odd = Some((format!("{why} ({name})"), 0)),
        }
    }

    /// The receiver exists until all listings have ended.
    fn pass(&self, found: Found) {
        let _ = self.found.send(found);
    }
}
