//! Opening files, and fetching what programs read of them.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use dav::{ETag, RemotePath};
use haul_http::{Class, Expected, Options};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use nix::errno::Errno;

use super::{Result, Share};
use crate::{
    cached_file::CachedFile,
    errno,
    file_state::{Base, FileState},
    tree::{Facts, Ino},
};

/// Up to this size a fetch is a small request, which may share a pipeline.
const SMALL: u64 = 256 * 1024;

/// How much stays here behind the last fetch of a file that is larger than the cache, for a reader that lags behind.
const KEPT_BEHIND: u64 = 32 * 1024 * 1024;

impl Share {
    /// Opens a file's content.
    pub(crate) fn open(&self, ino: Ino) -> Result<Arc<CachedFile>> {
        let mut tree = self.tree();
        let facts = tree.facts(ino).clone();
        let mut contents = self.contents();
        let known = contents.files.get(&ino).cloned();
        let same = known.filter(|file| {
            file.state(|state| match state.base() {
                _ if state.is_dirty() => true,
                Base::New => true,
                Base::Version(version) => version.is_version(&facts),
            })
        });
        contents.idle.retain(|idle| *idle != ino);
        let opened = match same {
            Some(file) => file,
            None => self.new_file(FileState::of(facts))?,
        };
        contents.files.insert(ino, opened.clone());
        tree.open(ino);
        Ok(opened)
    }

    /// A program has closed its handle.
    pub(crate) fn close(&self, ino: Ino) {
        let mut tree = self.tree();
        tree.close(ino);
        let (is_there, is_open) = (tree.contains(ino), tree.contains(ino) && tree.opens(ino) > 0);
        let mut contents = self.contents();
        if !is_there {
            contents.files.remove(&ino);
        } else if !is_open {
            contents.closed(ino, self.options.cache_size);
        }
    }

    /// Reads `wanted`, as soon as it is here, and requests `ahead` as well.
    pub(crate) async fn read(
        self: &Arc<Self>,
        ino: Ino,
        file: &Arc<CachedFile>,
        wanted: Range<u64>,
        ahead: Range<u64>,
    ) -> Result<Vec<u8>> {
        let all = wanted.start.min(ahead.start)..wanted.end.max(ahead.end);
        let read = || file.read(wanted.clone()).map_err(|error| errno::of_io(&error)).transpose();
        self.when_here(ino, file, all, read).await
    }

    /// Fetches all that is missing of a file, and keeps it: it is about to lose its name, or to be uploaded.
    pub(super) async fn fetch_whole(self: &Arc<Self>, ino: Ino, file: &Arc<CachedFile>) -> Result<()> {
        let detached = || file.state(FileState::detach).then_some(Ok(()));
        self.when_here(ino, file, 0..u64::MAX, detached).await
    }

    /// Requests `range`, and waits until `done` has a result.
    async fn when_here<T>(
        self: &Arc<Self>,
        ino: Ino,
        file: &Arc<CachedFile>,
        range: Range<u64>,
        done: impl Fn() -> Option<Result<T>>,
    ) -> Result<T> {
        let failures = file.failures();
        loop {
            let progress = file.progress.notified();
            self.request(ino, file, range.clone());
            if let Some(result) = done() {
                return result;
            }
            if let Some(errno) = file.failure_since(failures) {
                return Err(errno);
            }
            progress.await;
        }
    }

    /// A program begins to read a file. Fetches those that it will probably read next.
    pub(crate) fn read_begins(self: &Arc<Self>, ino: Ino) {
        let wanted = self.tree().read_begins(ino);
        for ino in wanted {
            let Ok(file) = self.open(ino) else { return };
            let length = file.state(|state| state.length());
            let share = self.clone();
            tokio::spawn(async move {
                // Whoever reads it tries again, and learns why.
                let is_here = || file.state(|state| state.missing(0..length).is_empty()).then_some(Ok(()));
                let _ = share.when_here(ino, &file, 0..length, is_here).await;
                share.release(ino, &file);
            });
        }
    }

