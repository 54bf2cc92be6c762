//! Reading a directory for `dav-server`, a batch at a time.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use dav_server::davpath::DavPath;
use dav_server::fs::{DavDirEntry, DavMetaData, FsFuture, FsResult, FsStream};
use futures_util::{StreamExt, TryStreamExt, future, stream};
use rustix::fs::{Dir, Mode, OFlags};
use tokio::sync::OwnedSemaphorePermit;

use super::blocking;
use super::metadata::Meta;
use super::properties;
use super::request_context::{RequestContext, is_within, without_slash};
use super::root::{Root, is_own, refusal};
use crate::budget::Hold;

/// Entries per task on the blocking pool: many enough to make tasks rare, few enough for an early first response.
const BATCH: usize = 256;

/// What an entry takes in memory, about.
const ENTRY: usize = 512;

/// A directory entry and its metadata.
struct Entry {
    name: Vec<u8>,
    meta: Meta,
}

impl DavDirEntry for Entry {
    fn name(&self) -> Vec<u8> {
        self.name.clone()
    }

    fn metadata(&self) -> FsFuture<'_, Box<dyn DavMetaData>> {
        Box::pin(future::ready(Ok(Box::new(self.meta.clone()) as Box<dyn DavMetaData>)))
    }
}

/// Lists an open directory. A web page, which has all of it in memory, lasts as long as the listing.
///
/// Clients see files and directories. Links, pipes and devices are listed only to requests that remove collections;
/// otherwise their collection could never be removed.
pub(crate) fn list(
    root: Arc<Root>,
    dir: OwnedFd,
    path: &DavPath,
    context: &Arc<RequestContext>,
    page: Option<OwnedSemaphorePermit>,
) -> FsResult<FsStream<Box<dyn DavDirEntry>>> {
    let removing = match context.destination {
        None => context.is("DELETE"),
        Some(ref destination) => is_within(path, destination),
    };
    let reader = Reader {
        root,
        entries: Dir::read_from(&dir).map_err(refusal)?,
        dir,
        path: without_slash(path).to_vec(),
        removing,
        context: Arc::clone(context),
        hold: Hold::new(&context.activity, 0),
    };
    let batches = stream::try_unfold(Some(reader), |reader| async {
        let Some(mut reader) = reader else { return Ok(None) };
        blocking(move || {
            let (batch, more) = reader.batch()?;
            Ok(Some((batch, more.then_some(reader))))
        })
        .await
    });
    let entries = batches.map_ok(|batch| stream::iter(batch.into_iter().map(Ok))).try_flatten();
    let boxed = move |entry| {
        let _lasts = &page;
        Box::new(entry) as Box<dyn DavDirEntry>
    };
    Ok(entries.map_ok(boxed).boxed())
}

struct Reader {
    root: Arc<Root>,
    entries: Dir,
    dir: OwnedFd,
    path: Vec<u8>,
    removing: bool,
    context: Arc<RequestContext>,
    /// The current entries.
    hold: Hold,
}

impl Reader {
    /// The next entries, and whether there may be more.
    fn batch(&mut self) -> FsResult<(VecDeque<Entry>, bool)> {
        let activity = &self.context.activity;
        let most = (activity.budget.piece() / ENTRY).clamp(1, BATCH);
        self.hold = Hold::new(activity, most * ENTRY);
        let mut batch = VecDeque::with_capacity(most);
        while batch.len() < most {
            let Some(entry) = self.entries.next() else { return Ok((batch, false)) };
            let entry = entry.map_err(refusal)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || is_own(name) {
                continue;
            }
            // Removed since its name was read.
            let Ok(meta) = Meta::of_name(&self.dir, entry.file_name()) else { continue };
            if !self.removing && !meta.is_dir() && !meta.is_file() {
                continue;
            }
            if self.context.is("PROPFIND") {
                self.keep_properties(name);
            }
            batch.push_back(Entry { name: name.to_vec(), meta: meta.quoted(self.context.is("PROPFIND")) });
        }
        Ok((batch, true))
    }

    /// Reads an entry's properties in the same task; one by one they would each take a task.
    fn keep_properties(&self, name: &[u8]) {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let found = rustix::fs::openat(&self.dir, OsStr::from_bytes(name), flags, Mode::empty());
        let path = [&self.path[..], b"/", name].concat();
        self.context
            .keep_properties(path, found.map_or_else(|_| Vec::new(), |file| properties::read(&self.root, file)));
    }
}
