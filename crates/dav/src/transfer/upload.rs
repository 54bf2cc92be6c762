//! Carries an upload's plan out.

mod backup;
mod bulk;
mod chunks;
mod comparison;
mod deletions;
mod digest_headers;
mod file;
mod name_collisions;
mod optimistic;
mod ranges;
mod relay;
mod replace;

mod resume_key;
mod source;
mod strategy;
mod target;

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
};
use tokio::{
    sync::{Notify, OnceCell, Semaphore},
    time::{sleep, timeout},
};

pub use self::relay::relay;
use self::{
    bulk::Small,
    digest_headers::DigestHeaders,
    file::{Manner, renaming, seconds},
    optimistic::Optimistic,
    resume_key::ResumeKey,
    target::{Placed, begun, chosen, looked, names_of_files, placed, target, walked},
};
use super::{
    Event, Options, Spared, Summary, Watch,
    held_locks::{HeldLocks, PAUSE, ROUNDS},
    last_seen::LastSeen,
    lock,
    plan::{Known, Listing, News, Outcome, Plan, Sent, Step, There},
    source_file::SourceFile,
    temporary_files::old_since,
    unchanged::{SourceClock, Times},
};
use crate::{
    Confirmed, Dav, Error, If, Precondition, RemotePath, Wanted, nextcloud::Nextcloud, requests::Depth, terminal_safe,
};

/// How long putting all in order may take in the end, and how much of that the wait for what is under way.
const FAREWELL: Duration = Duration::from_secs(10);
const SETTLING: Duration = Duration::from_secs(4);
/// A file up to this size needs no more than one connection, beside the one that its place is looked at with.
const SMALL: u64 = 64 * 1024;
/// So many files are opened at a time. Each takes a thread, and hundreds of threads take longer to begin than the files
/// take to be read.
const READERS: usize = 4;
/// How many requests with small files in them are in memory at a time.
const BULK: usize = 4;

/// How often a listing is asked for that breaks off.
pub(super) const LISTINGS: u32 = 3;
const STOPPED: &str = "interrupted: transfers in flight were cancelled, completed files stay";

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
    dav.warm(to, options.connections.min(sources.len() + 1));
    let sources = chosen(looked(sources.to_vec(), options.recursive).await?, &options.filter)?;
    if sources.is_empty() {
        let failed = missing(options);
        for (path, why) in &failed {
            watch(Event::Failed { path, why });
        }
        return Ok(Summary { failed, took: begin.elapsed(), ..Summary::default() });
    }
    if !sources.iter().all(|(_, kind)| kind.is_file() && kind.len() <= SMALL) {
        dav.warm(to, options.connections);
    }
    let upload = Upload::new(dav, to, options, watch);
    let names = names_of_files(&sources)?;
    let mut first = upload.first(&sources, to);
    let arrived = Arc::clone(&first.arrived);
    let look = async {
        tokio::join!(
            target(dav, to, names, upload.wanted, arrived.notified()).boxed(),
            begun(dav, to, &sources, options).boxed(),
            walked(&sources, to, options),
            // Another server has no such ability: nobody waits to hear that.
            async {
                upload.nextcloud.is_some() && dav.learn(to).await.is_ok_and(|capabilities| capabilities.bulk_upload)
            }
            .boxed(),
            async {
                let [(local, _)] = &sources[..] else { return LastSeen::default() };
                LastSeen::open(options.last_seen.as_deref(), dav.requests().url(to).ok(), local).await
            }
            .boxed()
        )
    };
    let (target, early, found, bulk, records) = first.beside(look).await;
    let (mut outline, mut tops) = placed(target?, found?, to, options)?;
    outline.left_out.extend(missing(options));
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
    upload.carry_out((outline, tops), first, (bulk, records), stop, &mut summary).await;
    summary.took = begin.elapsed();
    Ok(summary)
}

/// The files of the user's list that are not among the sources.
fn missing(options: &Options) -> Vec<(String, Error)> {
    let why = |name: String| {
        let error = io::Error::other("it is in the list of files, but not in the source");
        (name.clone(), Error::local("upload", name, error))
    };
    options.filter.missing().into_iter().map(why).collect()
}

/// Whether an answer broke off with its connection.
pub(super) fn is_cut(error: &Error) -> bool {
    use haul_http::{Cause, Error::Exchange};
    matches!(error, Error::Http(Exchange { cause: Cause::Io(_) | Cause::Closed, .. }))
}

