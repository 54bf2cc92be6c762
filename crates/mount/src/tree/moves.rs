//! Folders that get another path while they are being listed.
//!
//! A listing is requested by path. If the folder, or one above it, is renamed before the answer comes, the answer may be that of
//! another folder, which has the path now, or none.

use super::{Ino, Mark, Tree};

impl Tree {
    pub(super) fn note_renamed(&mut self, parent: Ino, name: &[u8]) {
        let change = self.change;
        let folder = self.member(parent, name).and_then(|ino| self.nodes.get_mut(&ino)?.folder.as_mut());
        if let Some(folder) = folder {
            folder.renamed = change;
        }
    }

    /// Whether a folder has had another path since `mark`.
    pub(crate) fn has_moved(&self, folder: Ino, mark: Mark) -> bool {
        let mut above = Some(folder);
        while let Some(node) = above.and_then(|ino| self.nodes.get(&ino)) {
            if node.folder.as_ref().is_some_and(|folder| folder.renamed > mark.change) {
                return true;
            }
            above = node.parent;
        }
        false
    }
}
