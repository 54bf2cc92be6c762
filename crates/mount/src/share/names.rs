//! Creating folders, deleting and renaming.
//!
//! A DELETE or MOVE of a collection takes everything below it (RFC 4918 §9.6.1), and rmdir(2) and rename(2) must not. So a
//! folder is listed anew before it is deleted or replaced. What somebody else puts into it between that and the request is
//! lost; WebDAV has no way to ask for an empty folder only.

use std::{collections::BTreeSet, sync::Arc};

use dav::{If, Precondition, PropertySet, RemotePath};
use nix::errno::Errno;
use tokio::sync::MutexGuard;

use super::{Attributes, Result, Share, facts};
use crate::{
    cached_file::CachedFile,
    calls::{decide, still_wanted},
    errno,
    file_state::Base,
    tree::{Facts, Ino},
};

/// Keeps uploads of files away.
async fn turns<'a>(files: impl IntoIterator<Item = &'a Arc<CachedFile>>) -> Vec<MutexGuard<'a, ()>> {
    let mut turns = Vec::new();
    for file in files {
        turns.push(file.upload.lock().await);
    }
    turns
}

impl Share {
    pub(crate) async fn mkdir(&self, parent: Ino, name: &[u8]) -> Result<Attributes> {
        let path = self.tree().path_of(parent, name, true).ok_or(Errno::EINVAL)?;
        let made = self.dav.mkcol(&path).await.map_err(|error| errno::of(&path, "create", &error))?;
        if made.is_none() {
            self.tree().expire(parent);
            return Err(Errno::EEXIST);
        }
        let mut tree = self.tree();
        let ino = tree.create(parent, name, true);
        tree.looked_up(ino);
        Ok(Self::attributes(&tree, ino))
    }

    pub(crate) async fn unlink(self: &Arc<Self>, parent: Ino, name: &[u8]) -> Result<()> {
        let (path, ino) = {
            let tree = self.tree();
            (tree.path_of(parent, name, false).ok_or(Errno::EINVAL)?, tree.member(parent, name))
        };
        let file = ino.and_then(|ino| self.content_of(ino));
        // Not while it is being uploaded.
        let _turns = turns(&file).await;
        let _held = self.hold(vec![path.clone()]).await;
        if let Some(ino) = ino {
            self.keep_content(ino).await?;
        }
        still_wanted()?;
        if !ino.is_some_and(|ino| self.is_only_here(ino)) {
            let deleted = self.delete_version(&path, ino, &self.locks.claims(&[&path])).await;
            match deleted {
                // An upload of it may or may not have reached the server.
                Err(error) if error.is(404) && self.in_journal(&path).is_some() => {}
                deleted => drop(deleted.map_err(|error| {
                    if error.is(412) {
                        self.tree().expire(parent);
                    }
                    errno::of(&path, "delete", &error)
                })?),
            }
        }
        self.locks.gone(&path);
        if let Err(errno) = decide() {
            self.tree().expire(parent);
            return Err(errno);
        }
        self.unlock_all_at(&path, file.as_slice()).await;
        self.tree().remove(parent, name);
        self.watch(&path);
        self.removed_from_journal(&path).await
    }

