//! Carries an upload's plan out.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};
use haul_http::{Body, Class};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use super::{
    Event, Options, SHARED, Skip, Summary, Verify, Watch,
    holding::Holding,
    lock,
    plan::{Before, Listing, News, Outcome, Plan, Sent, Step, There},
    temporary_name,
    walk::{Folder, Outline},
};
use crate::{Dav, Error, Guard, If, RemotePath, Wanted, requests::Depth};

/// A file up to this size is read at once, and travels in the same segments as its request's head.
const AT_ONCE: u64 = 128 * 1024;
/// So many files are asked for one by one, rather than with all that is in their folder.
const FEW: usize = 8;
/// How long putting all in order may take in the end, and how much of that the wait for what is under way.
const FAREWELL: Duration = Duration::from_secs(10);
const SETTLING: Duration = Duration::from_secs(4);
/// How long after its connection's end an upload may still appear.
const LATE: Duration = Duration::from_millis(300);

/// Uploads files and folders, as cp(1) does: into `to` if that is a folder, and otherwise, if there is one source, as
/// `to`. When `stop` is notified, what is under way is given up, what was made for the time being is undone, and the
/// summary is of what was done.
pub async fn upload(
    dav: &Dav,
    sources: &[PathBuf],
    to: &RemotePath,
    options: &Options,
    stop: &Notify,
    watch: &Watch,
) -> Result<Summary, Error> {
    let begin = Instant::now();
    // Handshakes take round trips, and looking at the disk takes time: all at once.
    dav.warm(to, options.connections);
    let sources = looked(sources.to_vec(), options.recursive).await?;
    let (target, early, found) =
        tokio::join!(target(dav, to, &sources, options), begun(dav, to, &sources, options), walked(&sources, to));
    let (outline, mut tops) = placed(target?, found?, to, options)?;
    let mut summary = Summary::default();
    // The lone folder is the first in the target.
    if let (Some((made, listing)), [(0, Some(_))]) = (early, &tops[..])
        && outline.folders.get(1).is_some_and(|folder| folder.parent == Some(0))
    {
        if made {
            summary.folders += 1;
            watch(Event::Made { path: &outline.folders[1].path.to_string() });
        }
        tops = vec![(1, Some(listing))];
    }
    for (path, why) in &outline.left_out {
        watch(Event::Failed { path, why });
        summary.failed.push((path.clone(), why.clone()));
    }
    let bytes = outline.files.iter().map(|file| file.length).sum();
    watch(Event::Found { files: outline.files.len() as u64, bytes });

    let upload = Upload {
        dav,
        options,
        watch,
        holding: Holding::new(dav, options.lock, &options.owner),
        temporary: Mutex::default(),
    };
    let mut plan = Plan::new(outline, options.clone(), tops);
    let stopped = tokio::select! {
        biased;
        () = stop.notified() => true,
        () = upload.holding.refresh() => false,
        () = upload.run(&mut plan, &mut summary) => false,
    };
    upload.tidy().await;
    if stopped {
        let blind = plan.end();
        upload.tell(&mut plan, &mut summary);
        watch(Event::Note("stopped: what was under way was given up, and what is done stays"));
        if blind > 0 {
            watch(Event::Note(&format!(
                "{blind} of the files were sent, but not yet compared with what the server has"
            )));
        }
    }
    if plan.spares() {
        watch(Event::Note("nothing was deleted on the server, since not everything went well here"));
    }
    summary.took = begin.elapsed();
    Ok(summary)
}

/// What is at `to`: what its folder holds, or that it is a file, or nothing.
enum Target {
    Folder(Listing),
    File(There),
    Nothing,
}

/// What is listed of files, given what is to be compared.
fn wanted(options: &Options) -> Wanted {
    if options.verify == Verify::Digest || options.skip == Skip::SameDigest { Wanted::DIGESTS } else { Wanted::LISTING }
}

async fn target(
    dav: &Dav,
    to: &RemotePath,
    sources: &[(PathBuf, fs::Metadata)],
    options: &Options,
) -> Result<Target, Error> {
    let few = sources.len() <= FEW && sources.iter().all(|(_, kind)| kind.is_file());
    if few { few_of(dav, to, sources, wanted(options)).await } else { listing(dav, to, wanted(options)).await }
}

