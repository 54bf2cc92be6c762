//! Uploads: carries out the steps of a plan.

mod backup;
mod bulk;
mod carry_out;
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
mod source_content;
mod strategy;
mod target;

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::join_all};
use tokio::{
    sync::{Notify, OnceCell, Semaphore},
    time::{sleep, timeout},
};

pub use self::relay::relay;
use self::{
    digest_headers::DigestHeaders,
    file::{renaming, seconds},
    resume_key::ResumeKey,
    target::{begun, chosen, looked, names_of_files, placed, target, walked},
};
use super::{
    Event, Options, Skip, Summary, Watch,
    held_locks::{HeldLocks, PAUSE, ROUNDS},
    lock,
    plan::{Listing, RemoteEntry},
    synced_versions::SyncedVersions,
    unchanged::{SourceClock, Times},
};
use crate::{Confirmed, Dav, Error, If, Precondition, PropertySet, RemotePath, nextcloud::Nextcloud, requests::Depth};

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
            target(dav, to, names, upload.properties, arrived.notified()).boxed(),
            begun(dav, to, &sources, options).boxed(),
            walked(&sources, to, options),
            // Only a Nextcloud supports bulk uploads, and only a comparison has to know whether the server keeps times.
            async {
                let matters = upload.nextcloud.is_some() || options.skip != Skip::Nothing;
                matters && dav.learn(to).await.is_ok_and(|capabilities| capabilities.bulk_upload)
            }
            .boxed(),
            async {
                let [(local, _)] = &sources[..] else { return SyncedVersions::default() };
                SyncedVersions::open(options.synced_versions.as_deref(), dav.requests().url(to).ok(), local).await
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
    /// The server that the files are on, if they are not local.
    source: Option<SourceServer<'a>>,
    options: &'a Options,
    watch: &'a Watch,
    /// What is listed.
    properties: PropertySet,
    held_locks: HeldLocks,
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

#[derive(Clone, Copy)]
struct SourceServer<'a> {
    dav: &'a Dav,
    /// The folder that is mirrored.
    root: Option<&'a RemotePath>,
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
            source: None,
            options,
            watch,
            properties: options.requested_properties(),
            held_locks: HeldLocks::new(dav.clone(), options.lock, &options.owner),
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
    /// How local and remote times are compared.
    fn times(&self) -> Times {
        let capabilities = self.dav.capabilities();
        let keeps = self.nextcloud.is_some() || capabilities.is_some_and(|capabilities| capabilities.sets_mtime);
        let source = self.source.map_or(SourceClock::Local, |source| SourceClock::Server(source.dav.clock_offset()));
        // Between two servers nothing is compared by its bytes for want of that knowledge.
        let keeps = if self.source.is_none() || keeps {
            Some(keeps)
        } else {
            self.learned.keeps_times.get().copied().flatten()
        };
        Times { window: self.options.modify_window, source, clock: self.dav.clock_offset(), keeps }
    }

    /// Lists a folder, and retries a listing that breaks off.
    async fn list(&self, path: &RemotePath) -> Result<Option<Listing>, Error> {
        let mut tries = 1..LISTING_ATTEMPTS;
        loop {
            let mut listing = Listing::new();
            let listed = self.dav.list(path, Depth::One, self.properties, |entry| {
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
        let found = self.dav.stat(&path?, self.properties).await?;
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
}