    /// Begins to fetch the parts of a range that are neither here nor on their way.
    pub(crate) fn request(self: &Arc<Self>, ino: Ino, file: &Arc<CachedFile>, range: Range<u64>) {
        for part in file.state(|state| state.request(range.clone())) {
            let (share, file) = (self.clone(), file.clone());
            tokio::spawn(async move {
                let fetched = share.fetch_part(ino, &file, part.clone()).await;
                file.trim(share.options.cache_size, part.start.saturating_sub(KEPT_BEHIND)..part.end);
                file.fetch_ended(part, fetched.err());
            });
        }
    }

    async fn fetch_part(&self, ino: Ino, file: &CachedFile, part: Range<u64>) -> Result<()> {
        let path = {
            let tree = self.tree();
            // Of a deleted file, everything was fetched before.
            tree.contains(ino).then(|| tree.path(ino)).flatten().ok_or(Errno::ESTALE)?
        };
        let Base::Version(version) = file.state(|state| state.base().clone()) else { return Ok(()) };
        let is_whole = part == (0..version.length);
        let answer = self.dav.get(&path, headers(&version, &part, is_whole), options(&version, &part, is_whole)).await;
        let answer = answer.map_err(|error| {
            // The file has changed: the next lookup asks.
            if error.is(412) || error.is(404) || error.is(416) {
                self.expire_parent(ino);
            }
            errno::of(&path, "read", &error)
        })?;
        let starts = start_of(answer.status(), answer.headers());
        let is_version = has_version(answer.headers(), &version);
        let (Some(mut at), true) = (starts.filter(|start| *start <= part.start), is_version) else {
            self.expire_parent(ino);
            tracing::warn!("cannot read {path}: it changed on the server while it was open");
            return Err(Errno::ESTALE);
        };
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| errno::of(&path, "read", &error.into()))?;
            if let Ok(bytes) = frame.into_data() {
                store(file, at, &bytes, &version)?;
                at += bytes.len() as u64;
            }
        }
        if at < part.end { Err(truncated(&path)) } else { Ok(()) }
    }

    pub(super) fn expire_parent(&self, ino: Ino) {
        let mut tree = self.tree();
        if let Some(parent) = tree.contains(ino).then(|| tree.parent(ino)).flatten() {
            tree.expire(parent);
        }
    }
}

fn truncated(path: &RemotePath) -> Errno {
    tracing::warn!("cannot read {path}: the server sent less than it listed");
    Errno::EIO
}

/// Stores what is part of the file: an answer that is longer than the listing says is another version's.
fn store(file: &CachedFile, at: u64, bytes: &Bytes, version: &Facts) -> Result<()> {
    if at + bytes.len() as u64 > version.length {
        return Err(Errno::ESTALE);
    }
    file.store(at, bytes).map_err(|error| errno::of_io(&error))
}

fn headers(version: &Facts, part: &Range<u64>, is_whole: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !is_whole {
        let range = format!("bytes={}-{}", part.start, part.end - 1);
        headers.extend(HeaderValue::from_str(&range).ok().map(|range| (header::RANGE, range)));
    }
    dav::Precondition::of(version.etag.as_ref()).apply(&mut headers);
    headers
}

fn options(version: &Facts, part: &Range<u64>, is_whole: bool) -> Options {
    let class = match part.end - part.start {
        length if length <= SMALL => Class::Small,
        _ if is_whole => Class::Large,
        _ => Class::Part,
    };
    let strong = version.etag.as_ref().filter(|tag| !tag.is_weak()).map(ToString::to_string);
    let expected = Expected { etag: strong, length: is_whole.then_some(version.length), modified: version.modified };
    Options { class, expected, ..Options::default() }
}

/// Where the body of an answer begins in the file.
fn start_of(status: StatusCode, headers: &HeaderMap) -> Option<u64> {
    if status != StatusCode::PARTIAL_CONTENT {
        return Some(0);
    }
    let range = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

/// Whether an answer is of the version that the listing named, as far as both say.
fn has_version(headers: &HeaderMap, version: &Facts) -> bool {
    let tag = headers.get(header::ETAG).and_then(ETag::from_header);
    match (&version.etag, tag) {
        (Some(listed), Some(sent)) => listed.resembles(&sent),
        _ => true,
    }
}
