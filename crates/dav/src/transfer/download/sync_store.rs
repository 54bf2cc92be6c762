//! Loads, updates and saves the snapshot of a mirrored folder.

use std::{fs, io::BufReader, path::Path, time::Duration};

use tokio::time::timeout;

use super::{Download, sync_snapshot::SyncSnapshot};
use crate::{
    Depth, Entry, PropertySet,
    transfer::{Event, lock, state_file},
};

/// Time limit of the test of a server's reports. The next run can repeat it.
const TRIAL: Duration = Duration::from_secs(5);

impl Download<'_> {
    /// Loads the snapshot of the mirrored folder, and brings it up to date if the server reports changes.
    pub(super) async fn load_snapshot(&self, now: &Entry, file: &Path) {
        let (path, properties) = (now.path.clone().as_folder(true), &now.properties);
        let Some(token) = properties.sync_token.clone().filter(|_| properties.syncs) else { return };
        let Ok(url) = self.dav.requests().url(&path) else { return };
        let (url, digests) = (url.to_string(), self.options.requested_properties() == PropertySet::DIGESTS);
        let remembered = fs::File::open(file).ok().and_then(|file| SyncSnapshot::read(BufReader::new(file)));
        let mut known = remembered
            .filter(|known| known.is_of(&url, digests))
            .unwrap_or_else(|| SyncSnapshot::new(url, path, digests, token.clone()));
        let before = known.token.clone();
        match known.reach() {
            Some(reach) if before != token && self.apply_changes(&mut known, reach).await.is_none() => {
                known.begin_anew();
            }
            Some(_) => {}
            None => {
                known.begin_anew();
                *lock(&self.sync.untested_token) = Some(before).filter(|before| *before != token);
            }
        }
        // The next run gets the changes from now on.
        known.token = token;
        *lock(&self.sync.snapshot) = Some(known);
    }

    /// Applies the changes since the snapshot's token; none if they are not available.
    async fn apply_changes(&self, known: &mut SyncSnapshot, reach: Depth) -> Option<()> {
        let (root, token) = (known.root().clone(), known.token.clone());
        let mut usable = true;
        let changes = self.dav.changes(&root, &token, reach, self.options.requested_properties(), |entry| {
            usable &= entry.is_ok_and(|entry| known.take(entry).is_ok());
        });
        changes.await.ok().filter(|_| usable).map(drop)
    }

    /// Tests whether the server's reports are complete, if that is unknown.
    pub(super) async fn test_sync_reports(&self) {
        let unknown = |known: &&SyncSnapshot| !known.deep && known.content(known.root()).is_none();
        let unknown = lock(&self.sync.snapshot).as_ref().filter(unknown).map(|known| known.root().clone());
        let since = lock(&self.sync.untested_token).take();
        if let Some(root) = unknown
            && timeout(TRIAL, self.dav.tells_of_all_below(&root, since.as_deref())).await == Ok(true)
            && let Some(known) = &mut *lock(&self.sync.snapshot)
        {
            known.deep = true;
        }
    }

    /// Saves the snapshot for the next run.
    pub(super) fn save_snapshot(&self, file: &Path) {
        if let Some(known) = &*lock(&self.sync.snapshot)
            && let Err(error) = state_file::replace(file, |to| known.write(to))
        {
            (self.watch)(Event::Note(&state_file::unkept(file, &error)));
        }
    }
}
