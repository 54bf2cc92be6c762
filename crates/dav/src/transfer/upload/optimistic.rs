//! Optimistic uploads: the first files are sent before the target is known.
//!
//! An upload starts with a lookup of its target, a round trip in which nothing would be sent. But if the target is named as a
//! folder, the files' paths are known, and `If-None-Match: *` keeps the server from overwriting anything. So as many files as
//! there are connections, less one for the lookup, are sent at once. A file that exists is refused (412), and then sent as the
//! lookup requires: it has cost some bytes, and no time.

use std::{collections::HashSet, fs, path::PathBuf, sync::Arc};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::Notify;

use super::{
    Upload,
    file::SendMode,
    strategy::{LARGE, is_long},
    target::name_of,
};
use crate::{
    RemotePath,
    transfer::{
        Skip, Verify,
        name_folding::key,
        plan::{Before, Outcome},
        source_file::SourceFile,
    },
};

/// Uploads in flight before there is a plan, identified by their index among the sources.
pub(super) struct Optimistic<'a> {
    pub(super) in_flight: FuturesUnordered<BoxFuture<'a, Outcome>>,
    /// The outcomes of those that have finished.
    pub(super) outcomes: Vec<Outcome>,
    /// The number of sources; `arrived` is notified when all of them have been uploaded this way.
    sources: usize,
    pub(super) arrived: Arc<Notify>,
}

impl Optimistic<'_> {
    /// None are.
    pub(super) fn none() -> Self {
        Self { in_flight: FuturesUnordered::new(), outcomes: Vec::new(), sources: usize::MAX, arrived: Arc::default() }
    }

    /// The number of files.
    pub(super) fn files(&self) -> usize {
        self.in_flight.len() + self.outcomes.len()
    }

    /// Drives the uploads while `look` runs.
    pub(super) async fn drive_during<T>(&mut self, look: impl Future<Output = T>) -> T {
        let mut look = Box::pin(look);
        loop {
            tokio::select! {
                biased;
                looked = &mut look => return looked,
                Some(outcome) = self.in_flight.next() => self.outcomes.push(outcome),
            }
            let arrived = self.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Uploaded(_, Ok(_))));
            if arrived.count() == self.sources {
                self.arrived.notify_one();
            }
        }
    }
}

impl Upload<'_> {
    /// Starts uploading the first sources, if that is possible before the target is known.
    pub(super) fn start_optimistic<'a>(
        &'a self,
        sources: &[(PathBuf, fs::Metadata)],
        to: &RemotePath,
    ) -> Optimistic<'a> {
        let options = self.options;
        let first = Optimistic { sources: sources.len(), ..Optimistic::none() };
        let unseen =
            options.skip == Skip::Nothing && options.already_copied.is_first() && !options.dry_run && !options.resume;
        let plain = !options.temporary && !options.lock.locks(false) && self.nextcloud.is_none();
        let files = sources.iter().all(|(_, kind)| kind.is_file());
        // Names that may collide on the server must be checked first.
        let names: HashSet<_> = sources.iter().map(|(local, _)| name_of(local).ok().map(|name| key(&name))).collect();
        if !(unseen && plain && files && to.is_folder() && names.len() == sources.len()) {
            return first;
        }
        let looks = options.verify != Verify::None && self.dav.pipelines();
        // An upload in parts would only be refused at its end, and the server's capabilities are still unknown.
        let whole = |length: u64| if self.dav.pipelines() { !is_long(length, None) } else { length < LARGE };
        let whole = sources.iter().take_while(|(_, kind)| whole(kind.len()));
        for (file, (local, kind)) in whole.take(options.connections.saturating_sub(1)).enumerate() {
            let Some(path) = name_of(local).ok().and_then(|name| to.join(&name, false).ok()) else { break };
            let (origin, length, modified) = (SourceFile::Local(local.clone()), kind.len(), kind.modified().ok());
            // Not pipelined, because a refusal is likely.
            let mode = SendMode { looks, alone: true };
            let sent = async move {
                let sent = self.file(&origin, &path, length, modified, Before::Unseen, mode).await;
                Outcome::Uploaded(file, sent)
            };
            first.in_flight.push(sent.boxed());
        }
        first
    }
}
