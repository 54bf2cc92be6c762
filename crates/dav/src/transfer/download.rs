//! Downloads: trees found by listing, files written whole.
//!
//! Listings of all folders of a level go out together, and files are fetched while other folders are still being
//! listed. A file is written under a temporary name beside its place and renamed when all of it is there and right,
//! so that nobody sees half of it. A large file is asked for in parts, all of the same version (`If-Match`), each on
//! a connection of its own, and written in order.

use std::{
    collections::{HashSet, VecDeque},
    fs,
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Instant, SystemTime},
};

use futures_util::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream, stream::FuturesUnordered};
use haul_http::{Class, Expected};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{IF_MATCH, RANGE},
};
use http_body_util::BodyExt;
use tokio::{io::AsyncWriteExt, sync::Notify};

use super::{Event, Options, Skip, Summary, Watch, temporary_name};
use crate::{Dav, ETag, Entry, Error, RemotePath, Wanted, requests::Depth};

/// Answers up to this size may stand before others on a connection.
const SMALL: u64 = 256 * 1024;
/// The parts of a large file, and the size from which a file is worth them.
const PART: u64 = 2 * 1024 * 1024;
const LARGE: u64 = 8 * 1024 * 1024;
/// How many requests may be under way or wait in the engine's queue.
const WINDOW: usize = 256;
/// How often an answer that breaks off is asked for, the first time included.
const TRIES: u32 = 3;
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
    dav.client().warm(dav.requests().origin(), options.connections);
    let mut work = Work { dav, options, watch, parts: Mutex::default(), summary: Mutex::default() };
    let mut queue = Queue::default();
    let into = fs::metadata(to).is_ok_and(|kind| kind.is_dir());
    let looked = stream::iter(sources.to_vec())
        .map(|path| async move { (dav.stat(&path, Wanted::LISTING).await, path) })
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
        queue.add(Find { entry, place, fresh: false });
    }
    let stopped = tokio::select! {
        biased;
        () = stop.notified() => true,
        () = work.run(queue) => false,
    };
    for part in std::mem::take(&mut *lock(&work.parts)) {
        let _ = fs::remove_file(part);
    }
    if stopped {
        watch(Event::Note("stopped: what was under way was given up, and what is done stays"));
    }
    let mut summary = std::mem::take(work.summary.get_mut().unwrap_or_else(PoisonError::into_inner));
    summary.took = begin.elapsed();
    Ok(summary)
}

/// Something on the server, and where it belongs here.
struct Find {
    entry: Entry,
    place: PathBuf,
    /// Whether its folder was made by us, so that nothing can be there.
    fresh: bool,
}

#[derive(Default)]
struct Queue {
    folders: VecDeque<Find>,
    files: VecDeque<Find>,
}

impl Queue {
    fn add(&mut self, find: Find) {
        if find.entry.path.is_folder() { &mut self.folders } else { &mut self.files }.push_back(find);
    }
}

struct Work<'a> {
    dav: &'a Dav,
    options: &'a Options,
    watch: &'a Watch,
    /// Files here that are not to stay.
    parts: Mutex<HashSet<PathBuf>>,
    summary: Mutex<Summary>,
}

