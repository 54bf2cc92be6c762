//! Downloads: trees found by listing, files written whole.
//!
//! Listings of all folders of a level go out together, and files are fetched while other folders are still being
//! listed. A file is written under a temporary name beside its place and renamed when all of it is there and right,
//! so that nobody sees half of it. A large file is asked for in parts, all of the same version (`If-Match`), each on
//! a connection of its own, and written in order; so what has come when it is interrupted can be gone on from.
//!
//! In a mirror, what the server does not have is deleted in the end, and only if all else went well: a listing that was
//! not read, or named something that cannot be, says nothing of what is gone.
//!
//! Of each file found, no more is kept until its turn than is needed then: there may be very many.

mod fetch;
mod recall;
mod remembered;

use std::{
    collections::{HashSet, VecDeque},
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::{Instant, SystemTime},
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream, stream::FuturesUnordered};
use haul_http::Body;
use tokio::sync::Notify;

use self::remembered::{Content, Remembered};
use super::{Event, Options, Skip, Summary, Watch, lock};
use crate::{Dav, ETag, Error, Properties, RemotePath, Wanted, requests::Depth};

/// How many requests may be under way or wait in the engine's queue.
const WINDOW: usize = 256;
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
    let mut work = Work {
        dav,
        options,
        watch,
        parts: Mutex::default(),
        extras: Mutex::default(),
        whole_only: AtomicBool::new(false),
        remembered: Mutex::default(),
        untried: Mutex::default(),
        summary: Mutex::default(),
    };
    let (mut queue, mut places) = (Queue::default(), HashSet::new());
    let remembers = options.remembers.as_deref().filter(|_| options.contents && sources.len() == 1);
    let wanted = if remembers.is_some() { Wanted::STATE } else { options.wanted() };
    let into = fs::metadata(to).is_ok_and(|kind| kind.is_dir());
    let looked = stream::iter(sources.to_vec())
        .map(|path| async move { (dav.stat(&path, wanted).await, path) })
        .buffered(WINDOW)
        .collect::<Vec<_>>();
    for (found, path) in looked.await {
        let missing =
            || Error::Differs { path: path.clone(), why: "there is nothing at this path on the server".into() };
        let entry = found?.ok_or_else(missing)?;
        if entry.path.is_folder() && !options.recursive {
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
        if let Some(file) = remembers.filter(|_| entry.path.is_folder()) {
            work.recall(&entry, file).await;
        }
        queue.add_source(entry.path, place, Facts::of(entry.properties))?;
    }
    let stopped = tokio::select! {
        biased;
        () = stop.notified() => true,
        ((), ()) = async { tokio::join!(work.run(queue), work.try_reports()) } => false,
    };
    if let Some(file) = remembers.filter(|_| !options.dry_run) {
        work.remember(file);
    }
    for part in std::mem::take(&mut *lock(&work.parts)) {
        let _ = fs::remove_file(part);
    }
    if stopped {
        watch(Event::Note("stopped: what was under way was given up, and what is done stays"));
    } else {
        work.delete_extras();
    }
    let mut summary = std::mem::take(work.summary.get_mut().unwrap_or_else(PoisonError::into_inner));
    summary.took = begin.elapsed();
    Ok(summary)
}

/// A folder on the server, and where it belongs here.
struct Folder {
    path: RemotePath,
    place: PathBuf,
    /// Whether it was named by the user, whose links are followed.
    named: bool,
    /// Whether it was made by us, so that nothing can be in it.
    fresh: bool,
    /// What its only file is called here, if that is not its name.
    alias: Option<OsString>,
}

/// What a listing says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    length: Option<u64>,
    modified: Option<SystemTime>,
    etag: Option<ETag>,
    checksums: Vec<String>,
}

impl Facts {
    fn of(properties: Properties) -> Self {
        let Properties { length, modified, etag, checksums, .. } = properties;
        Self { length, modified, etag, checksums }
    }
}

/// A file on the server.
struct Find {
    folder: Arc<Folder>,
    name: Box<[u8]>,
    facts: Facts,
}

impl Find {
    fn path(&self) -> Result<RemotePath, Error> {
        Ok(self.folder.path.join(&self.name, false)?)
    }

    fn place(&self) -> PathBuf {
        self.folder.place.join(self.folder.alias.as_deref().unwrap_or(OsStr::from_bytes(&self.name)))
    }
}

#[derive(Default)]
struct Queue {
    folders: VecDeque<Folder>,
    files: VecDeque<Find>,
}

impl Queue {
    /// Adds what the user has named.
    fn add_source(&mut self, path: RemotePath, place: PathBuf, facts: Facts) -> Result<(), Error> {
        if path.is_folder() {
            self.folders.push_back(Folder { path, place, named: true, fresh: false, alias: None });
            return Ok(());
        }
        let (Some(above), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::Differs { path, why: "it is no name for a file".into() });
        };
        let alias = place.file_name().map(OsStr::to_owned);
        let above_here = place.parent().map(Path::to_owned).unwrap_or_default();
        let folder = Folder { path: above, place: above_here, named: true, fresh: false, alias };
        self.files.push_back(Find { folder: Arc::new(folder), name: name.into(), facts });
        Ok(())
    }
}