/// Looks at the target and the names in it that matter, all at once: its listing may be long.
async fn few_of(
    dav: &Dav,
    to: &RemotePath,
    sources: &[(PathBuf, fs::Metadata)],
    wanted: Wanted,
) -> Result<Target, Error> {
    let folder = to.clone().as_folder(true);
    let names = sources.iter().map(|(local, _)| name_of(local)).collect::<Result<Vec<_>, _>>()?;
    let paths = names.iter().map(|name| folder.join(name, false)).collect::<Result<Vec<_>, _>>()?;
    let each = join_all(paths.iter().map(|path| dav.stat(path, wanted)));
    let (own, found) = futures_util::join!(dav.stat(to, wanted), each);
    match own? {
        None => Ok(Target::Nothing),
        Some(own) if !own.path.is_folder() => Ok(Target::File(There::from(&own))),
        Some(_) => {
            let mut listing = Listing::new();
            for (name, found) in names.into_iter().zip(found) {
                if let Some(entry) = found? {
                    listing.insert(name, There::from(&entry));
                }
            }
            Ok(Target::Folder(listing))
        }
    }
}

async fn listing(dav: &Dav, to: &RemotePath, wanted: Wanted) -> Result<Target, Error> {
    let (mut listing, mut own) = (Listing::new(), None);
    let asked = to.clone().as_folder(true);
    let listed = dav.list(&asked, Depth::One, wanted, |entry| {
        let Ok(entry) = entry else { return };
        let there = There::from(&entry);
        match entry.path.name() {
            _ if entry.path.same_place(to) => own = Some(there),
            Some(name) => drop(listing.insert(name.to_owned(), there)),
            None => {}
        }
    });
    match listed.await {
        Ok(()) => Ok(match own {
            Some(own) if !own.folder => Target::File(own),
            _ => Target::Folder(listing),
        }),
        Err(error) if error.is(404) => Ok(Target::Nothing),
        // Some servers will not list a file by a folder's name.
        Err(error) => match dav.stat(&to.clone().as_folder(false), wanted).await {
            Ok(Some(entry)) if !entry.path.is_folder() => Ok(Target::File(There::from(&entry))),
            _ => Err(error),
        },
    }
}

/// A lone folder that goes into the target has its name there already: it is made, or listed, while the target is
/// looked at. Whether it was made, and what is in it; none if neither is known. If the target is no folder, neither can
/// have happened.
async fn begun(
    dav: &Dav,
    to: &RemotePath,
    sources: &[(PathBuf, fs::Metadata)],
    options: &Options,
) -> Option<(bool, Listing)> {
    let [(local, kind)] = sources else { return None };
    if !kind.is_dir() || options.contents || options.dry_run {
        return None;
    }
    let path = to.clone().as_folder(true).join(&name_of(local).ok()?, true).ok()?;
    let none = If::default();
    let (made, listed) = futures_util::join!(dav.try_mkcol(&path, &none), listing(dav, &path, wanted(options)));
    match (made, listed) {
        (Ok(()), _) => Some((true, Listing::new())),
        (Err(_), Ok(Target::Folder(listing))) => Some((false, listing)),
        _ => None,
    }
}

/// What each source is. Those that the user has named are looked at through links.
async fn looked(sources: Vec<PathBuf>, recursive: bool) -> Result<Vec<(PathBuf, fs::Metadata)>, Error> {
    let looked = blocking(move || {
        let look = |path: PathBuf| match fs::metadata(&path) {
            Ok(kind) => Ok((path, kind)),
            Err(error) => Err(Error::local("read", path, error)),
        };
        sources.into_iter().map(look).collect::<Result<Vec<_>, _>>()
    });
    let looked = looked.await?;
    if let Some((local, _)) = looked.iter().find(|(_, kind)| kind.is_dir()).filter(|_| !recursive) {
        let why = io::Error::other("it is a folder: add -r to upload all that is in it");
        return Err(Error::local("upload", local, why));
    }
    Ok(looked)
}

/// A source, and for a folder all that is in it.
type Found = (PathBuf, fs::Metadata, Option<Outline>);

