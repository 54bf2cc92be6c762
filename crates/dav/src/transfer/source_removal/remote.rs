//! Sources of a download, or of a copy to another server.

use std::{collections::HashMap, fs::File, path::Path};

use futures_util::{StreamExt, stream, stream::FuturesUnordered};

use super::copied;
use crate::{
    Dav, Depth, Error, If, Precondition, PropertySet, RemotePath,
    transfer::{AlreadyCopied, FileFacts, is_temporary},
};

/// Requests in flight at a time.
const AT_ONCE: usize = 64;

/// Files and folders on a server, as they were before they were copied.
#[derive(Debug)]
pub struct RemoteSources {
    named: Vec<RemotePath>,
    files: Vec<(RemotePath, FileFacts)>,
}

impl RemoteSources {
    /// Looks at the sources.
    pub async fn look(dav: &Dav, sources: &[RemotePath]) -> Result<Self, Error> {
        let mut found = Self { named: Vec::new(), files: Vec::new() };
        for source in sources {
            let Some(tree) = Tree::list(dav, source).await? else {
                return Err(Error::Differs { path: source.clone(), why: "not found on the server".into() });
            };
            if tree.is_folder && source.name().is_none() {
                let why = "it is the server's root; name the folders in it instead".into();
                return Err(Error::Differs { path: source.clone(), why });
            }
            let source = source.clone().as_folder(tree.is_folder);
            found.named.push(source);
            found.files.extend(tree.files);
        }
        Ok(found)
    }

    /// Writes everything on the target's file system to its disk: until then, a loss of power could take what has been
    /// downloaded.
    pub fn flush(target: &Path) -> Result<(), Error> {
        let flushed = File::open(target).and_then(|file| Ok(rustix::fs::syncfs(file)?));
        flushed.map_err(|error| Error::local("flush", target, error))
    }

    /// Deletes the files that were copied, and the folders if everything was. Returns what stays, and why.
    pub async fn remove(&self, dav: &Dav, done: &AlreadyCopied, is_complete: bool) -> Vec<(String, Error)> {
        let mut stays = Vec::new();
        let mut fail = |path: &RemotePath, why: Error| stays.push((path.to_string(), why));
        let now = match self.list(dav).await {
            Ok(now) => now,
            Err(error) => {
                self.named.iter().for_each(|source| fail(source, error.clone()));
                return stays;
            }
        };
        let deletions = copied(&self.files, |(path, _)| path.to_string(), done).into_iter().map(|(path, before)| {
            let now = now.get(path);
            async move {
                match now {
                    Some(now) if now == before => (path, delete(dav, path, before).await),
                    Some(_) => (path, Err(differs(path, "it has changed since it was copied; move it again"))),
                    None => (path, Ok(())),
                }
            }
        });
        let mut deletions = stream::iter(deletions).buffered(AT_ONCE);
        let mut deleted = Vec::new();
        while let Some((path, result)) = deletions.next().await {
            match result {
                Ok(()) => deleted.push(path),
                Err(error) => fail(path, error),
            }
        }
        drop(deletions);
        match self.list(dav).await {
            Ok(left) => {
                let kept = deleted.into_iter().filter(|path| left.contains_key(path));
                kept.for_each(|path| {
                    fail(path, differs(path, "the server says that it is deleted, but lists it still"));
                });
            }
            Err(error) => self.named.iter().for_each(|source| fail(source, error.clone())),
        }
        if is_complete && stays.is_empty() {
            for folder in self.named.iter().filter(|source| source.is_folder()) {
                if let Err(error) = delete_empty(dav, folder).await {
                    stays.push((folder.to_string(), error));
                }
            }
        }
        stays
    }

    /// The files that exist now.
    async fn list(&self, dav: &Dav) -> Result<HashMap<RemotePath, FileFacts>, Error> {
        let mut files = HashMap::new();
        for source in &self.named {
            files.extend(Tree::list(dav, source).await?.into_iter().flat_map(|tree| tree.files));
        }
        Ok(files)
    }
}

fn differs(path: &RemotePath, why: &str) -> Error {
    Error::Differs { path: path.clone(), why: why.into() }
}

/// Deletes a file in this version.
async fn delete(dav: &Dav, path: &RemotePath, version: &FileFacts) -> Result<(), Error> {
    let precondition = Precondition::of(version.etag.as_ref());
    let deleted = dav.delete_among(path, &precondition, &If::default(), true).await;
    match (deleted, &version.etag) {
        (Err(error), _) if error.is(404) => Ok(()),
        // Some servers answer 412 to every precondition.
        (Err(error), Some(tag)) if error.is(412) && dav.is_still(path, tag).await => {
            dav.delete_among(path, &Precondition::None, &If::default(), true).await.map(drop)
        }
        (deleted, _) => deleted.map(drop),
    }
}

/// Deletes a folder in which there are at most folders. WebDAV has no request for that, so it is listed right before.
async fn delete_empty(dav: &Dav, folder: &RemotePath) -> Result<(), Error> {
    match Tree::list(dav, folder).await? {
        None => Ok(()),
        Some(tree) if tree.files.is_empty() && !tree.has_more => {
            dav.delete(folder, &Precondition::None, &If::default()).await.map(drop)
        }
        Some(_) => Err(differs(folder, "not removed, because something in it was not moved")),
    }
}

/// A file, or all files in a folder.
#[derive(Default)]
struct Tree {
    is_folder: bool,
    files: Vec<(RemotePath, FileFacts)>,
    /// Whether there is something that is never copied: temporary files, and unusable names.
    has_more: bool,
}

impl Tree {
    /// None if there is nothing.
    async fn list(dav: &Dav, root: &RemotePath) -> Result<Option<Self>, Error> {
        let (mut found, mut waiting, mut running) = (Self::default(), vec![root.clone()], FuturesUnordered::new());
        loop {
            while running.len() < AT_ONCE
                && let Some(folder) = waiting.pop()
            {
                running.push(async move {
                    let mut entries = Vec::new();
                    let listed = dav.list(&folder, Depth::One, PropertySet::LISTING, |entry| entries.push(entry)).await;
                    (folder, listed.map(|()| entries))
                });
            }
            let Some((folder, listed)) = running.next().await else { return Ok(Some(found)) };
            let entries = match listed {
                Err(error) if error.is(404) && folder.same_place(root) => return Ok(None),
                // It was deleted meanwhile.
                Err(error) if error.is(404) => continue,
                listed => listed?,
            };
            for entry in entries {
                match entry {
                    Err(_) => found.has_more = true,
                    Ok(entry) if entry.path.same_place(&folder) && entry.path.is_folder() => {
                        found.is_folder |= folder.same_place(root);
                    }
                    Ok(entry) if entry.path.is_folder() => waiting.push(entry.path),
                    Ok(entry) if entry.path.name().is_some_and(is_temporary) => found.has_more = true,
                    Ok(entry) => found.files.push((entry.path, FileFacts::of(entry.properties))),
                }
            }
        }
    }
}
