//! Listing folders: when the kernel needs one, ahead of a walk, and a large one again by its changes.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use dav::{Depth, Entry, PropertySet, RemotePath};
use http::StatusCode;
use nix::errno::Errno;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{Result, Share, facts};
use crate::{
    errno,
    tree::{Change, Facts, Ino, Listed},
};

impl Share {
    /// What is in a folder, and what the server says of the folder itself.
    pub(super) async fn request_listing(
        &self,
        path: &RemotePath,
    ) -> std::result::Result<(Vec<Listed>, Facts), dav::Error> {
        let (mut entries, mut is_file, mut own) = (Vec::new(), false, Facts::default());
        let listed = self.dav.list(path, Depth::One, PropertySet::LISTING, |entry| match entry {
            Ok(entry) if !entry.path.same_place(path) => entries.push(listed(&entry)),
            Ok(entry) => (is_file, own) = (!entry.path.is_folder(), facts(&entry)),
            Err(error) => warn!("{error}"),
        });
        listed.await?;
        if is_file {
            let why = "is a file; only folders can be listed and mounted".into();
            return Err(dav::Error::Differs { path: path.clone(), why });
        }
        Ok((entries, own))
    }

    /// Makes the listing of a folder fresh, by one request for all who need it.
    pub(super) async fn list(&self, folder: Ino) -> Result<()> {
        let turn = self.listings.lock().unwrap_or_else(PoisonError::into_inner).entry(folder).or_default().clone();
        let _turn = turn.lock().await;
        loop {
            let (path, mark, token, is_large) = {
                let (tree, now) = (self.tree(), Instant::now());
                if !tree.contains(folder) || tree.is_listed(folder, now) {
                    return Ok(());
                }
                let path = tree.path(folder).ok_or(Errno::ENOENT)?;
                (path, tree.mark(now), tree.sync_token(folder, now), tree.is_large(folder))
            };
            let answer = self.request_state(&path, token, is_large).await;
            let mut tree = self.tree();
            if tree.contains(folder) && tree.has_moved(folder, mark) {
                continue;
            }
            self.listings.lock().unwrap_or_else(PoisonError::into_inner).remove(&folder);
            let answer = answer.map_err(|error| errno::of(&path, "list", &error))?;
            if tree.contains(folder) {
                let now = Instant::now();
                match answer {
                    Answer::Changes(changes, token) => tree.changed_there(folder, mark, changes, token, now),
                    Answer::Listing((entries, own), token) => {
                        tree.folder_is(folder, mark, own);
                        let is_whole = tree.listed(folder, mark, entries, now);
                        if let Some(token) = token.filter(|_| is_whole) {
                            tree.set_sync_token(folder, token, now);
                        }
                    }
                }
            }
            return Ok(());
        }
    }

    /// Asks for the changes since `token`, or for a listing.
    async fn request_state(
        &self,
        path: &RemotePath,
        token: Option<String>,
        is_large: bool,
    ) -> std::result::Result<Answer, dav::Error> {
        if let Some(token) = token
            && let Some((changes, token)) = self.request_changes(path, &token).await
        {
            return Ok(Answer::Changes(changes, token));
        }
        // The state must not be newer than the listing, or a change between them would stay unknown.
        let token = if is_large { self.sync_token(path).await } else { None };
        Ok(Answer::Listing(self.request_listing(path).await?, token))
    }

    /// The present state of a folder, if the server can report what changes after it.
    async fn sync_token(&self, path: &RemotePath) -> Option<String> {
        if !self.reports_changes.load(Ordering::Relaxed) {
            return None;
        }
        let own = self.dav.stat(path, PropertySet::STATE).await.ok().flatten()?.properties;
        self.reports_changes.store(own.syncs, Ordering::Relaxed);
        own.sync_token.filter(|_| own.syncs)
    }

    /// What has changed in a folder since the server's state `token`, and the present state. None if it has to be listed: whatever
    /// is wrong with a report, a listing shows the truth.
    async fn request_changes(&self, path: &RemotePath, token: &str) -> Option<(Vec<Change>, String)> {
        let (mut changes, mut is_usable) = (Vec::new(), true);
        let reported = self.dav.changes(path, token, Depth::One, PropertySet::LISTING, |entry| match entry {
            Ok(own) if own.path.same_place(path) => {}
            Ok(entry) if entry.path.parent().is_some_and(|parent| parent.same_place(path)) => match entry.status {
                None => changes.push(Change::There(listed(&entry))),
                Some(status) if status.is_success() => changes.push(Change::There(listed(&entry))),
                Some(StatusCode::NOT_FOUND) => changes.push(Change::Gone(name(&entry))),
                Some(_) => is_usable = false,
            },
            _ => is_usable = false,
        });
        match reported.await {
            Ok(token) if is_usable => return Some((changes, token)),
            Ok(_) => debug!("the report of what has changed in {path} has entries that are not of this folder"),
            Err(error) => debug!("cannot request what has changed in {path}: {error}"),
        }
        None
    }

    /// A program lists a folder.
    pub(super) fn visits(self: &Arc<Self>, folder: Ino) {
        let ahead = self.tree().visits(folder, Instant::now());
        self.list_ahead(ahead);
    }

    /// Lists folders that a program will probably visit next, and then those that come to light.
    pub(super) fn list_ahead(self: &Arc<Self>, folders: Vec<Ino>) {
        // What is not believed for a moment need not be known before.
        for folder in folders.into_iter().filter(|_| !self.options.fresh.is_zero()) {
            let share = self.clone();
            tokio::spawn(async move {
                // Whoever visits it tries again, and learns why.
                if share.list(folder).await.is_ok() {
                    let ahead = share.tree().goes_on(Instant::now());
                    share.list_ahead(ahead);
                }
            });
        }
    }
}

/// What the server says of a folder.
enum Answer {
    /// What has changed, and the state that this leads to.
    Changes(Vec<Change>, String),
    /// All of it with the folder itself, and a state that it is at least as new as.
    Listing((Vec<Listed>, Facts), Option<String>),
}

fn name(entry: &Entry) -> Vec<u8> {
    entry.path.name().unwrap_or_default().to_vec()
}

fn listed(entry: &Entry) -> Listed {
    Listed { name: name(entry), is_folder: entry.path.is_folder(), facts: facts(entry) }
}
