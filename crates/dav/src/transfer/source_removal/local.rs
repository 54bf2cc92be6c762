//! Local sources of an upload.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::copied;
use crate::{Error, transfer::AlreadyCopied};

/// Local files and folders, as they were before their upload.
#[derive(Debug, Default)]
pub struct LocalSources {
    /// What the user named.
    named: Vec<PathBuf>,
    files: Vec<(PathBuf, State)>,
    /// Each folder before those in it.
    folders: Vec<PathBuf>,
}

/// By what a change of a file is noticed.
#[derive(Debug, PartialEq, Eq)]
struct State {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    /// The removal of another name of the same file changes it too, so it counts only for files with one name.
    changed: Option<(i64, i64)>,
}

impl State {
    fn of(about: &fs::Metadata) -> Self {
        Self {
            device: about.dev(),
            inode: about.ino(),
            length: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.nlink() == 1).then(|| (about.ctime(), about.ctime_nsec())),
        }
    }
}

impl LocalSources {
    /// Looks at the sources. What cannot be read is no error: it is not copied either, and stays.
    pub fn look(sources: &[PathBuf]) -> Result<Self, Error> {
        let mut found = Self { named: sources.to_vec(), ..Self::default() };
        for source in sources {
            match fs::symlink_metadata(source) {
                Ok(about) if about.is_symlink() => {
                    let why = io::Error::other("it is a symbolic link; move the file or folder that it points to");
                    return Err(Error::local("move", source, why));
                }
                Ok(about) => found.add(source, &about),
                Err(error) => return Err(Error::local("read", source, error)),
            }
        }
        Ok(found)
    }

    fn add(&mut self, path: &Path, about: &fs::Metadata) {
        if about.is_file() {
            self.files.push((path.to_owned(), State::of(about)));
        } else if about.is_dir() {
            self.folders.push(path.to_owned());
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                if let Ok(about) = entry.metadata() {
                    self.add(&entry.path(), &about);
                }
            }
        }
    }

    /// Removes the files that were copied, and their folders if everything was. Returns what stays, and why.
    pub fn remove(&self, done: &AlreadyCopied, is_complete: bool) -> Vec<(String, Error)> {
        let mut stays = Vec::new();
        for (path, before) in copied(&self.files, |(path, _)| path.display().to_string(), done) {
            let removed = match fs::symlink_metadata(path) {
                Ok(now) if State::of(&now) == *before => fs::remove_file(path),
                Ok(_) => Err(io::Error::other("it has changed since it was copied; move it again")),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                stays.push((path.display().to_string(), Error::local("remove", path, error)));
            }
        }
        if is_complete && stays.is_empty() {
            for folder in self.folders.iter().rev() {
                let removed = fs::remove_dir(folder);
                if let Err(error) = removed
                    && self.named.contains(folder)
                {
                    let why = match error.kind() {
                        io::ErrorKind::DirectoryNotEmpty => io::Error::other("something in it was not moved"),
                        _ => error,
                    };
                    stays.push((folder.display().to_string(), Error::local("remove", folder, why)));
                }
            }
        }
        stays
    }
}
