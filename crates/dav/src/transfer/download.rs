//! Downloads: trees found by listing, files written whole.
//!
//! Listings of all folders of a level go out together, and files are fetched while they still come in. A file is
//! written under a temporary name beside its place and renamed when all of it is there and right, so that nobody sees
//! half of it. A large file is asked for in parts, all of the same version, over all connections, and written in order;
//! so what has come when it is interrupted can be gone on from. Of a lone file that the user names, the first parts are
//! asked for at once (`early`).
//!
//! In a mirror, what the server does not have is deleted in the end, and only if all else went well: a listing that was
//! not read, or named something that cannot be, says nothing of what is gone.
//!
//! Of each file found, no more is kept until its turn than is needed then: there may be very many.

mod announced_length;
mod attempt;
mod backup;
mod deletions;
mod fetch;
mod hedge;
mod listing;
mod local_files;
mod partial_file;
mod prefetch;
mod range_request;
mod ranges;
mod sync_snapshot;
mod sync_store;

use std::{
    collections::{HashSet, VecDeque},
    convert::Infallible,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Instant, SystemTime},
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream, stream::FuturesUnordered};
use haul_http::{Body, Expected};

use tokio::sync::{Notify, Semaphore, mpsc, watch};

use self::{hedge::Hedge, listing::Found, prefetch::Prefetch, range_request::FAR, sync_snapshot::SyncSnapshot};
use super::{
    Event, Options, Skip, Spare, Spared, Summary, Watch,
    filter::Scope,
    last_seen::LastSeen,
    lock,
    unchanged::{Here, Record, Times, Version},
};
use crate::{Dav, ETag, Error, Properties, RemotePath, Wanted};

/// How many requests may be under way or wait in the engine's queue.
const WINDOW: usize = 256;
/// How many finds are taken in at once.
const AT_ONCE: usize = 256;
/// So many files come in parts at a time: each takes all connections, and memory for what is ahead of what is written.
const IN_PARTS: usize = 2;
/// How many listings go before files that could be fetched already.
const LISTINGS: usize = 32;

/// Downloads files and folders, as cp(1) does: into `to` if that is a folder, and otherwise, if there is one source,
/// as `to`. When `stop` is notified, what is under way is given up; what is whole stays.
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
    let mut work = Download {
        dav,
        options,
        watch,
        parts: Mutex::default(),
        extras: Mutex::default(),
        respellings: Mutex::default(),
        passed: Mutex::default(),
        root: to,
        moved: AtomicU64::new(0),
        whole_only: AtomicBool::new(false),
        in_parts: Semaphore::new(IN_PARTS),
        remembered: Mutex::default(),
        untried: Mutex::default(),
        records: Mutex::default(),
        early: Mutex::default(),
        late: Hedge::new(2 * options.connections),
        all_asked: watch::Sender::new(false),
        summary: Mutex::default(),
    };
    if let [path] = sources
        && options.fetches_at_once()
        && !path.is_folder()
        && path.name().is_some_and(|name| options.filter.name(&Scope::default(), name))
    {
        work.early = Some(Prefetch::ask(dav, path, options.connections)).into();
    }
    if let [path] = sources {
        let url = dav.requests().url(path).ok();
        work.records = LastSeen::open(options.last_seen.as_deref(), url, to).await.into();
    }
    let (mut queue, mut places) = (Queue::default(), HashSet::new());
    let remembers = options.remembers.as_deref().filter(|_| options.contents && sources.len() == 1);
    let wanted = if remembers.is_some() { Wanted::STATE } else { options.wanted() };
    let into = fs::metadata(to).is_ok_and(|kind| kind.is_dir());
    // What may be a folder is listed at once, and its listing says whether it is.
    let look = |path: RemotePath| async move {
        let at_once = options.recursive && remembers.is_none();
        let found = if at_once { None } else { Some(dav.stat(&path, wanted).await) };
        (found, path)
    };
    let looked = stream::iter(sources.to_vec()).map(look).buffered(WINDOW).collect::<Vec<_>>();
    for (found, path) in looked.await {
        let missing =
            || Error::Differs { path: path.clone(), why: "there is nothing at this path on the server".into() };
        let entry = found.transpose()?.map(|found| found.ok_or_else(missing)).transpose()?;
        if entry.as_ref().is_some_and(|entry| entry.path.is_folder()) && !options.recursive {
            return Err(Error::Differs { path, why: "it is a folder: add -r to download all that is in it".into() });
        }
        let place = match (into && !options.contents, path.name()) {
            (true, Some(name)) => to.join(std::ffi::OsStr::from_bytes(name)),
            (true, None) | (false, _) if sources.len() == 1 => to.to_owned(),
            _ => {
                let error = io::Error::other("it is no folder to put several things into: make it first");
                return Err(Error::local("write", to, error));
            }
        };
        if !places.insert(place.clone()) {
            let error = io::Error::other("two of what is to be downloaded have this name: download them one by one");
            return Err(Error::local("write", place, error));
        }
        if let Some((file, folder)) = remembers.zip(entry.as_ref()).filter(|(_, entry)| entry.path.is_folder()) {
            work.recall(folder, file).await;
        }
        let found = if let Some(entry) = entry.filter(|entry| !entry.path.is_folder()) {
            work.source_file(entry.path, &place, FileFacts::of(entry.properties))?.map(Found::File)
        } else {
            let (path, scope) = (path.as_folder(true), Scope::default());
            Some(Found::Folder(Folder { path, place, named: true, fresh: false, alias: None, scope, above: None }))
        };
        work.found(queue.extend(found.into_iter()));
    }
    let stopped = tokio::select! {
        biased;
        () = stop.notified() => true,
        ((), ()) = async { tokio::join!(work.run(queue), work.try_reports()) } => false,
        never = work.look_for_late() => match never {},
    };
    if let Some(file) = remembers.filter(|_| !options.dry_run) {
        work.remember(file);
    }
    lock(&work.records).save(options, stopped, watch);
    for part in std::mem::take(&mut *lock(&work.parts)) {
        let _ = fs::remove_file(part);
    }
    if stopped {
        watch(Event::Note("stopped: what was under way was given up, and what is done stays"));
    } else {
        work.name_missing();
        work.respell();
        work.delete_extras();
    }
    let mut summary = std::mem::take(work.summary.get_mut().unwrap_or_else(PoisonError::into_inner));
    summary.took = begin.elapsed();
    Ok(summary)
}

