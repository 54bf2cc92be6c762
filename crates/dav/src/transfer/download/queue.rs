//! What was found on the server and waits to be downloaded.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::Arc,
};

use super::listing::Found;
use crate::{
    Error, RemotePath,
    transfer::{FileFacts, filter::Scope},
};

/// A folder on the server, and its local path.
#[derive(Clone)]
pub(super) struct Folder {
    pub(super) path: RemotePath,
    pub(super) local: PathBuf,
    /// Whether the user named it; then its local path is followed through symbolic links.
    pub(super) named: bool,
    /// Whether this run created it, so that it was empty.
    pub(super) is_new: bool,
    /// The local name of its only file, if it differs.
    pub(super) rename_to: Option<OsString>,
    pub(super) scope: Scope,
    /// Its parent, if that is only created for something in it.
    pub(super) parent: Option<Arc<Folder>>,
}

/// A file on the server.
pub(super) struct RemoteFile {
    pub(super) folder: Arc<Folder>,
    pub(super) name: Box<[u8]>,
    pub(super) facts: FileFacts,
}

impl RemoteFile {
    pub(super) fn path(&self) -> Result<RemotePath, Error> {
        Ok(self.folder.path.join(&self.name, false)?)
    }

    pub(super) fn local_path(&self) -> PathBuf {
        self.folder.local.join(self.folder.rename_to.as_deref().unwrap_or(OsStr::from_bytes(&self.name)))
    }

    /// The local path, or the target if it is a symbolic link that the user has named, as with cp(1).
    pub(super) fn local_path_through_link(&self) -> PathBuf {
        let place = self.local_path();
        let is_link = || fs::symlink_metadata(&place).is_ok_and(|kind| kind.is_symlink());
        let there = if self.folder.rename_to.is_some() && is_link() { fs::canonicalize(&place).ok() } else { None };
        there.unwrap_or(place)
    }
}

#[derive(Default)]
pub(super) struct Queue {
    pub(super) folders: VecDeque<Folder>,
    pub(super) files: VecDeque<RemoteFile>,
}

impl Queue {
    /// Adds entries; returns the number of files and their bytes.
    pub(super) fn extend(&mut self, found: impl Iterator<Item = Found>) -> (u64, u64) {
        let (mut files, mut bytes) = (0, 0_u64);
        for found in found {
            match found {
                Found::Folder(folder) => self.folders.push_back(folder),
                Found::File(remote) => {
                    (files, bytes) = (files + 1, bytes.saturating_add(remote.facts.length.unwrap_or(0)));
                    self.files.push_back(remote);
                }
            }
        }
        (files, bytes)
    }
}
