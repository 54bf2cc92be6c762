//! Result files: where `--json FILE`, `--html FILE` and their like are written.
//!
//! A reader of a result file must never see half of it. So a regular file is written beside its place and then
//! renamed over it. A rename replaces whatever has that name, though, and some names must keep what they have:
//!
//! | the path leads to | how it is written |
//! |---|---|
//! | nothing, or a regular file | a temporary file beside it, then a rename; its permissions and owner stay |
//! | a symbolic link | the link stays; the file that it leads to is written, or created |
//! | standard output or error, as `/dev/stdout`, `/dev/fd/1`, `/proc/self/fd/1` | through that open descriptor |
//! | a FIFO, a terminal, another device, another open file | opened and written |
//! | a regular file that cannot be replaced: a mount point, or in a folder that may not be written to | written in place |
//!
//! A FIFO waits until somebody reads it, as for any program.
//!
//! An open descriptor is not opened anew, since a second opening starts at the beginning of the file: what the
//! program has printed would be overwritten.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io::{self, BufWriter, ErrorKind, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};

use tempfile::{Builder, NamedTempFile};

/// The most links that are followed, as in Linux.
const LINKS: usize = 40;

/// Size of the writes to a file.
const BUFFER: usize = 256 * 1024;

/// Writes what `content` writes to the file at `path`; `-` is standard output, whose reader may be gone (`| head`).
///
/// If `content` fails, a regular file is as it was. The error does not name the path.
pub fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let destination = if path == Path::new("-") { Destination::Stdout } else { Destination::of(path)? };
    match destination {
        Destination::Stdout => match buffered(io::stdout().lock(), content) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written,
        },
        Destination::Stderr => buffered(io::stderr().lock(), content),
        Destination::Special(path) => buffered(OpenOptions::new().append(true).open(path)?, content),
        Destination::Regular(path) => replace(&path, content),
    }
}

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
enum Destination {
    Stdout,
    Stderr,
    /// To be opened and written.
    Special(PathBuf),
    /// A regular file, or none yet. No link.
    Regular(PathBuf),
}

impl Destination {
    fn of(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            let name = path.file_name().ok_or(ErrorKind::IsADirectory)?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let folder = folder.canonicalize()?;
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

/// Whether a folder is `/proc/PID/fd`. Its links only look like links: what they lead to may have no name.
fn is_descriptors(folder: &Path) -> bool {
    folder.starts_with("/proc") && folder.ends_with("fd")
}

fn buffered(to: impl Write, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(BUFFER, to);
    let written = content(&mut to).and_then(|()| to.flush());
    // What is left of a failed write is not tried again.
    let _ = to.into_parts();
    written
}

/// Replaces the regular file at `path`, which is no link, whole or not at all.
fn replace(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // A file that may not be written is not replaced, even where the folder would allow it.
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

/// A file beside `path`, with the permissions and the owner of the one it will replace.
fn temporary(path: &Path, old: Option<&File>) -> io::Result<NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Readable as any new file is: the process's umask is taken from this.
    let anyone = Permissions::from_mode(0o666);
    let made = Builder::new().prefix(".writing-").permissions(anyone).tempfile_in(folder)?;
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
