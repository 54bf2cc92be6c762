//! Backups on the server of what an upload replaces or deletes.
//!
//! A replaced file is copied first, so nobody finds it missing. A deleted one is moved.

use futures_util::{FutureExt, future::BoxFuture};

use super::Upload;
use crate::{
    Error, If, Precondition, RemotePath,
    transfer::{Backup, lock},
};

impl Upload<'_> {
    /// Copies a file to the backup before it is replaced, if there is a backup folder.
    pub(super) async fn back_up_copy(&self, path: &RemotePath) -> Result<(), Error> {
        let Some(backup) = self.backup_path(path)? else { return Ok(()) };
        self.ensure_above(&backup).await?;
        self.dav.copy(path, &backup, true, &If::default()).await.map(drop)
    }

    /// Moves something to the backup instead of deleting it, and merges a folder into an older one.
    pub(super) fn move_to_backup(&self, path: RemotePath) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            let Some(backup) = self.backup_path(&path)? else { return Ok(()) };
            self.ensure_above(&backup).await?;
            match self.dav.rename(&path, &backup, !path.is_folder(), &If::default()).await {
                Err(error) if error.is(404) => return Ok(()),
                Err(error) if error.is(412) && path.is_folder() => {}
                moved => return moved.map(drop),
            }
            for (name, there) in self.list(&path).await?.unwrap_or_default() {
                self.move_to_backup(path.join(&name, there.is_folder)?).await?;
            }
            // Somebody may have put something there since.
            if self.list(&path).await?.is_some_and(|listing| !listing.is_empty()) {
                let why = "it is not empty, so it stays".into();
                return Err(Error::Differs { path, why });
            }
            self.dav.delete(&path, &Precondition::None, &If::default()).await.map(drop)
        }
        .boxed()
    }

    /// The path in the backup; none without a backup folder.
    fn backup_path(&self, path: &RemotePath) -> Result<Option<RemotePath>, Error> {
        let Some(Backup::There(backup)) = &self.options.backup else { return Ok(None) };
        let Some(names) = path.relative_to(self.target) else { return Ok(None) };
        let mut place = backup.clone();
        for name in names {
            place = place.join(name, true)?;
        }
        Ok(Some(place.as_folder(path.is_folder())))
    }

    async fn ensure_above(&self, path: &RemotePath) -> Result<(), Error> {
        match path.parent() {
            Some(parent) => self.ensure(parent).await,
            None => Ok(()),
        }
    }

    /// Creates a folder of the backup with its parents.
    fn ensure(&self, folder: RemotePath) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            if folder.name().is_none() || lock(&self.backup_folders).contains(&folder) {
                return Ok(());
            }
            match self.dav.mkcol(&folder).await {
                Err(error) if error.is(409) || error.is(404) => {
                    self.ensure_above(&folder).await?;
                    self.dav.mkcol(&folder).await?;
                }
                made => drop(made?),
            }
            lock(&self.backup_folders).insert(folder);
            Ok(())
        }
        .boxed()
    }
}
