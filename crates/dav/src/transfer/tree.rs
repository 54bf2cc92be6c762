//! All files of one side by path, for comparisons of two sides.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::Path,
};

use super::{
    FileFacts, Links,
    filter::{Filter, Scope},
    walk::Outline,
};
use crate::{Dav, Error, PathError, PropertySet, RemotePath};

/// All files in a folder, by paths relative to it.
#[derive(Debug, Default)]
pub struct Tree {
    /// The files.
    pub files: BTreeMap<Vec<u8>, FileFacts>,
    /// Folders that could not be listed, whose contents are unknown, and the errors.
    pub failed: Vec<(String, Error)>,
    /// Special files, which are skipped: a sentence for each.
    pub skipped: Vec<String>,
    /// Skipped and unlisted names, and files excluded by size or age. Differences at and below these names do not
    /// count.
    unknown: BTreeSet<Vec<u8>>,
}

impl Tree {
    /// The contents of a folder on a server. Folders that the filter excludes are not listed.
    pub async fn there(dav: &Dav, root: &RemotePath, filter: &Filter, properties: PropertySet) -> Result<Self, Error> {
        Ok(Self::of(Outline::of_server(dav, root, root.clone(), filter, properties).await?))
    }

    /// The contents of a local folder.
    pub fn here(root: &Path, filter: &Filter, links: Links) -> Result<Self, Error> {
        // The root must be readable.
        std::fs::read_dir(root).map_err(|error| Error::local("list", root, error))?;
        let mut outline = Outline { filter: filter.clone(), links, ..Outline::default() };
        outline.add_folder(root, RemotePath::root(), None, Scope::default());
        Ok(Self::of(outline))
    }

    fn of(outline: Outline) -> Self {
        let Outline { folders, files, left_out: failed, skipped, .. } = outline;
        let (mut places, mut unknown): (Vec<Vec<u8>>, _) = (Vec::new(), BTreeSet::new());
        for folder in &folders {
            let name = folder.path.name().unwrap_or_default();
            let place = folder.parent.map_or_else(Vec::new, |parent| below(&places[parent], name));
            unknown.extend(folder.stays.iter().chain(&folder.excluded).map(|name| below(&place, name)));
            unknown.extend(folder.unread.then(|| place.clone()));
            places.push(place);
        }
        let files = files.into_iter().map(|file| {
            let facts = file.origin.facts().cloned();
            let here = || FileFacts { length: Some(file.length), modified: file.modified, ..FileFacts::default() };
            (below(&places[file.folder], &file.name), facts.unwrap_or_else(here))
        });
        Self { files: files.collect(), failed, skipped, unknown }
    }

    /// Whether this path, or a folder above it, is unknown on this side.
    pub fn is_unknown(&self, path: &[u8]) -> bool {
        if self.unknown.is_empty() {
            return false;
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        self.unknown.contains(&b""[..]) || ends.chain([path.len()]).any(|end| self.unknown.contains(&path[..end]))
    }
}

/// The path on the server of something in a tree.
pub fn place_in(root: &RemotePath, place: &[u8], folder: bool) -> Result<RemotePath, PathError> {
    root.join_local(Path::new(OsStr::from_bytes(place)), folder)
}

fn below(at: &[u8], name: &[u8]) -> Vec<u8> {
    if at.is_empty() { name.to_owned() } else { [at, b"/", name].concat() }
}
