//! Walks the local files and folders to upload.

use std::{
    collections::HashSet,
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::Path,
    time::SystemTime,
};

use super::{
    Links,
    filter::{Filter, Scope},
    is_temporary,
    source_file::SourceFile,
};
use crate::{Error, PathError, RemotePath, terminal_safe};

/// The folders to upload, each after its parent, and the files in them.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// What to include.
    pub(crate) filter: Filter,
    pub(crate) links: Links,
    pub(crate) folders: Vec<Folder>,
    pub(crate) files: Vec<File>,
    /// What could not be read, with the errors.
    pub(crate) left_out: Vec<(String, Error)>,
    /// Special files, which are skipped: a sentence for each.
    pub(crate) skipped: Vec<String>,
    /// The local folders above the current one, by device and inode, if links are followed.
    pub(crate) above: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub(crate) struct Folder {
    /// Its path on the server.
    pub(crate) path: RemotePath,
    /// Index of its parent; none if the parent is not part of the upload.
    pub(crate) parent: Option<usize>,
    /// Whether it only holds a source file, and must exist on the server already.
    pub(crate) given: bool,
    pub(crate) scope: Scope,
    /// Names of files excluded by size or age: the remote files of these names may have others.
    pub(crate) excluded: Vec<Vec<u8>>,
    /// Names of unreadable and special files, which may exist on the server.
    pub(crate) stays: Vec<Vec<u8>>,
    /// Names that are left out because they collide with others on the server.
    pub(crate) twins: Vec<Vec<u8>>,
    /// Whether it could not be listed.
    pub(crate) unread: bool,
}

impl Folder {
    pub(crate) fn new(path: RemotePath, parent: Option<usize>, scope: Scope) -> Self {
        let (excluded, stays, twins) = Default::default();
        Self { path, parent, given: false, scope, excluded, stays, twins, unread: false }
    }
}

#[derive(Debug)]
pub(crate) struct File {
    /// Its source.
    pub(crate) origin: SourceFile,
    /// Index of its folder.
    pub(crate) folder: usize,
    /// Its name on the server.
    pub(crate) name: Vec<u8>,
    pub(crate) length: u64,
    pub(crate) modified: Option<SystemTime>,
}

impl File {
    pub(crate) fn path(&self, folders: &[Folder]) -> Result<RemotePath, Error> {
        Ok(folders[self.folder].path.join(&self.name, false)?)
    }
}

impl Outline {
    /// Adds the folder `local` with its contents as `path`.
    pub(crate) fn add_folder(&mut self, local: &Path, path: RemotePath, parent: Option<usize>, scope: Scope) {
        let (folder, passing) = (self.folders.len(), scope.passing);
        self.folders.push(Folder::new(path, parent, scope));
        let listed = fs::read_dir(local).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = match listed {
            Ok(entries) => entries,
            Err(error) => {
                self.folders[folder].unread = true;
                return self.left_out.push((local.display().to_string(), Error::local("list", local, error)));
            }
        };
        // In a deterministic order.
        entries.sort_by_cached_key(fs::DirEntry::file_name);
        let own = fs::metadata(local).ok().filter(|_| self.links == Links::Follow).map(|own| (own.dev(), own.ino()));
        self.above.extend(own);
        for entry in entries {
            self.add(&entry.path(), entry.file_name().as_encoded_bytes(), folder);
        }
        if own.is_some() {
            self.above.pop();
        }
        let is_empty = self.folders.len() == folder + 1 && self.files.last().is_none_or(|file| file.folder != folder);
        if passing && is_empty {
            self.forget(folder);
        }
    }

    /// Removes the last folder, which is excluded and in which nothing is included.
    fn forget(&mut self, folder: usize) {
        let Some(Folder { path, parent, excluded, stays, .. }) = self.folders.pop() else { return };
        debug_assert_eq!(folder, self.folders.len());
        if let (Some(parent), Some(name)) = (parent, path.name()) {
            let above = &mut self.folders[parent];
            above.excluded.extend((!excluded.is_empty()).then(|| name.to_owned()));
            above.stays.extend((!stays.is_empty()).then(|| name.to_owned()));
        }
    }

