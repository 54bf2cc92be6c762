//! The folder on which a sandbox's scratch tmpfs is mounted; outside, it is empty.
//!
//! A supervisor that is killed leaves it, and the next one removes it. What is in use is told by a lock,
//! which the kernel lets go of when its holders end. A PID in the name tells nothing to a `haul` in
//! another PID namespace, be it in a sandbox of ours or in a container that shares the folder above.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::PathBuf,
};

use nix::{libc, unistd::getpid};

use super::SandboxError;

/// What the names begin with.
const PREFIX: &str = "haul-";

/// A folder, and the lock on it.
pub(super) struct Scratch {
    pub(super) path: PathBuf,
    _lock: File,
}

impl Scratch {
    pub(super) fn make() -> Result<Self, SandboxError> {
        let parent = std::env::temp_dir();
        for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_ours)
                && let Some(left_behind) = Self::take(entry.path())
            {
                left_behind.remove();
            }
        }
        for attempt in 0..100 {
            let path = parent.join(format!("{PREFIX}{}.{attempt}", getpid()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    // Whoever looks for what is left behind may have been quicker.
                    if let Some(scratch) = Self::take(path) {
                        return Ok(scratch);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(SandboxError::Step { what: format!("make the folder {}", path.display()), error });
                }
            }
        }
        Err(SandboxError::Step {
            what: format!("make a folder in {}", parent.display()),
            error: io::ErrorKind::AlreadyExists.into(),
        })
    }

    /// The folder, if nobody has it and it is still there.
    fn take(path: PathBuf) -> Option<Self> {
        // No more than a look: others, too, may put things into the folder above.
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

/// Whether a folder's name is one that [`Scratch::make`] gives: `haul-PID.NUMBER`.
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
    fn other_peoples_folders_are_let_be() {
        assert!(is_ours("haul-4711.0"));
        for name in ["haul-4711", "haul-2026.", "haul-.1", "haul-1.0.0", "haul-a.1", "haul", "other-1.0"] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