/// Goes through the sources that are folders. Where they belong is not known yet: they stand as `to` for now.
async fn walked(sources: &[(PathBuf, fs::Metadata)], to: &RemotePath) -> Result<Vec<Found>, Error> {
    let (sources, to) = (sources.to_vec(), to.clone().as_folder(true));
    let walk = move |(local, kind): (PathBuf, fs::Metadata)| {
        let walked = kind.is_dir().then(|| {
            let mut outline = Outline::default();
            outline.add_folder(&local, to.clone(), None);
            outline
        });
        (local, kind, walked)
    };
    blocking(move || Ok(sources.into_iter().map(walk).collect())).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::local("read", "the sources", io::Error::other(error))))
}

/// Where everything belongs, and what is known of the folders it belongs in.
type Placed = (Outline, Vec<(usize, Option<Listing>)>);

fn placed(target: Target, sources: Vec<Found>, to: &RemotePath, options: &Options) -> Result<Placed, Error> {
    let folder = to.clone().as_folder(true);
    let (mut outline, count) = (Outline::default(), sources.len());
    let top = |outline: &mut Outline, path: RemotePath| {
        outline.folders.push(Folder { path, parent: None, given: true });
        outline.folders.len() - 1
    };
    let mut sources = sources.into_iter();
    match (target, sources.as_slice()) {
        // The folder's contents, or the folder by another name.
        (target @ (Target::Folder(_) | Target::Nothing), [(_, kind, _)])
            if kind.is_dir() && (options.contents || matches!(target, Target::Nothing)) =>
        {
            let walked = sources.next().and_then(|(_, _, walked)| walked).unwrap_or_default();
            let known = if let Target::Folder(listing) = target { Some(listing) } else { None };
            Ok((walked, vec![(0, known)]))
        }
        (Target::Folder(listing), _) => {
            let base = top(&mut outline, folder.clone());
            let mut names = HashSet::new();
            for (local, kind, walked) in sources {
                let name = name_of(&local)?;
                if !names.insert(name.clone()) {
                    let why = io::Error::other("another source has the same name: upload them one by one");
                    return Err(Error::local("upload", local, why));
                }
                match walked {
                    Some(walked) => outline.graft(walked, &folder.join(&name, true)?, Some(base))?,
                    None => outline.add_file(&local, &name, base, &kind),
                }
            }
            Ok((outline, vec![(base, Some(listing))]))
        }
        (target @ (Target::File(_) | Target::Nothing), [(local, kind, _)]) if kind.is_file() && !to.is_folder() => {
            let (Some(parent), Some(name)) = (to.parent(), to.name()) else {
                return Err(Error::Differs { path: to.clone(), why: "it is no name for a file".into() });
            };
            let base = top(&mut outline, parent);
            outline.add_file(local, name, base, kind);
            let mut known = Listing::new();
            if let Target::File(there) = target {
                known.insert(name.to_owned(), there);
            }
            Ok((outline, vec![(base, Some(known))]))
        }
        (Target::Nothing, _) => {
            let why = format!("there is no such folder to put {count} things into: make it first (haul mkdir)");
            Err(Error::Differs { path: folder, why })
        }
        (Target::File(_), _) => {
            Err(Error::Differs { path: to.clone(), why: "it is a file, and cannot hold what is to be uploaded".into() })
        }
    }
}

/// What a source is called on the other side.
fn name_of(local: &Path) -> Result<Vec<u8>, Error> {
    // `.` and `..` have names, too.
    let resolved = if local.file_name().is_some() { Ok(local.to_owned()) } else { fs::canonicalize(local) };
    let resolved = resolved.map_err(|error| Error::local("read", local, error))?;
    let name = resolved.file_name().map(|name| name.as_encoded_bytes().to_owned());
    name.ok_or_else(|| Error::local("upload", local, io::Error::other("it has no name: name its files instead")))
}

impl There {
    pub(crate) fn from(entry: &crate::Entry) -> Self {
        let properties = &entry.properties;
        Self {
            folder: entry.path.is_folder(),
            length: properties.length,
            modified: properties.modified,
            etag: properties.etag.clone(),
            checksums: properties.checksums.clone(),
        }
    }
}