impl Work<'_> {
    async fn run(&self, mut queue: Queue) {
        let mut running: FuturesUnordered<BoxFuture<'_, Vec<Find>>> = FuturesUnordered::new();
        let files = queue.files.iter();
        self.found(files.map(|find| find.entry.properties.length.unwrap_or(0)));
        let mut listings = 0_usize;
        loop {
            while running.len() < WINDOW {
                let folder =
                    if listings < LISTINGS || queue.files.is_empty() { queue.folders.pop_front() } else { None };
                if let Some(find) = folder {
                    listings += 1;
                    running.push(self.folder(find).boxed());
                } else if let Some(find) = queue.files.pop_front() {
                    running.push(self.file(find).map(|()| Vec::new()).boxed());
                } else {
                    break;
                }
            }
            let Some(found) = running.next().await else { return };
            listings = listings.saturating_sub(usize::from(!found.is_empty()));
            let files = found.iter().filter(|find| !find.entry.path.is_folder());
            self.found(files.map(|find| find.entry.properties.length.unwrap_or(0)));
            found.into_iter().for_each(|find| queue.add(find));
        }
    }

    fn found(&self, lengths: impl Iterator<Item = u64>) {
        let (files, bytes) = lengths.fold((0, 0), |(files, bytes), length| (files + 1, bytes + length));
        if files > 0 {
            (self.watch)(Event::Found { files, bytes });
        }
    }

    fn failed(&self, path: &str, why: Error) {
        (self.watch)(Event::Failed { path, why: &why });
        lock(&self.summary).failed.push((path.to_owned(), why));
    }

    /// Lists a folder and makes it here: what is in it.
    async fn folder(&self, find: Find) -> Vec<Find> {
        let path = find.entry.path.clone();
        let made = match self.make(&find.place) {
            Ok(made) => made,
            Err(error) => {
                self.failed(&path.to_string(), Error::local("make", find.place, error));
                return Vec::new();
            }
        };
        let (mut finds, mut names, mut misplaced) = (Vec::new(), HashSet::new(), Vec::new());
        let listed = self.dav.list(&path, Depth::One, Wanted::LISTING, |entry| match entry {
            Ok(entry) if entry.path.same_place(&path) => {}
            Ok(entry) => match entry.path.to_local(&path, &find.place) {
                // One level below, and each name once: whatever a server says.
                Some(place) if place.parent() == Some(&find.place) && names.insert(place.clone()) => {
                    finds.push(Find { entry, place, fresh: made });
                }
                _ => misplaced.push((entry.path.to_string(), "the server lists it where it cannot be")),
            },
            Err(error) => misplaced.push((error.path.clone(), "its name cannot be used here")),
        });
        if let Err(error) = listed.await {
            self.failed(&path.to_string(), error);
            return Vec::new();
        }
        for (name, why) in misplaced {
            self.failed(&name, Error::Differs { path: path.clone(), why: format!("{why} ({name})") });
        }
        if self.options.delete && !made {
            self.delete(&find.place, &finds);
        }
        finds
    }

    /// Makes a folder here; whether it was not there before.
    fn make(&self, place: &Path) -> io::Result<bool> {
        if place.is_dir() {
            return Ok(false);
        }
        if !self.options.dry_run {
            fs::create_dir(place)?;
        }
        lock(&self.summary).folders += 1;
        (self.watch)(Event::Made { path: &place.display().to_string() });
        Ok(true)
    }

    /// Deletes what the server does not have.
    fn delete(&self, place: &Path, finds: &[Find]) {
        let kept: HashSet<&Path> = finds.iter().map(|find| find.place.as_path()).collect();
        let Ok(entries) = fs::read_dir(place) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            if kept.contains(path.as_path()) {
                continue;
            }
            let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
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
                Err(error) => self.failed(&name, Error::local("delete", path, error)),
            }
        }
    }

    async fn file(&self, find: Find) {
        let path = find.entry.path.to_string();
        let length = find.entry.properties.length.unwrap_or(0);
        if !find.fresh && self.is_here(&find) {
            lock(&self.summary).skipped += 1;
            return (self.watch)(Event::Skipped { path: &path, bytes: length });
        }
        let fetched = if self.options.dry_run { Ok(length) } else { self.fetch(&find).await };
        match fetched {
            Ok(bytes) => {
                let mut summary = lock(&self.summary);
                (summary.files, summary.bytes) = (summary.files + 1, summary.bytes + bytes);
                drop(summary);
                (self.watch)(Event::Done { path: &path, bytes });
            }
            Err(error) => self.failed(&path, error),
        }
    }

    /// Whether a file need not be fetched.
    fn is_here(&self, find: &Find) -> bool {
        let Ok(here) = fs::metadata(&find.place) else { return false };
        let properties = &find.entry.properties;
        self.options.skip == Skip::SameSizeAndTime
            && Some(here.len()) == properties.length
            && here
                .modified()
                .ok()
                .zip(properties.modified)
                .is_some_and(|(here, there)| seconds(here) == seconds(there))
    }

    /// Fetches a file to its place: its length.
    async fn fetch(&self, find: &Find) -> Result<u64, Error> {
        let (Some(folder), Some(name)) = (find.place.parent(), find.place.file_name()) else {
            return Err(Error::local("write", &find.place, io::Error::other("it has no name")));
        };
        if find.place.is_dir() {
            return Err(Error::local("write", &find.place, io::Error::other("there is a folder of this name here")));
        }
        let part = folder.join(std::ffi::OsStr::from_bytes(&temporary_name(name.as_bytes())));
        lock(&self.parts).insert(part.clone());
        let fetched = self.fetch_to(find, &part).await;
        let placed = match fetched {
            Ok(length) => self.place(find, &part).map(|()| length),
            Err(error) => Err(error),
        };
        if placed.is_err() {
            let _ = fs::remove_file(&part);
        }
        lock(&self.parts).remove(&part);
        placed
    }

    fn place(&self, find: &Find, part: &Path) -> Result<(), Error> {
        if let Some(modified) = find.entry.properties.modified {
            // A file system that keeps no times keeps files all the same.
            let _ = fs::File::options().write(true).open(part).and_then(|file| file.set_modified(modified));
        }
        fs::rename(part, &find.place).map_err(|error| Error::local("write", &find.place, error))
    }

    async fn fetch_to(&self, find: &Find, part: &Path) -> Result<u64, Error> {
        let properties = &find.entry.properties;
        let strong = properties.etag.as_ref().filter(|tag| !tag.is_weak());
        match (properties.length, strong) {
            (Some(length), Some(tag)) if length >= LARGE && self.options.connections > 1 => {
                self.fetch_parts(find, part, length, tag).await
            }
            _ => self.fetch_whole(find, part).await,
        }
    }

    async fn fetch_whole(&self, find: &Find, part: &Path) -> Result<u64, Error> {
        again(|| self.try_whole(find, part)).await
    }

    async fn try_whole(&self, find: &Find, part: &Path) -> Result<u64, Lost> {
        let (path, properties) = (&find.entry.path, &find.entry.properties);
        let class = if properties.length.is_some_and(|length| length <= SMALL) { Class::Small } else { Class::Large };
        let expected = Expected { etag: properties.etag.as_ref().map(ToString::to_string), length: properties.length };
        let options = haul_http::Options { class, expected, ..haul_http::Options::default() };
        let answer = self.dav.get(path, HeaderMap::new(), options).await?;
        let told = http_body::Body::size_hint(answer.body()).exact();
        let mut body = answer.into_body();
        let written = |error| Error::local("write", part, error);
        // At once: a task for it might make it after all has been stopped and cleared away.
        let mut file = fs::File::create(part).map_err(written)?;
        let mut length = 0;
        let first = body.frame().await.transpose().map_err(cut)?.and_then(|frame| frame.into_data().ok());
        if let Some(piece) = first.clone().filter(|piece| told == Some(piece.len() as u64)) {
            // What came in one piece is written in one go.
            let moved = piece.len() as u64;
            while let Some(end) = body.frame().await {
                end.map_err(cut)?;
            }
            let wrote = tokio::task::spawn_blocking(move || file.write_all(&piece)).await;
            wrote.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(written)?;
            (self.watch)(Event::Moved { bytes: moved });
            return Ok(moved);
        }
        let mut file = tokio::fs::File::from_std(file);
        let mut piece = first;
        loop {
            if let Some(piece) = piece.take() {
                length += piece.len() as u64;
                (self.watch)(Event::Moved { bytes: piece.len() as u64 });
                file.write_all(&piece).await.map_err(written)?;
            }
            // Without a length of its own, an answer is cut, or goes on, unseen.
            if told.is_none() && properties.length.is_some_and(|listed| length > listed) {
                break;
            }
            match body.frame().await {
                Some(frame) => piece = frame.map_err(cut)?.into_data().ok(),
                None => break,
            }
        }
        file.flush().await.map_err(written)?;
        match (told, properties.length) {
            (None, Some(listed)) if listed != length => {
                let more = if length > listed { "more than " } else { "" };
                let why = format!("the server listed {listed} bytes and sent {more}{}", length.min(listed));
                Err(Lost::Amid(Error::Differs { path: path.clone(), why }))
            }
            _ => Ok(length),
        }
    }

    /// Asks for all parts of one version, several at a time, and writes them one after another.
    async fn fetch_parts(&self, find: &Find, part: &Path, length: u64, tag: &ETag) -> Result<u64, Error> {
        let written = |error| Error::local("write", part, error);
        let mut file = tokio::fs::File::from_std(fs::File::create(part).map_err(written)?);
        let starts = (0..length).step_by(PART as usize);
        let mut parts = stream::iter(starts)
            .map(|start| async move {
                let end = (start + PART).min(length);
                again(|| self.fetch_part(&find.entry.path, start, end, tag)).await
            })
            .buffered(self.options.connections);
        while let Some(pieces) = parts.try_next().await? {
            for piece in pieces {
                file.write_all(&piece).await.map_err(written)?;
            }
        }
        file.flush().await.map_err(written)?;
        Ok(length)
    }

    async fn fetch_part(&self, path: &RemotePath, start: u64, end: u64, tag: &ETag) -> Result<Vec<bytes::Bytes>, Lost> {
        let mut headers = HeaderMap::new();
        let value = |text: String| HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""));
        headers.insert(RANGE, value(format!("bytes={start}-{}", end - 1)));
        headers.insert(IF_MATCH, value(tag.to_string()));
        let options = haul_http::Options { class: Class::Large, ..haul_http::Options::default() };
        let answer = self.dav.get(path, headers, options).await?;
        let differs = |why: String| Error::Differs { path: path.clone(), why };
        if answer.status() != StatusCode::PARTIAL_CONTENT {
            return Err(differs("the server does not send parts of it".into()).into());
        }
        let (mut body, mut pieces, mut length) = (answer.into_body(), Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.map_err(cut)?.into_data() else { continue };
            length += piece.len() as u64;
            if length > end - start {
                break;
            }
            (self.watch)(Event::Moved { bytes: piece.len() as u64 });
            pieces.push(piece);
        }
        if length == end - start {
            Ok(pieces)
        } else {
            Err(Lost::Amid(differs(format!("the server sent {length} of the {} bytes from {start}", end - start))))
        }
    }
}

/// Why a file, or a part of it, did not come.
enum Lost {
    /// What the engine could do about it, it has done; or nothing can be done.
    Whole(Error),
    /// Its answer had begun, and could not be tried elsewhere by then.
    Amid(Error),
}

impl From<Error> for Lost {
    fn from(error: Error) -> Self {
        Self::Whole(error)
    }
}

fn cut(error: haul_http::Error) -> Lost {
    Lost::Amid(error.into())
}

/// Tries a few times to have what is lost in the middle.
async fn again<T, F: Future<Output = Result<T, Lost>>>(fetch: impl Fn() -> F) -> Result<T, Error> {
    for left in (0..TRIES).rev() {
        match fetch().await {
            Ok(fetched) => return Ok(fetched),
            Err(Lost::Amid(_)) if left > 0 => {}
            Err(Lost::Amid(error) | Lost::Whole(error)) => return Err(error),
        }
    }
    unreachable!("the last try returns")
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