struct Upload<'a> {
    dav: &'a Dav,
    /// The server that the files are on, if they are not here.
    from: Option<&'a Dav>,
    options: &'a Options,
    watch: &'a Watch,
    /// What is listed.
    wanted: Wanted,
    held_locks: HeldLocks<'a>,
    /// Files and folders on the server that are not to stay, with what keeps other runs from using the name, if they
    /// would.
    temporary: Mutex<BTreeMap<RemotePath, Option<ResumeKey>>>,
    readers: Semaphore,
    /// The user's files on a Nextcloud, if the target is among them.
    nextcloud: Option<Nextcloud>,
    whole_only: ranges::RangesUnsupported,
    stated: DigestHeaders,
    /// The turns to have small files in memory.
    bulk: Semaphore,
    /// Whether bulk upload has been tried, and is not to be relied on.
    bulk_fails: AtomicBool,
    /// The target.
    root: &'a RemotePath,
    /// Folders of the backup that are known to be there.
    backup_folders: Mutex<HashSet<RemotePath>>,
    /// Whether the server keeps the times of originals, where that had to be tried.
    keeps_times: OnceCell<bool>,
    /// Whether the user knows that files are fetched from both servers to be compared.
    reads_both: AtomicBool,
}

impl<'a> Upload<'a> {
    fn new(dav: &'a Dav, to: &'a RemotePath, options: &'a Options, watch: &'a Watch) -> Self {
        Self {
            dav,
            from: None,
            options,
            watch,
            wanted: options.wanted(),
            held_locks: HeldLocks::new(dav, options.lock, &options.owner),
            temporary: Mutex::default(),
            readers: Semaphore::new(READERS),
            nextcloud: Nextcloud::of(to),
            whole_only: ranges::RangesUnsupported::default(),
            stated: DigestHeaders::default(),
            bulk: Semaphore::new(BULK),
            bulk_fails: AtomicBool::new(false),
            root: to,
            backup_folders: Mutex::default(),
            keeps_times: OnceCell::new(),
            reads_both: AtomicBool::new(false),
        }
    }
}

