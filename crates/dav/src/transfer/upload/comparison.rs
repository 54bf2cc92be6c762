//! Whether what is on the server is what is to be uploaded, or was.
//!
//! A file here is compared by a digest, or with what the server has of it. Between two servers nothing is at hand. What
//! is in doubt by its time is copied again, which costs no more than to fetch it from both. Only for equal times it is
//! tried, once, whether the server keeps the times of originals: there they mean the same file. Where digests are to
//! decide, both servers are asked for one; if they have none in common, both give the file.

use std::{
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

use haul_http::Body;

use super::{Upload, file::mtime};
use crate::{
    Error, If, Precondition, RemotePath, Wanted,
    client::compare::agree,
    transfer::{
        Event, Skip, body_of,
        plan::RemoteEntry,
        source_file::{RemoteSource, SourceFile},
        temporary_name,
    },
};

/// Up to this size a file is fetched from both servers rather than asked about.
const SMALL: u64 = 64 * 1024;

impl Upload<'_> {
    /// Whether a file is the same on both sides: one that was sent, or one that was there before.
    pub(super) async fn is_same(
        &self,
        (origin, length): (&SourceFile, u64),
        (path, there): (&RemotePath, &RemoteEntry),
        is_sent: bool,
    ) -> Result<bool, Error> {
        match origin {
            SourceFile::Remote(remote) if !is_sent => self.is_copy(remote, length, (path, there)).await,
            _ => {
                let mut body = self.content(origin, length)?;
                self.dav.holds(path, &mut body, &there.checksums, there.expected()).await
            }
        }
    }

    /// Whether a file is a copy of one on the other server.
    async fn is_copy(
        &self,
        remote: &RemoteSource,
        length: u64,
        (path, there): (&RemotePath, &RemoteEntry),
    ) -> Result<bool, Error> {
        if self.options.skip == Skip::SameSizeAndTime {
            let times = remote.leaf.modified.zip(there.modified);
            let are_equal = times.is_some_and(|(ours, theirs)| self.times().are_equal(ours, theirs));
            return Ok(are_equal && self.keeps_times(path).await);
        }
        let from = self.source(&remote.path)?;
        if length > SMALL {
            let (ours, theirs) = tokio::try_join!(
                from.digests_of(&remote.path, &remote.leaf.checksums, remote.expected()),
                self.dav.digests_of(path, &there.checksums, there.expected())
            )?;
            if let Some(same) = agree(&ours, &theirs) {
                return Ok(same);
            }
            if !self.learned.reads_both.swap(true, Ordering::Relaxed) {
                let note = "the servers have no digests in common: files of the same length are fetched from both, and \
                            compared byte by byte";
                (self.watch)(Event::Note(note));
            }
        }
        let mut body = body_of(from, &remote.path, &remote.leaf);
        self.dav.has_bytes(path, &mut body, there.expected()).await
    }

    /// Whether the server keeps the times of originals. It is tried with an empty file of ours beside `path`.
    async fn keeps_times(&self, path: &RemotePath) -> bool {
        if self.options.dry_run {
            return false;
        }
        *self.learned.keeps_times.get_or_init(|| self.try_time(path)).await
    }

    async fn try_time(&self, path: &RemotePath) -> bool {
        let Some((parent, name)) = path.parent().zip(path.name()) else { return false };
        let Ok(ours) = parent.join(&temporary_name(name), false) else { return false };
        let then = SystemTime::UNIX_EPOCH + Duration::from_hours(300_000);
        self.temporary().insert(ours.clone(), None);
        let headers = mtime(Some(then)).into_iter().collect();
        let options = haul_http::Options::default();
        let put = self.dav.put(&ours, Body::empty(), headers, &Precondition::Absent, &If::default(), options).await;
        let found = self.dav.stat(&ours, Wanted::LISTING).await;
        self.discard(&ours, None, put.as_ref().is_err_and(|why| why.refusal().is_some())).await;
        found.is_ok_and(|found| found.is_some_and(|found| found.properties.modified == Some(then)))
    }
}
