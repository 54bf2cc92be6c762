//! Files that survive a power cut.
//!
//! A rename is atomic for other programs, but not for the disk: a content must be synchronised before the name that shows it,
//! and a name is on the disk once its folder is synchronised (fsync(2), rename(2)).

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use crate::{folder_of, whole};

/// Replaces a file, or creates it: after a power cut it has the old content, or all of the new one. `mode` has its
/// permissions, less the umask.
pub fn replace(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let file = whole(path, mode, content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync(folder_of(path))
}

/// Creates a file that has all of its content as soon as it has its name. An error of the kind `AlreadyExists` if there is
/// one of this name.
pub fn create(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    let file = whole(path, mode, content)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    sync(folder_of(path))
}

/// Creates a folder, and those above it that are missing. Only the user may enter them.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    let missing: Vec<_> = folder.ancestors().take_while(|above| !above.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    missing.into_iter().map(folder_of).try_for_each(sync)
}

/// Synchronises a file or a folder.
pub fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn file_is_replaced_or_created_with_its_mode() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a/b");
        create_folder(&folder).unwrap();
        create_folder(&folder).unwrap();
        assert_eq!(fs::metadata(scratch.path().join("a")).unwrap().permissions().mode() & 0o777, 0o700);
        let path = folder.join("file");
        create(&path, 0o600, b"first").unwrap();
        assert_eq!(create(&path, 0o600, b"second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        replace(&path, 0o600, b"third").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file stays");
    }
}
