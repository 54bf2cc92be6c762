//! Deletions of a mirror on the server, and the check of their effect.

use std::collections::HashSet;

use futures_util::{
    FutureExt,
    future::{BoxFuture, try_join_all},
};

use super::{SourceServer, Upload};
use crate::{
    Error, If, Precondition, PropertySet, RemotePath,
    transfer::{
        FEW, Filter,
        filter::Scope,
        plan::{Deletable, Outcome},
    },
};

impl Upload<'_> {
    /// Deletes something that no longer exists locally, pipelined (`among` others) or alone on a connection.
    pub(super) async fn delete(&self, path: RemotePath, precondition: Precondition, among: bool) -> Outcome {
        let deleted = if let Err(error) = self.has_no_source(&path).await {
            Err(error)
        } else if self.options.dry_run {
            Ok(())
        } else if self.options.backup.is_some() {
            self.move_to_backup(path.clone()).await
        } else {
            let deleted = self.dav.delete_among(&path, &precondition, &If::default(), among).await;
            let gone = deleted.as_ref().is_err_and(|error| error.is(404));
            if gone { Ok(()) } else { deleted.map(drop) }
        };
        Outcome::Deleted(path, precondition, deleted)
    }

    /// Some servers do not list names that begin with a dot: such a name is looked up on the source server.
    async fn has_no_source(&self, path: &RemotePath) -> Result<(), Error> {
        let Some(SourceServer { dav: from, root: Some(root) }) = self.source else { return Ok(()) };
        if !path.name().is_some_and(|name| name.starts_with(b".")) {
            return Ok(());
        }
        let Some(names) = path.relative_to(self.target) else { return Ok(()) };
        let mut source = root.clone();
        for name in names {
            source = source.join(name, path.is_folder())?;
        }
        if from.stat(&source, PropertySet::LISTING).await?.is_none() {
            return Ok(());
        }
        let why = format!("the source server has {source} and does not list it: neither copied nor deleted");
        Err(Error::Differs { path: path.clone(), why })
    }

    /// Checks which of these, all in one folder, still exist.
    pub(super) async fn remaining(&self, folder: RemotePath, paths: Vec<(RemotePath, Precondition)>) -> Outcome {
        let there = self.there(&folder, &paths).await;
        Outcome::Remained(paths, there)
    }

    /// A listing may be long, and omit names that begin with a dot: few names, and those, are looked up one by one.
    async fn there(
        &self,
        folder: &RemotePath,
        paths: &[(RemotePath, Precondition)],
    ) -> Result<HashSet<RemotePath>, Error> {
        let is_hidden = |path: &RemotePath| path.name().is_some_and(|name| name.starts_with(b"."));
        let few = paths.len() <= FEW;
        let (each, listed): (Vec<_>, Vec<_>) =
            paths.iter().map(|(path, _)| path).partition(|path| few || is_hidden(path));
        let look = |path: &RemotePath| {
            let path = path.clone();
            async move { Ok::<_, Error>(self.dav.stat(&path, self.properties).await?.map(|_| path)) }
        };
        let mut there: HashSet<RemotePath> =
            try_join_all(each.into_iter().map(look)).await?.into_iter().flatten().collect();
        if !listed.is_empty() {
            let listing = self.list(folder).await?.unwrap_or_default();
            let is_there = |path: &&RemotePath| path.name().is_some_and(|name| listing.contains_key(name));
            there.extend(listed.into_iter().filter(is_there).cloned());
        }
        Ok(there)
    }

    /// Collects what to delete in a folder that the source does not have: the whole folder, unless the filter excludes
    /// something in it.
    pub(super) fn deletable_in(&self, path: RemotePath, scope: Scope) -> BoxFuture<'_, Result<Deletable, Error>> {
        async move {
            let all = self.options.delete_excluded;
            let filter = Some(&self.options.filter).filter(|filter| !filter.is_empty() && !all);
            let listing = self.list(&path).await?.unwrap_or_default();
            let mut deletable = Deletable { whole: filter.is_none() || !scope.passing, ..Deletable::default() };
            for (name, there) in listing {
                let child = path.join(&name, there.is_folder)?;
                let below = match filter {
                    _ if !there.is_folder => None,
                    Some(filter) => filter.folder(&scope, &name),
                    None => Some(scope.clone()),
                };
                let is_in = |filter: &Filter| filter.file(&scope, &name, there.facts.length, there.facts.modified);
                if !there.is_folder && filter.is_none_or(is_in) {
                    deletable.count += 1;
                    deletable.deletions.push((child, there.precondition()));
                } else if let Some(below) = below {
                    let found = self.deletable_in(child, below).await?;
                    deletable.count += found.count;
                    deletable.whole &= found.whole;
                    deletable.deletions.extend(found.deletions);
                } else {
                    deletable.whole = false;
                }
            }
            if deletable.whole {
                deletable.deletions = vec![(path, Precondition::None)];
                deletable.count += 1;
            }
            Ok(deletable)
        }
        .boxed()
    }
}
