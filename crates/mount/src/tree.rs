//! The names: which file or folder an inode number is, and how long that is believed.
//!
//! A folder is known by one listing (PROPFIND of depth 1), which is believed for the time `fresh` from its end. Within this
//! time a name that it lacks does not exist, without asking again. What is changed through the mount is visible at once, and a
//! listing that was requested before the change does not undo it: every change has a number, and a listing applies only to
//! names whose last change is older than the listing.
//!
//! How long a node lives, and what becomes of it when it loses its name, is in `lifetime`.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, SystemTime},
};

use dav::{RemotePath, siblings::Siblings};
use tokio::time::Instant;
use transport::stable_hash;
pub(crate) use writeback::Facts;

pub(crate) use self::sync::Change;
use self::{sync::SyncPoint, times::FolderTime};
use crate::walk::Walks;

/// An inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ino(pub(crate) u64);

/// Marks the inode numbers that are derived from paths.
const DERIVED: u64 = 1 << 62;

/// The result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    Found(Ino),
    Absent,
    /// The folder has to be listed first.
    Unlisted,
}

/// The number of the last change before a listing was requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    change: u64,
    requested: Instant,
}

/// An entry of a listing.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) name: Vec<u8>,
    pub(crate) is_folder: bool,
    pub(crate) facts: Facts,
}

#[derive(Debug)]
struct Node {
    /// None for the root, and for what has been removed.
    parent: Option<Ino>,
    name: Vec<u8>,
    facts: Facts,
    folder: Option<Folder>,
    /// The file has changes that the server does not have: no listing touches it.
    is_dirty: bool,
    /// A program here has removed it.
    is_removed: bool,
    /// How often the kernel has looked it up and not yet forgotten it.
    lookups: u64,
    /// Open handles.
    opens: u64,
}

impl Node {
    /// Whether programs or the kernel know another version of the file than `facts`. The kernel goes on to believe the length
    /// that it was told, and clips reads and places what is appended by it.
    fn is_known_as_other(&self, facts: &Facts) -> bool {
        let is_known = self.opens > 0 || self.lookups > 0;
        self.folder.is_none() && is_known && !self.facts.is_version(facts)
    }
}

#[derive(Debug, Default)]
struct Folder {
    members: BTreeMap<Vec<u8>, Ino>,
    /// Until when the current listing is believed.
    believed_until: Option<Instant>,
    /// The number of the last change of each name that was changed since the last listing.
    changes: HashMap<Vec<u8>, u64>,
    /// The number of the change by which it got its name, if it was renamed.
    renamed: u64,
    /// The order in which programs read the files.
    reading: Siblings,
    /// The state of the server that the listing shows, if it can report what has changed since.
    sync: Option<SyncPoint>,
    time: FolderTime,
}

/// All known names.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: HashMap<Ino, Node>,
    base: RemotePath,
    fresh: Duration,
    next: u64,
    /// The inode numbers that were derived from paths. None is given a second time, because operations may remember it.
    derived: HashSet<u64>,
    change: u64,
    walks: Walks,
    /// Whether there may be other folders than the walks have seen.
    is_news: bool,
}

impl Tree {
    pub(crate) const ROOT: Ino = Ino(1);

    /// A tree whose root is the folder `base` of the server.
    pub(crate) fn new(base: RemotePath, fresh: Duration) -> Self {
        let (nodes, base, walks) = (HashMap::new(), base.as_folder(true), Walks::default());
        let derived = HashSet::new();
        let mut tree = Self { nodes, base, fresh, next: 1, derived, change: 0, walks, is_news: false };
        tree.add(None, Vec::new(), true, Facts::default());
        // The kernel never forgets the root.
        tree.node_mut(Self::ROOT).lookups = 1;
        tree
    }

    fn add(&mut self, parent: Option<Ino>, name: Vec<u8>, is_folder: bool, facts: Facts) -> Ino {
        let ino = self.new_ino(parent, &name);
        let folder = is_folder.then(Folder::default);
        self.is_news |= is_folder;
        let (is_dirty, is_removed, lookups, opens) = (false, false, 0, 0);
        let node = Node { parent, name: name.clone(), facts, folder, is_dirty, is_removed, lookups, opens };
        self.nodes.insert(ino, node);
        if let Some(parent) = parent {
            self.folder_mut(parent).members.insert(name, ino);
        }
        ino
    }