/// A folder on the server, and where it belongs here.
#[derive(Clone)]
struct Folder {
    path: RemotePath,
    place: PathBuf,
    /// Whether it was named by the user, whose links are followed.
    named: bool,
    /// Whether it was made by us, so that nothing can be in it.
    fresh: bool,
    /// What its only file is called here, if that is not its name.
    alias: Option<OsString>,
    scope: Scope,
    /// The folder that it is in, if that is made only when something in it is.
    above: Option<Arc<Folder>>,
}

/// What a listing says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileFacts {
    length: Option<u64>,
    modified: Option<SystemTime>,
    etag: Option<ETag>,
    checksums: Vec<String>,
}

impl FileFacts {
    /// What the answer to a GET looks like.
    fn expected(&self) -> Expected {
        let etag = self.etag.as_ref().map(ToString::to_string);
        Expected { etag, length: self.length, modified: self.modified }
    }

    fn of(properties: Properties) -> Self {
        let Properties { length, modified, etag, checksums, .. } = properties;
        Self { length, modified, etag, checksums }
    }

    fn version(&self) -> Version<'_> {
        Version { length: self.length, modified: self.modified, etag: self.etag.as_ref() }
    }
}

/// A file on the server.
struct RemoteFile {
    folder: Arc<Folder>,
    name: Box<[u8]>,
    facts: FileFacts,
}

impl RemoteFile {
    fn path(&self) -> Result<RemotePath, Error> {
        Ok(self.folder.path.join(&self.name, false)?)
    }

    fn place(&self) -> PathBuf {
        self.folder.place.join(self.folder.alias.as_deref().unwrap_or(OsStr::from_bytes(&self.name)))
    }

    /// The same, or what it leads to if it is a link that the user has named, as with cp(1).
    fn place_through_link(&self) -> PathBuf {
        let place = self.place();
        let is_link = || fs::symlink_metadata(&place).is_ok_and(|kind| kind.is_symlink());
        let there = if self.folder.alias.is_some() && is_link() { fs::canonicalize(&place).ok() } else { None };
        there.unwrap_or(place)
    }
}

#[derive(Default)]
struct Queue {
    folders: VecDeque<Folder>,
    files: VecDeque<RemoteFile>,
}

