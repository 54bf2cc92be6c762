//! The first ranges of a file, asked for before anything is known of it.
//!
//! A file that the user names is looked at before it is fetched, and that look is a round trip in which nothing of the file
//! moves. So its first ranges go out with the look, each on a connection of its own; one is left for the look itself. When
//! it is answered, a range counts if it is of the version that the look has found: of the same length, and by a strong
//! entity tag where the file takes more than one. A file that is not so long has refused some of them (416), which costs
//! nobody anything.

use std::{collections::VecDeque, ops::Range};

use haul_http::Answer;
use tokio::task::JoinHandle;

use super::parts::{asking, options};
use crate::{Dav, Error, RemotePath};

/// How much is asked for at once on each connection: as much as its window lets through in some six round trips.
pub(super) const EACH: u64 = 1024 * 1024;

/// Ranges of a file.
pub(super) struct Early {
    pub(super) path: RemotePath,
    pub(super) ranges: VecDeque<Asked>,
}

impl Early {
    /// Asks for the first ranges of a file, over so many connections.
    pub(super) fn ask(dav: &Dav, path: &RemotePath, connections: usize) -> Self {
        let range = |number: u64| number * EACH..(number + 1) * EACH;
        let ranges = (1..connections as u64).map(|number| Asked::begin(dav, path, range(number - 1))).collect();
        Self { path: path.clone(), ranges }
    }
}

/// A range that was asked for. When it is dropped, its answer is not waited for.
pub(super) struct Asked {
    pub(super) range: Range<u64>,
    answer: JoinHandle<Result<Answer, Error>>,
}

impl Asked {
    fn begin(dav: &Dav, path: &RemotePath, range: Range<u64>) -> Self {
        let (dav, path, headers) = (dav.clone(), path.clone(), asking(&range));
        let answer = tokio::spawn(async move { dav.get(&path, headers, options(None)).await });
        Self { range, answer }
    }

    /// Its answer, if it is a success.
    pub(super) async fn answer(mut self) -> Option<Answer> {
        (&mut self.answer).await.ok()?.ok()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.answer.abort();
    }
}
