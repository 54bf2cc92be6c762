//! Opening files, and fetching what programs read of them.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use dav::{ETag, RemotePath};
use haul_http::{Cause, Class, Expected, Options};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use nix::errno::Errno;
use scopeguard::guard;

use super::{Result, Share};
use crate::{
    cached_file::CachedFile,
    disk::on_disk,
    errno,
    file_state::{Base, FileState},
    pacing::{self, Pace},
    read_ahead::Ahead,
    tree::{Facts, Ino, Tree},
};

/// Up to this size a fetch is a small request, which may share a pipeline.
const SMALL: u64 = 256 * 1024;

/// How much stays here behind the last fetch of a file that is larger than the cache, for a reader that lags behind.
const KEPT_BEHIND: u64 = 32 * 1024 * 1024;

/// Paths with at least this round-trip time count as long, as in `haul cp`.
const FAR: Duration = Duration::from_millis(50);
/// A piece of a long part, on a long path.
const PIECE: u64 = 512 * 1024;
/// How long a fetch that is far enough ahead waits for its reader.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often an answer may break off in a row with less progress than [`SMALL`].
const TRIES: u32 = 3;

/// Why a part was not fetched.
enum Fetch {
    Failed(Errno),
    BrokenOff(RemotePath, dav::Error),
}

/// A part that was requested. However its fetch ends, it may be requested again, and whoever waits for it learns of the end.
struct Fetching {
    file: Arc<CachedFile>,
    part: Range<u64>,
    fetched: Result<()>,
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.file.fetch_ended(self.part.clone(), self.fetched.err());
    }
}

impl From<Errno> for Fetch {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

impl Share {
    /// Opens a file's content.
    pub(crate) fn open(&self, ino: Ino) -> Result<Arc<CachedFile>> {
        let mut tree = self.tree();
        if !tree.contains(ino) || tree.is_displaced(ino) {
            return Err(Errno::ESTALE);
        }
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
            None => self.content(ino, &tree, facts)?,
        };
        if let Some(other) = contents.files.get(&ino).filter(|file| !Arc::ptr_eq(file, &opened)) {
            other.forget_record();
        }
        contents.files.insert(ino, opened.clone());
        tree.open(ino);
        Ok(opened)
    }

    /// The content of a file that nobody has read yet: the journal's, an earlier mount's, or the server's.
    fn content(&self, ino: Ino, tree: &Tree, facts: Facts) -> Result<Arc<CachedFile>> {
        let path = tree.path(ino);
        if let Some(path) = path.as_ref().filter(|_| tree.is_dirty(ino)) {
            let found = self.content_in_journal(path, self.cache.new_place()).map_err(|error| errno::of_io(&error))?;
            if let Some(file) = found {
                return Ok(Arc::new(file));
            }
        } else if let Some(path) = path
            && let Some(found) = self.cache.find(&path.target(), &facts)
            && let Ok(file) = CachedFile::adopt(found, facts.clone(), path.target())
        {
            return Ok(Arc::new(file));
        }
        self.new_file(&FileState::of(facts))
    }

    /// Records what is here of a file, so that it outlives the mount.
    fn record(&self, ino: Ino) {
        let path = self.path_if_known(ino);
        let file = self.contents().files.get(&ino).cloned();
        if let Some((path, file)) = path.zip(file) {
            file.record(&path.target(), &self.cache);
        }
    }

    /// The mount has ended: what is here is kept for the next one.
    pub(crate) async fn end_cache(self: &Arc<Self>, limit: Duration) {
        let files: Vec<_> = self.contents().files.keys().copied().collect();
        for ino in files {
            self.record(ino);
        }
        self.contents().files.values().for_each(|file| file.end());
        let share = self.clone();
        let ended = on_disk(move || share.cache.end());
        if let Ok(Ok(Err(error))) = tokio::time::timeout(limit, ended).await {
            tracing::warn!("the cached contents are lost if this machine restarts: {error}");
        }
    }

    /// The last program is about to close the file.
    pub(super) fn record_last(&self, ino: Ino) {
        if self.tree().opens(ino) == 1 {
            self.record(ino);
        }
    }

    /// A program has closed its handle.
    pub(super) fn close(&self, mut tree: MutexGuard<'_, Tree>, ino: Ino) {
        tree.close(ino);
        let (is_there, is_open) = (tree.contains(ino), tree.contains(ino) && tree.opens(ino) > 0);
        let mut contents = self.contents();
        if !is_there {
            if let Some(file) = contents.files.remove(&ino) {
                file.forget_record();
            }
        } else if !is_open {
            if let Some(file) = contents.files.get(&ino) {
                file.pace(|pace| {
                    pace.abandon();
                    true
                });
            }
            contents.closed(ino, self.options.cache_size, &self.cache);
        }
    }

