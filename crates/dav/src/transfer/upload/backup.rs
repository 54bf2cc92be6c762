//! What an upload would replace or delete, kept in another folder of the server.
//!
//! What is replaced is copied there first: nobody finds its place empty meanwhile. What is deleted is moved.

use futures_util::{FutureExt, future::BoxFuture};

use super::Upload;
use crate::{
    Error, If, Precondition, RemotePath,
    transfer::{Backup, lock},
};

impl Upload<'_> {
    /// Keeps a copy of a file that is to be replaced, if that is wanted.
    pub(super) async fn keep_copy(&self, path: &RemotePath) -> Result<(), Error> {
        let Some(backup) = self.backup_of(path)? else { return Ok(()) };
        self.ensure_above(&backup).await?;
        self.dav.copy(path, &backup, true, &If::default()).await.map(drop)
    }

    /// Moves what is to be deleted to the backup. A folder that is there from earlier is added to.
    pub(super) fn put_away(&self, path: RemotePath) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            let Some(backup) = self.backup_of(&path)? else { return Ok(()) };
            self.ensure_above(&backup).await?;
            match self.dav.rename(&path, &backup, !path.is_folder(), &If::default()).await {
                Err(error) if error.is(404) => return Ok(()),
                Err(error) if error.is(412) && path.is_folder() => {}
                moved => return moved.map(drop),
            }
            for (name, there) in self.list(&path).await?.unwrap_or_default() {
                self.put_away(path.join(&name, there.folder)?).await?;
            }
            // Somebody may have put something there meanwhile.
            if self.list(&path).await?.is_some_and(|listing| !listing.is_empty()) {
                let why = "it is not empty, so it stays".into();
                return Err(Error::Differs { path, why });
            }
            self.dav.delete(&path, &Precondition::None, &If::default()).await.map(drop)
        }
        .boxed()
    }

    /// Where something belongs in the backup; none if there is to be none.
    fn backup_of(&self, path: &RemotePath) -> Result<Option<RemotePath>, Error> {
        let Some(Backup::There(backup)) = &self.options.backup else { return Ok(None) };
        let Some(names) = path.relative_to(self.root) else { return Ok(None) };
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

    /// Makes a folder of the backup, and those that it is in.
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
