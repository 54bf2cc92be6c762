//! Requests that are sent after their client has its answer, and what has to wait for them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use dav::RemotePath;
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};

use crate::redirector::are_related;

/// The largest number of paths with such requests; at it, a client waits.
const PATHS: usize = 64;

/// Work that goes on at some paths, of one credential.
#[derive(Default)]
pub(crate) struct Later {
    pending: Mutex<Vec<(RemotePath, Shared<BoxFuture<'static, ()>>)>>,
}

impl Later {
    fn pending(&self) -> MutexGuard<'_, Vec<(RemotePath, Shared<BoxFuture<'static, ()>>)>> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain(|(_, work)| work.peek().is_none());
        pending
    }

    /// Begins work at a path, behind what goes on there already.
    pub(crate) fn begin(&self, path: RemotePath, work: impl Future<Output = ()> + Send + 'static) {
        let mut pending = self.pending();
        let before: Vec<_> = related(&pending, &path);
        let done = tokio::spawn(async move {
            for before in before {
                before.await;
            }
            work.await;
        });
        pending.push((path, done.map(drop).boxed().shared()));
    }

    /// Waits until nothing goes on at, below or above a path.
    pub(crate) async fn settle(&self, path: &RemotePath) {
        let work = related(&self.pending(), path);
        for work in work {
            work.await;
        }
    }

    /// Whether something goes on at or above a path.
    pub(crate) fn covers(&self, path: &RemotePath) -> bool {
        let covers = |at: &RemotePath| path.clone().as_folder(true).relative_to(&at.clone().as_folder(true)).is_some();
        self.pending().iter().any(|(at, _)| covers(at))
    }

    /// Waits until there is room for more.
    pub(crate) async fn room(&self) {
        let oldest = {
            let pending = self.pending();
            pending.first().filter(|_| pending.len() >= PATHS).map(|(_, work)| work.clone())
        };
        if let Some(oldest) = oldest {
            oldest.await;
        }
    }

    /// How much goes on.
    pub(crate) fn paths(&self) -> usize {
        self.pending().len()
    }

    /// Waits until nothing goes on.
    pub(crate) async fn end(&self) {
        let all: Vec<_> = self.pending().iter().map(|(_, work)| work.clone()).collect();
        for work in all {
            work.await;
        }
    }
}

fn related(
    pending: &[(RemotePath, Shared<BoxFuture<'static, ()>>)],
    path: &RemotePath,
) -> Vec<Shared<BoxFuture<'static, ()>>> {
    pending.iter().filter(|(at, _)| are_related(at, path)).map(|(_, work)| work.clone()).collect()
}