impl Upload<'_> {
    /// Does what is to be done for the files of an outline, of whose first folders this is known, until it is stopped.
    async fn carry_out<'a>(
        &'a self,
        (mut outline, tops): Placed,
        first: Optimistic<'a>,
        (bulk, records): (bool, LastSeen),
        stop: &Notify,
        summary: &mut Summary,
    ) {
        let (options, watch) = (self.options, self.watch);
        self.refuse_twins(&mut outline, &tops).await;
        for skipped in &outline.skipped {
            watch(Event::Note(skipped));
        }
        for (path, why) in &outline.left_out {
            watch(Event::Failed { path, why });
            summary.failed.push((path.clone(), why.clone()));
        }
        let bytes = outline.files.iter().map(|file| file.length).sum();
        watch(Event::Found { files: outline.files.len() as u64, bytes });

        let known = Known { times: self.times(), records, old_since: old_since(options) };
        let mut plan =
            Plan::new(outline, options.clone(), bulk, tops, first.files(), known).looking_behind(self.dav.pipelines());
        let stopped = tokio::select! {
            biased;
            () = stop.notified() => true,
            () = self.held_locks.refresh() => false,
            () = self.run(&mut plan, first, summary) => false,
        };
        self.tidy().await;
        if stopped {
            let blind = plan.end();
            self.tell(&mut plan, summary);
            watch(Event::Note(STOPPED));
            if blind > 0 {
                watch(Event::Note(&format!("{blind} of the completed files were not yet verified")));
            }
        }
        plan.records().save(options, stopped, watch);
        if plan.spares() {
            watch(Event::Note("deletions on the server skipped because of earlier errors"));
        }
    }

    /// How times are compared with the server's.
    fn times(&self) -> Times {
        let capabilities = self.dav.capabilities();
        let keeps = self.nextcloud.is_some() || capabilities.is_some_and(|capabilities| capabilities.sets_mtime);
        let source = self.from.map_or(SourceClock::Local, |from| SourceClock::Server(from.clock_offset()));
        Times { window: self.options.modify_window, source, clock: self.dav.clock_offset(), keeps }
    }

    async fn run<'a>(&'a self, plan: &mut Plan, first: Optimistic<'a>, summary: &mut Summary) {
        let (mut running, outcomes) = (first.under_way, first.outcomes);
        for outcome in outcomes {
            plan.take(outcome);
        }
        loop {
            self.tell(plan, summary);
            while let Some(step) = plan.next() {
                running.push(self.step(step, plan));
            }
            self.tell(plan, summary);
            match running.next().await {
                Some(outcome) => plan.take(outcome),
                None => return,
            }
        }
    }

    /// Begins a step.
    fn step(&self, step: Step, plan: &Plan) -> BoxFuture<'_, Outcome> {
        let (dry, outline) = (self.options.dry_run, plan.outline());
        let looks = matches!(step, Step::UploadAndLook(..));
        match step {
            Step::List(folder) => {
                let path = outline.folders[folder].path.clone();
                async move { Outcome::Listed(folder, self.list(&path).await) }.boxed()
            }
            Step::Make(folder) if dry => async move { Outcome::Made(folder, Ok(true)) }.boxed(),
            Step::Make(folder) => {
                let (path, alone) = (outline.folders[folder].path.clone(), plan.makes_alone(folder));
                async move { Outcome::Made(folder, self.make(&path, alone).await) }.boxed()
            }
            Step::Confirm(folder) => {
                let path = outline.folders[folder].path.clone();
                let look = async move { self.dav.stat(&path, self.wanted).await };
                look.map(move |found| Outcome::Confirmed(folder, found.map(|found| found.is_some()))).boxed()
            }
            Step::Fill(folder, files) => {
                let path = outline.folders[folder].path.clone();
                let small = |file: usize| {
                    let facts = &outline.files[file];
                    let SourceFile::Local(local) = &facts.origin else { return None };
                    let (local, name) = (local.clone(), facts.name.clone());
                    Some(Small { file, local, name, length: facts.length, modified: facts.modified })
                };
                // Of another server's files there are none: see `relay`.
                let files: Vec<Small> = files.into_iter().filter_map(small).collect();
                async move {
                    let filled = match &self.nextcloud {
                        Some(nextcloud) => self.fill(nextcloud, &path, files).await,
                        None => None,
                    };
                    match filled {
                        Some(filled) => Outcome::Filled(folder, filled),
                        None => Outcome::Made(folder, self.make(&path, true).await),
                    }
                }
                .boxed()
            }
            Step::Check(folder, files) => {
                let path = outline.folders[folder].path.clone();
                async move { Outcome::Checked(files, self.list(&path).await.map(Option::unwrap_or_default)) }.boxed()
            }
            Step::Look(file) => {
                let facts = &outline.files[file];
                let (name, path) = (facts.name.clone(), facts.path(&outline.folders));
                async move { Outcome::Checked(vec![file], self.look(name, path).await) }.boxed()
            }
            Step::Compare(file, there) => {
                let facts = &outline.files[file];
                let (origin, length, is_sent) = (facts.origin.clone(), facts.length, plan.is_sent(file));
                let path = facts.path(&outline.folders);
                async move {
                    let same = match path {
                        Ok(path) => self.is_same((&origin, length), (&path, &there), is_sent).await,
                        Err(error) => Err(error),
                    };
                    Outcome::Compared(file, same)
                }
                .boxed()
            }
            Step::Replace(folder, _) if dry => async move { Outcome::Replaced(folder, Ok(())) }.boxed(),
            Step::Replace(folder, precondition) => {
                let path = outline.folders[folder].path.clone();
                async move { Outcome::Replaced(folder, self.replace_by_folder(&path, &precondition).await) }.boxed()
            }
            Step::CollectDeletable(path, scope) => async move {
                let deletable = self.deletable_in(path.clone(), scope).await;
                Outcome::CollectedDeletable(path, deletable)
            }
            .boxed(),
            Step::Sweep(path, precondition) => async move {
                let swept = self.dav.delete(&path, &precondition, &If::default()).await;
                Outcome::Swept(path, swept.map(drop))
            }
            .boxed(),
            Step::Rename(from, thing, old) => self.respell(from, thing, old, plan.path_of(thing)).boxed(),
            Step::DeleteTwin(path, precondition, twin) => self.delete_twin(path, precondition, twin).boxed(),
            Step::Delete(path, precondition) => self.delete(path, precondition, true).boxed(),
            Step::DeleteAlone(path, precondition) => self.delete(path, precondition, false).boxed(),
            Step::Remaining(folder, paths) => self.remaining(folder, paths).boxed(),
            Step::Upload(file, before) | Step::UploadAndLook(file, before) => {
                let facts = &outline.files[file];
                let (origin, length, modified) = (facts.origin.clone(), facts.length, facts.modified);
                let manner = Manner { looks, alone: plan.goes_alone(file) };
                match facts.path(&outline.folders) {
                    Err(error) => async move { Outcome::Uploaded(file, Err(error)) }.boxed(),
                    Ok(_) if dry => async move {
                        Outcome::Uploaded(file, Ok(Sent { bytes: length, etag: None, compared: false, seen: None }))
                    }
                    .boxed(),
                    Ok(path) => async move {
                        Outcome::Uploaded(file, self.file(&origin, &path, length, modified, before, manner).await)
                    }
                    .boxed(),
                }
            }
        }
    }

    /// What a folder holds. A listing that breaks off is asked for again.
    async fn list(&self, path: &RemotePath) -> Result<Option<Listing>, Error> {
        let mut tries = 1..LISTINGS;
        loop {
            let mut listing = Listing::new();
            let listed = self.dav.list(path, Depth::One, self.wanted, |entry| {
                if let Ok(entry) = entry
                    && let Some(name) = entry.path.name().filter(|_| !entry.path.same_place(path))
                {
                    listing.insert(name.to_owned(), There::from(&entry));
                }
            });
            match listed.await {
                Ok(()) => return Ok(Some(listing)),
                Err(error) if error.is(404) => return Ok(None),
                Err(error) if is_cut(&error) && tries.next().is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What is there of a name.
    async fn look(&self, name: Vec<u8>, path: Result<RemotePath, Error>) -> Result<Listing, Error> {
        let found = self.dav.stat(&path?, self.wanted).await?;
        Ok(found.map(|entry| (name, There::from(&entry))).into_iter().collect())
    }

    fn temporary(&self) -> std::sync::MutexGuard<'_, BTreeMap<RemotePath, Option<ResumeKey>>> {
        lock(&self.temporary)
    }

    /// Leaves nothing behind that was not meant to stay. Uploads that were given up may be in the server's hands, and
    /// appear when it is done with them: first their end is waited for. What could not be deleted is named.
    async fn tidy(&self) {
        let _ = timeout(FAREWELL, async {
            if !self.temporary().is_empty() || self.held_locks.is_held() {
                let _ = timeout(SETTLING, self.dav.client().settled(self.dav.requests().origin())).await;
            }
            futures_util::join!(self.delete_all(), self.held_locks.release_all());
        })
        .await;
        for left in self.temporary().keys() {
            (self.watch)(Event::Note(&format!(
                "{left} is a temporary file and could not be deleted; it may remain on the server"
            )));
        }
    }

    /// Deletes in rounds what is temporary: what is refused now may be granted a moment later, and what is not there
    /// may come yet, unless it has had its time.
    async fn delete_all(&self) {
        for round in 0..ROUNDS {
            let left: Vec<_> = self.temporary().keys().cloned().collect();
            if left.is_empty() {
                return;
            }
            if round > 0 {
                sleep(PAUSE).await;
            }
            let delete = |path: RemotePath| async move {
                let deleted = self.dav.delete(&path, &Precondition::None, &If::default()).await;
                if deleted.map_or_else(|error| round > 0 && error.is(404), |_| true) {
                    self.temporary().remove(&path);
                }
            };
            join_all(left.into_iter().map(delete)).await;
        }
    }

    /// Makes a folder; whether it is known to be new, and so to be empty. Where only a look shows it, it may have been
    /// there before.
    async fn make(&self, path: &RemotePath, alone: bool) -> Result<bool, Error> {
        Ok(self.dav.mkcol_among(path, !alone).await? == Some(Confirmed::ByAnswer))
    }

    /// Passes the news on, and counts.
    fn tell(&self, plan: &mut Plan, summary: &mut Summary) {
        for news in plan.news() {
            let outline = plan.outline();
            let name = |file: usize| outline.files[file].origin.to_string();
            match news {
                News::Hides => (self.watch)(Event::Note(
                    "the server does not list names that begin with a dot: uploads check each of them by itself, and \
                     none is downloaded or deleted",
                )),
                News::Done(file) => {
                    let bytes = outline.files[file].length;
                    summary.files += 1;
                    summary.bytes += bytes;
                    (self.watch)(Event::Done { path: &name(file), bytes });
                }
                News::Skipped(file) => {
                    summary.skipped += 1;
                    let (path, bytes, why) = (name(file), outline.files[file].length, Spared::Unchanged);
                    (self.watch)(Event::Skipped { path: &path, bytes, why });
                }
                News::Spared(file, why) => {
                    summary.skipped += 1;
                    (self.watch)(Event::Skipped { path: &name(file), bytes: outline.files[file].length, why });
                }
                News::Made(folder) => {
                    summary.folders += 1;
                    (self.watch)(Event::Made { path: &outline.folders[folder].path.to_string() });
                }
                News::Swept(path) => {
                    (self.watch)(Event::Note(&format!("deleted {path}, a temporary file of an earlier run")));
                }
                News::Renamed(from, to) => {
                    let done = if self.options.dry_run { "would rename" } else { "renamed" };
                    (self.watch)(Event::Note(&format!("{done} {from} to {}", terminal_safe(&to))));
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