    /// A number that the next mount gives the same path too: git reads a file again whose number has changed.
    fn new_ino(&mut self, parent: Option<Ino>, name: &[u8]) -> Ino {
        if let Some(parent) = parent {
            let number = stable_hash("longhaul.inode/1", &[&parent.0.to_be_bytes(), &name]);
            let derived = (number >> 2) | DERIVED;
            if self.derived.insert(derived) {
                return Ino(derived);
            }
        }
        let ino = Ino(self.next);
        self.next += 1;
        ino
    }

    fn node(&self, ino: Ino) -> &Node {
        self.nodes.get(&ino).expect("the kernel names only what it has not forgotten")
    }

    fn node_mut(&mut self, ino: Ino) -> &mut Node {
        self.nodes.get_mut(&ino).expect("the kernel names only what it has not forgotten")
    }

    fn folder_mut(&mut self, ino: Ino) -> &mut Folder {
        self.node_mut(ino).folder.as_mut().expect("the kernel looks only into folders")
    }

    pub(crate) fn contains(&self, ino: Ino) -> bool {
        self.nodes.contains_key(&ino)
    }

    pub(crate) fn is_folder(&self, ino: Ino) -> bool {
        self.node(ino).folder.is_some()
    }

    pub(crate) fn facts(&self, ino: Ino) -> &Facts {
        &self.node(ino).facts
    }

    /// Its folder; the root's is the root. None for what has been removed.
    pub(crate) fn parent(&self, ino: Ino) -> Option<Ino> {
        if ino == Self::ROOT { Some(ino) } else { self.node(ino).parent }
    }

    /// Its folder and its name there; none for the root, and for what has been removed.
    pub(crate) fn place(&self, ino: Ino) -> Option<(Ino, Vec<u8>)> {
        let node = self.node(ino);
        Some((node.parent?, node.name.clone()))
    }

    /// Whether it has this name and is in a folder.
    pub(crate) fn is_named(&self, ino: Ino, name: &[u8]) -> bool {
        let node = self.node(ino);
        node.parent.is_some() && node.name == name
    }

    /// Its path on the server; none for what has been removed.
    pub(crate) fn path(&self, ino: Ino) -> Option<RemotePath> {
        let mut names = Vec::new();
        let (mut at, is_folder) = (ino, self.is_folder(ino));
        while at != Self::ROOT {
            let node = self.nodes.get(&at)?;
            names.push(&node.name);
            at = node.parent?;
        }
        let joined = names.iter().rev().try_fold(self.base.clone(), |path, name| path.join(name, true));
        joined.ok().map(|path| path.as_folder(is_folder))
    }

    /// The path of a name in a folder.
    pub(crate) fn path_of(&self, parent: Ino, name: &[u8], is_folder: bool) -> Option<RemotePath> {
        self.path(parent)?.join(name, is_folder).ok()
    }

    pub(crate) fn is_listed(&self, folder: Ino, now: Instant) -> bool {
        !self.believed_for(folder, now).is_zero()
    }

