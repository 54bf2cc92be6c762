//! Carries an upload's plan out.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
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
    Event, Options, Summary, Watch,
    holding::Holding,
    plan::{Before, Listing, News, Outcome, Plan, Step, There},
    temporary_name,
    walk::{Folder, Outline},
};
use crate::{Dav, Error, Guard, If, RemotePath, Wanted, requests::Depth};

/// A file up to this size is read at once, and travels in the same segments as its request's head.
const AT_ONCE: u64 = 128 * 1024;
/// Up to this size, files follow each other on a connection without waiting.
const PIPELINED: u64 = 4 * 1024 * 1024;
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
    dav.client().warm(dav.requests().origin(), options.connections);
    let (target, outline) = tokio::join!(listing(dav, to), walked(sources.to_vec()));
    let (target, found, place, rules) = (target?, outline?, to.clone(), options.clone());
    let placed = tokio::task::spawn_blocking(move || placed(target, found, &place, &rules)).await;
    let (outline, tops) =
        placed.unwrap_or_else(|error| Err(Error::local("read", "the sources", io::Error::other(error))))?;
    let mut summary = Summary::default();
    for (path, why) in outline.left_out.iter() {
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
        watch(Event::Note("stopped: what was under way was given up, and what is done stays"));
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

async fn listing(dav: &Dav, to: &RemotePath) -> Result<Target, Error> {
    let (mut listing, mut own) = (Listing::new(), None);
    let asked = to.clone().as_folder(true);
    let listed = dav.list(&asked, Depth::One, Wanted::LISTING, |entry| {
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
        Err(error) => match dav.stat(&to.clone().as_folder(false), Wanted::LISTING).await {
            Ok(Some(entry)) if !entry.path.is_folder() => Ok(Target::File(There::from(&entry))),
            _ => Err(error),
        },
    }
}

/// Each source, looked at: what it is, and below which name all that is in it stands.
async fn walked(sources: Vec<PathBuf>) -> Result<Vec<(PathBuf, fs::Metadata)>, Error> {
    let looked = tokio::task::spawn_blocking(move || {
        let look = |path: PathBuf| match fs::metadata(&path) {
            Ok(kind) => Ok((path, kind)),
            Err(error) => Err(Error::local("read", path, error)),
        };
        sources.into_iter().map(look).collect()
    });
    looked.await.unwrap_or_else(|error| Err(Error::local("read", "the sources", io::Error::other(error))))
}

/// Where everything belongs, and what is known of the folders it belongs in.
fn placed(
    target: Target,
    sources: Vec<(PathBuf, fs::Metadata)>,
    to: &RemotePath,
    options: &Options,
) -> Result<(Outline, Vec<(usize, Option<Listing>)>), Error> {
    let folder = to.clone().as_folder(true);
    let mut outline = Outline::default();
    if let Some((local, _)) = sources.iter().find(|(_, kind)| kind.is_dir()).filter(|_| !options.recursive) {
        return Err(Error::local(
            "upload",
            local,
            io::Error::other("it is a folder: add -r to upload all that is in it"),
        ));
    }
    let top = |outline: &mut Outline, path: RemotePath, given| {
        outline.folders.push(Folder { path, parent: None, given });
        outline.folders.len() - 1
    };
    match (target, &sources[..]) {
        // The folder's contents, or the folder by another name.
        (target @ (Target::Folder(_) | Target::Nothing), [(local, kind)])
            if kind.is_dir() && (options.contents || matches!(target, Target::Nothing)) =>
        {
            outline.add_folder(local, folder, None);
            let known = if let Target::Folder(listing) = target { Some(listing) } else { None };
            Ok((outline, vec![(0, known)]))
        }
        (Target::Folder(listing), sources) => {
            let base = top(&mut outline, folder, true);
            for (local, kind) in sources {
                let name = name_of(local)?;
                if kind.is_dir() {
                    outline.add_folder(local, to.clone().as_folder(true).join(&name, true)?, Some(base));
                } else {
                    outline.add_file(local, &name, base, kind);
                }
            }
            Ok((outline, vec![(base, Some(listing))]))
        }
        (target @ (Target::File(_) | Target::Nothing), [(local, kind)]) if kind.is_file() && !to.is_folder() => {
            let (Some(parent), Some(name)) = (to.parent(), to.name()) else {
                return Err(Error::Differs { path: to.clone(), why: "it is no name for a file".into() });
            };
            let base = top(&mut outline, parent, true);
            outline.add_file(local, name, base, kind);
            let mut known = Listing::new();
            if let Target::File(there) = target {
                known.insert(name.to_owned(), there);
            }
            Ok((outline, vec![(base, Some(known))]))
        }
        (Target::Nothing, _) => {
            let why =
                format!("there is no such folder to put {} things into: make it first (haul mkdir)", sources.len());
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
                let path = outline.folders[folder].path.clone();
                async move {
                    let listed = self.list(&path).await.map(Option::unwrap_or_default);
                    Outcome::Checked(folder, listed)
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
                    Ok(_) if dry => async move { Outcome::Uploaded(file, Ok(length)) }.boxed(),
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
        let listed = self.dav.list(path, Depth::One, Wanted::LISTING, |entry| {
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

    /// Uploads a file under its lock, if it needs one: its length as sent.
    async fn file(
        &self,
        local: &Path,
        path: &RemotePath,
        length: u64,
        modified: Option<SystemTime>,
        before: Before,
    ) -> Result<u64, Error> {
        let exists = before != Before::Nothing;
        let claims = self.holding.acquire(path, exists).await?;
        // A lock on what was not there has made an empty file of it.
        let made = !exists && claims != If::default();
        let guard = match before {
            Before::Nothing if made => Guard::None,
            Before::Nothing => Guard::Absent,
            Before::File(etag) => etag.map_or(Guard::None, Guard::Unchanged),
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
    ) -> Result<u64, Error> {
        let body = body(local, length, self.watch).await?;
        let length = body.length().unwrap_or(length);
        let mut headers = HeaderMap::new();
        // Nextcloud's and ownCloud's; to others it says nothing.
        if let Some(since) = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok()) {
            headers.insert(HeaderName::from_static("x-oc-mtime"), HeaderValue::from(since.as_secs()));
        }
        let class = if length <= PIPELINED { Class::Small } else { Class::Large };
        let options = haul_http::Options { class, pipeline: true, ..haul_http::Options::default() };
        if self.options.temporary {
            self.send_renamed(path, body, headers, guard, claims, options).await?;
        } else {
            self.dav.put(path, body, headers, guard, claims, options).await?;
        }
        Ok(length)
    }

    /// Uploads under another name, and renames when all is there: nobody sees half of it, and a version that somebody
    /// else wrote meanwhile stays.
    async fn send_renamed(
        &self,
        path: &RemotePath,
        body: Body,
        headers: HeaderMap,
        guard: &Guard,
        claims: &If,
        options: haul_http::Options,
    ) -> Result<(), Error> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(Error::Differs { path: path.clone(), why: "it is no name for a file".into() });
        };
        let temporary = parent.join(&temporary_name(name), false)?;
        self.temporary().insert(temporary.clone());
        let ours = body.again();
        let renamed = async {
            self.dav.put(&temporary, body, headers, &Guard::Absent, &If::default(), options).await?;
            let claims = match guard {
                Guard::Unchanged(tag) => claims.clone().unchanged(path, tag.clone()),
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
        self.temporary.lock().unwrap_or_else(PoisonError::into_inner)
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

/// A file's content. A small one is read now, and is what it is now; a large one is read as it is sent.
async fn body(local: &Path, length: u64, watch: &Watch) -> Result<Body, Error> {
    if length <= AT_ONCE {
        let path = local.to_owned();
        let read = tokio::task::spawn_blocking(move || fs::read(path)).await;
        let bytes = read.unwrap_or_else(|error| Err(io::Error::other(error)));
        let bytes = bytes.map_err(|error| Error::local("read", local, error))?;
        watch(Event::Moved { bytes: bytes.len() as u64 });
        return Ok(bytes.into());
    }
    let (watch, file) = (watch.clone(), Body::file(local.to_owned(), 0, length));
    Ok(file.watched(move |bytes| watch(Event::Moved { bytes })))
}
