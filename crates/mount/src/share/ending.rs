//! The end of a mount: what programs have written goes to the server, or is kept; no lock stays.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::OwnedRwLockReadGuard,
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::Share;
use crate::{tree::Tree, unsaved};

/// How long files that are still open may take to reach the server.
const UPLOADS: Duration = Duration::from_secs(20);
/// How long what goes on after close(2) may take.
const CLOSING: Duration = Duration::from_secs(15);

impl Share {
    /// What goes on after a close(2) holds this, and [`Share::settle`] waits for it.
    pub(crate) async fn closing(&self) -> OwnedRwLockReadGuard<()> {
        self.closing.clone().read_owned().await
    }

    /// Unmounting begins.
    pub(crate) fn begin_to_end(&self) {
        self.cache.begin_to_end();
    }

    /// Waits until what programs have closed is done with, within a bound.
    pub(crate) async fn settle(&self) {
        let _ = tokio::time::timeout(CLOSING, self.closing.write()).await;
    }

    /// Uploads what programs have written to files that they have open, within a bound.
    pub(crate) async fn upload_all(self: &Arc<Self>) {
        let files: Vec<_> = self.contents().files.iter().map(|(ino, file)| (*ino, file.clone())).collect();
        let mut uploads = JoinSet::new();
        for (ino, file) in files.into_iter().filter(|(_, file)| file.state(|state| state.is_dirty())) {
            let share = self.clone();
            uploads.spawn(async move { share.commit(ino, &file).await });
        }
        let end = Instant::now() + UPLOADS;
        while let Ok(Some(_)) = timeout_at(end, uploads.join_next()).await {}
        let _ = timeout_at(end, self.flush_folder(Tree::ROOT)).await;
    }

    /// Releases all locks, within a bound.
    pub(crate) async fn unlock_all(&self) {
        self.locks.release_all().await;
    }

    /// Keeps what the server does not have.
    pub(crate) fn keep_all_unsaved(&self) {
        self.keep_unrecorded();
        let files: Vec<_> = self.contents().files.iter().map(|(ino, file)| (*ino, file.clone())).collect();
        for (ino, file) in files.into_iter().filter(|(_, file)| file.state(|state| state.is_unsafe())) {
            let (path, is_removed) = self.place_of(ino);
            if !is_removed {
                self.keep_unsaved(&file, path.as_ref());
            }
        }
    }

    /// Keeps what the journal has and the next mount would delete, because the disk was full when it was to be recorded.
    fn keep_unrecorded(&self) {
        let Some(back) = self.write_back.as_ref().filter(|back| back.commit().is_err()) else { return };
        let unrecorded = back.journal.entries().unrecorded();
        for entry in unrecorded {
            let (path, data) = (&entry.path, back.journal.data(entry.id));
            match self.unsaved.keep(&data, path.name().unwrap_or_default()) {
                Ok(target) => {
                    tracing::error!("{path} is not on the server; its content is in {}", target.display());
                }
                Err(error) => {
                    unsaved::spare(&data);
                    tracing::error!("{path} is not on the server, and cannot be kept in {}: {error}", self.unsaved);
                }
            }
        }
    }
}
