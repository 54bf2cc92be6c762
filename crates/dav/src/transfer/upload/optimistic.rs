//! The first files, sent before it is known what is on the server.
//!
//! An upload begins with a look at its target, and in that round trip nothing would be sent. But where files belong is
//! known if the target is named as a folder, and a server does not overwrite what it has if it is told not to
//! (`If-None-Match: *`). So as many files as there are connections beside the look's own go out with it. One that is
//! there already is refused (412), and is then sent as the look says: it has lost a round trip's worth of bytes, and no
//! time.

use std::{collections::HashSet, fs, path::PathBuf, sync::Arc};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::Notify;

use super::{
    Upload,
    file::Manner,
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

/// Files that are under way before there is a plan. They are known by their places among the sources.
pub(super) struct Optimistic<'a> {
    pub(super) under_way: FuturesUnordered<BoxFuture<'a, Outcome>>,
    /// What has come of those that are not any more.
    pub(super) outcomes: Vec<Outcome>,
    /// How many sources there are; notified when all of them are among these and have arrived.
    sources: usize,
    pub(super) arrived: Arc<Notify>,
}

impl Optimistic<'_> {
    /// None are.
    pub(super) fn none() -> Self {
        Self { under_way: FuturesUnordered::new(), outcomes: Vec::new(), sources: usize::MAX, arrived: Arc::default() }
    }

    /// Which files they are.
    pub(super) fn files(&self) -> usize {
        self.under_way.len() + self.outcomes.len()
    }

    /// Goes on with them for as long as `look` takes.
    pub(super) async fn beside<T>(&mut self, look: impl Future<Output = T>) -> T {
        let mut look = Box::pin(look);
        loop {
            tokio::select! {
                biased;
                looked = &mut look => return looked,
                Some(outcome) = self.under_way.next() => self.outcomes.push(outcome),
            }
            let arrived = self.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Uploaded(_, Ok(_))));
            if arrived.count() == self.sources {
                self.arrived.notify_one();
            }
        }
    }
}

impl Upload<'_> {
    /// The first of the sources, if they may go before the target is known.
    pub(super) fn first<'a>(&'a self, sources: &[(PathBuf, fs::Metadata)], to: &RemotePath) -> Optimistic<'a> {
        let options = self.options;
        let first = Optimistic { sources: sources.len(), ..Optimistic::none() };
        let unseen = options.skip == Skip::Nothing && options.settled.is_first() && !options.dry_run && !options.resume;
        let plain = !options.temporary && !options.lock.locks(false) && self.nextcloud.is_none();
        let files = sources.iter().all(|(_, kind)| kind.is_file());
        // Of names that may be one on the server, none goes before that is found out.
        let names: HashSet<_> = sources.iter().map(|(local, _)| name_of(local).ok().map(|name| key(&name))).collect();
        if !(unseen && plain && files && to.is_folder() && names.len() == sources.len()) {
            return first;
        }
        let looks = options.verify != Verify::None && self.dav.pipelines();
        // What goes up in parts is refused at its end, and nobody knows yet what the server takes.
        let whole = |length: u64| if self.dav.pipelines() { !is_long(length, None) } else { length < LARGE };
        let whole = sources.iter().take_while(|(_, kind)| whole(kind.len()));
        for (file, (local, kind)) in whole.take(options.connections.saturating_sub(1)).enumerate() {
            let Some(path) = name_of(local).ok().and_then(|name| to.join(&name, false).ok()) else { break };
            let (origin, length, modified) = (SourceFile::Local(local.clone()), kind.len(), kind.modified().ok());
            // A refusal is likely: no neighbour is to be told of it.
            let manner = Manner { looks, alone: true };
            let sent = async move {
                let sent = self.file(&origin, &path, length, modified, Before::Unseen, manner).await;
                Outcome::Uploaded(file, sent)
            };
            first.under_way.push(sent.boxed());
        }
        first
    }
}
