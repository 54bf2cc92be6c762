//! How long a node lives: as long as it has a name, a program has it open, or the kernel remembers it.
//!
//! A node without a parent has been removed while a program had it open, or while the kernel remembered it; it goes with the
//! last of both. An open file that somebody else replaces or deletes on the server keeps its place without being a member of
//! its folder: what now has the name is another node, so that nobody sees a mixture of both, and what the program still writes
//! is a conflict.

use super::{Ino, Node, Tree};

impl Tree {
    pub(crate) fn open(&mut self, ino: Ino) {
        self.node_mut(ino).opens += 1;
    }

    pub(crate) fn close(&mut self, ino: Ino) {
        let node = self.node_mut(ino);
        node.opens = node.opens.saturating_sub(1);
        self.drop_if_unused(ino);
    }

    /// How many handles of it are open.
    pub(crate) fn opens(&self, ino: Ino) -> u64 {
        self.node(ino).opens
    }

    /// The kernel has been told of the node.
    pub(crate) fn looked_up(&mut self, ino: Ino) {
        self.node_mut(ino).lookups += 1;
    }

    /// The kernel has forgotten so many lookups.
    pub(crate) fn forget(&mut self, ino: Ino, lookups: u64) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.lookups = node.lookups.saturating_sub(lookups);
            self.drop_if_unused(ino);
        }
    }

    /// A program here removes what has this name.
    pub(super) fn discard(&mut self, parent: Ino, name: &[u8]) {
        if let Some(ino) = self.member(parent, name) {
            self.node_mut(ino).is_removed = true;
            self.detach(ino);
        }
    }

    /// The server has something else, or nothing, in place of a node. An open file keeps its path.
    pub(super) fn displace(&mut self, ino: Ino) {
        let node = self.node(ino);
        match node.parent {
            Some(parent) if node.folder.is_none() && node.opens > 0 => {
                let name = node.name.clone();
                self.folder_mut(parent).members.remove(&name);
            }
            _ => self.detach(ino),
        }
    }

    /// A file gets another name in its folder, because the server has something else, or nothing, under its own. The kernel may
    /// go on to believe the old name: so no lookup finds this node, and it is not opened again ([`Self::is_displaced`]). Who
    /// looks for the new name finds another node.
    pub(crate) fn set_aside(&mut self, ino: Ino, name: &[u8]) {
        // No program has it open any more, and the kernel may have forgotten it.
        let place = self.contains(ino).then(|| self.place(ino)).flatten();
        let Some((parent, old)) = place.filter(|(parent, _)| self.contains(*parent)) else { return };
        let members = &mut self.folder_mut(parent).members;
        if members.get(&old) == Some(&ino) {
            members.remove(&old);
        }
        self.node_mut(ino).name = name.to_vec();
        self.touch(parent);
        self.expire(parent);
    }

    /// Whether its name leads somewhere else by now, though no program here has removed it. A program that opens it means what
    /// now has the name: told that the node is stale, the kernel looks the name up again.
    pub(crate) fn is_displaced(&self, ino: Ino) -> bool {
        ino != Self::ROOT && !self.is_removed(ino) && !self.is_member(ino)
    }

    /// Whether a program here has removed it, so that nobody misses what is written to it.
    pub(crate) fn is_removed(&self, ino: Ino) -> bool {
        self.node(ino).is_removed
    }

    /// Takes a node out of its folder.
    fn detach(&mut self, ino: Ino) {
        let node = self.node_mut(ino);
        let (parent, name) = (node.parent.take(), node.name.clone());
        if let Some(parent) = parent {
            let members = &mut self.folder_mut(parent).members;
            if members.get(&name) == Some(&ino) {
                members.remove(&name);
            }
        }
        for (_, member) in self.members(ino) {
            self.detach(member);
        }
        self.drop_if_unused(ino);
    }

    fn drop_if_unused(&mut self, ino: Ino) {
        let is_unused = |node: &Node| node.lookups == 0 && node.opens == 0;
        if ino != Self::ROOT && self.nodes.get(&ino).is_some_and(is_unused) && !self.is_member(ino) {
            self.nodes.remove(&ino);
        }
    }

    /// Whether a lookup in its folder finds it.
    fn is_member(&self, ino: Ino) -> bool {
        let node = self.node(ino);
        let folder = node.parent.and_then(|parent| self.nodes.get(&parent)?.folder.as_ref());
        folder.is_some_and(|folder| folder.members.get(&node.name) == Some(&ino))
    }
}
