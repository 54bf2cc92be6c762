//! All files and folders of one side, by their paths: for those who compare two sides.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::SystemTime,
};

use futures_util::{StreamExt, stream::FuturesUnordered};

use super::filter::{Filter, Scope};
use crate::{Dav, Depth, ETag, Error, PathError, Properties, RemotePath, Wanted};

/// Listings in flight at a time.
const AT_ONCE: usize = 64;

/// What is known of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leaf {
    /// Its length in bytes.
    pub length: Option<u64>,
    /// When it was changed.
    pub modified: Option<SystemTime>,
    /// Its version, on a server that tells.
    pub etag: Option<ETag>,
    /// Digests that the server keeps.
    pub checksums: Vec<String>,
}

impl Leaf {
    pub(crate) fn of(properties: Properties) -> Self {
        let Properties { length, modified, etag, checksums, .. } = properties;
        Self { length, modified, etag, checksums }
    }
}

/// All that is in a folder, by paths relative to it.
#[derive(Debug, Default)]
pub struct Tree {
    /// The folders; each after those that it is in.
    pub folders: BTreeSet<Vec<u8>>,
    /// The files.
    pub files: BTreeMap<Vec<u8>, Leaf>,
    /// What could not be listed, and why. Of what is in it nothing is known.
    pub failed: Vec<(String, Error)>,
}

impl Tree {
    /// What is in a folder on a server. Folders that the filter leaves out are not listed.
    pub async fn there(dav: &Dav, root: &RemotePath, filter: &Filter, wanted: Wanted) -> Result<Self, Error> {
        let mut tree = Self::default();
        let mut waiting = vec![(root.clone().as_folder(true), Vec::new(), Scope::default())];
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < AT_ONCE
                && let Some((path, at, scope)) = waiting.pop()
            {
                running.push(async move {
                    let (mut entries, mut is_folder) = (Vec::new(), false);
                    let listed = dav.list(&path, Depth::One, wanted, |entry| match entry {
                        Ok(entry) if entry.path.same_place(&path) => is_folder = entry.path.is_folder(),
                        entry => entries.push(entry),
                    });
                    let listed = listed.await;
                    (path, at, scope, listed.map(|()| (entries, is_folder)))
                });
            }
            let Some((path, at, scope, listed)) = running.next().await else { return Ok(tree) };
            let entries = match listed {
                Ok((_, false)) if at.is_empty() => {
                    return Err(Error::Differs { path, why: "it is no folder".into() });
                }
                Ok((entries, _)) => entries,
                Err(error) if at.is_empty() => return Err(error),
                Err(error) => {
                    tree.failed.push((path.to_string(), error));
                    continue;
                }
            };
            for entry in entries {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        tree.failed.push((path.to_string(), error.into()));
                        continue;
                    }
                };
                let Some(name) = entry.path.name() else { continue };
                let place = below(&at, name);
                if entry.path.is_folder() {
                    if let Some(scope) = filter.folder(&scope, name) {
                        tree.enters(&place, &scope);
                        waiting.push((entry.path.clone(), place, scope));
                    }
                    continue;
                }
                let properties = entry.properties;
                if filter.file(&scope, name, properties.length, properties.modified) {
                    tree.files.insert(place, Leaf::of(properties));
                }
            }
        }
    }

    /// What is in a folder here. What is neither a file nor a folder is left out and named.
    pub fn here(root: &Path, filter: &Filter) -> Result<Self, Error> {
        let mut tree = Self::default();
        let mut waiting = vec![(Vec::new(), Scope::default())];
        while let Some((at, scope)) = waiting.pop() {
            let place = root.join(OsStr::from_bytes(&at));
            let entries = match fs::read_dir(&place).and_then(Iterator::collect::<std::io::Result<Vec<_>>>) {
                Ok(entries) => entries,
                Err(error) if at.is_empty() => return Err(Error::local("list", place, error)),
                Err(error) => {
                    tree.failed.push((place.display().to_string(), Error::local("list", place, error)));
                    continue;
                }
            };
            for entry in entries {
                let (name, path) = (entry.file_name(), entry.path());
                let kind = match entry.metadata() {
                    Ok(kind) => kind,
                    Err(error) => {
                        tree.failed.push((path.display().to_string(), Error::local("read", path, error)));
                        continue;
                    }
                };
                let (name, below) = (name.as_bytes(), below(&at, name.as_bytes()));
                let (length, modified) = (Some(kind.len()), kind.modified().ok());
                if kind.is_dir() {
                    if let Some(scope) = filter.folder(&scope, name) {
                        tree.enters(&below, &scope);
                        waiting.push((below, scope));
                    }
                } else if !filter.file(&scope, name, length, modified) {
                } else if kind.is_file() {
                    tree.files.insert(below, Leaf { length, modified, ..Leaf::default() });
                } else {
                    let error = std::io::Error::other("it is neither a file nor a folder");
                    tree.failed.push((path.display().to_string(), Error::local("compare", path, error)));
                }
            }
        }
        Ok(tree)
    }

    fn enters(&mut self, place: &[u8], scope: &Scope) {
        if !scope.passing {
            self.folders.insert(place.to_owned());
        }
    }
}

/// Where something of a tree is on its server.
pub fn place_in(root: &RemotePath, place: &[u8], folder: bool) -> Result<RemotePath, PathError> {
    root.join_local(Path::new(OsStr::from_bytes(place)), folder)
}

fn below(at: &[u8], name: &[u8]) -> Vec<u8> {
    if at.is_empty() { name.to_owned() } else { [at, b"/", name].concat() }
}