    /// Reads `wanted`, as soon as it is here.
    pub(crate) async fn read(
        self: &Arc<Self>,
        ino: Ino,
        file: &Arc<CachedFile>,
        wanted: Range<u64>,
    ) -> Result<Vec<u8>> {
        file.pace(|pace| pace.read(wanted.end));
        let read = || file.read(wanted.clone()).map_err(|error| errno::of_io(&error)).transpose();
        if let Some(errno) = file.silence() {
            return read().unwrap_or(Err(errno));
        }
        self.when_here(ino, file, wanted.clone(), read).await
    }

    /// Fetches all that is missing of a file, and keeps it: it is about to lose its name, or to be uploaded.
    pub(super) async fn fetch_whole(self: &Arc<Self>, ino: Ino, file: &Arc<CachedFile>) -> Result<()> {
        let detached = || {
            file.pace(|pace| {
                pace.read_all();
                true
            });
            file.state(FileState::detach).then_some(Ok(()))
        };
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
            if let Some(errno) = file.failure_since(failures, &range) {
                return Err(errno);
            }
            progress.await;
        }
    }

    /// A program begins to read a file. Fetches those that it will probably read next.
    pub(crate) fn read_begins(self: &Arc<Self>, ino: Ino) {
        if self.read_of_repository_begins(ino) {
            return;
        }
        let wanted = self.tree().read_begins(ino);
        for ino in wanted {
            let share = self.clone();
            tokio::spawn(async move { share.fetch_ahead(ino, 0..u64::MAX).await });
        }
    }

    /// Fetches a part of a file that a program will probably read.
    pub(super) async fn fetch_ahead(self: &Arc<Self>, ino: Ino, part: Range<u64>) {
        let Ok(file) = self.open(ino) else { return };
        let file = guard(file, |file| self.release(ino, &file));
        let part = part.start..part.end.min(file.state(|state| state.length()));
        // Whoever reads it tries again, and learns why.
        let is_here = || file.state(|state| state.missing(part.clone()).is_empty()).then_some(Ok(()));
        let _ = self.when_here(ino, &file, part.clone(), is_here).await;
    }

    /// Begins to fetch the parts of a range that are neither here nor on their way.
    fn request(self: &Arc<Self>, ino: Ino, file: &Arc<CachedFile>, range: Range<u64>) {
        self.fetch(ino, file, range, None);
    }

    /// The same for what a reader will probably read next.
    pub(crate) fn request_ahead(self: &Arc<Self>, ino: Ino, file: &Arc<CachedFile>, ahead: Ahead) {
        let Ahead { range, run } = ahead;
        self.fetch(ino, file, range, Some(run));
    }

    fn fetch(self: &Arc<Self>, ino: Ino, file: &Arc<CachedFile>, range: Range<u64>, run: Option<u64>) {
        let parts = file.state(|state| state.request(range));
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return };
        let stretch = first.start..last.end;
        let is_long = stretch.end - stretch.start > pacing::FIRST + SMALL;
        let pace = run.filter(|_| is_long).map(|run| file.begin_stretch(Pace::new(stretch, run)));
        for part in parts.into_iter().flat_map(|part| self.pieces(file, part)) {
            let (share, pace) = (self.clone(), pace.clone());
            let mut fetching = Fetching { file: file.clone(), part: part.clone(), fetched: Err(Errno::EIO) };
            tokio::spawn(async move {
                fetching.fetched = share.fetch_part(ino, &fetching.file, part.clone(), pace.as_deref()).await;
                fetching.file.trim(share.options.cache_size, part.start.saturating_sub(KEPT_BEHIND)..part.end);
            });
        }
    }

    /// What to fetch by requests of their own. On a long path, several connections open their windows together, as in
    /// `haul cp`; on a short one, they would only overrun the queue of the bottleneck.
    fn pieces(&self, file: &CachedFile, part: Range<u64>) -> Vec<Range<u64>> {
        let is_far = || {
            let facts = self.dav.client().facts(self.dav.requests().origin());
            facts.is_some_and(|facts| facts.tcp >= FAR) && !self.dav.client().is_limited()
        };
        let has_version = || file.state(|state| state.base().tag().is_some_and(|tag| !tag.is_weak()));
        let sends_ranges = self.sends_ranges.load(Ordering::Relaxed);
        if part.end - part.start <= pacing::FIRST || !sends_ranges || !has_version() || !is_far() {
            return vec![part];
        }
        let starts = part.clone().step_by(PIECE as usize);
        starts.map(|start| start..part.end.min(start + PIECE)).collect()
    }

    /// Fetches a part, and what is left of it when an answer breaks off.
    async fn fetch_part(
        &self,
        ino: Ino,
        file: &CachedFile,
        mut part: Range<u64>,
        pace: Option<&Mutex<Pace>>,
    ) -> Result<()> {
        let mut tries = TRIES;
        loop {
            let begin = part.start;
            match self.fetch_once(ino, file, &mut part, pace).await {
                Ok(()) => return Ok(()),
                Err(Fetch::Failed(errno)) => return Err(errno),
                Err(Fetch::BrokenOff(path, error)) => {
                    tries = if part.start - begin < SMALL { tries - 1 } else { TRIES };
                    if tries == 0 {
                        return Err(errno::of(&path, "read", &error));
                    }
                }
            }
        }
    }

    /// Fetches a part by one request; `part` becomes what is left of it.
    async fn fetch_once(
        &self,
        ino: Ino,
        file: &CachedFile,
        part: &mut Range<u64>,
        pace: Option<&Mutex<Pace>>,
    ) -> std::result::Result<(), Fetch> {
        let path = {
            let tree = self.tree();
            // Of a deleted file, everything was fetched before.
            tree.contains(ino).then(|| tree.path(ino)).flatten().ok_or(Errno::ESTALE)?
        };
        let Base::Version(version) = file.state(|state| state.base().clone()) else { return Ok(()) };
        if !is_wanted(file, pace, part.start).await {
            return Ok(());
        }
        let is_whole = *part == (0..version.length);
        let answer = self.dav.get(&path, headers(&version, part, is_whole), options(&version, part, is_whole)).await;
        let answer = answer.map_err(|error| {
            // The file has changed: the next lookup asks.
            if error.is(412) || error.is(404) || error.is(416) {
                self.expire_parent(ino);
            }
            errno::of(&path, "read", &error)
        })?;
        let starts = start_of(answer.status(), answer.headers());
        if !is_whole {
            self.sends_ranges.store(answer.status() == StatusCode::PARTIAL_CONTENT, Ordering::Relaxed);
        }
        let is_version = has_version(answer.headers(), &version);
        let (Some(mut at), true) = (starts.filter(|start| *start <= part.start), is_version) else {
            self.expire_parent(ino);
            tracing::warn!("cannot read {path}: it changed on the server while it was open");
            return Err(Errno::ESTALE.into());
        };
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| broken_off(&path, error))?;
            if let Ok(bytes) = frame.into_data() {
                // An answer that is longer than the listing says is another version's.
                if at + bytes.len() as u64 > version.length {
                    return Err(Errno::ESTALE.into());
                }
                self.store_fetched(file, at, &bytes)?;
                at += bytes.len() as u64;
                part.start = part.start.max(at).min(part.end);
                if at < part.end && !is_wanted(file, pace, at).await {
                    return Ok(());
                }
            }
        }
        if at < part.end { Err(truncated(&path).into()) } else { Ok(()) }
    }

    pub(super) fn expire_parent(&self, ino: Ino) {
        let mut tree = self.tree();
        if let Some(parent) = tree.contains(ino).then(|| tree.parent(ino)).flatten() {
            tree.expire(parent);
        }
    }
}

