//! Local folders and files: created, replaced and renamed.

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
    /// A file that the user named; none if the filter excludes it.
    pub(super) fn named_file(
        &self,
        path: RemotePath,
        local: &Path,
        facts: FileFacts,
    ) -> Result<Option<RemoteFile>, Error> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::Differs { path, why: "it is not a file name".into() });
        };
        let scope = Scope::default();
        if !self.options.filter.file(&scope, name, facts.length, facts.modified) {
            return Ok(None);
        }
        let rename_to = local.file_name().map(OsStr::to_owned);
        let parent_here = local.parent().map(Path::to_owned).unwrap_or_default();
        let folder =
            Folder { path: parent, local: parent_here, named: true, is_new: false, rename_to, scope, parent: None };
        Ok(Some(RemoteFile { folder: Arc::new(folder), name: name.into(), facts }))
    }

    /// Creates the parents of a folder that have not been created yet.
    pub(super) fn make_above(&self, folder: &Folder) -> io::Result<()> {
        let Some(above) = &folder.parent else { return Ok(()) };
        self.make_above(above)?;
        self.make(above).map(drop)
    }

    /// Creates a local folder; returns whether it is new. Symbolic links are followed only if the user named them,
    /// because they lead out of the tree.
    pub(super) fn make(&self, folder: &Folder) -> io::Result<bool> {
        let local = &folder.local;
        if folder.scope.passing && !lock(&self.mirror.passed_folders).insert(local.clone()) {
            return Ok(false);
        }
        let there = if folder.named { fs::metadata(local) } else { fs::symlink_metadata(local) };
        let obstacle = match there {
            Ok(kind) if kind.is_dir() => return Ok(false),
            Ok(kind) if folder.named || !self.options.replaces() => return Err(in_the_way(&kind)),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            // Its parent would have been replaced by a folder.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory && self.options.dry_run => false,
            Err(error) => return Err(error),
        };
        match (self.options.dry_run, obstacle) {
            (true, false) => {}
            (false, false) => fs::create_dir(local)?,
            (_, true) => self.replace(local, || fs::create_dir(local))?,
        }
        lock(&self.summary).folders += 1;
        (self.watch)(Event::Made { path: &local.display().to_string() });
        Ok(true)
    }
}

impl Download<'_> {
    /// Renames a complete file to its final name, with its time and the permissions of the file that it replaces.
    pub(super) fn put_in_place(
        &self,
        remote: &RemoteFile,
        mode: Option<fs::Permissions>,
        part: &Path,
        local: &Path,
        replaces: bool,
    ) -> Result<unchanged::Here<'static>, Error> {
        let file = fs::File::options().write(true).open(part);
        if let (Some(modified), Ok(file)) = (remote.facts.modified, &file) {
            // With its old time it could be taken for a stale temporary file, so it is locked.
            let _ = file.try_lock();
            // A file system without times still stores files.
            let _ = file.set_modified(modified);
        }
        // Without set-user-ID bits, which were granted to the old content.
        if let Some(mode) = mode {
            let _ = fs::set_permissions(part, fs::Permissions::from_mode(mode.mode() & 0o777));
        }
        let written = |error| Error::local("write", local, error);
        let kind = fs::metadata(part).map_err(written)?;
        let rename = || fs::rename(part, local);
        if replaces { self.replace(local, rename) } else { rename() }.map_err(written)?;
        Ok(unchanged::Here { length: kind.len(), modified: kind.modified().ok(), etag: None })
    }

    /// Replaces something of another kind (a file by a folder or the reverse), and restores it if that fails.
    pub(super) fn replace(&self, local: &Path, put: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if !self.options.dry_run && self.move_to_backup(local)? {
            put()?;
        } else if !self.options.dry_run {
            let name = local.file_name().unwrap_or_default().as_bytes();
            let aside = local.with_file_name(OsStr::from_bytes(&marked(name, random(local), "old")));
            fs::rename(local, &aside)?;
            put().inspect_err(|_| drop(fs::rename(&aside, local)))?;
            let is_folder = fs::symlink_metadata(&aside)?.is_dir();
            if is_folder { fs::remove_dir_all(&aside) } else { fs::remove_file(&aside) }?;
        }
        lock(&self.summary).deleted += 1;
        (self.watch)(Event::Deleted { path: &local.display().to_string() });
        Ok(())
    }
}

/// The error if something of another kind has the name.
pub(super) fn in_the_way(kind: &fs::Metadata) -> io::Error {
    let what = match () {
        () if kind.is_dir() => "folder",
        () if kind.is_file() => "file",
        () if kind.is_symlink() => "link",
        () => "device or pipe",
    };
    io::Error::other(format!("a {what} of this name exists here; {REMEDY}"))
}
