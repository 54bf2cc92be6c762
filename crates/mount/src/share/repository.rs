//! What git will ask of a repository, fetched ahead.
//!
//! Every git command begins in the same way: it looks for `.git` and reads a few small files in folders of their own, one
//! after another. The walks and windows of other programs (`walk`, [`dav::siblings`]) foresee none of them, because each is the
//! first in its folder. So a program that looks `.git` up begins to fetch them all at once. It does so before the listing of
//! the work tree says that there is a `.git`: a work tree of a hundred folders is listed in several round trips.
//!
//! The budget: [`FOLDERS`], [`FILES`], [`INDEX`], [`HEAD`] and the branch that it names; the indexes and both ends of up to [`PACKS`]
//! packs. No file above [`LARGEST`] is fetched whole. Nothing is fetched while `.git` is believed to be as it was listed. A folder without
//! `.git` costs one request.

use std::sync::Arc;

use tokio::time::Instant;

use scopeguard::guard;

use super::Share;
use crate::{
    calls,
    tree::{Ino, Tree},
};

/// The name that git looks for.
pub(super) const NAME: &[u8] = b".git";

/// The folders that git searches.
const FOLDERS: [&str; 6] = ["info", "objects/info", "objects/pack", "refs/heads", "refs/remotes", "refs/tags"];
const PACKS_FOLDER: &[u8] = b"objects/pack";
/// The files that git reads.
const FILES: [&str; 3] = ["config", "info/exclude", "packed-refs"];
const INDEX: &[u8] = b"index";
/// Names the branch, whose commit is in a file.
const HEAD: &[u8] = b"HEAD";
/// The number of packs that are opened at once.
const PACKS: usize = 2;
/// The size of the largest file that is fetched: an index of some 30,000 files.
const LARGEST: u64 = 4 * 1024 * 1024;
/// What git reads of a pack at first, its header with the newest commits, and its checksum at the end; with each, the kernel
/// reads as much as it reads ahead.
const PACK_END: u64 = 128 * 1024;
/// What is read of a `HEAD`.
const HEAD_LENGTH: u64 = 4096;

impl Share {
    /// A program looks `.git` up in a folder that has to be listed first. Returns what to list before, if anything.
    pub(super) fn suppose_repository(&self, tree: &mut Tree, folder: Ino, now: Instant) -> Option<Ino> {
        if self.options.fresh.is_zero() || !tree.contains(folder) {
            return None;
        }
        tree.suppose(folder, NAME).filter(|git| !tree.is_listed(*git, now))
    }

    /// Lists a `.git` that may be there. Its answer is short, and must not wait behind that of the work tree on a connection.
    pub(super) fn list_supposed(self: &Arc<Self>, git: Ino) {
        let share = self.clone();
        let list = async move {
            if share.list(git).await.is_ok() {
                share.begin_to_foresee(git);
            } else {
                share.tree().withdraw(git);
            }
        };
        calls::begin(list);
    }

    /// A program has looked the folder `git` up.
    pub(super) fn foresee_repository(self: &Arc<Self>, tree: &Tree, git: Ino) {
        if self.options.fresh.is_zero() || tree.is_listed(git, Instant::now()) {
            return;
        }
        self.begin_to_foresee(git);
    }

    fn begin_to_foresee(self: &Arc<Self>, git: Ino) {
        let share = self.clone();
        tokio::spawn(async move {
            let other = share.clone();
            tokio::spawn(async move {
                // Git looks at all files that the index names before it opens a pack.
                other.foresee(git, INDEX).await;
                let packs = other.find(git, PACKS_FOLDER).await?;
                other.list(packs).await.ok().map(|()| other.foresee_packs(packs))
            });
            // The index is the longest: it takes the idle connection and does not wait until another one is open.
            tokio::task::yield_now().await;
            for path in FOLDERS.into_iter().chain(FILES) {
                let share = share.clone();
                tokio::spawn(async move { share.foresee(git, path.as_bytes()).await });
            }
            let head = share.find(git, HEAD).await;
            let head = share.read_small(head?).await?;
            share.foresee(git, branch(&head)?).await
        });
    }

