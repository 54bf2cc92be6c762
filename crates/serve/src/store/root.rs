//! The served directory, and the only way to open files in it.
//!
//! The kernel resolves every path itself, relative to a descriptor of the root, with `openat2(2)` flags that forbid
//! leaving the root and following symbolic links. Checking a path before opening it would leave a window in which
//! another process could insert a link.
//!
//! Links are not followed even inside the root: with two names for one directory, a `MOVE` onto "another" directory
//! could delete its own source. They are not listed either; `DELETE` of their collection removes them.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dav_server::davpath::DavPath;
use dav_server::fs::{FsError, FsResult};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::property_files::FOLDER;

/// Prefix of the name of an unfinished upload.
pub(crate) const UNFINISHED: &str = ".haul-upload-";

/// Whether a name is internal to the server: such names are neither listed nor reachable.
pub(crate) fn is_own(name: &[u8]) -> bool {
    is_unfinished(name) || name == FOLDER.as_bytes()
}

/// Whether a name belongs to an unfinished upload.
pub(crate) fn is_unfinished(name: &[u8]) -> bool {
    name.starts_with(UNFINISHED.as_bytes())
}

/// Maps a failed system call to a WebDAV error.
pub(crate) fn refusal(errno: Errno) -> FsError {
    match errno {
        // Symbolic links do not exist for clients. A file in a collection's place means that the parent is missing (RFC
        // 4918 §9.7.1).
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
    /// Opens the directory. Links in `path` itself are followed: the operator chooses the root.
    pub(crate) fn open(path: &Path) -> rustix::io::Result<Self> {
        let root =
            Root(rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?);
        root.open_beneath(Path::new("."), OFlags::PATH)?;
        Ok(root)
    }

    /// Opens `relative` without leaving the root and without following links.
    pub(crate) fn open_beneath(&self, relative: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        // Opening a FIFO would block; an `O_PATH` descriptor does not.
        let flags = if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK };
        rustix::fs::openat2(
            &self.0,
            relative,
            flags | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )
    }

    /// Opens a request's path.
    pub(crate) fn resolve(&self, path: &DavPath, flags: OFlags) -> FsResult<OwnedFd> {
        self.open_beneath(relative(path)?, flags).map_err(refusal)
    }

    /// Opens the parent directory of a path, and returns the last component's name. The root itself has no parent.
    pub(crate) fn parent<'p>(&self, path: &'p DavPath) -> FsResult<(OwnedFd, &'p OsStr)> {
        let relative = relative(path)?;
        let name = relative.file_name().ok_or(FsError::Forbidden)?;
        let parent = relative.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok((self.open_beneath(parent, OFlags::RDONLY | OFlags::DIRECTORY).map_err(refusal)?, name))
    }

    /// Used and total bytes available to this server.
    pub(crate) fn space(&self) -> rustix::io::Result<(u64, u64)> {
        let fs = rustix::fs::fstatvfs(&self.0)?;
        let used = (fs.f_blocks - fs.f_bfree) * fs.f_frsize;
        Ok((used, used + fs.f_bavail * fs.f_frsize))
    }
}

/// The path relative to the root. Internal names do not exist.
fn relative(path: &DavPath) -> FsResult<&Path> {
    let bytes = path.as_bytes();
    if bytes.split(|b| *b == b'/').any(is_own) {
        return Err(FsError::NotFound);
    }
    let inside = bytes.strip_prefix(b"/").unwrap_or(bytes);
    let inside = inside.strip_suffix(b"/").unwrap_or(inside);
    Ok(if inside.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(inside)) })
}
