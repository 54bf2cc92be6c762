//! What of a folder on the server a mirror may delete, where a filter leaves something out.

use futures_util::{FutureExt, future::BoxFuture};

use super::Upload;
use crate::{Error, Guard, RemotePath, transfer::filter::Scope};

/// What is to be deleted, and whether that is all of a folder.
type Sifted = Result<(Vec<(RemotePath, Guard)>, bool), Error>;

impl Upload<'_> {
    /// A folder that the source has not is deleted as one, unless something in it is left out: then all else in it is.
    pub(super) fn sift(&self, path: RemotePath, scope: Scope) -> BoxFuture<'_, Sifted> {
        async move {
            let filter = &self.options.filter;
            let listing = self.list(&path).await?.unwrap_or_default();
            let (mut deletions, mut whole) = (Vec::new(), !scope.passing);
            for (name, there) in listing {
                let child = path.join(&name, there.folder)?;
                if !there.folder && filter.file(&scope, &name, there.length, there.modified) {
                    deletions.push((child, there.guard()));
                } else if let (true, Some(below)) = (there.folder, filter.folder(&scope, &name)) {
                    let (found, all) = self.sift(child, below).await?;
                    deletions.extend(found);
                    whole &= all;
                } else {
                    whole = false;
                }
            }
            Ok(if whole { (vec![(path, Guard::None)], true) } else { (deletions, false) })
        }
        .boxed()
    }
}
