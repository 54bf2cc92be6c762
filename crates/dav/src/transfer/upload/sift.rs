//! What of a folder on the server a mirror may delete, and how much that is.

use futures_util::{FutureExt, future::BoxFuture};

use super::Upload;
use crate::{
    Error, Guard, RemotePath,
    transfer::{filter::Scope, plan::Sifted},
};

impl Upload<'_> {
    /// A folder that the source has not is deleted as one, unless something in it is left out: then all else in it is.
    pub(super) fn sift(&self, path: RemotePath, scope: Scope) -> BoxFuture<'_, Result<Sifted, Error>> {
        async move {
            let all = self.options.delete_excluded;
            let filter = Some(&self.options.filter).filter(|filter| !filter.is_empty() && !all);
            let listing = self.list(&path).await?.unwrap_or_default();
            let mut sifted = Sifted { whole: filter.is_none() || !scope.passing, ..Sifted::default() };
            for (name, there) in listing {
                let child = path.join(&name, there.folder)?;
                let below = match filter {
                    _ if !there.folder => None,
                    Some(filter) => filter.folder(&scope, &name),
                    None => Some(scope.clone()),
                };
                let is_in = |filter: &crate::transfer::Filter| filter.file(&scope, &name, there.length, there.modified);
                if !there.folder && filter.is_none_or(is_in) {
                    sifted.count += 1;
                    sifted.deletions.push((child, there.guard()));
                } else if let Some(below) = below {
                    let found = self.sift(child, below).await?;
                    sifted.count += found.count;
                    sifted.whole &= found.whole;
                    sifted.deletions.extend(found.deletions);
                } else {
                    sifted.whole = false;
                }
            }
            if sifted.whole {
                sifted.deletions = vec![(path, Guard::None)];
                sifted.count += 1;
            }
            Ok(sifted)
        }
        .boxed()
    }
}
