//! What programs will probably need next: the files after one, and the folders after one.

use std::{mem, ops::Bound};

use dav::siblings::Sibling;
use tokio::time::Instant;

use super::{Facts, Ino, Node, Tree};

/// How many members of a folder are searched for the next folder among them.
const SEARCHED: usize = 2000;

/// In how many folders files are fetched ahead.
const NEXT: usize = 16;

impl Tree {
    /// A folder that is not listed may have a folder of this name. Returns it, so that it can be listed before the listing of
    /// its parent shows whether it is there; no lookup finds it earlier. None if the name is a file's.
    pub(crate) fn suppose(&mut self, parent: Ino, name: &[u8]) -> Option<Ino> {
        let known = self.member(parent, name);
        let ino = known.unwrap_or_else(|| self.add(Some(parent), name.to_vec(), true, Facts::default()));
        self.is_folder(ino).then_some(ino)
    }

    /// A supposed folder is not there, as far as is known.
    pub(crate) fn withdraw(&mut self, supposed: Ino) {
        let is_supposed = |node: &Node| node.lookups == 0 && node.opens == 0;
        if self.nodes.get(&supposed).is_some_and(is_supposed) {
            self.displace(supposed);
        }
    }

    /// A program begins to read a file. Returns the files of its folder and the next ones to fetch now, because it
    /// will probably read them next.
    pub(crate) fn read_begins(&mut self, ino: Ino) -> Vec<Ino> {
        let Some((parent, name)) = self.place(ino) else { return Vec::new() };
        // The folder may have gone, of a file that is still open.
        let folder = self.nodes.get_mut(&parent).and_then(|node| node.folder.as_mut());
        let Some(mut reading) = folder.map(|folder| mem::take(&mut folder.reading)) else { return Vec::new() };
        let (mut wanted, mut room) = reading.read(&name, |name| self.files_after(parent, name.to_vec()));
        self.folder_mut(parent).reading = reading;
        let next = if room.files > 0 { self.folders_after(parent, NEXT) } else { Vec::new() };
        for folder in next {
            let mut reading = mem::take(&mut self.folder_mut(folder).reading);
            let (more, left) = reading.enter(room, self.files_after(folder, Vec::new()));
            self.folder_mut(folder).reading = reading;
            wanted.extend(more);
            room = left;
        }
        wanted
    }

    /// The files of a folder after a name that the server has.
    fn files_after(&self, folder: Ino, name: Vec<u8>) -> impl Iterator<Item = Sibling<Ino>> {
        let members = self.node(folder).folder.as_ref().map(|folder| &folder.members);
        let after = members.map(|members| members.range((Bound::Excluded(name), Bound::Unbounded)));
        after.into_iter().flatten().filter_map(|(name, ino)| {
            let node = self.node(*ino);
            let is_there = node.folder.is_none() && !node.is_dirty;
            is_there.then(|| Sibling { name: name.clone(), file: *ino, length: node.facts.length })
        })
    }

    /// A program visits a folder: it lists it, or uses a file in it. Returns the folders to list now, because it will probably
    /// visit them next.
    pub(crate) fn visits(&mut self, folder: Ino, now: Instant) -> Vec<Ino> {
        let mut walks = mem::take(&mut self.walks);
        let is_news = mem::take(&mut self.is_news);
        let wanted = walks.visit(folder, is_news, |last, count| self.folders_after(last, count));
        self.walks = walks;
        self.unlisted(wanted, now)
    }

    /// A program will visit all folders after `folder` and what is below it. Returns those to list now.
    pub(crate) fn visits_after(&mut self, folder: Ino, now: Instant) -> Vec<Ino> {
        let mut last = folder;
        while let Some(below) = self.last_folder(last) {
            last = below;
        }
        let mut walks = mem::take(&mut self.walks);
        let wanted = walks.begin(last, |last, count| self.folders_after(last, count));
        self.walks = walks;
        self.unlisted(wanted, now)
    }

    /// A listing has arrived. Returns the folders to list now.
    pub(crate) fn goes_on(&mut self, now: Instant) -> Vec<Ino> {
        let mut walks = mem::take(&mut self.walks);
        self.is_news = false;
        let wanted = walks.go_on(|last, count| self.folders_after(last, count));
        self.walks = walks;
        self.unlisted(wanted, now)
    }

    fn unlisted(&self, mut folders: Vec<Ino>, now: Instant) -> Vec<Ino> {
        folders.retain(|folder| !self.is_listed(*folder, now));
        folders
    }

    /// Up to so many folders after one in pre-order: those in it, then those after it, then those after its folder.
    fn folders_after(&self, folder: Ino, count: usize) -> Vec<Ino> {
        let mut found = Vec::new();
        // Where to go on: a folder, and the name in it after which.
        let mut places = vec![(folder, Vec::new())];
        let mut at = folder;
        while at != Self::ROOT
            && let Some((parent, name)) = self.nodes.get(&at).and_then(|node| Some((node.parent?, node.name.clone())))
        {
            places.push((parent, name));
            at = parent;
        }
        places.reverse();
        while let Some((folder, name)) = places.pop()
            && found.len() < count
        {
            let Some((name, next)) = self.next_folder(folder, name) else { continue };
            found.push(next);
            places.push((folder, name));
            places.push((next, Vec::new()));
        }
        found
    }

    fn last_folder(&self, folder: Ino) -> Option<Ino> {
        let members = &self.nodes.get(&folder)?.folder.as_ref()?.members;
        members.values().rev().take(SEARCHED).copied().find(|ino| self.is_folder(*ino))
    }

    fn next_folder(&self, folder: Ino, name: Vec<u8>) -> Option<(Vec<u8>, Ino)> {
        let members = &self.nodes.get(&folder)?.folder.as_ref()?.members;
        let mut after = members.range((Bound::Excluded(name), Bound::Unbounded)).take(SEARCHED);
        after.find(|(_, ino)| self.is_folder(**ino)).map(|(name, ino)| (name.clone(), *ino))
    }
}
