//! Replacements: a file by a folder, a folder by a file, and a name by another spelling.
//!
//! The new one is created first, under a temporary name, so nothing is lost if the server refuses it. A MOVE with `Overwrite`
//! then deletes the old one and renames in a single request (RFC 4918 §9.9.3). Some servers refuse to overwrite one kind by
//! the other: there the old one is deleted first.

use std::time::SystemTime;

use haul_http::{Class, Options};
use http::HeaderMap;

use super::{
    Upload,
    file::{mtime, renaming},
    source_content::Source,
};
use crate::{
    Error, If, Precondition, RemotePath,
    transfer::{
        SHARED, marked,
        plan::{Node, Outcome, RemoteEntry, Sent},
        random,
        source_file::SourceFile,
        temporary_name,
    },
};

impl Upload<'_> {
    /// Replaces a file by a folder, if the precondition still holds.
    pub(super) async fn replace_by_folder(&self, path: &RemotePath, precondition: &Precondition) -> Result<(), Error> {
        let (parent, name) = place(path)?;
        let ours = parent.join(&marked(name, random(path), "upload"), true)?;
        self.temporary().insert(ours.clone(), None);
        let replaced = async {
            self.dav.try_mkcol(&ours).await?;
            self.replace_by_move(&ours, path, precondition).await
        };
        self.finish_replacement(&ours, replaced.await).await
    }

    /// Replaces a folder by an uploaded file.
    pub(super) async fn replace_by_file(
        &self,
        origin: &SourceFile,
        path: &RemotePath,
        length: u64,
        modified: Option<SystemTime>,
    ) -> Result<Sent, Error> {
        let (parent, name) = place(path)?;
        let Source { body, seen, .. } = self.open(origin, length).await?;
        let bytes = body.length().unwrap_or(length);
        let ours = parent.join(&temporary_name(name), false)?;
        let headers: HeaderMap = mtime(modified).into_iter().collect();
        let class = if bytes <= SHARED { Class::Small } else { Class::Large };
        self.temporary().insert(ours.clone(), None);
        let replaced = async {
            let options = Options { class, ..Options::default() };
            self.dav.put(&ours, body, headers, &Precondition::Absent, &If::default(), options).await?;
            seen.still_of(origin)?;
            self.replace_by_move(&ours, path, &Precondition::None).await
        };
        self.finish_replacement(&ours, replaced.await).await?;
        Ok(Sent { bytes, etag: None, compared: false, seen: None })
    }

    /// Renames something whose name differs only in spelling; a dry run pretends to.
    pub(super) async fn rename_node(
        &self,
        from: RemotePath,
        thing: Node,
        old: RemoteEntry,
        to: Result<RemotePath, Error>,
    ) -> Outcome {
        let now = match to {
            Ok(_) if self.options.dry_run => Ok(Some(old.clone())),
            Ok(to) => self.rename_by_spelling(&from, &to).await,
            Err(error) => Err(error),
        };
        Outcome::Renamed(from, thing, old, now)
    }

    /// Renames a remote entry to another spelling of its name, without overwriting anything; returns the renamed entry.
    /// Some servers that fold case refuse because the entry itself has the new name: then it is renamed through a
    /// temporary name. With `Overwrite: T` such a server would delete it first.
    async fn rename_by_spelling(&self, from: &RemotePath, to: &RemotePath) -> Result<Option<RemoteEntry>, Error> {
        let none = If::default();
        if let Err(error) = self.dav.rename(from, to, false, &none).await {
            if !error.is(412) && !error.is(403) && !error.is(409) {
                return Err(error);
            }
            let (parent, name) = place(to)?;
            let ours = parent.join(&temporary_name(name), from.is_folder())?;
            self.dav.rename(from, &ours, false, &none).await?;
            if let Err(error) = self.dav.rename(&ours, to, false, &none).await {
                self.dav.rename(&ours, from, false, &none).await?;
                return Err(error);
            }
        }
        Ok(self.dav.stat(to, self.properties).await?.map(|entry| RemoteEntry::from(&entry)))
    }

    /// Deletes something that no longer exists locally, unless it and `twin` are the same file on the server.
    pub(super) async fn delete_if_distinct(
        &self,
        path: RemotePath,
        precondition: Precondition,
        twin: Vec<u8>,
    ) -> Outcome {
        match self.lists_both(&path, &twin).await {
            Ok(true) => self.delete(path, precondition, false).await,
            Ok(false) => Outcome::NotDeleted,
            Err(error) => Outcome::Deleted(path, precondition, Err(error)),
        }
    }

    /// Whether the server lists both a locally deleted name and its twin. A server that folds names lists only one of
    /// them, with the content uploaded under the other name. A dry run has uploaded nothing.
    async fn lists_both(&self, path: &RemotePath, twin: &[u8]) -> Result<bool, Error> {
        let (parent, name) = place(path)?;
        if self.options.dry_run {
            return Ok(true);
        }
        let listing = self.list(&parent).await?.unwrap_or_default();
        Ok(listing.contains_key(twin) && listing.contains_key(name))
    }

    /// Moves our new file or folder over one of the other kind.
    async fn replace_by_move(
        &self,
        ours: &RemotePath,
        path: &RemotePath,
        precondition: &Precondition,
    ) -> Result<(), Error> {
        let (old, new) = (path.clone().as_folder(!ours.is_folder()), path.clone().as_folder(ours.is_folder()));
        if self.options.backup.is_some() {
            self.move_to_backup(old).await?;
            return self.dav.rename(ours, &new, false, &If::default()).await.map(drop);
        }
        let (_, claims) = renaming(self.dav, &old, precondition, &If::default());
        // Without a trailing slash: a folder's URL may not exist where there is a file.
        let error = match self.dav.rename(ours, &path.clone().as_folder(false), true, &claims).await {
            Err(error) if error.refusal().is_some() => error,
            moved => return moved.map(drop),
        };
        let unknown = match precondition {
            // A server without ETags in `If` answers 412 to every tag.
            Precondition::Unchanged(tag) if error.is(412) => self.dav.is_still(&old, tag).await,
            _ => !error.is(412),
        };
        if error.is(423) || !unknown {
            return Err(error);
        }
        match self.dav.delete(&old, precondition, &If::default()).await {
            Err(error) if !error.is(404) => return Err(error),
            _ => {}
        }
        self.dav.rename(ours, &new, false, &If::default()).await.map(drop)
    }

    async fn finish_replacement(&self, ours: &RemotePath, replaced: Result<(), Error>) -> Result<(), Error> {
        match &replaced {
            Ok(()) => drop(self.temporary().remove(ours)),
            Err(_) => self.discard(ours, None, false).await,
        }
        replaced
    }
}

fn place(path: &RemotePath) -> Result<(RemotePath, &[u8]), Error> {
    let none = || Error::Differs { path: path.clone(), why: "it has no name".into() };
    path.parent().zip(path.name()).ok_or_else(none)
}
