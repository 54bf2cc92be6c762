//! A folder as its listing comes in.
//!
//! A long listing takes round trips to arrive, and each of its names is all that is needed to fetch a file. So what a
//! folder holds is passed on entry by entry, and its first files are here before its last name is.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    sync::Arc,
};

use tokio::sync::mpsc::UnboundedSender;

use super::{Facts, Find, Folder, Work, source_file};
use crate::{Entry, Error, PathError, RemotePath, requests::Depth};

/// What a listing has found.
pub(super) enum Found {
    Folder(Folder),
    File(Find),
}

/// What is known of a folder so far.
struct Contents<'a> {
    work: &'a Work<'a>,
    path: RemotePath,
    here: Here,
    folder: Folder,
    /// The names so far, and whether they are folders.
    names: HashMap<Box<[u8]>, bool>,
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

impl Work<'_> {
    /// Lists a folder, makes it here, and passes on what is in it.
    pub(super) async fn folder(&self, folder: Folder, found: &UnboundedSender<Found>) {
        let (path, named) = (folder.path.clone(), folder.named);
        let mut contents = Contents { work: self, path, here: Here::Unknown, folder, names: HashMap::new(), found };
        let path = contents.path.clone();
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
                match source_file(entry.path, &folder.place, Facts::of(entry.properties)) {
                    Ok(find) => return drop(found.send(Found::File(find))),
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
            Ok(entry) => self.within(entry),
            Err(error) => self.misplaced(&error.path, "its name cannot be used here"),
        }
    }

    fn itself(&mut self, entry: Entry) {
        if entry.path.is_folder() || !self.folder.named {
            self.here();
        } else if matches!(self.here, Here::Unknown) {
            self.here = Here::Nowhere;
            match source_file(entry.path, &self.folder.place, Facts::of(entry.properties)) {
                Ok(find) => self.pass(Found::File(find)),
                Err(error) => self.work.failed(&self.path.to_string(), error),
            }
        }
    }

    fn within(&mut self, entry: Entry) {
        // One level below, whatever a server says.
        let below = entry.path.parent().is_some_and(|parent| parent.same_place(&self.path));
        let Some(name) = entry.path.name().filter(|_| below).map(Box::<[u8]>::from) else {
            return self.misplaced(&entry.path.to_string(), "the server lists it where it cannot be");
        };
        let Some(here) = self.here() else { return };
        let folder = entry.path.is_folder();
        match self.names.insert(name.clone(), folder) {
            None if folder => {
                let place = here.place.join(OsStr::from_bytes(&name));
                self.pass(Found::Folder(Folder { path: entry.path, place, named: false, fresh: false, alias: None }));
            }
            None => self.pass(Found::File(Find { folder: here, name, facts: Facts::of(entry.properties) })),
            Some(before) if before == folder => {}
            Some(_) => {
                let name = String::from_utf8_lossy(&name).into_owned();
                self.misplaced(&name, "the server lists a file and a folder of this name");
            }
        }
    }

    /// The folder, made here when it is first asked for.
    fn here(&mut self) -> Option<Arc<Folder>> {
        if matches!(self.here, Here::Unknown) {
            let Folder { path, place, named, alias, .. } = &self.folder;
            self.here = match self.work.make(&self.folder) {
                Ok(fresh) => {
                    let (path, place, alias) = (path.clone(), place.clone(), alias.clone());
                    Here::Made(Arc::new(Folder { path, place, named: *named, fresh, alias }))
                }
                Err(error) => {
                    self.work.failed(&self.path.to_string(), Error::local("make", place, error));
                    Here::Nowhere
                }
            };
        }
        if let Here::Made(folder) = &self.here { Some(folder.clone()) } else { None }
    }

    /// All has been said.
    fn end(mut self) {
        if let Some(here) = self.here()
            && self.work.options.delete
            && !here.fresh
        {
            let kept: HashSet<&[u8]> = self.names.keys().map(|name| &**name).collect();
            self.work.note_extras(&here.place, &kept);
        }
    }

    fn misplaced(&self, name: &str, why: &str) {
        let why = format!("{why} ({name})");
        self.work.failed(name, Error::Differs { path: self.path.clone(), why });
    }

    /// Whoever is to hear of it is there until all listings have ended.
    fn pass(&self, found: Found) {
        let _ = self.found.send(found);
    }
}
