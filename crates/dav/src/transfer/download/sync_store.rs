//! Where what is remembered of a mirrored folder comes from, and goes to.

use std::{fs, io::BufReader, path::Path, time::Duration};

use tokio::time::timeout;

use super::{Download, sync_snapshot::SyncSnapshot};
use crate::{
    Depth, Entry, Wanted,
    transfer::{Event, lock, state_file},
};

/// How long it may take to find out how good a server's reports are. It can be found out the next time.
const TRIAL: Duration = Duration::from_secs(5);

impl Download<'_> {
    /// Reads what is remembered of the mirrored folder, as it is now on the server, and brings it up to date, if the
    /// server tells what has changed.
    pub(super) async fn recall(&self, now: &Entry, file: &Path) {
        let (path, properties) = (now.path.clone().as_folder(true), &now.properties);
        let Some(token) = properties.sync_token.clone().filter(|_| properties.syncs) else { return };
        let Ok(url) = self.dav.requests().url(&path) else { return };
        let (url, digests) = (url.to_string(), self.options.wanted() == Wanted::DIGESTS);
        let remembered = fs::File::open(file).ok().and_then(|file| SyncSnapshot::read(BufReader::new(file)));
        let mut known = remembered
            .filter(|known| known.is_of(&url, digests))
            .unwrap_or_else(|| SyncSnapshot::new(url, path, digests, token.clone()));
        let before = known.token.clone();
        match known.reach() {
            Some(reach) if before != token && self.catch_up(&mut known, reach).await.is_none() => known.begin_anew(),
            Some(_) => {}
            None => {
                known.begin_anew();
                *lock(&self.untried) = Some(before).filter(|before| *before != token);
            }
        }
        // What changes from now on will be told the next time.
        known.token = token;
        *lock(&self.remembered) = Some(known);
    }

    /// Asks what has changed since. None if that cannot be known.
    async fn catch_up(&self, known: &mut SyncSnapshot, reach: Depth) -> Option<()> {
        let (root, token) = (known.root().clone(), known.token.clone());
        let mut usable = true;
        let changes = self.dav.changes(&root, &token, reach, self.options.wanted(), |entry| {
            usable &= entry.is_ok_and(|entry| known.take(entry).is_ok());
        });
        changes.await.ok().filter(|_| usable).map(drop)
    }

    /// Finds out whether reports of the server can be relied on, where that is not known.
    pub(super) async fn try_reports(&self) {
        let unknown = |known: &&SyncSnapshot| !known.deep && known.content(known.root()).is_none();
        let unknown = lock(&self.remembered).as_ref().filter(unknown).map(|known| known.root().clone());
        let since = lock(&self.untried).take();
        if let Some(root) = unknown
            && timeout(TRIAL, self.dav.tells_of_all_below(&root, since.as_deref())).await == Ok(true)
            && let Some(known) = &mut *lock(&self.remembered)
        {
            known.deep = true;
        }
    }

    /// Keeps what is known for the next run.
    pub(super) fn remember(&self, file: &Path) {
        if let Some(known) = &*lock(&self.remembered)
            && let Err(error) = state_file::replace(file, |to| known.write(to))
        {
            (self.watch)(Event::Note(&state_file::unkept(file, &error)));
        }
    }
}