    /// For how long the listing of a folder is still believed.
    pub(crate) fn believed_for(&self, folder: Ino, now: Instant) -> Duration {
        let until = self.node(folder).folder.as_ref().and_then(|folder| folder.believed_until);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    pub(crate) fn lookup(&self, parent: Ino, name: &[u8], now: Instant) -> Lookup {
        let found = self.member(parent, name);
        match found {
            Some(ino) if self.node(ino).is_dirty => Lookup::Found(ino),
            _ if !self.is_listed(parent, now) => Lookup::Unlisted,
            Some(ino) => Lookup::Found(ino),
            None => Lookup::Absent,
        }
    }

    /// The inode of a name, however old the listing is.
    pub(crate) fn member(&self, parent: Ino, name: &[u8]) -> Option<Ino> {
        self.node(parent).folder.as_ref()?.members.get(name).copied()
    }

    /// The inode that has a path, as far as the names are known.
    pub(crate) fn find(&self, path: &RemotePath) -> Option<Ino> {
        path.relative_to(&self.base)?.try_fold(Self::ROOT, |folder, name| self.member(folder, name))
    }

    /// The members of a folder, in the order of their names.
    pub(crate) fn members(&self, folder: Ino) -> Vec<(Vec<u8>, Ino)> {
        let members = self.node(folder).folder.as_ref().map(|folder| &folder.members);
        members.into_iter().flatten().map(|(name, ino)| (name.clone(), *ino)).collect()
    }

    /// A listing is about to be requested.
    pub(crate) fn mark(&self, now: Instant) -> Mark {
        Mark { change: self.change, requested: now }
    }

    /// Applies a listing that was requested at `mark` and is complete `now`. A listing that took longer than `fresh` is
    /// believed for as long as it took, or a program that works through a huge folder would wait for it again and again.
    /// Returns whether all of it was applied: nothing has been changed here that it may lack.
    pub(crate) fn listed(&mut self, folder: Ino, mark: Mark, entries: Vec<Listed>, now: Instant) -> bool {
        let mut gone: HashSet<Vec<u8>> = self.folder_mut(folder).members.keys().cloned().collect();
        let mut is_whole = true;
        for entry in entries {
            gone.remove(&entry.name);
            is_whole &= self.is_there(folder, mark, entry);
        }
        for name in gone {
            is_whole &= self.is_gone(folder, mark, &name);
        }
        self.believe(folder, mark, now);
        self.folder_mut(folder).sync = None;
        is_whole
    }

    /// A listing has this entry. Returns whether that was applied.
    fn is_there(&mut self, folder: Ino, mark: Mark, Listed { name, is_folder, facts }: Listed) -> bool {
        if self.is_newer(folder, &name, mark) {
            return false;
        }
        let ino = match self.member(folder, &name).map(|ino| (ino, self.node(ino))) {
            Some((_, node)) if node.is_dirty => return false,
            Some((ino, node)) if node.folder.is_some() == is_folder && !node.is_known_as_other(&facts) => ino,
            known => {
                if let Some((ino, _)) = known {
                    self.displace(ino);
                }
                self.add(Some(folder), name, is_folder, Facts::default())
            }
        };
        if is_folder {
            self.folder_is(ino, mark, facts);
        } else {
            self.node_mut(ino).facts = facts;
        }
        true
    }

    /// A listing lacks this name. Returns whether that was applied.
    fn is_gone(&mut self, folder: Ino, mark: Mark, name: &[u8]) -> bool {
        let Some(ino) = self.member(folder, name) else { return true };
        let is_known = !self.is_newer(folder, name, mark) && !self.node(ino).is_dirty;
        if is_known {
            self.displace(ino);
        }
        is_known
    }

    fn believe(&mut self, folder: Ino, mark: Mark, now: Instant) {
        let fresh = self.fresh;
        let folder = self.folder_mut(folder);
        folder.changes.retain(|_, change| *change > mark.change);
        folder.believed_until = Some(now + fresh.max(now.saturating_duration_since(mark.requested)));
    }

    fn is_newer(&self, folder: Ino, name: &[u8], mark: Mark) -> bool {
        let changes = self.node(folder).folder.as_ref().map(|folder| &folder.changes);
        changes.and_then(|changes| changes.get(name)).is_some_and(|change| *change > mark.change)
    }

    /// The next lookup in a folder lists it again, all of it.
    pub(crate) fn expire(&mut self, folder: Ino) {
        if let Some(folder) = self.nodes.get_mut(&folder).and_then(|node| node.folder.as_mut()) {
            (folder.believed_until, folder.sync) = (None, None);
        }
    }

    fn note_change(&mut self, parent: Ino, name: &[u8]) {
        self.change += 1;
        let change = self.change;
        self.folder_mut(parent).changes.insert(name.to_vec(), change);
    }

    /// A program has created a file (dirty: the server does not have it yet) or a folder.
    pub(crate) fn create(&mut self, parent: Ino, name: &[u8], is_folder: bool) -> Ino {
        self.discard(parent, name);
        let facts = Facts { modified: Some(SystemTime::now()), ..Facts::default() };
        let ino = self.add(Some(parent), name.to_vec(), is_folder, facts);
        self.node_mut(ino).is_dirty = !is_folder;
        if is_folder {
            // It is empty, and need not be listed.
            let until = Instant::now() + self.fresh;
            self.folder_mut(ino).believed_until = Some(until);
        }
        self.note_change(parent, name);
        self.touch(parent);
        ino
    }

    /// Takes in a file that the server does not have yet, and the folders above it. None if something else has its name.
    pub(crate) fn adopt(&mut self, path: &RemotePath, facts: Facts) -> Option<Ino> {
        let mut names: Vec<Vec<u8>> = path.relative_to(&self.base)?.map(<[u8]>::to_vec).collect();
        let name = names.pop()?;
        let mut folder = Self::ROOT;
        for above in names {
            folder = match self.member(folder, &above) {
                Some(ino) => ino,
                None => self.add(Some(folder), above, true, Facts::default()),
            };
            self.node(folder).folder.as_ref()?;
        }
        let ino = match self.member(folder, &name) {
            Some(ino) if self.is_folder(ino) => return None,
            Some(ino) => ino,
            None => self.add(Some(folder), name.clone(), false, Facts::default()),
        };
        let node = self.node_mut(ino);
        (node.facts, node.is_dirty) = (facts, true);
        self.note_change(folder, &name);
        Some(ino)
    }

    /// A program has removed a name.
    pub(crate) fn remove(&mut self, parent: Ino, name: &[u8]) {
        self.discard(parent, name);
        self.note_change(parent, name);
        self.touch(parent);
    }

    /// A program has renamed something; what had the new name is removed.
    pub(crate) fn rename(&mut self, parent: Ino, name: &[u8], new_parent: Ino, new_name: &[u8]) {
        if (parent, name) == (new_parent, new_name) {
            return;
        }
        if let Some(ino) = self.folder_mut(parent).members.remove(name) {
            self.discard(new_parent, new_name);
            let node = self.node_mut(ino);
            node.parent = Some(new_parent);
            node.name = new_name.to_vec();
            self.folder_mut(new_parent).members.insert(new_name.to_vec(), ino);
        }
        self.note_change(parent, name);
        self.note_change(new_parent, new_name);
        self.note_renamed(new_parent, new_name);
        self.touch(parent);
        self.touch(new_parent);
    }

    /// A program has changed a file's content, which has this length now.
    pub(crate) fn changed(&mut self, ino: Ino, length: u64) {
        let node = self.node_mut(ino);
        node.facts.length = length;
        node.facts.modified = Some(SystemTime::now());
        node.is_dirty = true;
    }

    /// The server has a file's content, unless it has changed again in the meantime.
    pub(crate) fn uploaded(&mut self, ino: Ino, facts: Facts, is_dirty: bool) {
        let Some(node) = self.nodes.get_mut(&ino) else { return };
        node.is_dirty = is_dirty;
        if is_dirty {
            node.facts.etag = facts.etag;
        } else {
            node.facts = facts;
        }
        let place = node.parent.map(|parent| (parent, node.name.clone()));
        if let Some((parent, name)) = place.filter(|(parent, _)| self.contains(*parent)) {
            self.note_change(parent, &name);
        }
    }

    /// Whether the node has changes that the server does not have.
    pub(crate) fn is_dirty(&self, ino: Ino) -> bool {
        self.node(ino).is_dirty
    }

    /// The content that the server does not have is given up.
    pub(crate) fn give_up(&mut self, ino: Ino) {
        let Some(node) = self.nodes.get_mut(&ino) else { return };
        node.is_dirty = false;
        if let Some(parent) = node.parent {
            self.expire(parent);
        }
    }

    /// Replaces what is known of a file.
    pub(crate) fn set_facts(&mut self, ino: Ino, facts: Facts) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.facts = facts;
        }
    }
}

mod foresight;
mod lifetime;
mod moves;
mod sync;
#[cfg(test)]
mod tests;
mod times;
