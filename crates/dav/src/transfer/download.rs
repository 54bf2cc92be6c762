//! Downloads: trees are discovered by listing, and files are written atomically.
//!
//! Listings of all folders of a level are requested together, and downloads start while they are still arriving. A file is
//! written under a temporary name beside its final one and renamed when it is complete and verified, so nobody sees half of
//! it. A large file is requested in ranges of one version over all connections and written in order, so an interrupted
//! download can resume. For a single file that the user names, the first ranges are requested at once (`prefetch`).
//!
//! A mirror deletes local files at its end, and only if nothing failed: a listing that failed, or contained an impossible
//! name, says nothing about what is gone.
//!
//! There may be very many files, so little is kept about each until its turn.

mod announced_length;
mod backup;
mod deletions;
mod fetch;
mod hedge;
mod listing;
mod local_files;
mod partial_file;
mod prefetch;
mod queue;
mod range_request;
mod ranges;
mod retry;
mod sync_snapshot;
mod sync_store;
mod unchanged;

use std::{
    collections::HashSet,
    convert::Infallible,
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream, stream::FuturesUnordered};
use tokio::sync::{Notify, Semaphore, mpsc, watch};

use self::{
    hedge::Hedge,
    listing::Found,
    prefetch::Prefetch,
    queue::{Folder, Queue, RemoteFile},
    range_request::FAR,
    sync_snapshot::SyncSnapshot,
};
use super::{
    Event, FileFacts, INTERRUPTED, Options, SkipReason, Summary, Watch, filter::Scope, lock,
    synced_versions::SyncedVersions,
};
use crate::{Dav, Error, PropertySet, RemotePath};

/// Maximum number of requests in flight or in the engine's queue.
const WINDOW: usize = 256;
/// Maximum number of discovered entries handled at once.
const AT_ONCE: usize = 256;
/// Maximum number of files downloaded in ranges at a time: each uses all connections, and memory for data ahead of what
/// is written.
const IN_PARTS: usize = 2;
/// Maximum number of listings in flight while files are waiting.
const LISTINGS: usize = 32;

/// Downloads files and folders, as cp(1) does: into `to` if that is a folder, or, with a single source, as `to`. When
/// `stop` is notified, transfers in flight are cancelled; completed files stay.
pub async fn download(
    dav: &Dav,
    sources: &[RemotePath],
    to: &Path,
    options: &Options,
    stop: &Notify,
    watch: &Watch,
) -> Result<Summary, Error> {
    let begin = Instant::now();
    if let Some(first) = sources.first() {
        dav.warm(first, options.connections);
    }
    let snapshot_file = options.snapshot_file.as_deref().filter(|_| options.contents && sources.len() == 1);
    let mut download = Download::new(dav, sources, to, options, watch).await;
    let queue = download.queue_sources(sources, snapshot_file).await?;
    let stopped = tokio::select! {
        biased;
        () = stop.notified() => true,
        ((), ()) = async { tokio::join!(download.run(queue), download.test_sync_reports()) } => false,
        never = download.detect_stragglers() => match never {},
    };
    download.finish(snapshot_file, stopped);
    let mut summary = std::mem::take(download.summary.get_mut().unwrap_or_else(PoisonError::into_inner));
    summary.took = begin.elapsed();
    Ok(summary)
}

/// What has finished.
enum Finished {
    Listed,
    Fetched,
}

struct Download<'a> {
    dav: &'a Dav,
    options: &'a Options,
    watch: &'a Watch,
    target: &'a Path,
    /// Local files to delete if they are not renamed before the end.
    temporary_files: Mutex<HashSet<PathBuf>>,
    ranges: RangeState,
    progress: Progress,
    mirror: MirrorState,
    sync: SyncState,
    synced_versions: Mutex<SyncedVersions>,
    /// Ranges of the only source, requested before anything is known of it.
    prefetch: Mutex<Option<Prefetch>>,
    summary: Mutex<Summary>,
}

struct RangeState {
    /// Whether the server ignores `Range`.
    unsupported: AtomicBool,
    /// One for each file that may be downloaded in ranges at a time.
    slots: Semaphore,
}

struct Progress {
    received: AtomicU64,
    /// Whether nothing is left to request.
    all_requested: watch::Sender<bool>,
    /// Repeats requests for small files when the link lies idle at the end.
    hedge: Hedge,
}

/// Local changes that a mirror makes at its end.
#[derive(Default)]
struct MirrorState {
    deletions: Mutex<Vec<PathBuf>>,
    /// Old and new paths of names that differ only in case.
    case_renames: Mutex<Vec<(PathBuf, PathBuf)>>,
    /// Folders that the filter excludes, created for the sake of something in them.
    passed_folders: Mutex<HashSet<PathBuf>>,
}

