//! Result files: writes the files of `--json FILE`, `--html FILE` and similar options.
//!
//! A reader must never see an incomplete result file. So a regular file is written under a temporary name in the same
//! folder, and then renamed (atomic rename). But a rename replaces whatever has that name, and special files must stay:
//!
//! | the path is | how it is written |
//! |---|---|
//! | missing, or a regular file | a temporary file in the same folder, then a rename; permissions and owner are kept |
//! | a symbolic link | the link stays; its target is written, or created |
//! | standard output or error, as `/dev/stdout`, `/dev/fd/1`, `/proc/self/fd/1` | through that open descriptor |
//! | a FIFO, a terminal, another device, another open file | opened and written |
//! | a regular file that cannot be replaced: a mount point, or in a folder that may not be written to | written in place |
//!
//! Writing to a FIFO waits for a reader, as in any program.
//!
//! [`replace`] is for files of our own, which are nothing special, and [`durable`] for those that must survive a power cut.
//!
//! An open descriptor is not opened again, since a second open starts at the beginning of the file, and would overwrite
//! what the program has printed.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("result.json");
//! output::write(&path, |to| to.write_all(b"{}"))?;
//! assert_eq!(std::fs::read(&path)?, b"{}");
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod durable;
mod lock;

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io::{self, BufWriter, ErrorKind, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};

use tempfile::{Builder, NamedTempFile};

pub use self::lock::lock;

/// Maximum number of symbolic links followed, as in Linux.
const MAX_LINKS: usize = 40;

/// Size of the write buffer, in bytes.
const BUFFER: usize = 256 * 1024;

/// Writes the output of `content` to the file at `path`. `-` is standard output; a closed pipe there is no error
/// (`| head`).
///
/// If `content` fails, a regular file stays unchanged. The error does not name the path.
pub fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let destination = if path == Path::new("-") { Destination::Stdout } else { Destination::of(path)? };
    match destination {
        Destination::Stdout => match buffered(io::stdout().lock(), content) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written,
        },
        Destination::Stderr => buffered(io::stderr().lock(), content),
        Destination::Special(path) => buffered(OpenOptions::new().append(true).open(path)?, content),
        Destination::Regular(path) => write_regular(&path, content),
    }
}

/// Replaces a file atomically, or creates it: whoever reads it sees all of the old content, or of the new one. `mode` has its
/// permissions, less the umask. A power cut may undo it, or leave an empty file.
pub fn replace(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    whole(path, mode, content)?.persist(path)?;
    Ok(())
}

/// A temporary file with all of the content.
fn whole(path: &Path, mode: u32, content: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = temporary_beside(path, mode)?;
    file.write_all(content)?;
    Ok(file)
}

/// A temporary file in the folder of `path`; the process's umask is subtracted from the `mode`.
fn temporary_beside(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    Builder::new().prefix(".writing-").permissions(Permissions::from_mode(mode)).tempfile_in(folder_of(path))
}

/// The folder of a file. The parent of a relative path of one name is empty.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a local disk, or the user's quota on it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// What a path refers to.
#[derive(Debug, PartialEq, Eq)]
enum Destination {
    Stdout,
    Stderr,
    /// A special file, to be opened and written.
    Special(PathBuf),
    /// A regular or missing file; no symbolic link.
    Regular(PathBuf),
}

impl Destination {
    fn of(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let name = path.file_name().ok_or(ErrorKind::IsADirectory)?;
            let folder = folder_of(&path).canonicalize()?;
            let resolved = folder.join(name);
            if is_descriptors(&folder) {
                let own = fs::canonicalize("/proc/self/fd").is_ok_and(|own| own == folder);
                return Ok(match name.to_str() {
                    Some("1") if own => Self::Stdout,
                    Some("2") if own => Self::Stderr,
                    _ => Self::Special(resolved),
                });
            }
            match resolved.symlink_metadata() {
                Ok(found) if found.is_symlink() => path = folder.join(resolved.read_link()?),
                Ok(found) if found.is_file() => return Ok(Self::Regular(resolved)),
                Ok(_) => return Ok(Self::Special(resolved)),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::Regular(resolved)),
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("too many levels of symbolic links"))
    }
}

/// Whether a folder is `/proc/PID/fd`. Its entries look like symbolic links, but their targets may have no name.
fn is_descriptors(folder: &Path) -> bool {
    folder.starts_with("/proc") && folder.ends_with("fd")
}

fn buffered(to: impl Write, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(BUFFER, to);
    let written = content(&mut to).and_then(|()| to.flush());
    // Discards the rest after a failed write, instead of trying again.
    let _ = to.into_parts();
    written
}

/// Replaces the regular file at `path`, which is no symbolic link, atomically.
fn write_regular(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // A file without write permission is not replaced, even if the folder allows it.
    let old = match OpenOptions::new().write(true).open(path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let temporary = match (temporary(path, old.as_ref()), &old) {
        (Err(_), Some(old)) => return in_place(old, content),
        (made, _) => made?,
    };
    buffered(temporary.as_file(), content)?;
    temporary.as_file().sync_all()?;
    match (temporary.persist(path), &old) {
        (Ok(_), _) => Ok(()),
        // A mount point cannot be replaced.
        (Err(failed), Some(old)) if failed.error.kind() == ErrorKind::ResourceBusy => {
            in_place(old, |to| io::copy(&mut File::open(failed.file.path())?, to).map(drop))
        }
        (Err(failed), _) => Err(failed.error),
    }
}

fn in_place(mut file: &File, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    file.set_len(0)?;
    buffered(&mut file, content)
}

/// A temporary file in the folder of `path`, with the permissions and owner of the file that it will replace.
fn temporary(path: &Path, old: Option<&File>) -> io::Result<NamedTempFile> {
    // The usual permissions of a new file.
    let made = temporary_beside(path, 0o666)?;
    if let Some(old) = old {
        let (old, new) = (old.metadata()?, made.as_file().metadata()?);
        let owner = |file: &Metadata| (file.uid(), file.gid());
        if owner(&old) != owner(&new) {
            fchown(made.as_file(), Some(old.uid()), Some(old.gid()))?;
        }
        made.as_file().set_permissions(old.permissions())?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests;
