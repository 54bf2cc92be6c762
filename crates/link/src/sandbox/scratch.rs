//! The mount point of a sandbox's scratch tmpfs; outside the sandbox it is an empty folder.
//!
//! A killed supervisor leaves it behind, and the next one removes it. A lock marks folders in use; the kernel releases it
//! when its holders end. The PID in the name cannot serve for that: it means nothing in another PID namespace, in a
//! sandbox or in a container that shares the parent folder.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::PathBuf,
};

use nix::{libc, unistd::getpid};

use super::SandboxError;

/// Prefix of the folders' names.
const PREFIX: &str = "haul-";

/// A folder, and the lock on it.
pub(super) struct Scratch {
    pub(super) path: PathBuf,
    _lock: File,
}

impl Scratch {
    pub(super) fn create() -> Result<Self, SandboxError> {
        let parent = std::env::temp_dir();
        for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_ours)
                && let Some(leftover) = Self::lock(entry.path())
            {
                leftover.remove();
            }
        }
        for attempt in 0..100 {
            let path = parent.join(format!("{PREFIX}{}.{attempt}", getpid()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    // Another supervisor that removes leftovers may have removed it already.
                    if let Some(scratch) = Self::lock(path) {
                        return Ok(scratch);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(SandboxError::Step { what: format!("create the folder {}", path.display()), error });
                }
            }
        }
        Err(SandboxError::Step {
            what: format!("create a folder in {}", parent.display()),
            error: io::ErrorKind::AlreadyExists.into(),
        })
    }

    /// Locks the folder; `None` if it is in use or has been removed.
    fn lock(path: PathBuf) -> Option<Self> {
        // Follow no links: other users can create files in the parent folder.
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let lock = File::options().read(true).custom_flags(flags).open(&path).ok()?;
        lock.try_lock().ok()?;
        let still_there = fs::symlink_metadata(&path).is_ok_and(|at_path| {
            lock.metadata().is_ok_and(|locked| (locked.dev(), locked.ino()) == (at_path.dev(), at_path.ino()))
        });
        still_there.then_some(Self { path, _lock: lock })
    }

    pub(super) fn remove(&self) {
        let _ = fs::remove_dir(&self.path);
    }
}

/// Whether a folder's name is one that [`Scratch::create`] gives: `haul-PID.NUMBER`.
fn is_ours(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix(PREFIX)
        .and_then(|numbers| numbers.split_once('.'))
        .is_some_and(|(pid, attempt)| is_number(pid) && is_number(attempt))
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn folders_with_other_names_are_not_ours() {
        assert!(is_ours("haul-4711.0"));
        for name in ["haul-4711", "haul-2026.", "haul-.1", "haul-1.0.0", "haul-a.1", "haul", "other-1.0"] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
