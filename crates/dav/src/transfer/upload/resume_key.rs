//! The key by which a later run recognises an upload that it can resume.
//!
//! Each run of the same upload must find what the previous one left, and no run may continue another version of the file. So
//! the temporary name is derived from the target and from the local file: its length, its time, and the time of its last
//! change of any kind (`st_ctime`), which nobody can set back.
//!
//! Two runs must not write under one name at the same time. So the key is held as the name of an abstract socket (unix(7)),
//! which ends with its process, however that ends, and does not lock the file itself.

use std::{
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::MetadataExt,
            net::{SocketAddr, UnixListener},
        },
    },
    path::Path,
};

use transport::stable_hash;

use crate::{Error, RemotePath};

/// The key of a resumable upload, held by this process alone.
#[derive(Debug)]
pub(super) struct ResumeKey {
    pub(super) mark: u64,
    _held: UnixListener,
}

impl ResumeKey {
    /// The key for uploading a local file to `path` in parts of this size; none if another process holds it.
    pub(super) fn claim(local: &Path, path: &RemotePath, origin: &str, size: u64) -> Result<Option<Self>, Error> {
        let kind = fs::metadata(local).map_err(|error| Error::local("read", local, error))?;
        let times = [kind.mtime(), kind.mtime_nsec(), kind.ctime(), kind.ctime_nsec()].map(i64::to_be_bytes).concat();
        let numbers = [kind.len(), kind.ino(), size].map(u64::to_be_bytes).concat();
        let mark = stable_hash("longhaul.upload/1", &[&origin, &path.target(), &times, &numbers]);
        let held = SocketAddr::from_abstract_name(format!("longhaul-upload-{mark:016x}"))
            .and_then(|name| UnixListener::bind_addr(&name));
        Ok(held.ok().map(|held| Self { mark, _held: held }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resume_key_is_for_one_version_and_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let (local, path) = (folder.path().join("file"), RemotePath::from_url_path("/file").unwrap());
        fs::write(&local, "first").unwrap();
        let claim = |size| ResumeKey::claim(&local, &path, "http://a", size).unwrap();
        let first = claim(1).unwrap();
        assert!(claim(1).is_none());
        assert!(claim(2).unwrap().mark != first.mark);
        let mark = first.mark;
        drop(first);
        assert_eq!(claim(1).unwrap().mark, mark);
        let then = fs::metadata(&local).unwrap().modified().unwrap();
        fs::write(&local, "other").unwrap();
        fs::File::options().write(true).open(&local).unwrap().set_modified(then).unwrap();
        assert!(claim(1).unwrap().mark != mark, "of the same length and time, and another");
    }
}