struct Upload<'a> {
    dav: &'a Dav,
    options: &'a Options,
    watch: &'a Watch,
    holding: Holding<'a>,
    /// Files on the server that are not to stay.
    temporary: Mutex<BTreeSet<RemotePath>>,
}

impl Upload<'_> {
    async fn run(&self, plan: &mut Plan, summary: &mut Summary) {
        let mut running: FuturesUnordered<BoxFuture<'_, Outcome>> = FuturesUnordered::new();
        loop {
            self.tell(plan, summary);
            while let Some(step) = plan.next() {
                running.push(self.step(step, plan.outline()));
            }
            self.tell(plan, summary);
            match running.next().await {
                Some(outcome) => plan.take(outcome),
                None => return,
            }
        }
    }

    /// Begins a step.
    fn step(&self, step: Step, outline: &Outline) -> BoxFuture<'_, Outcome> {
        let dry = self.options.dry_run;
        match step {
            Step::List(folder) => {
                let path = outline.folders[folder].path.clone();
                async move { Outcome::Listed(folder, self.list(&path).await) }.boxed()
            }
            Step::Make(folder) if dry => async move { Outcome::Made(folder, Ok(true)) }.boxed(),
            Step::Make(folder) => {
                let path = outline.folders[folder].path.clone();
                async move { Outcome::Made(folder, self.dav.mkcol(&path, &If::default()).await) }.boxed()
            }
            Step::Check(folder) => {
                let place = &outline.folders[folder];
                let path = place.path.clone();
                // The others in a folder that was there may be many.
                let few: Option<Vec<_>> = (place.given && outline.files.len() <= FEW)
                    .then(|| outline.files.iter().map(|file| file.name.clone()).collect());
                async move {
                    let listed = match few {
                        Some(names) => self.stat_each(&path, names).await,
                        None => self.list(&path).await.map(Option::unwrap_or_default),
                    };
                    Outcome::Checked(folder, listed)
                }
                .boxed()
            }
            Step::Compare(file, checksums) => {
                let facts = &outline.files[file];
                let mut body = Body::file(facts.local.clone(), 0, facts.length);
                let path = facts.path(&outline.folders);
                async move {
                    let same = match path {
                        Ok(path) => self.dav.holds(&path, &mut body, &checksums).await,
                        Err(error) => Err(error),
                    };
                    Outcome::Compared(file, same)
                }
                .boxed()
            }
            Step::Delete(path, _) if dry => async move { Outcome::Deleted(path, Ok(())) }.boxed(),
            Step::Delete(path, guard) => async move {
                let deleted = self.dav.delete(&path, &guard, &If::default()).await;
                let gone = deleted.as_ref().is_err_and(|error| error.is(404));
                Outcome::Deleted(path, if gone { Ok(()) } else { deleted })
            }
            .boxed(),
            Step::Upload(file, before) => {
                let facts = &outline.files[file];
                let (local, length, modified) = (facts.local.clone(), facts.length, facts.modified);
                match facts.path(&outline.folders) {
                    Err(error) => async move { Outcome::Uploaded(file, Err(error)) }.boxed(),
                    Ok(_) if dry => {
                        async move { Outcome::Uploaded(file, Ok(Sent { bytes: length, etag: None })) }.boxed()
                    }
                    Ok(path) => {
                        async move { Outcome::Uploaded(file, self.file(&local, &path, length, modified, before).await) }
                            .boxed()
                    }
                }
            }
        }
    }

    /// What a folder holds.
    async fn list(&self, path: &RemotePath) -> Result<Option<Listing>, Error> {
        let mut listing = Listing::new();
        let listed = self.dav.list(path, Depth::One, wanted(self.options), |entry| {
            if let Ok(entry) = entry
                && let Some(name) = entry.path.name().filter(|_| !entry.path.same_place(path))
            {
                listing.insert(name.to_owned(), There::from(&entry));
            }
        });
        match listed.await {
            Ok(()) => Ok(Some(listing)),
            Err(error) if error.is(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What of these is in a folder.
    async fn stat_each(&self, folder: &RemotePath, names: Vec<Vec<u8>>) -> Result<Listing, Error> {
        let look = |name: Vec<u8>| async move {
            let found = self.dav.stat(&folder.join(&name, false)?, wanted(self.options)).await?;
            Ok(found.map(|entry| (name, There::from(&entry))))
        };
        futures_util::future::try_join_all(names.into_iter().map(look))
            .await
            .map(|found| found.into_iter().flatten().collect())
    }

    /// Uploads a file under its lock, if it needs one.
    async fn file(
        &self,
        local: &Path,
        path: &RemotePath,
        length: u64,
        modified: Option<SystemTime>,
        before: Before,
    ) -> Result<Sent, Error> {
        let exists = before != Before::Nothing;
        let _turn = self.holding.turn(exists).await;
        let claims = self.holding.acquire(path, exists).await?;
        // A lock on what was not there has made an empty file of it.
        let made = !exists && claims != If::default();
        let guard = match before {
            Before::Nothing if made => Guard::None,
            Before::Nothing => Guard::Absent,
            Before::File(guard) => guard,
        };
        let sent = self.send(local, path, length, modified, &guard, &claims).await;
        self.holding.release(path, sent.is_ok()).await;
        sent
    }

    async fn send(
        &self,
        local: &Path,
        path: &RemotePath,
        length: u64,
        modified: Option<SystemTime>,
        guard: &Guard,
        claims: &If,
    ) -> Result<Sent, Error> {
        let source = Source::open(local, length, self.watch).await?;
        let bytes = source.body.length().unwrap_or(length);
        let mut headers = HeaderMap::new();
        // Nextcloud's and ownCloud's; to others it says nothing.
        if let Some(since) = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok()) {
            headers.insert(HeaderName::from_static("x-oc-mtime"), HeaderValue::from(since.as_secs()));
        }
        let class = if bytes <= SHARED { Class::Small } else { Class::Large };
        let options = haul_http::Options { class, pipeline: true, ..haul_http::Options::default() };
        if self.options.temporary {
            self.send_renamed(path, source, headers, guard, claims, options).await?;
            return Ok(Sent { bytes, etag: None });
        }
        let stored = self.dav.put(path, source.body, headers, guard, claims, options).await?;
        source.seen.still(local)?;
        Ok(Sent { bytes, etag: stored.etag })
    }

    /// Uploads under another name, and renames when all is there: nobody sees half of it, and a version that somebody
    /// else wrote meanwhile stays.
    async fn send_renamed(
        &self,
        path: &RemotePath,
        source: Source,
        headers: HeaderMap,
        guard: &Guard,
        claims: &If,
        options: haul_http::Options,
    ) -> Result<(), Error> {
        let Source { body, seen, local } = source;
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::Differs { path: path.clone(), why: "it is no name for a file".into() });
        };
        let temporary = parent.join(&temporary_name(name), false)?;
        self.temporary().insert(temporary.clone());
        let ours = body.again();
        let renamed = async {
            self.dav.put(&temporary, body, headers, &Guard::Absent, &If::default(), options).await?;
            seen.still(&local)?;
            let claims = match guard {
                // A state is compared strongly (RFC 4918 §10.4.4): a weak tag never fits.
                Guard::Unchanged(tag) if !tag.is_weak() => claims.clone().unchanged(path, tag.clone()),
                _ => claims.clone(),
            };
            let renamed = self.dav.rename(&temporary, path, *guard != Guard::Absent, &claims).await;
            match renamed {
                // Renamed already, by a request whose answer was lost.
                Err(error) if error.is(404) && self.dav.is_ours(&error, path, ours).await => Ok(()),
                renamed => renamed,
            }
        };
        let renamed = renamed.await;
        let gone = match &renamed {
            Ok(()) => true,
            Err(why) => match self.dav.delete(&temporary, &Guard::None, &If::default()).await {
                Ok(()) => true,
                // What was refused is not there, and comes no more; what got no answer may.
                Err(error) => error.is(404) && why.refusal().is_some(),
            },
        };
        if gone {
            self.temporary().remove(&temporary);
        }
        renamed
    }

    fn temporary(&self) -> std::sync::MutexGuard<'_, BTreeSet<RemotePath>> {
        lock(&self.temporary)
    }

    /// Leaves nothing behind that was not meant to stay. Uploads that were given up may be in the server's hands, and
    /// appear when it is done with them: first their end is waited for, and what was not there yet is deleted twice.
    async fn tidy(&self) {
        let left = std::mem::take(&mut *self.temporary());
        let _ = timeout(FAREWELL, async {
            if !left.is_empty() || self.holding.is_held() {
                let _ = timeout(SETTLING, self.dav.client().settled(self.dav.requests().origin())).await;
            }
            futures_util::join!(self.delete_all(left), self.holding.release_all());
        })
        .await;
    }

    async fn delete_all(&self, left: BTreeSet<RemotePath>) {
        let delete = |path: RemotePath| async move {
            let deleted = self.dav.delete(&path, &Guard::None, &If::default()).await;
            deleted.is_err().then_some(path)
        };
        let missed: Vec<_> = join_all(left.into_iter().map(delete)).await.into_iter().flatten().collect();
        if !missed.is_empty() {
            sleep(LATE).await;
            join_all(missed.into_iter().map(delete)).await;
        }
    }

    /// Passes the news on, and counts.
    fn tell(&self, plan: &mut Plan, summary: &mut Summary) {
        for news in plan.news() {
            let outline = plan.outline();
            let name = |file: usize| outline.files[file].local.display().to_string();
            match news {
                News::Done(file) => {
                    let bytes = outline.files[file].length;
                    summary.files += 1;
                    summary.bytes += bytes;
                    (self.watch)(Event::Done { path: &name(file), bytes });
                }
                News::Skipped(file) => {
                    summary.skipped += 1;
                    (self.watch)(Event::Skipped { path: &name(file), bytes: outline.files[file].length });
                }
                News::Made(folder) => {
                    summary.folders += 1;
                    (self.watch)(Event::Made { path: &outline.folders[folder].path.to_string() });
                }
                News::Deleted(path) => {
                    summary.deleted += 1;
                    (self.watch)(Event::Deleted { path: &path.to_string() });
                }
                News::Failed(path, why) => {
                    (self.watch)(Event::Failed { path: &path, why: &why });
                    summary.failed.push((path, why));
                }
            }
        }
    }
}

