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

use std::{
    collections::{HashSet, VecDeque},
    ffi::{OsStr, OsString},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Instant, SystemTime},
};

use futures_util::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream, stream::FuturesUnordered};
use haul_http::{Body, Class, Expected};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{CONTENT_RANGE, IF_MATCH, RANGE},
};
use http_body_util::BodyExt;
use tokio::{io::AsyncWriteExt, sync::Notify};

use super::{Event, Options, Skip, Summary, Verify, Watch, lock, part_name, temporary_name};
use crate::{
    Dav, ETag, Error, Properties, RemotePath, Wanted,
    compare::{as_stored, with_digests},
    requests::Depth,
};

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
        summary: Mutex::default(),
    };
    let (mut queue, mut places) = (Queue::default(), HashSet::new());
    let wanted = work.wanted();
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
        queue.add_source(entry.path, place, Facts::of(entry.properties))?;
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

    /// Its length and tag, if it is worth parts and one version can be told from another.
    fn in_parts(&self) -> Option<(u64, &ETag)> {
        self.length.filter(|length| *length >= LARGE).zip(self.etag.as_ref().filter(|tag| !tag.is_weak()))
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
    summary: Mutex<Summary>,
}

impl Work<'_> {
    /// What is listed of files, given what is to be compared.
    fn wanted(&self) -> Wanted {
        if self.options.verify == Verify::Digest || self.options.skip == Skip::SameDigest {
            Wanted::DIGESTS
        } else {
            Wanted::LISTING
        }
    }

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
        let (mut folders, mut files, mut misplaced) = (Vec::new(), Vec::new(), Vec::new());
        let folder = Arc::new(folder);
        let listed = self.dav.list(&path, Depth::One, self.wanted(), |entry| match entry {
            Ok(entry) if entry.path.same_place(&path) => {}
            Ok(entry) => {
                // One level below, whatever a server says.
                let below = entry.path.parent().is_some_and(|parent| parent.same_place(&path));
                match entry.path.name().filter(|_| below) {
                    Some(name) if entry.path.is_folder() => {
                        let place = folder.place.join(OsStr::from_bytes(name));
                        folders.push(Folder { path: entry.path, place, named: false, fresh: false, alias: None });
                    }
                    Some(name) => {
                        let (folder, name) = (folder.clone(), name.into());
                        files.push(Find { folder, name, facts: Facts::of(entry.properties) });
                    }
                    None => misplaced.push((entry.path.to_string(), "the server lists it where it cannot be")),
                }
            }
            Err(error) => misplaced.push((error.path.clone(), "its name cannot be used here")),
        });
        if let Err(error) = listed.await {
            self.failed(&path.to_string(), error);
            return (Vec::new(), Vec::new());
        }
        // Each name once.
        folders.sort_unstable_by(|a, b| a.place.cmp(&b.place));
        folders.dedup_by(|a, b| a.place == b.place);
        files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        files.dedup_by(|a, b| a.name == b.name);
        let both: HashSet<&[u8]> = folders.iter().filter_map(|folder| folder.path.name()).collect();
        for find in files.iter().filter(|find| both.contains(&*find.name)) {
            let name = String::from_utf8_lossy(&find.name).into_owned();
            misplaced.push((name, "the server lists a file and a folder of this name"));
        }
        for (name, why) in misplaced {
            self.failed(&name, Error::Differs { path: path.clone(), why: format!("{why} ({name})") });
        }
        if self.options.delete && !folder.fresh {
            let kept = files.iter().map(|find| &*find.name).chain(both).collect();
            self.note_extras(&folder.place, &kept);
        }
        files.shrink_to_fit();
        (folders, files)
    }

    /// Makes a folder here; whether it was not there before. Links are not followed, but for what the user has named:
    /// they lead out of the tree.
    fn make(&self, folder: &Folder) -> io::Result<bool> {
        let place = &folder.place;
        let there = if folder.named { fs::metadata(place) } else { fs::symlink_metadata(place) };
        match there {
            Ok(kind) if kind.is_dir() => return Ok(false),
            Ok(kind) if kind.is_symlink() => return Err(io::Error::other("there is a link of this name here")),
            Ok(_) => return Err(io::Error::other("there is a file of this name here")),
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
                let now = self.dav.stat(path, self.wanted()).await.ok().flatten().filter(|now| !now.path.is_folder());
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

    /// Fetches a file to its place: its length.
    async fn fetch(&self, find: &Find, path: &RemotePath) -> Result<u64, Error> {
        let place = find.place();
        let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(Error::local("write", &place, io::Error::other("it has no name")));
        };
        let there = if find.folder.named { fs::metadata(&place) } else { fs::symlink_metadata(&place) };
        if there.is_ok_and(|kind| kind.is_dir()) {
            return Err(Error::local("write", &place, io::Error::other("there is a folder of this name here")));
        }
        let mut part = self.part(folder, name, path, &find.facts);
        let mut fetched = self.fetch_to(find, path, &part).await;
        if let Ok(None) = fetched {
            // All of it at once may be of another version: that is nothing to go on from.
            let _ = fs::remove_file(&part.place);
            lock(&self.parts).remove(&part.place);
            part = self.new_part(folder, name);
            fetched = self.fetch_whole(find, path, &part.place).await.map(Some);
        }
        let placed = match fetched {
            Ok(length) => set_down(find, &part.place, &place).map(|()| length.unwrap_or_default()),
            Err(error) => Err(error),
        };
        if let Err(error) = &placed {
            let useful = part.stays
                && matches!(error, Error::Http(_) | Error::Local { .. })
                && fs::metadata(&part.place).is_ok_and(|kind| kind.len() > 0);
            if !useful {
                let _ = fs::remove_file(&part.place);
            }
        }
        lock(&self.parts).remove(&part.place);
        placed
    }

    /// Where a file is written first. Of a large one that can be told from its other versions, the name is always the
    /// same, and what an earlier run has left is gone on from; unless another process is writing it.
    fn part(&self, folder: &Path, name: &OsStr, path: &RemotePath, facts: &Facts) -> Part {
        if let Some((length, tag)) =
            facts.in_parts().filter(|_| self.options.resume && !self.whole_only.load(Ordering::Relaxed))
        {
            let mut mark = DefaultHasher::new();
            (path.target(), length, tag).hash(&mut mark);
            let place = folder.join(OsStr::from_bytes(&part_name(name.as_bytes(), mark.finish())));
            let opened = fs::File::options().create(true).truncate(false).write(true).open(&place);
            if let Ok(file) = opened
                && file.try_lock().is_ok()
            {
                let has = file.metadata().map_or(0, |kind| kind.len());
                return Part { place, has: if has > length { 0 } else { has }, stays: true, _alone: Some(file) };
            }
        }
        self.new_part(folder, name)
    }

    fn new_part(&self, folder: &Path, name: &OsStr) -> Part {
        let place = folder.join(OsStr::from_bytes(&temporary_name(name.as_bytes())));
        lock(&self.parts).insert(place.clone());
        Part { place, has: 0, stays: false, _alone: None }
    }

    /// Fetches a file, in parts if it is worth that: its length. None if the server does not send parts.
    async fn fetch_to(&self, find: &Find, path: &RemotePath, part: &Part) -> Result<Option<u64>, Error> {
        let worth = part.stays || self.options.connections > 1 && !self.whole_only.load(Ordering::Relaxed);
        let Some((length, tag)) = find.facts.in_parts().filter(|_| worth) else {
            return self.fetch_whole(find, path, &part.place).await.map(Some);
        };
        let fetched = self.fetch_parts(path, part, length, tag).await?;
        if fetched.is_some() {
            self.compare(find, path, &part.place, length).await?;
        }
        Ok(fetched)
    }

    /// Compares what has come with the digest that the server has of it, if that is wanted and there is one.
    async fn compare(&self, find: &Find, path: &RemotePath, part: &Path, length: u64) -> Result<(), Error> {
        if self.options.verify != Verify::Digest {
            return Ok(());
        }
        let mut body = Body::file(part.to_owned(), 0, length);
        match self.dav.digest_fits(path, &mut body, &find.facts.checksums).await? {
            Some(false) => {
                let why = "what came has another digest than the server says: try again".into();
                Err(Error::Differs { path: path.clone(), why })
            }
            _ => Ok(()),
        }
    }

    async fn fetch_whole(&self, find: &Find, path: &RemotePath, part: &Path) -> Result<u64, Error> {
        let (length, verified) = again(|| self.try_whole(find, path, part)).await?;
        // A digest that came with the answer has been compared as it was read.
        if !verified {
            self.compare(find, path, part, length).await?;
        }
        Ok(length)
    }

    async fn try_whole(&self, find: &Find, path: &RemotePath, part: &Path) -> Result<(u64, bool), Lost> {
        let facts = &find.facts;
        let class = if facts.length.is_some_and(|length| length <= SMALL) { Class::Small } else { Class::Large };
        let expected = Expected { etag: facts.etag.as_ref().map(ToString::to_string), length: facts.length };
        let options = haul_http::Options { class, expected, ..haul_http::Options::default() };
        let digests = self.options.verify == Verify::Digest;
        let headers = if digests { with_digests() } else { HeaderMap::from_iter([as_stored()]) };
        let answer = self.dav.get(path, headers, options).await?;
        if answer.status() != StatusCode::OK {
            let why = format!("the server answers with {} instead of the file", answer.status());
            return Err(Error::Differs { path: path.clone(), why }.into());
        }
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
            self.is_as_listed(facts, path, moved, told.is_none())?;
            return Ok((moved, !body.verified().is_empty()));
        }
        let mut file = tokio::fs::File::from_std(file);
        let mut piece = first;
        loop {
            if let Some(piece) = piece.take() {
                length += piece.len() as u64;
                (self.watch)(Event::Moved { bytes: piece.len() as u64 });
                file.write_all(&piece).await.map_err(written)?;
            }
            // What is longer may have no end.
            if facts.length.is_some_and(|listed| length > listed) {
                break;
            }
            match body.frame().await {
                Some(frame) => piece = frame.map_err(cut)?.into_data().ok(),
                None => break,
            }
        }
        file.flush().await.map_err(written)?;
        self.is_as_listed(facts, path, length, told.is_none())?;
        Ok((length, !body.verified().is_empty()))
    }

    /// Whether so many bytes are what was listed. An answer that does not tell its length itself may be cut: then it is
    /// tried again.
    fn is_as_listed(&self, facts: &Facts, path: &RemotePath, length: u64, blind: bool) -> Result<(), Lost> {
        let Some(listed) = facts.length.filter(|listed| *listed != length) else { return Ok(()) };
        if self.options.verify == Verify::None && !blind {
            return Ok(());
        }
        let more = if length > listed { "more than " } else { "" };
        let why = format!("the server listed {listed} bytes and sent {more}{}", length.min(listed));
        let error = Error::Differs { path: path.clone(), why };
        Err(if blind { Lost::Amid(error) } else { Lost::Whole(error) })
    }

    /// Asks for all parts of one version, several at a time, and writes them one after another; none if the server does
    /// not send parts.
    async fn fetch_parts(&self, path: &RemotePath, part: &Part, length: u64, tag: &ETag) -> Result<Option<u64>, Error> {
        let written = |error| Error::local("write", &part.place, error);
        let mut file =
            fs::File::options().create(true).truncate(false).write(true).open(&part.place).map_err(written)?;
        // What is beyond is of no use.
        file.set_len(part.has).and_then(|()| io::Seek::seek(&mut file, io::SeekFrom::End(0))).map_err(written)?;
        if part.has > 0 {
            (self.watch)(Event::Moved { bytes: part.has });
        }
        let mut file = tokio::fs::File::from_std(file);
        let starts = (part.has..length).step_by(PART as usize);
        let mut parts = stream::iter(starts)
            .map(|start| async move {
                let end = (start + PART).min(length);
                again(|| self.fetch_part(path, start..end, length, tag)).await
            })
            .buffered(self.options.connections.max(1));
        while let Some(pieces) = parts.try_next().await? {
            let Some(pieces) = pieces else {
                self.whole_only.store(true, Ordering::Relaxed);
                return Ok(None);
            };
            for piece in pieces {
                file.write_all(&piece).await.map_err(written)?;
            }
        }
        file.flush().await.map_err(written)?;
        Ok(Some(length))
    }

    /// A part of a file that is `whole` bytes long; none if the server sends all of it instead.
    async fn fetch_part(
        &self,
        path: &RemotePath,
        range: std::ops::Range<u64>,
        whole: u64,
        tag: &ETag,
    ) -> Result<Option<Vec<bytes::Bytes>>, Lost> {
        let (start, end) = (range.start, range.end);
        let mut headers = HeaderMap::from_iter([as_stored()]);
        let value = |text: String| HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""));
        headers.insert(RANGE, value(format!("bytes={start}-{}", end - 1)));
        headers.insert(IF_MATCH, value(tag.to_string()));
        let options = haul_http::Options { class: Class::Large, ..haul_http::Options::default() };
        let answer = self.dav.get(path, headers, options).await?;
        let differs = |why: String| Error::Differs { path: path.clone(), why };
        if answer.status() == StatusCode::OK {
            return Ok(None);
        }
        let told = answer.headers().get(CONTENT_RANGE).and_then(|told| told.to_str().ok()).unwrap_or("nothing");
        if answer.status() != StatusCode::PARTIAL_CONTENT || !is_range(told, &range, whole) {
            let why = format!("bytes {start}-{} of {whole} were asked for, and the server sends {told}", end - 1);
            return Err(differs(why).into());
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
            Ok(Some(pieces))
        } else {
            Err(Lost::Amid(differs(format!("the server sent {length} of the {} bytes from {start}", end - start))))
        }
    }
}

