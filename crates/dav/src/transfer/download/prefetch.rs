//! The first ranges of a file, requested before anything is known about it.
//!
//! A file that the user names is looked up before it is downloaded, and during that round trip no byte of the file would
//! move. So its first range is requested together with the lookup, and on a long path more of them, each on a connection of
//! its own; one connection is left for the lookup. A range counts if it belongs to the version that the lookup found: the
//! length must match, and for more than one range a strong entity tag. A shorter file answers 416 to some of them, which
//! costs nothing.

use std::{collections::VecDeque, ops::Range};

use haul_http::Answer;
use tokio::task::JoinHandle;

use super::range_request::{asking, is_far, options};
use crate::{Dav, RemotePath};

/// Length of the first range.
pub(super) const FIRST: u64 = 64 * 1024;
/// Length of the range on each other connection of a long path: what a new window lets through in some five round
/// trips.
const NEXT: u64 = 512 * 1024;

/// The prefetched ranges of a file.
pub(super) struct Prefetch {
    pub(super) path: RemotePath,
    pub(super) ranges: VecDeque<PrefetchedRange>,
}

impl Prefetch {
    /// Requests the first ranges of a file, over this many connections.
    pub(super) fn start(dav: &Dav, path: &RemotePath, connections: usize) -> Self {
        let first = (connections > 1).then(|| PrefetchedRange::begin(dav, path, 0..FIRST, false));
        let range = |number: u64| FIRST + number * NEXT..FIRST + (number + 1) * NEXT;
        let more = (2..connections as u64).map(|number| PrefetchedRange::begin(dav, path, range(number - 2), true));
        Self { path: path.clone(), ranges: first.into_iter().chain(more).collect() }
    }
}

/// A requested range. Dropping it cancels the request.
pub(super) struct PrefetchedRange {
    pub(super) range: Range<u64>,
    answer: JoinHandle<Option<Answer>>,
}

impl PrefetchedRange {
    /// Requests a range; if `far`, only if the path proves to be a long one.
    fn begin(dav: &Dav, path: &RemotePath, range: Range<u64>, far: bool) -> Self {
        let (dav, path, headers) = (dav.clone(), path.clone(), asking(&range));
        let answer = tokio::spawn(async move {
            if far && !is_far(&dav.client().met(dav.requests().origin()).await) {
                return None;
            }
            dav.get(&path, headers, options(None)).await.ok()
        });
        Self { range, answer }
    }

    /// The answer, if the range was requested and succeeded.
    pub(super) async fn answer(mut self) -> Option<Answer> {
        (&mut self.answer).await.ok()?
    }
}

impl Drop for PrefetchedRange {
    fn drop(&mut self) {
        self.answer.abort();
    }
}
