//! Listing a large folder again by what has changed in it (RFC 6578).
//!
//! A sync point is a state of the server's folder that the tree has taken in whole: whatever the server reports as changed since,
//! applied to the members, gives the present listing. It is given up if anything of a listing or report could not be applied,
//! because somebody changes the same name here, and if the folder has another path. So the next listing is a whole one.

use std::time::Duration;

use dav::RemotePath;
use tokio::time::Instant;

use super::{Ino, Listed, Mark, Tree};

/// The number of members from which on changes are requested in place of listings: some 50 KB.
const LARGE: usize = 100;

/// How long changes are added to a listing. A server that forgets to report one is corrected by the next listing.
const TRUSTED: Duration = Duration::from_mins(5);

/// A change in a folder.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    There(Listed),
    Gone(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct SyncPoint {
    token: String,
    path: RemotePath,
    /// When the whole folder was listed.
    listed: Instant,
}

impl Tree {
    /// Whether to ask for changes in a folder rather than for a listing, if the server can report them.
    pub(crate) fn is_large(&self, folder: Ino) -> bool {
        self.node(folder).folder.as_ref().is_some_and(|folder| folder.members.len() >= LARGE)
    }

    /// The token for what the tree knows of a folder, if the changes since make its listing.
    pub(crate) fn sync_token(&self, folder: Ino, now: Instant) -> Option<String> {
        let point = self.node(folder).folder.as_ref()?.sync.as_ref()?;
        let is_valid = now.saturating_duration_since(point.listed) < TRUSTED && self.path(folder)? == point.path;
        is_valid.then(|| point.token.clone())
    }

    /// The folder, of which all of a listing has just been applied, is at least as new as the server's state `token`.
    pub(crate) fn set_sync_token(&mut self, folder: Ino, token: String, now: Instant) {
        let path = self.path(folder);
        self.folder_mut(folder).sync = path.map(|path| SyncPoint { token, path, listed: now });
    }

    /// Applies the changes since the folder's sync point, which lead to the state `token`. They were requested at `mark` and are
    /// complete `now`.
    pub(crate) fn changed_there(&mut self, folder: Ino, mark: Mark, changes: Vec<Change>, token: String, now: Instant) {
        let mut is_whole = true;
        for change in changes {
            is_whole &= match change {
                Change::There(entry) => self.is_there(folder, mark, entry),
                Change::Gone(name) => self.is_gone(folder, mark, &name),
            };
        }
        self.believe(folder, mark, now);
        // What was not applied is reported again.
        if let Some(point) = self.folder_mut(folder).sync.as_mut().filter(|_| is_whole) {
            point.token = token;
        }
    }
}