/// What came of something under way.
enum Came {
    /// What is in a folder.
    Listed(Vec<Folder>, Vec<Find>),
    Fetched,
}

struct Work<'a> {
    dav: &'a Dav,
    options: &'a Options,
    watch: &'a Watch,
    /// Files here that are not to stay.
    parts: Mutex<HashSet<PathBuf>>,
    /// What is here and not on the server.
    extras: Mutex<Vec<PathBuf>>,
    /// Whether the server is known to send no parts.
    whole_only: AtomicBool,
    /// What the server had at the last run, and has now; none if it does not tell what has changed.
    remembered: Mutex<Option<Remembered>>,
    /// An earlier state, by which it may be seen what the server tells.
    untried: Mutex<Option<String>>,
    summary: Mutex<Summary>,
}

impl Work<'_> {
    async fn run(&self, mut queue: Queue) {
        let mut running: FuturesUnordered<BoxFuture<'_, Came>> = FuturesUnordered::new();
        self.found(&queue.files);
        let mut listings = 0_usize;
        loop {
            while running.len() < WINDOW {
                let folder =
                    if listings < LISTINGS || queue.files.is_empty() { queue.folders.pop_front() } else { None };
                if let Some(folder) = folder {
                    listings += 1;
                    running.push(self.folder(folder).map(|(folders, files)| Came::Listed(folders, files)).boxed());
                } else if let Some(find) = queue.files.pop_front() {
                    running.push(self.file(find).map(|()| Came::Fetched).boxed());
                } else {
                    break;
                }
            }
            match running.next().await {
                Some(Came::Listed(folders, files)) => {
                    listings -= 1;
                    let files = VecDeque::from(files);
                    self.found(&files);
                    queue.folders.extend(folders);
                    queue.files.extend(files);
                }
                Some(Came::Fetched) => {}
                None => return,
            }
        }
    }

    fn found(&self, files: &VecDeque<Find>) {
        if !files.is_empty() {
            let bytes = files.iter().filter_map(|find| find.facts.length).sum();
            (self.watch)(Event::Found { files: files.len() as u64, bytes });
        }
    }

    fn failed(&self, path: &str, why: Error) {
        (self.watch)(Event::Failed { path, why: &why });
        lock(&self.summary).failed.push((path.to_owned(), why));
    }

    /// Lists a folder and makes it here: what is in it.
    async fn folder(&self, mut folder: Folder) -> (Vec<Folder>, Vec<Find>) {
        let path = folder.path.clone();
        match self.make(&folder) {
            Ok(made) => folder.fresh = made,
            Err(error) => {
                self.failed(&path.to_string(), Error::local("make", folder.place, error));
                return (Vec::new(), Vec::new());
            }
        }
        let Some(content) = self.content(&path).await else { return (Vec::new(), Vec::new()) };
        if self.options.delete && !folder.fresh {
            let kept = content.files.keys().chain(&content.folders).map(|name| &**name).collect();
            self.note_extras(&folder.place, &kept);
        }
        let folder = Arc::new(folder);
        let below = content.folders.into_iter().filter_map(|name| {
            let place = folder.place.join(OsStr::from_bytes(&name));
            Some(Folder { path: path.join(&name, true).ok()?, place, named: false, fresh: false, alias: None })
        });
        let folders = below.collect();
        let files = content.files.into_iter().map(|(name, facts)| Find { folder: folder.clone(), name, facts });
        (folders, files.collect())
    }

    /// What is in a folder on the server, each name once: as it is remembered or listed.
    async fn content(&self, path: &RemotePath) -> Option<Content> {
        if let Some(content) = lock(&self.remembered).as_ref().and_then(|known| known.content(path)) {
            return Some(content.clone());
        }
        let (mut content, mut misplaced) = (Content::default(), Vec::new());
        let listed = self.dav.list(path, Depth::One, self.options.wanted(), |entry| match entry {
            Ok(entry) if entry.path.same_place(path) => {}
            Ok(entry) => {
                // One level below, whatever a server says.
                let below = entry.path.parent().is_some_and(|parent| parent.same_place(path));
                match entry.path.name().filter(|_| below) {
                    Some(name) if entry.path.is_folder() => drop(content.folders.insert(name.into())),
                    Some(name) => drop(content.files.insert(name.into(), Facts::of(entry.properties))),
                    None => misplaced.push((entry.path.to_string(), "the server lists it where it cannot be")),
                }
            }
            Err(error) => misplaced.push((error.path.clone(), "its name cannot be used here")),
        });
        if let Err(error) = listed.await {
            self.failed(&path.to_string(), error);
            return None;
        }
        for name in content.files.keys().filter(|name| content.folders.contains(*name)) {
            let name = String::from_utf8_lossy(name).into_owned();
            misplaced.push((name, "the server lists a file and a folder of this name"));
        }
        if misplaced.is_empty()
            && let Some(known) = &mut *lock(&self.remembered)
        {
            known.keep(path.clone(), content.clone());
        }
        for (name, why) in misplaced {
            self.failed(&name, Error::Differs { path: path.clone(), why: format!("{why} ({name})") });
        }
        Some(content)
    }

    /// Makes a folder here; whether it was not there before. Links are not followed, but for what the user has named:
    /// they lead out of the tree.
    fn make(&self, folder: &Folder) -> io::Result<bool> {
        let place = &folder.place;
        let there = if folder.named { fs::metadata(place) } else { fs::symlink_metadata(place) };
        match there {
            Ok(kind) if kind.is_dir() => return Ok(false),
            Ok(kind) if kind.is_symlink() => return Err(in_the_way("link")),
            Ok(_) => return Err(in_the_way("file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if !self.options.dry_run {
            fs::create_dir(place)?;
        }
        lock(&self.summary).folders += 1;
        (self.watch)(Event::Made { path: &place.display().to_string() });
        Ok(true)
    }

    /// Keeps in mind what the server does not have.
    fn note_extras(&self, place: &Path, kept: &HashSet<&[u8]>) {
        match fs::read_dir(place).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => {
                let gone = entries.into_iter().filter(|entry| !kept.contains(entry.file_name().as_bytes()));
                lock(&self.extras).extend(gone.map(|entry| entry.path()));
            }
            Err(error) => self.failed(&place.display().to_string(), Error::local("list", place, error)),
        }
    }

    /// Deletes what the server does not have, if all else went well.
    fn delete_extras(&self) {
        let extras = std::mem::take(&mut *lock(&self.extras));
        if !extras.is_empty() && !lock(&self.summary).failed.is_empty() {
            return (self.watch)(Event::Note("nothing was deleted here, since not everything went well"));
        }
        for path in extras {
            let folder = fs::symlink_metadata(&path).is_ok_and(|kind| kind.is_dir());
            let deleted = match (self.options.dry_run, folder) {
                (true, _) => Ok(()),
                (_, true) => fs::remove_dir_all(&path),
                (_, false) => fs::remove_file(&path),
            };
            let name = path.display().to_string();
            match deleted {
                Ok(()) => {
                    lock(&self.summary).deleted += 1;
                    (self.watch)(Event::Deleted { path: &name });
                }
                // What was left of an interrupted download has been used up.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.failed(&name, Error::local("delete", path, error)),
            }
        }
    }

    async fn file(&self, mut find: Find) {
        let path = match find.path() {
            Ok(path) => path,
            Err(error) => return self.failed(&String::from_utf8_lossy(&find.name), error),
        };
        let (name, length) = (path.to_string(), find.facts.length.unwrap_or(0));
        if !find.folder.fresh && self.is_here(&find, &path).await {
            lock(&self.summary).skipped += 1;
            return (self.watch)(Event::Skipped { path: &name, bytes: length });
        }
        let fetched = if self.options.dry_run { Ok(length) } else { self.fetch_listed(&mut find, &path).await };
        match fetched {
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
    async fn fetch_listed(&self, find: &mut Find, path: &RemotePath) -> Result<u64, Error> {
        match self.fetch(find, path).await {
            Err(error) if matches!(error, Error::Differs { .. }) || error.is(412) || error.is(416) => {
                let now =
                    self.dav.stat(path, self.options.wanted()).await.ok().flatten().filter(|now| !now.path.is_folder());
                let now = now.map(|now| Facts::of(now.properties)).filter(|now| {
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

    /// Whether a file need not be fetched.
    async fn is_here(&self, find: &Find, path: &RemotePath) -> bool {
        let (place, facts) = (find.place(), &find.facts);
        let here = if find.folder.named { fs::metadata(&place) } else { fs::symlink_metadata(&place) };
        let Ok(here) = here.as_ref().map(|here| (here.is_file(), here.len(), here.modified().ok())) else {
            return false;
        };
        match (here, self.options.skip) {
            (_, Skip::Nothing) | ((false, ..), _) => false,
            ((_, length, _), _) if facts.length != Some(length) => false,
            ((_, _, modified), Skip::SameSizeAndTime) => {
                modified.zip(facts.modified).is_some_and(|(here, there)| seconds(here) == seconds(there))
            }
            // What cannot be compared is fetched.
            ((_, length, _), Skip::SameDigest) => {
                let mut body = Body::file(place, 0, length);
                self.dav.holds(path, &mut body, &facts.checksums).await.unwrap_or(false)
            }
        }
    }
}

fn in_the_way(what: &str) -> io::Error {
    io::Error::other(format!("there is a {what} of this name here: delete or rename one of them"))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
