//! The served directory, and the only way into it.
//!
//! Every path is opened by the kernel itself, relative to a descriptor of the root, with
//! `openat2(2)` told to stay beneath it and to follow no symbolic link. Checking a path first and
//! opening it afterwards would leave a moment in which another process could slip a link in between.
//!
//! Links are not followed even where they stay inside: two names for one directory would let a
//! `MOVE` over "another" directory delete its own source. They are not listed either, but a
//! `DELETE` of the collection around them removes them, as it must to remove the collection.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dav_server::davpath::DavPath;
use dav_server::fs::{FsError, FsResult};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::large::FOLDER;

/// What the name of an unfinished upload begins with.
pub(crate) const UNFINISHED: &str = ".haul-upload-";

/// Whether a file name is the server's own: such names are neither listed nor reachable.
pub(crate) fn is_own(name: &[u8]) -> bool {
    is_unfinished(name) || name == FOLDER.as_bytes()
}

/// Whether a file name belongs to an unfinished upload.
pub(crate) fn is_unfinished(name: &[u8]) -> bool {
    name.starts_with(UNFINISHED.as_bytes())
}

/// What a failed system call means to a WebDAV client.
pub(crate) fn refusal(errno: Errno) -> FsError {
    match errno {
        // A symbolic link, to us, is not there. Where a file stands in a collection's place, the parent is
        // missing (RFC 4918 section 9.7.1).
        Errno::NOENT | Errno::LOOP | Errno::NOTDIR => FsError::NotFound,
        Errno::EXIST | Errno::NOTEMPTY => FsError::Exists,
        Errno::NOSPC | Errno::DQUOT | Errno::MLINK => FsError::InsufficientStorage,
        Errno::FBIG => FsError::TooLarge,
        Errno::NAMETOOLONG => FsError::PathTooLong,
        Errno::XDEV => FsError::IsRemote,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::ISDIR | Errno::INVAL | Errno::BUSY | Errno::NXIO => {
            FsError::Forbidden
        }
        other => {
            tracing::error!("the file system failed: {other}");
            FsError::GeneralFailure
        }
    }
}

/// A descriptor of the served directory.
#[derive(Debug)]
pub(crate) struct Root(OwnedFd);

impl Root {
    /// Opens the directory, following links in `path` itself: where the root lies is the operator's choice.
    pub(crate) fn open(path: &Path) -> rustix::io::Result<Self> {
        let root =
            Root(rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?);
        root.open_beneath(Path::new("."), OFlags::PATH)?;
        Ok(root)
    }

    /// Opens `relative` without leaving the root and without following a link.
    pub(crate) fn open_beneath(&self, relative: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        // Opening a pipe would wait for its writer; a mere handle (`O_PATH`) waits for nothing.
        let flags = if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK };
        rustix::fs::openat2(
            &self.0,
            relative,
            flags | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )
    }

    /// Opens what a request's path names.
    pub(crate) fn resolve(&self, path: &DavPath, flags: OFlags) -> FsResult<OwnedFd> {
        self.open_beneath(relative(path)?, flags).map_err(refusal)
    }

    /// Opens the directory that holds (or will hold) what a path names, and tells the name in it.
    /// The root itself has no parent that we may touch.
    pub(crate) fn parent<'p>(&self, path: &'p DavPath) -> FsResult<(OwnedFd, &'p OsStr)> {
        let relative = relative(path)?;
        let name = relative.file_name().ok_or(FsError::Forbidden)?;
        let parent = relative.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok((self.open_beneath(parent, OFlags::RDONLY | OFlags::DIRECTORY).map_err(refusal)?, name))
    }

    /// Bytes in use and bytes in all that this server may use.
    pub(crate) fn space(&self) -> rustix::io::Result<(u64, u64)> {
        let fs = rustix::fs::fstatvfs(&self.0)?;
        let used = (fs.f_blocks - fs.f_bfree) * fs.f_frsize;
        Ok((used, used + fs.f_bavail * fs.f_frsize))
    }
}

/// The path relative to the root. The server's own names do not exist.
fn relative(path: &DavPath) -> FsResult<&Path> {
    let bytes = path.as_bytes();
    if bytes.split(|b| *b == b'/').any(is_own) {
        return Err(FsError::NotFound);
    }
    let inside = bytes.strip_prefix(b"/").unwrap_or(bytes);
    let inside = inside.strip_suffix(b"/").unwrap_or(inside);
    Ok(if inside.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(inside)) })
}