/// An answer that has stalled until its timeout would do so again.
fn broken_off(path: &RemotePath, error: haul_http::Error) -> Fetch {
    use haul_http::Error::{Exchange, OutcomeUnknown};
    match error {
        Exchange { cause: Cause::TimedOut(..), .. } | OutcomeUnknown { cause: Cause::TimedOut(..), .. } => {
            Fetch::Failed(errno::of(path, "read", &error.into()))
        }
        error => Fetch::BrokenOff(path.clone(), error.into()),
    }
}

/// Waits until a reader is so near that the byte `at` may be fetched. False if none comes within [`PATIENCE`].
async fn is_wanted(file: &CachedFile, pace: Option<&Mutex<Pace>>, at: u64) -> bool {
    let Some(pace) = pace else { return true };
    loop {
        let demand = file.demand.notified();
        tokio::pin!(demand);
        demand.as_mut().enable();
        let Some(limit) = pace.lock().unwrap_or_else(PoisonError::into_inner).limit() else { return false };
        if at < limit {
            return true;
        }
        if tokio::time::timeout(PATIENCE, demand).await.is_err() {
            return false;
        }
    }
}

fn truncated(path: &RemotePath) -> Errno {
    tracing::warn!("cannot read {path}: the server sent less than it listed");
    Errno::EIO
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