/// A file on its way.
struct Source {
    local: PathBuf,
    body: Body,
    seen: Seen,
}

/// What a file looked like when it was opened, by which a change is known.
#[derive(Debug, Clone, Copy)]
struct Seen {
    length: u64,
    modified: Option<SystemTime>,
}

impl Source {
    /// A file's content, `length` bytes when it was listed. A small one is read now, and is what it is now; a large one
    /// is read as it is sent.
    async fn open(local: &Path, length: u64, watch: &Watch) -> Result<Self, Error> {
        let path = local.to_owned();
        let open = move || {
            let mut file = fs::File::open(&path)?;
            let modified = file.metadata()?.modified().ok();
            let mut bytes = Vec::new();
            if length <= AT_ONCE {
                // No more than may be in memory many times over, whatever it has become.
                file.by_ref().take(AT_ONCE + 1).read_to_end(&mut bytes)?;
                if bytes.len() as u64 > AT_ONCE {
                    return Err(io::Error::other("it has grown since it was listed: upload it again"));
                }
            }
            Ok((bytes, modified))
        };
        let opened = tokio::task::spawn_blocking(open).await;
        let (bytes, modified) = opened
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|error| Error::local("read", local, error))?;
        if length <= AT_ONCE {
            let seen = Seen { length: bytes.len() as u64, modified };
            watch(Event::Moved { bytes: seen.length });
            return Ok(Self { local: local.to_owned(), body: bytes.into(), seen });
        }
        let (watch, file) = (watch.clone(), Body::file(local.to_owned(), 0, length));
        let body = file.watched(move |bytes| watch(Event::Moved { bytes }));
        Ok(Self { local: local.to_owned(), body, seen: Seen { length, modified } })
    }
}

impl Seen {
    /// Whether the file is what it was: else what was sent may be half of one version and half of another. What was read
    /// at once is of one version, whatever came later.
    fn still(self, local: &Path) -> Result<(), Error> {
        if self.length <= AT_ONCE {
            return Ok(());
        }
        let now = fs::metadata(local).map_err(|error| Error::local("read", local, error))?;
        if now.len() == self.length && now.modified().ok() == self.modified {
            return Ok(());
        }
        Err(Error::local("upload", local, io::Error::other("it was changed while it was sent: upload it again")))
    }
}
