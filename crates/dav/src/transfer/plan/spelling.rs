//! Files and folders that the server lists under another spelling of their names.
//!
//! A server may store names in another Unicode form than they were sent in: a name uploaded as NFD is listed as NFC. A name
//! is first searched by its bytes. If it is not listed, it matches the one listed name that is canonically equivalent, unless
//! another local file has exactly that name. From then on the server's spelling is used, which servers that distinguish both
//! forms understand as well.
//!
//! In a mirror, an old name on the server and a new local name may differ only in case: then the file has been renamed here,
//! and it is renamed there too, before anything is uploaded. So it is never missing, and no byte is transferred.

use std::collections::{HashMap, HashSet};

use super::{Listing, Plan, PlanEvent, RemoteEntry, Step};
use crate::{
    Error, RemotePath,
    transfer::{
        is_temporary,
        name_folding::{canonical, key},
    },
};

/// A file or folder of the outline, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Node {
    File(usize),
    Folder(usize),
}

impl Plan {
    fn things(&self, folder: usize) -> impl Iterator<Item = Node> {
        let state = &self.folders[folder];
        state.files.iter().copied().map(Node::File).chain(state.children.iter().copied().map(Node::Folder))
    }

    fn name_of(&self, thing: Node) -> &[u8] {
        match thing {
            Node::File(file) => &self.outline.files[file].name,
            Node::Folder(folder) => self.outline.folders[folder].path.name().unwrap_or_default(),
        }
    }

    /// The path of a node on the server.
    pub(crate) fn path_of(&self, thing: Node) -> Result<RemotePath, Error> {
        match thing {
            Node::File(file) => self.outline.files[file].path(&self.outline.folders),
            Node::Folder(folder) => Ok(self.outline.folders[folder].path.clone()),
        }
    }

    /// Adopts the spelling of a folder's listing.
    pub(super) fn spell_as_listed(&mut self, folder: usize, listing: &Listing) {
        let is_unlisted = |thing: &Node| {
            let name = self.name_of(*thing);
            !name.is_ascii() && !listing.contains_key(name)
        };
        let unlisted: Vec<Node> = self.things(folder).filter(is_unlisted).collect();
        if unlisted.is_empty() || listing.is_empty() {
            return;
        }
        let mut listed: HashMap<String, Option<&[u8]>> = HashMap::new();
        for name in listing.keys() {
            if let Some(form) = canonical(name) {
                listed.entry(form).and_modify(|other| *other = None).or_insert(Some(name));
            }
        }
        let mut taken: HashSet<Vec<u8>> = self.things(folder).map(|thing| self.name_of(thing).to_owned()).collect();
        for thing in unlisted {
            let found = canonical(self.name_of(thing)).and_then(|form| *listed.get(&form)?);
            if let Some(name) = found
                && taken.insert(name.to_owned())
            {
                self.spell(thing, name);
            }
        }
    }

    fn spell(&mut self, thing: Node, name: &[u8]) {
        let folder = match thing {
            Node::File(file) => return name.clone_into(&mut self.outline.files[file].name),
            Node::Folder(folder) => folder,
        };
        let folders = &mut self.outline.folders;
        let Some(Ok(path)) = folders[folder].path.parent().map(|parent| parent.join(name, true)) else { return };
        folders[folder].path = path;
        // Folders are in depth-first order.
        for below in folder + 1..folders.len() {
            let Some(parent) = folders[below].parent.filter(|parent| *parent >= folder) else { return };
            let name = folders[below].path.name().unwrap_or_default();
            if let Ok(path) = folders[parent].path.join(name, true) {
                folders[below].path = path;
            }
        }
    }

    /// Renames on the server, by old name: each old name resembles exactly one new local name.
    pub(super) fn renamings(&self, folder: usize, listing: &Listing) -> HashMap<Vec<u8>, Node> {
        let above = &self.outline.folders[folder];
        if !self.rules.delete || above.given || above.unread || listing.is_empty() {
            return HashMap::new();
        }
        let mut new: HashMap<Vec<u8>, Option<Node>> = HashMap::new();
        for thing in self.things(folder).filter(|thing| !listing.contains_key(self.name_of(*thing))) {
            new.entry(key(self.name_of(thing))).and_modify(|other| *other = None).or_insert(Some(thing));
        }
        if new.is_empty() {
            return HashMap::new();
        }
        let kept: HashSet<&[u8]> = self.things(folder).map(|thing| self.name_of(thing)).collect();
        let mut old: HashMap<Vec<u8>, Option<(&Vec<u8>, &RemoteEntry)>> = HashMap::new();
        for (name, there) in listing.iter().filter(|(name, _)| !kept.contains(name.as_slice())) {
            old.entry(key(name)).and_modify(|other| *other = None).or_insert(Some((name, there)));
        }
        let pair = |(key, thing): (Vec<u8>, Option<Node>)| {
            let (thing, (name, there)) = thing.zip(*old.get(&key)?)?;
            let is_alike = there.is_folder == matches!(thing, Node::Folder(_));
            (is_alike && self.may_go(folder, name, there)).then(|| (name.clone(), thing))
        };
        new.into_iter().filter_map(pair).collect()
    }

    /// Whether a mirror may rename something that exists only on the server.
    fn may_go(&self, folder: usize, name: &[u8], there: &RemoteEntry) -> bool {
        let above = &self.outline.folders[folder];
        let filter = Some(&self.rules.filter).filter(|filter| !filter.is_empty() && !self.rules.delete_excluded);
        let is_in = match filter {
            Some(filter) if !there.is_folder => {
                filter.file(&above.scope, name, there.facts.length, there.facts.modified)
            }
            other => other.is_none(),
        };
        let names = [&above.stays, &above.twins, &above.excluded];
        is_in && !is_temporary(name) && !names.into_iter().flatten().any(|other| other == name)
    }

    /// Plans a rename.
    pub(super) fn rename(&mut self, folder: usize, from: &[u8], thing: Node, there: &RemoteEntry) {
        if let Ok(path) = self.outline.folders[folder].path.join(from, there.is_folder) {
            self.queues.steps.push_back(Step::Rename(path, thing, there.clone()));
        }
    }

    /// Handles the result of a rename: what exists under the new name. If the rename was refused, the node is uploaded,
    /// and the old name is deleted if it is something else.
    pub(super) fn renamed(
        &mut self,
        from: RemotePath,
        thing: Node,
        old: &RemoteEntry,
        now: Result<Option<RemoteEntry>, Error>,
    ) {
        let now = now.ok().flatten();
        if now.is_some() {
            let to = self.name_of(thing).to_owned();
            if self.rules.dry_run {
                self.spell(thing, from.name().unwrap_or_default());
            }
            self.events.push(PlanEvent::Renamed(from, to));
        } else {
            self.deletion.count += 1;
            let precondition = if old.is_folder { crate::Precondition::None } else { old.precondition() };
            self.deletion.doubtful.push((from, precondition, self.name_of(thing).to_owned()));
        }
        match (thing, now) {
            (Node::File(file), there) => {
                self.plan_file(file, there.as_ref());
                self.verify_finished(self.outline.files[file].folder);
            }
            (Node::Folder(folder), Some(_)) => self.queues.steps.push_back(Step::List(folder)),
            (Node::Folder(folder), None) => self.make(folder),
        }
    }
}