/// Where a file is written first.
struct Part {
    place: PathBuf,
    /// What is there already, and right.
    has: u64,
    /// Whether it is left for the next run if this one is interrupted.
    stays: bool,
    /// Held under a lock for as long as we write.
    _alone: Option<fs::File>,
}

/// Gives what is whole its time and its name.
fn set_down(find: &Find, part: &Path, place: &Path) -> Result<(), Error> {
    if let Some(modified) = find.facts.modified {
        // A file system that keeps no times keeps files all the same.
        let _ = fs::File::options().write(true).open(part).and_then(|file| file.set_modified(modified));
    }
    fs::rename(part, place).map_err(|error| Error::local("write", place, error))
}

/// Whether a `Content-Range` is just what was asked for (RFC 9110 §14.4).
fn is_range(told: &str, range: &std::ops::Range<u64>, whole: u64) -> bool {
    let Some((part, total)) = told.strip_prefix("bytes ").and_then(|told| told.split_once('/')) else { return false };
    let bounds = part.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse::<u64>().ok()?)));
    bounds == Some((range.start, range.end - 1)) && (total == "*" || total.parse() == Ok(whole))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_was_asked_for_or_nothing() {
        for (told, fits) in [
            ("bytes 10-19/100", true),
            ("bytes 10-19/*", true),
            ("bytes 10-18/100", false),
            ("bytes 0-9/100", false),
            ("bytes 10-19/99", false),
            ("bytes */100", false),
            ("10-19/100", false),
            ("", false),
        ] {
            assert_eq!(is_range(told, &(10..20), 100), fits, "{told}");
        }
    }
}