    pub(crate) async fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let path = self.tree().path_of(parent, name, true).ok_or(Errno::EINVAL)?;
        let ino = self.tree().member(parent, name).ok_or(Errno::ENOENT)?;
        self.must_be_empty(ino).await?;
        still_wanted()?;
        let mut deleted = self.delete_listed(&path, ino).await;
        if deleted.as_ref().is_err_and(|error| error.is(412)) {
            // It has changed, or the server does not know its own entity tag.
            self.must_be_empty(ino).await?;
            deleted = self.dav.delete(&path, &Precondition::None, &If::default()).await;
        }
        deleted.map_err(|error| errno::of(&path, "delete", &error))?;
        self.tree().remove(parent, name);
        Ok(())
    }

    pub(crate) async fn rename(
        self: &Arc<Self>,
        (parent, name): (Ino, &[u8]),
        (new_parent, new_name): (Ino, &[u8]),
        may_replace: bool,
    ) -> Result<()> {
        let (ino, is_folder, replaced) = {
            let tree = self.tree();
            let ino = tree.member(parent, name).ok_or(Errno::ENOENT)?;
            (ino, tree.is_folder(ino), tree.member(new_parent, new_name))
        };
        if let Some(replaced) = replaced.filter(|replaced| *replaced != ino) {
            match (is_folder, self.tree().is_folder(replaced)) {
                _ if !may_replace => return Err(Errno::EEXIST),
                (true, false) => return Err(Errno::ENOTDIR),
                (false, true) => return Err(Errno::EISDIR),
                _ => {}
            }
            if is_folder {
                self.must_be_empty(replaced).await?;
            } else {
                self.keep_content(replaced).await?;
                self.settle_replaced(replaced).await?;
            }
        }
        self.settle_names(ino).await?;
        // Not while one of them is being uploaded: an upload of the replaced file could replace the renamed one.
        let files = self.in_order([Some(ino), replaced]);
        let _turns = turns(&files).await;
        let [from, to] = {
            let tree = self.tree();
            [(parent, name), (new_parent, new_name)].map(|(parent, name)| tree.path_of(parent, name, is_folder))
        };
        let (from, to) = (from.ok_or(Errno::EINVAL)?, to.ok_or(Errno::EINVAL)?);
        let _held = self.hold_to_rename(ino, &from, &to).await?;
        // Another's version must not become the one that our upload replaces.
        let is_known = self.is_current(ino, &from).await;
        still_wanted()?;
        // A MOVE leaves locks behind (RFC 4918 §7.6). And beside a list with their token, its condition on the target would only
        // be an alternative (§10.4.3).
        let unlocked = self.unlock_all_at(&from, &files).await;
        let mut base = None;
        if self.is_only_here(ino) {
            decide()?;
            base = self.rename_only_here(ino, replaced);
        } else if let Err(errno) = self.move_on_server((ino, &from, &to), replaced, may_replace).await {
            self.lock_again(unlocked, &files).await;
            // Both names are what they were, or the MOVE came too late for its program: as if it had been renamed elsewhere.
            let mut tree = self.tree();
            tree.expire(parent);
            tree.expire(new_parent);
            return Err(errno);
        }
        self.unlock_all_at(&to, &files).await;
        let version = {
            let mut tree = self.tree();
            tree.rename(parent, name, new_parent, new_name);
            if tree.contains(ino) { tree.facts(ino).etag.clone() } else { None }
        };
        self.late_changes().renamed_to(&to, version.as_ref());
        self.watch(&from);
        self.lock_again(unlocked, &files).await;
        self.renamed_in_journal(&from, &to, base.as_ref()).await?;
        if is_known {
            self.learn_version(ino, &to).await;
        } else {
            self.expire_parent(ino);
        }
        Ok(())
    }

    async fn move_on_server(
        &self,
        (ino, from, to): (Ino, &RemotePath, &RemotePath),
        replaced: Option<Ino>,
        may_replace: bool,
    ) -> Result<()> {
        let (is_folder, claims) = (from.is_folder(), self.locks.claims(&[to]));
        let mut moved = self.rename_version((ino, from, to), replaced, may_replace, &claims).await;
        if let Some(replaced) = replaced.filter(|_| is_folder && moved.as_ref().is_err_and(|error| error.is(412))) {
            // Or the server does not know its own entity tag.
            self.must_be_empty(replaced).await?;
            moved = self.dav.rename(from, to, true, &claims).await;
        }
        if moved.is_ok() {
            // Whatever lock has created a file there, it is another one now.
            self.locks.written(to);
            self.locks.gone(from);
        }
        moved.map_err(|error| match errno::of(from, "rename", &error) {
            // Overwrite: F (RFC 4918 §9.9.4).
            Errno::ESTALE if !may_replace || is_folder => Errno::EEXIST,
            number => number,
        })?;
        decide()
    }

    /// The contents of these nodes, in the order in which everybody locks them.
    fn in_order(&self, inos: [Option<Ino>; 2]) -> Vec<Arc<CachedFile>> {
        let contents = self.contents();
        let inos: BTreeSet<Ino> = inos.into_iter().flatten().collect();
        inos.iter().filter_map(|ino| contents.files.get(ino).cloned()).collect()
    }

    /// Before a folder is renamed, the server must have its files.
    async fn settle_names(self: &Arc<Self>, ino: Ino) -> Result<()> {
        let (path, is_folder) = {
            let tree = self.tree();
            (tree.path(ino), tree.is_folder(ino))
        };
        match path {
            Some(path) if is_folder => self.until_uploaded_below(&path).await,
            _ => Ok(()),
        }
    }

    /// Whether the server still has the version of an open file that its programs opened.
    async fn is_current(&self, ino: Ino, path: &RemotePath) -> bool {
        let file = self.contents().files.get(&ino).cloned();
        let base = file.filter(|_| self.tree().opens(ino) > 0).map(|file| file.state(|state| state.base().clone()));
        let Some(Base::Version(base)) = base else { return true };
        let seen = self.dav.stat(path, PropertySet::LISTING).await.ok().flatten();
        seen.is_some_and(|seen| facts(&seen).is_version(&base))
    }

    /// A file that the server does not have yet gets another name. Its upload will replace what is there.
    fn rename_only_here(&self, ino: Ino, replaced: Option<Ino>) -> Option<Base> {
        let replaced = replaced.filter(|replaced| *replaced != ino)?;
        let (tree, contents) = (self.tree(), self.contents());
        let written = contents.files.get(&replaced).filter(|_| tree.is_dirty(replaced));
        let journaled = || self.base_in_journal(&tree.path(replaced).filter(|_| tree.is_dirty(replaced))?);
        let base = match written {
            Some(written) => written.state(|state| state.base().clone()),
            None => journaled().unwrap_or_else(|| Base::Version(tree.facts(replaced).clone())),
        };
        if let Some(file) = contents.files.get(&ino) {
            file.state(|state| state.rebase(base.clone()));
        }
        Some(base)
    }

    /// A MOVE may change the entity tag. Of an open file it must be known, or its upload would be taken for a conflict.
    async fn learn_version(&self, ino: Ino, path: &RemotePath) {
        let (is_open, file) = (self.tree().opens(ino) > 0, self.contents().files.get(&ino).cloned());
        let Some(file) = file.filter(|file| !file.state(|state| state.is_new())) else { return };
        let seen = if is_open { self.dav.stat(path, PropertySet::LISTING).await.ok().flatten() } else { None };
        // One of another length is somebody else's.
        let is_ours = |facts: &Facts| file.state(|state| state.is_version_of(facts.length));
        match seen.map(|entry| facts(&entry)).filter(is_ours) {
            Some(facts) => {
                file.state(|state| state.rebase(Base::Version(facts.clone())));
                let mut tree = self.tree();
                if tree.contains(ino) && !tree.is_dirty(ino) {
                    tree.set_facts(ino, facts);
                }
            }
            None => self.expire_parent(ino),
        }
    }

    /// Whether the server does not have the file yet.
    pub(super) fn is_only_here(&self, ino: Ino) -> bool {
        let path = self.path_if_known(ino);
        let in_journal = path.and_then(|path| self.in_journal(&path));
        let is_new = || self.contents().files.get(&ino).is_some_and(|file| file.state(|state| state.is_new()));
        in_journal.unwrap_or_else(is_new)
    }

    /// A file that loses its name stays readable for programs that have it open: everything is fetched before.
    async fn keep_content(self: &Arc<Self>, ino: Ino) -> Result<()> {
        if self.tree().opens(ino) == 0 {
            return Ok(());
        }
        let file = self.contents().files.get(&ino).cloned();
        match file {
            Some(file) => self.fetch_whole(ino, &file).await,
            None => Ok(()),
        }
    }

    async fn must_be_empty(&self, folder: Ino) -> Result<()> {
        self.tree().expire(folder);
        self.list(folder).await?;
        let tree = self.tree();
        let is_empty = !tree.contains(folder) || tree.members(folder).is_empty();
        if is_empty { Ok(()) } else { Err(Errno::ENOTEMPTY) }
    }
}
