//! Walks a folder on a server that is copied from.

use std::collections::HashSet;

use futures_util::{StreamExt, stream::FuturesUnordered};

use super::{
    file_facts::FileFacts,
    filter::{Filter, Scope},
    is_temporary,
    source_file::SourceFile,
    walk::{Folder, Outline},
};
use crate::{Dav, Depth, Entry, Error, PathError, PropertySet, RemotePath};

/// Listings in flight at a time.
const AT_ONCE: usize = 64;

/// The entries of a listing, and whether the path is a folder.
type Listed = Result<(Vec<Result<Entry, PathError>>, bool), Error>;

impl Outline {
    /// The contents of a folder on a server, to be copied into `to`. Folders that the filter excludes are not listed. A
    /// listing that fails is reported; that of the first folder is an error.
    pub(crate) async fn of_server(
        dav: &Dav,
        root: &RemotePath,
        to: RemotePath,
        filter: &Filter,
        properties: PropertySet,
    ) -> Result<Self, Error> {
        let mut outline = Self { filter: filter.clone(), ..Self::default() };
        outline.folders.push(Folder::new(to.as_folder(true), None, Scope::default()));
        let mut waiting = vec![(root.clone().as_folder(true), 0)];
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < AT_ONCE
                && let Some((path, folder)) = waiting.pop()
            {
                running.push(async move {
                    let listed = list(dav, &path, properties).await;
                    (path, folder, listed)
                });
            }
            let Some((path, folder, listed)) = running.next().await else { break };
            match listed {
                Ok((_, false)) if folder == 0 => {
                    return Err(Error::Differs { path, why: "it is not a folder".into() });
                }
                Ok((entries, _)) => {
                    for entry in entries {
                        outline.add_entry(entry, &path, folder, &mut waiting);
                    }
                }
                Err(error) if folder == 0 => return Err(error),
                Err(error) => outline.is_unread(folder, &path, error),
            }
        }
        outline.forget_passed();
        Ok(outline)
    }

    /// Adds an entry of a listing.
    fn add_entry(
        &mut self,
        entry: Result<Entry, PathError>,
        folder: &RemotePath,
        at: usize,
        waiting: &mut Vec<(RemotePath, usize)>,
    ) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return self.is_unread(at, folder, error.into()),
        };
        let Some(name) = entry.path.name().filter(|name| !is_temporary(name)).map(<[u8]>::to_vec) else { return };
        let scope = &self.folders[at].scope;
        if entry.path.is_folder() {
            let Some(scope) = self.filter.folder(scope, &name) else { return };
            match self.folders[at].path.join(&name, true) {
                Ok(path) => {
                    self.folders.push(Folder::new(path, Some(at), scope));
                    waiting.push((entry.path, self.folders.len() - 1));
                }
                Err(error) => self.is_unread(at, folder, error.into()),
            }
            return;
        }
        if !self.filter.name(scope, &name) {
            return;
        }
        let facts = FileFacts::of(entry.properties);
        if !self.filter.facts(facts.length, facts.modified) {
            return self.folders[at].excluded.push(name);
        }
        let Some(length) = facts.length else {
            let why = "the server does not list its length".into();
            self.left_out.push((entry.path.to_string(), Error::Differs { path: entry.path, why }));
            return self.folders[at].stays.push(name);
        };
        let size_and_time = (length, facts.modified);
        self.add_file(SourceFile::remote(entry.path, facts), &name, at, size_and_time);
    }

    /// Marks a folder as incompletely listed.
    fn is_unread(&mut self, folder: usize, path: &RemotePath, error: Error) {
        self.folders[folder].unread = true;
        self.left_out.push((path.to_string(), error));
    }

    /// Removes excluded folders in which nothing is included.
    fn forget_passed(&mut self) {
        let mut used: HashSet<usize> = self.files.iter().map(|file| file.folder).collect();
        let mut forgotten = HashSet::new();
        for at in (1..self.folders.len()).rev() {
            let Folder { path, parent, scope, excluded, stays, unread, .. } = &self.folders[at];
            let Some(parent) = *parent else { continue };
            if !scope.passing || *unread || used.contains(&at) {
                used.insert(parent);
                continue;
            }
            let name = path.name().unwrap_or_default().to_vec();
            let (is_excluded, stays) = (!excluded.is_empty(), !stays.is_empty());
            let above = &mut self.folders[parent];
            above.excluded.extend(is_excluded.then(|| name.clone()));
            above.stays.extend(stays.then_some(name));
            forgotten.insert(at);
        }
        if !forgotten.is_empty() {
            self.remove(&HashSet::new(), &forgotten);
        }
    }
}

/// Lists a folder in a deterministic order. A truncated listing is requested again.
async fn list(dav: &Dav, path: &RemotePath, properties: PropertySet) -> Listed {
    let mut tries = 1..super::upload::LISTING_ATTEMPTS;
    loop {
        let (mut entries, mut is_folder) = (Vec::new(), false);
        let listed = dav.list(path, Depth::One, properties, |entry| match entry {
            Ok(entry) if entry.path.same_place(path) => is_folder = entry.path.is_folder(),
            entry => entries.push(entry),
        });
        match listed.await {
            Err(error) if super::upload::is_cut(&error) && tries.next().is_some() => continue,
            listed => listed?,
        }
        let name =
            |entry: &Result<Entry, PathError>| entry.as_ref().ok().and_then(|e| e.path.name().map(<[u8]>::to_vec));
        entries.sort_by_cached_key(name);
        return Ok((entries, is_folder));
    }
}
