//! Where things belong on this side.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    sync::Arc,
};

use super::{Download, FileFacts, Folder, RemoteFile};
use crate::{
    Error, RemotePath,
    transfer::{Event, REMEDY, filter::Scope, lock, marked, random, unchanged},
};

impl Download<'_> {
    /// A file that the user has named; none if the filter leaves it out.
    pub(super) fn source_file(
        &self,
        path: RemotePath,
        place: &Path,
        facts: FileFacts,
    ) -> Result<Option<RemoteFile>, Error> {
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
        Ok(Some(RemoteFile { folder: Arc::new(folder), name: name.into(), facts }))
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
        let obstacle = match there {
            Ok(kind) if kind.is_dir() => return Ok(false),
            Ok(kind) if folder.named || !self.options.replaces() => return Err(in_the_way(&kind)),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            // What it is in would have been replaced.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory && self.options.dry_run => false,
            Err(error) => return Err(error),
        };
        match (self.options.dry_run, obstacle) {
            (true, false) => {}
            (false, false) => fs::create_dir(place)?,
            (_, true) => self.replace(place, || fs::create_dir(place))?,
        }
        lock(&self.summary).folders += 1;
        (self.watch)(Event::Made { path: &place.display().to_string() });
        Ok(true)
    }
}

impl Download<'_> {
    /// Gives what is whole its time and its name, and the permissions of what it replaces: what it is here then.
    pub(super) fn set_down(
        &self,
        find: &RemoteFile,
        mode: Option<fs::Permissions>,
        part: &Path,
        place: &Path,
        replaces: bool,
    ) -> Result<unchanged::Here<'static>, Error> {
        let file = fs::File::options().write(true).open(part);
        if let (Some(modified), Ok(file)) = (find.facts.modified, &file) {
            // Nobody is to take it for an old one; a file of ours is locked already.
            let _ = file.try_lock();
            // A file system that keeps no times keeps files all the same.
            let _ = file.set_modified(modified);
        }
        // Of those for what was another content, none to run as somebody else.
        if let Some(mode) = mode {
            let _ = fs::set_permissions(part, fs::Permissions::from_mode(mode.mode() & 0o777));
        }
        let written = |error| Error::local("write", place, error);
        let kind = fs::metadata(part).map_err(written)?;
        let rename = || fs::rename(part, place);
        if replaces { self.replace(place, rename) } else { rename() }.map_err(written)?;
        Ok(unchanged::Here { length: kind.len(), modified: kind.modified().ok(), etag: None })
    }

    /// Puts something in the place of something of another kind, which is gone when that is done, and back if it fails.
    pub(super) fn replace(&self, place: &Path, put: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if !self.options.dry_run && self.put_away(place)? {
            put()?;
        } else if !self.options.dry_run {
            let name = place.file_name().unwrap_or_default().as_bytes();
            let aside = place.with_file_name(OsStr::from_bytes(&marked(name, random(place), "old")));
            fs::rename(place, &aside)?;
            put().inspect_err(|_| drop(fs::rename(&aside, place)))?;
            let is_folder = fs::symlink_metadata(&aside)?.is_dir();
            if is_folder { fs::remove_dir_all(&aside) } else { fs::remove_file(&aside) }?;
        }
        lock(&self.summary).deleted += 1;
        (self.watch)(Event::Deleted { path: &place.display().to_string() });
        Ok(())
    }
}

/// Something else has the name.
pub(super) fn in_the_way(kind: &fs::Metadata) -> io::Error {
    let what = match () {
        () if kind.is_dir() => "folder",
        () if kind.is_file() => "file",
        () if kind.is_symlink() => "link",
        () => "device or pipe",
    };
    io::Error::other(format!("there is a {what} of this name here: {REMEDY}"))
}
