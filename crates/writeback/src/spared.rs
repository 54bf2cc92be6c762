//! Contents that could be kept nowhere else: such a file loses the right to be written, which needs no room on a full disk.
//! Nobody deletes it, and the next start tries again to keep it.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// Marks a content.
pub fn spare(content: &Path) -> io::Result<()> {
    fs::set_permissions(content, Permissions::from_mode(0o400))
}

/// Whether a content is marked.
pub fn is_spared(content: &Path) -> bool {
    fs::symlink_metadata(content).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o200 == 0)
}