#[derive(Default)]
struct SyncState {
    /// What the server had at the last run, brought up to date; none if the server does not report changes.
    snapshot: Mutex<Option<SyncSnapshot>>,
    /// An earlier sync token, with which to test the server's reports.
    untested_token: Mutex<Option<String>>,
}

impl<'a> Download<'a> {
    async fn new(dav: &'a Dav, sources: &[RemotePath], to: &'a Path, options: &'a Options, watch: &'a Watch) -> Self {
        let (mut prefetch, mut synced_versions) = (None, SyncedVersions::default());
        if let [path] = sources {
            let is_wanted = |name| options.filter.name(&Scope::default(), name);
            if options.fetches_at_once() && !path.is_folder() && path.name().is_some_and(is_wanted) {
                prefetch = Some(Prefetch::start(dav, path, options.connections));
            }
            synced_versions =
                SyncedVersions::open(options.synced_versions.as_deref(), dav.requests().url(path).ok(), to).await;
        }
        Self {
            dav,
            options,
            watch,
            target: to,
            temporary_files: Mutex::default(),
            ranges: RangeState { unsupported: AtomicBool::new(false), slots: Semaphore::new(IN_PARTS) },
            progress: Progress {
                received: AtomicU64::new(0),
                all_requested: watch::Sender::new(false),
                hedge: Hedge::new(2 * options.connections),
            },
            mirror: MirrorState::default(),
            sync: SyncState::default(),
            synced_versions: synced_versions.into(),
            prefetch: prefetch.into(),
            summary: Mutex::default(),
        }
    }
}

