//! The folder `unsaved`: contents that the server does not have, and of which no program can be told any more.
//!
//! Such a content may be the only one. It is deleted nowhere else before it is on the disk here. If it cannot be kept here, it
//! stays where it is, and is spared ([`writeback::spare`]).

use std::{
    fmt,
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use output::durable;
pub(crate) use writeback::is_spared;

/// How many names are tried.
const NAMES: u32 = 10_000;
/// The longest part of a name that is kept, in bytes: a number comes before it.
const LONGEST: usize = 200;

/// The folder below a cache folder.
#[derive(Debug, Clone)]
pub(crate) struct Unsaved(PathBuf);

impl Unsaved {
    pub(crate) fn new(cache: &Path) -> Self {
        Self(cache.join("unsaved"))
    }

    /// Keeps a content under the time and the `name` of its file. When this returns, it survives a power cut.
    pub(crate) fn keep(&self, content: &Path, name: &[u8]) -> io::Result<PathBuf> {
        durable::create_folder(&self.0)?;
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let name = String::from_utf8_lossy(name);
        let name = &name[..name.floor_char_boundary(LONGEST)];
        for number in 1..NAMES {
            let target = self.0.join(format!("{seconds}-{number}-{name}"));
            match link_or_copy(content, &target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                kept => {
                    kept.and_then(|()| durable::sync(&target)).and_then(|()| durable::sync(&self.0))?;
                    return Ok(target);
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl fmt::Display for Unsaved {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(out)
    }
}

fn link_or_copy(content: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(content, target) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let mut copy = File::options().write(true).create_new(true).mode(0o600).open(target)?;
            let copied = io::copy(&mut File::open(content)?, &mut copy);
            // Half of it would be taken for the whole.
            copied.map(drop).inspect_err(|_| drop(fs::remove_file(target)))
        }
        linked => linked,
    }
}

/// Marks a content that could not be kept.
pub(crate) fn spare(content: &Path) {
    if let Err(error) = writeback::spare(content) {
        tracing::error!("{} may be deleted with its cache folder: {error}", content.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_one_name_are_all_kept_however_long_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let unsaved = Unsaved::new(scratch.path());
        let name = "ü".repeat(127);
        let mut kept = Vec::new();
        for content in ["first", "second"] {
            let path = scratch.path().join(content);
            fs::write(&path, content).unwrap();
            kept.push(unsaved.keep(&path, name.as_bytes()).unwrap());
            fs::remove_file(path).unwrap();
        }
        let contents: Vec<_> = kept.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(contents, ["first", "second"]);
    }

    #[test]
    fn a_content_that_cannot_be_kept_is_spared() {
        let scratch = tempfile::tempdir().unwrap();
        let unsaved = Unsaved::new(scratch.path());
        fs::write(scratch.path().join("unsaved"), "in the way").unwrap();
        let content = scratch.path().join("content");
        fs::write(&content, "precious").unwrap();
        assert!(!is_spared(&content));
        unsaved.keep(&content, b"name").unwrap_err();
        spare(&content);
        assert!(is_spared(&content));
    }
}
