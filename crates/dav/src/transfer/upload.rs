//! Uploads: carries out the steps of a plan.

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
    file::{SendMode, renaming, seconds},
    optimistic::Optimistic,
    resume_key::ResumeKey,
    target::{Placed, begun, chosen, looked, names_of_files, placed, target, walked},
};
use super::{
    Event, Options, Spared, Summary, Watch,
    held_locks::{HeldLocks, PAUSE, ROUNDS},
    last_seen::LastSeen,
    lock,
    plan::{Known, Listing, Outcome, Plan, PlanEvent, RemoteEntry, Sent, Step},
    source_file::SourceFile,
    temporary_files::old_since,
    unchanged::{SourceClock, Times},
};
use crate::{
    Confirmed, Dav, Error, If, Precondition, RemotePath, Wanted, nextcloud::Nextcloud, requests::Depth, terminal_safe,
};

/// Time limit for the cleanup at the end, and the part of it for waiting until the server has finished.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);
const SETTLE_TIMEOUT: Duration = Duration::from_secs(4);
/// A file up to this size needs one connection, beside the one for the lookup of the target.
const SMALL: u64 = 64 * 1024;
/// Maximum number of files opened at a time. Each takes a thread, and hundreds of threads take longer to start than the
/// files to read.
const READERS: usize = 4;
/// Maximum number of bulk requests in memory.
const BULK: usize = 4;

/// Number of attempts for a listing that breaks off.
pub(super) const LISTING_ATTEMPTS: u32 = 3;
const INTERRUPTED: &str = "interrupted: transfers in flight were cancelled, completed files stay";