impl Download<'_> {
    /// Looks up all sources, and queues them.
    async fn queue_sources(&self, sources: &[RemotePath], snapshot_file: Option<&Path>) -> Result<Queue, Error> {
        let (dav, options, to) = (self.dav, self.options, self.target);
        let properties = if snapshot_file.is_some() { PropertySet::STATE } else { options.requested_properties() };
        let into = fs::metadata(to).is_ok_and(|kind| kind.is_dir());
        // With `-r` a source is listed at once, and its listing says whether it is a folder.
        let look = |path: RemotePath| async move {
            let lists_at_once = options.recursive && snapshot_file.is_none();
            let found = if lists_at_once { None } else { Some(dav.stat(&path, properties).await) };
            (found, path)
        };
        let looked = stream::iter(sources.to_vec()).map(look).buffered(WINDOW).collect::<Vec<_>>();
        let (mut queue, mut local_paths) = (Queue::default(), HashSet::new());
        for (found, path) in looked.await {
            let missing = || Error::Differs { path: path.clone(), why: "not found on the server".into() };
            let entry = found.transpose()?.map(|found| found.ok_or_else(missing)).transpose()?;
            if entry.as_ref().is_some_and(|entry| entry.path.is_folder()) && !options.recursive {
                let why = "it is a folder; add `-r` to download its contents".into();
                return Err(Error::Differs { path, why });
            }
            let local = match (into && !options.contents, path.name()) {
                (true, Some(name)) => to.join(OsStr::from_bytes(name)),
                (true, None) | (false, _) if sources.len() == 1 => to.to_owned(),
                _ => {
                    let error = io::Error::other("it is not a folder, and there are several sources; create it first");
                    return Err(Error::local("write", to, error));
                }
            };
            if !local_paths.insert(local.clone()) {
                let error = io::Error::other("two sources have this name; download them one by one");
                return Err(Error::local("write", local, error));
            }
            if let Some((file, folder)) = snapshot_file.zip(entry.as_ref()).filter(|(_, entry)| entry.path.is_folder())
            {
                self.load_snapshot(folder, file).await;
            }
            let found = if let Some(entry) = entry.filter(|entry| !entry.path.is_folder()) {
                self.named_file(entry.path, &local, FileFacts::of(entry.properties))?.map(Found::File)
            } else {
                let (path, scope) = (path.as_folder(true), Scope::default());
                let folder = Folder { path, local, named: true, is_new: false, rename_to: None, scope, parent: None };
                Some(Found::Folder(folder))
            };
            self.report_found(queue.extend(found.into_iter()));
        }
        Ok(queue)
    }

    /// Saves what the next run uses; deletes temporary files; and completes a mirror, unless this run was `stopped`.
    fn finish(&self, snapshot_file: Option<&Path>, stopped: bool) {
        if let Some(file) = snapshot_file.filter(|_| !self.options.dry_run) {
            self.save_snapshot(file);
        }
        lock(&self.synced_versions).save(self.options, stopped, self.watch);
        for file in std::mem::take(&mut *lock(&self.temporary_files)) {
            let _ = fs::remove_file(file);
        }
        if stopped {
            (self.watch)(Event::Note(INTERRUPTED));
        } else {
            self.report_missing();
            self.apply_case_renames();
            self.delete_removed();
        }
    }

    /// Counts received bytes.
    fn add_received(&self, bytes: usize) {
        self.progress.received.fetch_add(bytes as u64, Ordering::Relaxed);
        (self.watch)(Event::Moved { bytes: bytes as u64 });
    }

    async fn run(&self, mut queue: Queue) {
        let (finder, mut discovered) = mpsc::unbounded_channel();
        let mut running: FuturesUnordered<BoxFuture<'_, Finished>> = FuturesUnordered::new();
        let mut listings = 0_usize;
        loop {
            while running.len() < WINDOW {
                let folder =
                    if listings < LISTINGS || queue.files.is_empty() { queue.folders.pop_front() } else { None };
                if let Some(folder) = folder {
                    listings += 1;
                    let finder = finder.clone();
                    running.push(
                        async move { self.list_folder(folder, &finder).await }.map(|()| Finished::Listed).boxed(),
                    );
                } else if let Some(remote) = queue.files.pop_front() {
                    running.push(self.download_file(remote).map(|()| Finished::Fetched).boxed());
                } else {
                    break;
                }
            }
            self.progress.all_requested.send_replace(listings == 0 && queue.files.is_empty());
            let mut found = Vec::new();
            tokio::select! {
                biased;
                _ = discovered.recv_many(&mut found, AT_ONCE) => self.report_found(queue.extend(found.into_iter())),
                came = running.next() => match came {
                    Some(Finished::Listed) => listings -= 1,
                    Some(Finished::Fetched) => {}
                    None => return,
                },
            }
        }
    }

    /// Watches for stragglers among the last small files.
    async fn detect_stragglers(&self) -> Infallible {
        let mut all_requested = self.progress.all_requested.subscribe();
        let _ = all_requested.wait_for(|all| *all).await;
        if self.dav.client().is_limited() {
            return std::future::pending().await;
        }
        let round_trip = self.facts().map_or(FAR, |facts| facts.tcp);
        let apart = !self.shares_one_connection();
        self.progress
            .hedge
            .monitor(round_trip, || self.progress.received.load(Ordering::Relaxed), || apart && *all_requested.borrow())
            .await
    }

    /// The facts of the last connection's handshake.
    fn facts(&self) -> Option<transport::Facts> {
        self.dav.client().facts(self.dav.requests().origin())
    }

    /// Whether one connection carries everything; then a hedged request would wait behind the first.
    fn shares_one_connection(&self) -> bool {
        let windows = self.dav.client().windows(self.dav.requests().origin());
        windows.is_some() || self.facts().is_some_and(|facts| facts.quic)
    }

    fn report_found(&self, (files, bytes): (u64, u64)) {
        if files > 0 {
            (self.watch)(Event::Found { files, bytes });
        }
    }

    fn report_failure(&self, path: &str, why: Error) {
        (self.watch)(Event::Failed { path, why: &why });
        lock(&self.summary).failed.push((path.to_owned(), why));
    }

    async fn download_file(&self, mut remote: RemoteFile) {
        let path = match remote.path() {
            Ok(path) => path,
            Err(error) => return self.report_failure(&String::from_utf8_lossy(&remote.name), error),
        };
        let (name, length) = (path.to_string(), remote.facts.length.unwrap_or(0));
        if self.options.already_copied.contains(&name) {
            return;
        }
        let reason = match self.keep_reason(&remote) {
            None if !remote.folder.is_new && self.is_unchanged(&remote, &path).await => Some(SkipReason::Unchanged),
            reason => reason,
        };
        if let Some(why) = reason {
            lock(&self.summary).skipped += 1;
            return (self.watch)(Event::Skipped { path: &name, bytes: length, why });
        }
        match self.fetch_listed(&mut remote, &path).await {
            Ok(bytes) => {
                let mut summary = lock(&self.summary);
                (summary.files, summary.bytes) = (summary.files + 1, summary.bytes + bytes);
                drop(summary);
                (self.watch)(Event::Done { path: &name, bytes });
            }
            Err(error) => self.report_failure(&name, error),
        }
    }

    /// Downloads a file; a second time if it changed since it was listed.
    async fn fetch_listed(&self, remote: &mut RemoteFile, path: &RemotePath) -> Result<u64, Error> {
        match self.fetch(remote, path).await {
            Err(error) if matches!(error, Error::Differs { .. }) || error.is(412) || error.is(416) => {
                let now = self
                    .dav
                    .stat(path, self.options.requested_properties())
                    .await
                    .ok()
                    .flatten()
                    .filter(|now| !now.path.is_folder());
                let now = now.map(|now| FileFacts::of(now.properties)).filter(|now| {
                    (now.length, &now.etag, now.modified)
                        != (remote.facts.length, &remote.facts.etag, remote.facts.modified)
                });
                match now {
                    Some(now) => {
                        remote.facts = now;
                        self.fetch(remote, path).await
                    }
                    None => Err(error),
                }
            }
            fetched => fetched,
        }
    }
}
