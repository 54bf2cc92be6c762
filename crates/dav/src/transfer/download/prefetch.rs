//! The first ranges of a file, asked for before anything is known of it.
//!
//! A file that the user names is looked at before it is fetched, and that look is a round trip in which nothing of the
//! file moves. So its first range goes out with the look, and on a long way more of them, each on a connection of its
//! own; one is left for the look itself. When it is answered, a range counts if it is of the version that the look has
//! found: of the same length, and by a strong entity tag where the file takes more than one. A file that is not so long
//! has refused some of them (416), which costs nobody anything.

use std::{collections::VecDeque, ops::Range};

use haul_http::Answer;
use tokio::task::JoinHandle;

use super::range_request::{asking, is_far, options};
use crate::{Dav, RemotePath};

/// How much is asked for of every file.
pub(super) const FIRST: u64 = 64 * 1024;
/// How much more is asked for on each other connection, if the way is long: as much as its window lets through in some
/// five round trips.
const NEXT: u64 = 512 * 1024;

/// Ranges of a file.
pub(super) struct Prefetch {
    pub(super) path: RemotePath,
    pub(super) ranges: VecDeque<PrefetchedRange>,
}

impl Prefetch {
    /// Asks for the first ranges of a file, over so many connections.
    pub(super) fn ask(dav: &Dav, path: &RemotePath, connections: usize) -> Self {
        let first = (connections > 1).then(|| PrefetchedRange::begin(dav, path, 0..FIRST, false));
        let range = |number: u64| FIRST + number * NEXT..FIRST + (number + 1) * NEXT;
        let more = (2..connections as u64).map(|number| PrefetchedRange::begin(dav, path, range(number - 2), true));
        Self { path: path.clone(), ranges: first.into_iter().chain(more).collect() }
    }
}

/// A range that was asked for. When it is dropped, its answer is not waited for.
pub(super) struct PrefetchedRange {
    pub(super) range: Range<u64>,
    answer: JoinHandle<Option<Answer>>,
}

impl PrefetchedRange {
    /// Asks for a range; if `far`, only where the way turns out to be a long one.
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

    /// Its answer, if it was asked for and is a success.
    pub(super) async fn answer(mut self) -> Option<Answer> {
        (&mut self.answer).await.ok()?
    }
}

impl Drop for PrefetchedRange {
    fn drop(&mut self) {
        self.answer.abort();
    }
}
