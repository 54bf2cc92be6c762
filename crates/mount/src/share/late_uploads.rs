//! Uploads that a server may have carried out without our knowledge, or carries out when their file is gone.
//!
//! An upload that has had no answer is remembered by its digest. A file of this content that is found under the name
//! afterwards, in a version that was not stored here, is its: the next save replaces it. `If-None-Match: *` keeps a late copy
//! of the upload of a new file from replacing anything, but not from bringing a deleted file back; to prevent that, each new
//! file would need a lock or a temporary name, which cost a round trip. So that file is deleted again. The same content that
//! somebody else uploads there within an hour cannot be told from it.

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

    /// A copy of an upload, perhaps of a new file, has had no answer.
    pub(super) async fn expect_again(&self, path: &RemotePath, mut content: Body, is_new: bool) {
        if let Ok(digests) = Digests::of_body(&mut content, &[Algorithm::Sha256]).await {
            self.late_changes().expect_upload(Instant::now(), path, digests, is_new);
        }
    }

    /// Whether what the server has at a path was put there by an upload of our own without our knowledge.
    pub(super) async fn is_from_late_upload(&self, path: &RemotePath, found: &Facts) -> Result<bool, Error> {
        let expected = || {
            let tag = found.etag.as_ref().filter(|tag| self.dav.compares(tag));
            tag.map(|tag| self.late_changes().uploads(Instant::now(), path, tag)).unwrap_or_default()
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
        if !self.is_from_late_upload(path, &found).await? {
            return Ok(());
        }
        // A save that finds it gone replaces nothing of somebody else's.
        let _request = self.sending(path, None, None);
        self.dav.delete(path, &Precondition::of(found.etag.as_ref()), &self.locks.claims(&[path])).await?;
        tracing::info!("{path}: deleted again, after a late upload had brought it back");
        Ok(())
    }
}