    /// Adds all of another outline, whose first folder is to be `path`, in the folder `parent`.
    pub(crate) fn graft(&mut self, other: Self, path: &RemotePath, parent: Option<usize>) -> Result<(), PathError> {
        let base = self.folders.len();
        for folder in other.folders {
            let (parent, path) = match folder.parent.map(|above| base + above) {
                None => (parent, path.clone()),
                Some(above) => {
                    let name = folder.path.name().unwrap_or_default();
                    (Some(above), self.folders[above].path.join(name, true)?)
                }
            };
            self.folders.push(Folder { path, parent, ..folder });
        }
        self.files.extend(other.files.into_iter().map(|file| File { folder: base + file.folder, ..file }));
        self.left_out.extend(other.left_out);
        self.skipped.extend(other.skipped);
        Ok(())
    }

    /// Removes files, and folders with their contents.
    pub(crate) fn remove(&mut self, files: &HashSet<usize>, folders: &HashSet<usize>) {
        let (mut places, mut kept) = (Vec::new(), 0);
        for (at, folder) in self.folders.iter().enumerate() {
            let above = folder.parent.map(|parent| places[parent]);
            let stays = !folders.contains(&at) && above != Some(None);
            places.push(stays.then_some(kept));
            kept += usize::from(stays);
        }
        let mut at = 0..;
        self.folders.retain_mut(|folder| {
            folder.parent = folder.parent.and_then(|parent| places[parent]);
            at.next().is_some_and(|at: usize| places[at].is_some())
        });
        let mut at = 0..;
        self.files.retain_mut(|file| {
            let (place, stays) = (places[file.folder], at.next().is_some_and(|at| !files.contains(&at)));
            file.folder = place.unwrap_or_default();
            stays && place.is_some()
        });
    }

    /// Adds a file or folder under the name `name` in a folder.
    fn add(&mut self, local: &Path, name: &[u8], folder: usize) {
        if is_temporary(name) {
            return;
        }
        let kind = match self.look(local) {
            Ok(Ok(kind)) => kind,
            Ok(Err(what)) if self.filter.name(&self.folders[folder].scope, name) => {
                return self.skip(local, name, folder, what);
            }
            Ok(Err(_)) => return,
            Err(error) => {
                self.folders[folder].stays.push(name.to_owned());
                return self.left_out.push((local.display().to_string(), Error::local("read", local, error)));
            }
        };
        let scope = &self.folders[folder].scope;
        if kind.is_dir() {
            let Some(scope) = self.filter.folder(scope, name) else { return };
            match self.folders[folder].path.join(name, true) {
                Ok(path) => self.add_folder(local, path, Some(folder), scope),
                Err(error) => self.left_out.push((local.display().to_string(), error.into())),
            }
        } else if !self.filter.name(scope, name) {
            // An excluded name counts as missing.
        } else if self.filter.facts(Some(kind.len()), kind.modified().ok()) {
            self.add_file(SourceFile::Local(local.to_owned()), name, folder, (kind.len(), kind.modified().ok()));
        } else {
            self.folders[folder].excluded.push(name.to_owned());
        }
    }

    /// Skips a special file. The remote entry of its name is kept: it may be an earlier file, or the link's target.
    fn skip(&mut self, local: &Path, name: &[u8], folder: usize, what: &str) {
        self.skipped.push(format!("{}: skipped: it is {what}", terminal_safe(local.as_os_str().as_bytes())));
        self.folders[folder].stays.push(name.to_owned());
    }

    /// The metadata of a file or folder, or the kind of anything else.
    fn look(&self, local: &Path) -> io::Result<Result<fs::Metadata, &'static str>> {
        let mut kind = fs::symlink_metadata(local)?;
        if kind.is_symlink() {
            if self.links == Links::Skip {
                return Ok(Err("a symbolic link (`--links follow` copies its target)"));
            }
            kind = match fs::metadata(local) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Err("a dangling symbolic link"));
                }
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                    return Ok(Err("a symbolic link to itself"));
                }
                there => there?,
            };
            if kind.is_dir() && self.above.contains(&(kind.dev(), kind.ino())) {
                return Ok(Err("a symbolic link to a folder that contains it"));
            }
        }
        let other = kind.file_type();
        Ok(match () {
            () if kind.is_dir() || kind.is_file() => Ok(kind),
            () if other.is_fifo() => Err("a FIFO"),
            () if other.is_socket() => Err("a socket"),
            () => Err("a device"),
        })
    }

    /// Adds a file.
    pub(crate) fn add_file(
        &mut self,
        origin: SourceFile,
        name: &[u8],
        folder: usize,
        (length, modified): (u64, Option<SystemTime>),
    ) {
        self.files.push(File { origin, folder, name: name.to_owned(), length, modified });
    }
}