impl Queue {
    /// Adds what was found; how many files, and their bytes.
    fn extend(&mut self, found: impl Iterator<Item = Found>) -> (u64, u64) {
        let (mut files, mut bytes) = (0, 0_u64);
        for found in found {
            match found {
                Found::Folder(folder) => self.folders.push_back(folder),
                Found::File(find) => {
                    (files, bytes) = (files + 1, bytes.saturating_add(find.facts.length.unwrap_or(0)));
                    self.files.push_back(find);
                }
            }
        }
        (files, bytes)
    }
}

/// What came of something under way.
enum Finished {
    Listed,
    Fetched,
}

struct Download<'a> {
    dav: &'a Dav,
    options: &'a Options,
    watch: &'a Watch,
    /// Files here that are not to stay.
    parts: Mutex<HashSet<PathBuf>>,
    /// What is here and not on the server.
    extras: Mutex<Vec<PathBuf>>,
    /// What is to have another name here.
    respellings: Mutex<Vec<(PathBuf, PathBuf)>>,
    /// Folders that are left out, and were made for what is in them.
    passed: Mutex<HashSet<PathBuf>>,
    /// The target.
    root: &'a Path,
    /// How many bytes have come.
    moved: AtomicU64,
    /// Whether the server is known to send no parts.
    whole_only: AtomicBool,
    /// One for each file that may be in parts at a time.
    in_parts: Semaphore,
    /// What the server had at the last run, and has now; none if it does not tell what has changed.
    remembered: Mutex<Option<SyncSnapshot>>,
    /// An earlier state, by which it may be seen what the server tells.
    untried: Mutex<Option<String>>,
    /// What was last seen of the files.
    records: Mutex<LastSeen>,
    /// What was asked for of the one file before it was known.
    early: Mutex<Option<Prefetch>>,
    /// Small files that are late when all has been asked for.
    late: Hedge,
    all_asked: watch::Sender<bool>,
    summary: Mutex<Summary>,
}

