//! Compares a source file with the file on the server, before or after its upload.
//!
//! A local file is compared by a digest, or with the downloaded file. Between two servers, a file whose time leaves it
//! in doubt is copied again, which costs no more than downloading it from both. Some servers keep the times of source
//! files (`X-OC-Mtime`): there an equal time means the same file, and an older one an older version. The others set
//! their own time: there a copy is newer than its original. Not every server says which kind it is, so if a verdict
//! depends on it, an empty file shows it, once. If digests are compared, both servers are asked for one; without a
//! common algorithm, the file is downloaded from both.

use std::{
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

use haul_http::Body;

use super::{Upload, file::mtime};
use crate::{
    Error, If, Precondition, PropertySet, RemotePath,
    transfer::{
        Event, FileFacts, Skip, body_of, digests_agree,
        plan::RemoteEntry,
        source_file::{RemoteSource, SourceFile},
        temporary_name,
        unchanged::{Here, Times, Verdict},
    },
};

/// Up to this size a file is downloaded from both servers without a request for digests.
const SMALL: u64 = 64 * 1024;

impl Upload<'_> {
    /// Whether a file is equal on both sides. If it `is_sent`, it was uploaded just now.
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
                self.dav.holds(path, &mut body, &there.facts.checksums, there.facts.expected()).await
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
            return Ok(self.is_copy_by_time(remote, length, (path, there)).await);
        }
        let from = self.source_server(&remote.path)?;
        if length > SMALL {
            let listed = ((from, &remote.path, &remote.facts), (self.dav, path, &there.facts));
            if let Some(same) = digests_agree(listed.0, listed.1).await? {
                return Ok(same);
            }
            if !self.learned.reads_both.swap(true, Ordering::Relaxed) {
                let note = "the servers have no digests in common: files of the same length are fetched from both, and \
                            compared byte by byte";
                (self.watch)(Event::Note(note));
            }
        }
        let mut body = body_of(from, &remote.path, &remote.facts);
        self.dav.has_bytes(path, &mut body, there.facts.expected()).await
    }

    /// The same by the times of both. If the verdict depends on whether the server keeps source times, that is tested.
    async fn is_copy_by_time(
        &self,
        remote: &RemoteSource,
        length: u64,
        (path, there): (&RemotePath, &RemoteEntry),
    ) -> bool {
        let RemoteSource { facts: FileFacts { modified, etag, .. }, .. } = remote;
        let source = Here { length, modified: *modified, etag: etag.as_ref() };
        let is_same = |keeps| {
            let times = Times { keeps: Some(keeps), ..self.times() };
            times.of_upload(source, there.facts.version(), None) == Verdict::Same
        };
        match (is_same(true), is_same(false)) {
            (true, false) => self.keeps_times(path).await == Some(true),
            (false, true) => self.keeps_times(path).await == Some(false),
            (same, _) => same,
        }
    }

    /// Whether the server keeps the times of source files, tested with an empty temporary file beside `path`; none if
    /// the test is impossible, as in a dry run.
    async fn keeps_times(&self, path: &RemotePath) -> Option<bool> {
        match self.times().keeps {
            None if !self.options.dry_run => *self.learned.keeps_times.get_or_init(|| self.try_time(path)).await,
            known => known,
        }
    }

    async fn try_time(&self, path: &RemotePath) -> Option<bool> {
        let ours = path.parent()?.join(&temporary_name(path.name()?), false).ok()?;
        let then = SystemTime::UNIX_EPOCH + Duration::from_hours(300_000);
        self.temporary().insert(ours.clone(), None);
        let headers = mtime(Some(then)).into_iter().collect();
        let options = haul_http::Options::default();
        let put = self.dav.put(&ours, Body::empty(), headers, &Precondition::Absent, &If::default(), options).await;
        let found = self.dav.stat(&ours, PropertySet::LISTING).await;
        self.discard(&ours, None, put.as_ref().is_err_and(|why| why.refusal().is_some())).await;
        Some(found.ok()??.properties.modified? == then)
    }
}
