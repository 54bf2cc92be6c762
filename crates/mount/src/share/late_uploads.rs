//! Uploads of new files that a server carries out when their file is gone.
//!
//! `If-None-Match: *` keeps a late copy of such an upload from replacing anything, but not from bringing a deleted file back.
//! To prevent that, each new file would need a lock or a temporary name, which cost a round trip. So an upload that has had no
//! answer is remembered by its digest. A file of this content that appears under the name afterwards, in a version that was
//! not stored here, is its: it is deleted again, or replaced by the next save. The same content that somebody else uploads
//! there within an hour cannot be told from it.

use std::{sync::Arc, time::Duration};

use dav::{Error, Precondition, PropertySet, RemotePath};
use haul_http::{
    Body,
    digest::{Algorithm, Digests},
};
use tokio::time::Instant;

use super::{Share, facts};
use crate::tree::Facts;

/// The pauses between looks for a file that has come back: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(1)];

/// An upload of a new file, until its outcome is noted.
pub(super) struct Creating<'a> {
    share: &'a Share,
    path: RemotePath,
}

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        self.share.late_changes().created(&self.path);
    }
}

impl Share {
    pub(super) fn creating(&self, path: &RemotePath) -> Creating<'_> {
        self.late_changes().creates(path);
        Creating { share: self, path: path.clone() }
    }

    /// A copy of the upload of a new file has had no answer.
    pub(super) async fn expect_again(&self, path: &RemotePath, mut content: Body) {
        if let Ok(digests) = Digests::of_body(&mut content, &[Algorithm::Sha256]).await {
            self.late_changes().expect_creation(Instant::now(), path, digests);
        }
    }

    /// Whether what the server has at a path was brought back by a late upload of our own.
    pub(super) async fn is_brought_back(&self, path: &RemotePath, found: &Facts) -> Result<bool, Error> {
        let expected = || {
            let tag = found.etag.as_ref().filter(|tag| self.dav.compares(tag));
            tag.map(|tag| self.late_changes().creations(Instant::now(), path, tag)).unwrap_or_default()
        };
        if expected().is_empty() {
            return Ok(false);
        }
        let there = self.dav.digests(path, Algorithm::Sha256).await?;
        // It may have been stored here meanwhile.
        Ok(expected().contains(&there))
    }

    /// A file has lost its name. A late upload may bring it back there.
    pub(super) fn watch(self: &Arc<Self>, path: &RemotePath) {
        if !self.late_changes().begin_watch(Instant::now(), path) {
            return;
        }
        let (share, path) = (Arc::downgrade(self), path.clone());
        tokio::spawn(async move {
            let [mut pause, longest] = PAUSES;
            loop {
                tokio::time::sleep(pause).await;
                let Some(share) = share.upgrade() else { return };
                if !share.late_changes().is_watched(Instant::now(), &path) {
                    return;
                }
                if let Err(error) = share.delete_again(&path).await {
                    tracing::debug!("{path}: {error}");
                }
                pause = longest.min(pause * 2);
            }
        });
    }

    async fn delete_again(&self, path: &RemotePath) -> Result<(), Error> {
        let Some(found) = self.dav.stat(path, PropertySet::LISTING).await? else { return Ok(()) };
        let found = facts(&found);
        if !self.is_brought_back(path, &found).await? {
            return Ok(());
        }
        // A save that finds it gone replaces nothing of somebody else's.
        let _request = self.sending(path, None, None);
        self.dav.delete(path, &Precondition::of(found.etag.as_ref()), &self.locks.claims(&[path])).await?;
        tracing::info!("{path}: deleted again, after a late upload had brought it back");
        Ok(())
    }
}