/// Uploads files and folders, as cp(1) does: into `to` if that is a folder, or, with a single source, as `to`. When
/// `stop` is notified, transfers in flight are cancelled, temporary files and locks are removed, and the summary covers
/// what was done.
pub async fn upload(
    dav: &Dav,
    sources: &[PathBuf],
    to: &RemotePath,
    options: &Options,
    stop: &Notify,
    watch: &Watch,
) -> Result<Summary, Error> {
    let begin = Instant::now();
    // Handshakes and the look at the disk take time, so they run concurrently.
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
    let mut first = upload.start_optimistic(&sources, to);
    let arrived = Arc::clone(&first.arrived);
    let look = async {
        tokio::join!(
            target(dav, to, names, upload.wanted, arrived.notified()).boxed(),
            begun(dav, to, &sources, options).boxed(),
            walked(&sources, to, options),
            // Only a Nextcloud supports bulk uploads, so no other server is waited for.
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
    let (target, early, found, bulk, records) = first.drive_during(look).await;
    let (mut outline, mut tops) = placed(target?, found?, to, options)?;
    outline.left_out.extend(missing(options));
    let mut summary = Summary::default();
    // The single source folder was created or listed already.
    if let (Some((made, listing)), [(0, Some(_))]) = (early, &tops[..])
        && outline.folders.get(1).is_some_and(|folder| folder.parent == Some(0))
    {
        if made {
            summary.folders += 1;
            watch(Event::Made { path: &outline.folders[1].path.to_string() });
        }
        tops = vec![(1, Some(listing))];
    }
    upload.execute((outline, tops), first, (bulk, records), stop, &mut summary).await;
    summary.took = begin.elapsed();
    Ok(summary)
}

/// The files of the user's list that do not exist in the source.
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
    /// The source server, if the files are not local.
    from: Option<&'a Dav>,
    /// The folder there that is mirrored.
    source_root: Option<&'a RemotePath>,
    options: &'a Options,
    watch: &'a Watch,
    /// What is listed.
    wanted: Wanted,
    held_locks: HeldLocks<'a>,
    /// Temporary files and folders on the server to delete, with the key that reserves the name, if it can be resumed.
    temporary: Mutex<BTreeMap<RemotePath, Option<ResumeKey>>>,
    /// The user's Nextcloud, if the target is on one.
    nextcloud: Option<Nextcloud>,
    target: &'a RemotePath,
    /// Folders of the backup that are known to exist.
    backup_folders: Mutex<HashSet<RemotePath>>,
    slots: Slots,
    learned: Learned,
}

/// Limits on what is in memory or open at a time.
struct Slots {
    /// Files being opened.
    readers: Semaphore,
    /// Bulk requests.
    bulk: Semaphore,
}

/// What this run has learned about the server.
#[derive(Default)]
struct Learned {
    ranges_unsupported: ranges::RangesUnsupported,
    digest_headers: DigestHeaders,
    /// Whether a bulk upload has failed, so that no other is tried.
    bulk_fails: AtomicBool,
    /// Whether the server keeps the times of source files, if that was tested, and could be.
    keeps_times: OnceCell<Option<bool>>,
    /// Whether the user was told that files are downloaded from both servers for comparison.
    reads_both: AtomicBool,
}

impl<'a> Upload<'a> {
    fn new(dav: &'a Dav, to: &'a RemotePath, options: &'a Options, watch: &'a Watch) -> Self {
        Self {
            dav,
            from: None,
            source_root: None,
            options,
            watch,
            wanted: options.wanted(),
            held_locks: HeldLocks::new(dav, options.lock, &options.owner),
            temporary: Mutex::default(),
            nextcloud: Nextcloud::of(to),
            target: to,
            backup_folders: Mutex::default(),
            slots: Slots { readers: Semaphore::new(READERS), bulk: Semaphore::new(BULK) },
            learned: Learned::default(),
        }
    }
}

impl Upload<'_> {
    /// Uploads the files of an outline, given what is known of its top folders, until it is stopped.
    async fn execute<'a>(
        &'a self,
        (mut outline, tops): Placed,
        first: Optimistic<'a>,
        (bulk, records): (bool, LastSeen),
        stop: &Notify,
        summary: &mut Summary,
    ) {
        let (options, watch) = (self.options, self.watch);
        self.reject_colliding_names(&mut outline, &tops).await;
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
        let mut plan = Plan::new(outline, options.clone(), bulk, tops, first.files(), known)
            .with_lookups_behind(self.dav.pipelines());
        let stopped = tokio::select! {
            biased;
            () = stop.notified() => true,
            () = self.held_locks.refresh() => false,
            () = self.run(&mut plan, first, summary) => false,
        };
        self.clean_up().await;
        if stopped {
            let blind = plan.end();
            self.report_news(&mut plan, summary);
            watch(Event::Note(INTERRUPTED));
            if blind > 0 {
                watch(Event::Note(&format!("{blind} of the completed files were not yet verified")));
            }
        }
        plan.records().save(options, stopped, watch);
        if plan.skips_deletions() {
            watch(Event::Note("deletions on the server skipped because of earlier errors"));
        }
    }

    /// How local and remote times are compared.
    fn times(&self) -> Times {
        let capabilities = self.dav.capabilities();
        let keeps = self.nextcloud.is_some() || capabilities.is_some_and(|capabilities| capabilities.sets_mtime);
        let source = self.from.map_or(SourceClock::Local, |from| SourceClock::Server(from.clock_offset()));
        // Between two servers nothing is compared by its bytes for want of that knowledge.
        let keeps =
            if self.from.is_none() || keeps { Some(keeps) } else { self.learned.keeps_times.get().copied().flatten() };
        Times { window: self.options.modify_window, source, clock: self.dav.clock_offset(), keeps }
    }

    async fn run<'a>(&'a self, plan: &mut Plan, first: Optimistic<'a>, summary: &mut Summary) {
        let (mut running, outcomes) = (first.in_flight, first.outcomes);
        for outcome in outcomes {
            plan.take(outcome);
        }
        loop {
            self.report_news(plan, summary);
            while let Some(step) = plan.next() {
                running.push(self.start_step(step, plan));
            }
            self.report_news(plan, summary);
            match running.next().await {
                Some(outcome) => plan.take(outcome),
                None => return,
            }
        }
    }

    /// Starts a step. One arm per step, which only copies what its future needs.
    fn start_step(&self, step: Step, plan: &Plan) -> BoxFuture<'_, Outcome> {
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
                async move { Outcome::Made(folder, self.create_folder(&path, alone).await) }.boxed()
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
                        Some(nextcloud) => self.create_filled_folder(nextcloud, &path, files).await,
                        None => None,
                    };
                    match filled {
                        Some(filled) => Outcome::Filled(folder, filled),
                        None => Outcome::Made(folder, self.create_folder(&path, true).await),
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
            Step::Rename(from, thing, old) => self.rename_node(from, thing, old, plan.path_of(thing)).boxed(),
            Step::DeleteTwin(path, precondition, twin) => self.delete_if_distinct(path, precondition, twin).boxed(),
            Step::Delete(path, precondition) => self.delete(path, precondition, true).boxed(),
            Step::DeleteAlone(path, precondition) => self.delete(path, precondition, false).boxed(),
            Step::Remaining(folder, paths) => self.remaining(folder, paths).boxed(),
            Step::Upload(file, before) | Step::UploadAndLook(file, before) => {
                let facts = &outline.files[file];
                let (origin, length, modified) = (facts.origin.clone(), facts.length, facts.modified);
                let mode = SendMode { looks, alone: plan.goes_alone(file) };
                match facts.path(&outline.folders) {
                    Err(error) => async move { Outcome::Uploaded(file, Err(error)) }.boxed(),
                    Ok(_) if dry => async move {
                        Outcome::Uploaded(file, Ok(Sent { bytes: length, etag: None, compared: false, seen: None }))
                    }
                    .boxed(),
                    Ok(path) => async move {
                        Outcome::Uploaded(file, self.file(&origin, &path, length, modified, before, mode).await)
                    }
                    .boxed(),
                }
            }
        }
    }

    /// Lists a folder, and retries a listing that breaks off.
    async fn list(&self, path: &RemotePath) -> Result<Option<Listing>, Error> {
        let mut tries = 1..LISTING_ATTEMPTS;
        loop {
            let mut listing = Listing::new();
            let listed = self.dav.list(path, Depth::One, self.wanted, |entry| {
                if let Ok(entry) = entry
                    && let Some(name) = entry.path.name().filter(|_| !entry.path.same_place(path))
                {
                    listing.insert(name.to_owned(), RemoteEntry::from(&entry));
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

    /// Looks up a single name.
    async fn look(&self, name: Vec<u8>, path: Result<RemotePath, Error>) -> Result<Listing, Error> {
        let found = self.dav.stat(&path?, self.wanted).await?;
        Ok(found.map(|entry| (name, RemoteEntry::from(&entry))).into_iter().collect())
    }

    fn temporary(&self) -> std::sync::MutexGuard<'_, BTreeMap<RemotePath, Option<ResumeKey>>> {
        lock(&self.temporary)
    }

    /// Removes temporary files and locks. A cancelled upload may still appear when the server has finished with it, so
    /// this waits for that first. Reports what could not be deleted.
    async fn clean_up(&self) {
        let _ = timeout(CLEANUP_TIMEOUT, async {
            if !self.temporary().is_empty() || self.held_locks.is_held() {
                let _ = timeout(SETTLE_TIMEOUT, self.dav.client().settled(self.dav.requests().origin())).await;
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

    /// Deletes temporary files in several rounds: a refusal may be temporary, and a missing file may still appear.
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

    /// Creates a folder; returns whether it is certainly new and so empty. If only a lookup shows it, it may have
    /// existed before.
    async fn create_folder(&self, path: &RemotePath, alone: bool) -> Result<bool, Error> {
        Ok(self.dav.mkcol_among(path, !alone).await? == Some(Confirmed::ByAnswer))
    }

    /// Reports what the plan has to tell, and counts it.
    fn report_news(&self, plan: &mut Plan, summary: &mut Summary) {
        for news in plan.take_events() {
            let outline = plan.outline();
            let name = |file: usize| outline.files[file].origin.to_string();
            match news {
                PlanEvent::HidesFiles => (self.watch)(Event::Note(
                    "the server does not list names that begin with a dot: uploads check each of them by itself, and \
                     none is downloaded or deleted",
                )),
                PlanEvent::Done(file) => {
                    let bytes = outline.files[file].length;
                    summary.files += 1;
                    summary.bytes += bytes;
                    (self.watch)(Event::Done { path: &name(file), bytes });
                }
                PlanEvent::Skipped(file) => {
                    summary.skipped += 1;
                    let (path, bytes, why) = (name(file), outline.files[file].length, Spared::Unchanged);
                    (self.watch)(Event::Skipped { path: &path, bytes, why });
                }
                PlanEvent::Spared(file, why) => {
                    summary.skipped += 1;
                    (self.watch)(Event::Skipped { path: &name(file), bytes: outline.files[file].length, why });
                }
                PlanEvent::Made(folder) => {
                    summary.folders += 1;
                    (self.watch)(Event::Made { path: &outline.folders[folder].path.to_string() });
                }
                PlanEvent::Swept(path) => {
                    (self.watch)(Event::Note(&format!("deleted {path}, a temporary file of an earlier run")));
                }
                PlanEvent::Renamed(from, to) => {
                    let done = if self.options.dry_run { "would rename" } else { "renamed" };
                    (self.watch)(Event::Note(&format!("{done} {from} to {}", terminal_safe(&to))));
                }
                PlanEvent::Deleted(path) => {
                    summary.deleted += 1;
                    (self.watch)(Event::Deleted { path: &path.to_string() });
                }
                PlanEvent::Failed(path, why) => {
                    (self.watch)(Event::Failed { path: &path, why: &why });
                    summary.failed.push((path, why));
                }
            }
        }
    }
}