    /// A program begins to read a file. Returns whether it is git's own, which is not the first of many in order. If it is
    /// the index, git is about to look at all files that the index names.
    pub(super) fn read_of_repository_begins(self: &Arc<Self>, ino: Ino) -> bool {
        let ahead = {
            let mut tree = self.tree();
            let place = tree.contains(ino).then(|| tree.place(ino)).flatten();
            let Some((git, name)) = place.filter(|(folder, _)| tree.is_named(*folder, NAME)) else { return false };
            if name == INDEX { tree.visits_after(git, Instant::now()) } else { Vec::new() }
        };
        self.list_ahead(ahead);
        true
    }

    /// Lists what is at a path below `git`, or fetches it.
    async fn foresee(self: &Arc<Self>, git: Ino, path: &[u8]) -> Option<()> {
        let found = self.find(git, path).await?;
        let (is_folder, length) = {
            let tree = self.tree();
            let is_known = tree.contains(found) && !tree.is_dirty(found);
            is_known.then(|| (tree.is_folder(found), tree.facts(found).length))?
        };
        if is_folder {
            self.list(found).await.ok()?;
        } else if length <= LARGEST {
            self.fetch_ahead(found, 0..length).await;
        }
        Some(())
    }

    /// What is at a path below `git`.
    async fn find(&self, git: Ino, path: &[u8]) -> Option<Ino> {
        let mut at = git;
        for name in path.split(|byte| *byte == b'/') {
            if !self.is_folder_if_known(at) {
                return None;
            }
            // Whoever needs it tries again, and learns why.
            self.list(at).await.ok()?;
            let tree = self.tree();
            at = tree.contains(at).then(|| tree.member(at, name)).flatten()?;
        }
        Some(at)
    }

    fn is_folder_if_known(&self, ino: Ino) -> bool {
        let tree = self.tree();
        tree.contains(ino) && tree.is_folder(ino)
    }

    async fn read_small(self: &Arc<Self>, ino: Ino) -> Option<Vec<u8>> {
        if self.is_folder_if_known(ino) {
            return None;
        }
        let file = guard(self.open(ino).ok()?, |file| self.release(ino, &file));
        let length = file.state(|state| state.length()).min(HEAD_LENGTH);
        self.read(ino, &file, 0..length).await.ok()
    }

    /// The folder of packs is listed.
    fn foresee_packs(self: &Arc<Self>, folder: Ino) {
        let members = {
            let tree = self.tree();
            let members = if tree.contains(folder) { tree.members(folder) } else { Vec::new() };
            let file = |(name, ino): (Vec<u8>, Ino)| (name, ino, tree.facts(ino).length);
            members.into_iter().map(file).collect::<Vec<_>>()
        };
        let has_suffix = |suffix: &'static [u8]| {
            let ending = members.iter().filter(move |(name, ..)| name.ends_with(suffix));
            ending.take(PACKS)
        };
        let indexes = has_suffix(b".idx").filter(|(.., length)| *length <= LARGEST);
        let indexes = indexes.map(|(_, ino, length)| (*ino, 0..*length));
        let packs = has_suffix(b".pack").flat_map(|(_, ino, length)| {
            [(*ino, 0..PACK_END.min(*length)), (*ino, length.saturating_sub(PACK_END)..*length)]
        });
        for (ino, part) in indexes.chain(packs) {
            let share = self.clone();
            tokio::spawn(async move { share.fetch_ahead(ino, part).await });
        }
    }
}

/// The path below `.git` of the branch that a `HEAD` names.
fn branch(head: &[u8]) -> Option<&[u8]> {
    let path = head.strip_prefix(b"ref: ")?.trim_ascii();
    path.starts_with(b"refs/").then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_names_a_branch_or_a_commit() {
        assert_eq!(branch(b"ref: refs/heads/topic/one\n"), Some(b"refs/heads/topic/one".as_slice()));
        assert_eq!(branch(b"ref: ../../elsewhere\n"), None);
        assert_eq!(branch(b"0123456789012345678901234567890123456789\n"), None);
        assert_eq!(branch(b""), None);
    }
}