impl Download<'_> {
    /// So many bytes have come.
    fn moves(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
        (self.watch)(Event::Moved { bytes: bytes as u64 });
    }

    async fn run(&self, mut queue: Queue) {
        let (finder, mut finds) = mpsc::unbounded_channel();
        let mut running: FuturesUnordered<BoxFuture<'_, Finished>> = FuturesUnordered::new();
        let mut listings = 0_usize;
        loop {
            while running.len() < WINDOW {
                let folder =
                    if listings < LISTINGS || queue.files.is_empty() { queue.folders.pop_front() } else { None };
                if let Some(folder) = folder {
                    listings += 1;
                    let finder = finder.clone();
                    running.push(async move { self.folder(folder, &finder).await }.map(|()| Finished::Listed).boxed());
                } else if let Some(find) = queue.files.pop_front() {
                    running.push(self.file(find).map(|()| Finished::Fetched).boxed());
                } else {
                    break;
                }
            }
            self.all_asked.send_replace(listings == 0 && queue.files.is_empty());
            let mut found = Vec::new();
            tokio::select! {
                biased;
                _ = finds.recv_many(&mut found, AT_ONCE) => self.found(queue.extend(found.into_iter())),
                came = running.next() => match came {
                    Some(Finished::Listed) => listings -= 1,
                    Some(Finished::Fetched) => {}
                    None => return,
                },
            }
        }
    }

    /// Tells small files when they are late.
    async fn look_for_late(&self) -> Infallible {
        let mut all_asked = self.all_asked.subscribe();
        let _ = all_asked.wait_for(|all| *all).await;
        if self.dav.client().is_limited() {
            return std::future::pending().await;
        }
        let round_trip = self.facts().map_or(FAR, |facts| facts.tcp);
        let apart = !self.shares();
        self.late.look(round_trip, || self.moved.load(Ordering::Relaxed), || apart && *all_asked.borrow()).await
    }

    /// What the last connection's handshake has shown.
    fn facts(&self) -> Option<transport::Facts> {
        self.dav.client().facts(self.dav.requests().origin())
    }

    /// Whether one connection carries everything. There a second request would wait behind the first.
    fn shares(&self) -> bool {
        let windows = self.dav.client().windows(self.dav.requests().origin());
        windows.is_some() || self.facts().is_some_and(|facts| facts.quic)
    }

    fn found(&self, (files, bytes): (u64, u64)) {
        if files > 0 {
            (self.watch)(Event::Found { files, bytes });
        }
    }

    fn failed(&self, path: &str, why: Error) {
        (self.watch)(Event::Failed { path, why: &why });
        lock(&self.summary).failed.push((path.to_owned(), why));
    }

    async fn file(&self, mut find: RemoteFile) {
        let path = match find.path() {
            Ok(path) => path,
            Err(error) => return self.failed(&String::from_utf8_lossy(&find.name), error),
        };
        let (name, length) = (path.to_string(), find.facts.length.unwrap_or(0));
        if self.options.settled.contains(&name) {
            return;
        }
        let spared = match self.spares(&find) {
            None if !find.folder.fresh && self.is_here(&find, &path).await => Some(Spared::Unchanged),
            spared => spared,
        };
        if let Some(why) = spared {
            lock(&self.summary).skipped += 1;
            return (self.watch)(Event::Skipped { path: &name, bytes: length, why });
        }
        match self.fetch_listed(&mut find, &path).await {
            Ok(bytes) => {
                let mut summary = lock(&self.summary);
                (summary.files, summary.bytes) = (summary.files + 1, summary.bytes + bytes);
                drop(summary);
                (self.watch)(Event::Done { path: &name, bytes });
            }
            Err(error) => self.failed(&name, error),
        }
    }

    /// Fetches a file; once more if it is not what was listed since it has been changed.
    async fn fetch_listed(&self, find: &mut RemoteFile, path: &RemotePath) -> Result<u64, Error> {
        match self.fetch(find, path).await {
            Err(error) if matches!(error, Error::Differs { .. }) || error.is(412) || error.is(416) => {
                let now =
                    self.dav.stat(path, self.options.wanted()).await.ok().flatten().filter(|now| !now.path.is_folder());
                let now = now.map(|now| FileFacts::of(now.properties)).filter(|now| {
                    (now.length, &now.etag, now.modified) != (find.facts.length, &find.facts.etag, find.facts.modified)
                });
                match now {
                    Some(now) => {
                        find.facts = now;
                        self.fetch(find, path).await
                    }
                    None => Err(error),
                }
            }
            fetched => fetched,
        }
    }

    /// Both sides of a file are the same now.
    fn saw(&self, find: &RemoteFile, here: Here<'_>) {
        lock(&self.records).keep(&find.folder.path, &find.name, Record::of(here, find.facts.version()));
    }

    /// Why a file is left alone here, if it is.
    fn spares(&self, find: &RemoteFile) -> Option<Spared> {
        let spare = Some(self.options.spare).filter(|spare| *spare != Spare::default() && !find.folder.fresh)?;
        let here = if find.folder.named { fs::metadata(find.place()) } else { fs::symlink_metadata(find.place()) };
        let here = here.ok().filter(|here| !here.is_dir())?;
        let (source, target) = ((find.facts.length, find.facts.modified), (Some(here.len()), here.modified().ok()));
        spare.judge(source, target)
    }

    /// Whether a file need not be fetched.
    async fn is_here(&self, find: &RemoteFile, path: &RemotePath) -> bool {
        let (place, facts) = (find.place(), &find.facts);
        let here = if find.folder.named { fs::metadata(&place) } else { fs::symlink_metadata(&place) };
        let Ok(here) = here.as_ref().map(|here| (here.is_file(), here.len(), here.modified().ok())) else {
            return false;
        };
        match (here, self.options.skip) {
            (_, Skip::Nothing) | ((false, ..), _) => false,
            ((_, length, _), _) if facts.length != Some(length) => false,
            ((_, length, modified), Skip::SameSizeAndTime) => {
                let (times, here) = (
                    Times { window: self.options.modify_window, ..Times::default() },
                    Here { length, modified, etag: None },
                );
                let same = {
                    let records = lock(&self.records);
                    times.of_download(here, facts.version(), records.of(&find.folder.path, &find.name))
                };
                if same {
                    self.saw(find, here);
                }
                same
            }
            // What cannot be compared is fetched.
            ((_, length, _), Skip::SameDigest) => {
                let mut body = Body::file(place, 0, length);
                self.dav.holds(path, &mut body, &facts.checksums, facts.expected()).await.unwrap_or(false)
            }
        }
    }
}
