//! Where things belong on this side.

use std::{ffi::OsStr, fs, io, path::Path, sync::Arc};

use super::{Facts, Find, Folder, Work};
use crate::{
    Error, RemotePath,
    transfer::{Event, filter::Scope, lock},
};

impl Work<'_> {
    /// A file that the user has named; none if the filter leaves it out.
    pub(super) fn source_file(&self, path: RemotePath, place: &Path, facts: Facts) -> Result<Option<Find>, Error> {
        let (Some(above), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::Differs { path, why: "it is no name for a file".into() });
        };
        let scope = Scope::default();
        if !self.options.filter.file(&scope, name, facts.length, facts.modified) {
            return Ok(None);
        }
        let alias = place.file_name().map(OsStr::to_owned);
        let above_here = place.parent().map(Path::to_owned).unwrap_or_default();
        let folder = Folder { path: above, place: above_here, named: true, fresh: false, alias, scope, above: None };
        Ok(Some(Find { folder: Arc::new(folder), name: name.into(), facts }))
    }

    /// Makes the folders that a folder is in and that are made only now.
    pub(super) fn make_above(&self, folder: &Folder) -> io::Result<()> {
        let Some(above) = &folder.above else { return Ok(()) };
        self.make_above(above)?;
        self.make(above).map(drop)
    }

    /// Makes a folder here; whether it was not there before. Links are not followed, but for what the user has named:
    /// they lead out of the tree.
    pub(super) fn make(&self, folder: &Folder) -> io::Result<bool> {
        let place = &folder.place;
        if folder.scope.passing && !lock(&self.passed).insert(place.clone()) {
            return Ok(false);
        }
        let there = if folder.named { fs::metadata(place) } else { fs::symlink_metadata(place) };
        match there {
            Ok(kind) if kind.is_dir() => return Ok(false),
            Ok(kind) if kind.is_symlink() => return Err(in_the_way("link")),
            Ok(_) => return Err(in_the_way("file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if !self.options.dry_run {
            fs::create_dir(place)?;
        }
        lock(&self.summary).folders += 1;
        (self.watch)(Event::Made { path: &place.display().to_string() });
        Ok(true)
    }
}

pub(super) fn in_the_way(what: &str) -> io::Error {
    io::Error::other(format!("there is a {what} of this name here: delete or rename one of them"))
}
