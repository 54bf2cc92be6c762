//! A large file in parts of one version, over all connections at once.
//!
//! Each connection begins with a narrow window of its own, so six of them carry six times as much in each round trip
//! until the link is full. That is worth most when all begin together and none pauses before the end:
//! - a connection is asked for its next part while it sends one ([`Class::Part`]), since between two it would be silent
//!   for a round trip, and a sender that paces itself by what it has measured does not make up for another's silence;
//! - parts become smaller towards the end, so that all connections are done at about the same time;
//! - none waits for another: what comes before its turn is held in memory, up to a bound, as one of six connections may
//!   well bring ten times as much as another;
//! - what is missing in the end, while the link lies idle, is asked for once more (`late`).
//!
//! On a short way there is little to gain, as a window opens soon, and more to lose, as senders overrun the queue
//! before the link together. There one answer brings all that has not been asked for yet, and where it breaks off
//! another goes on.
//!
//! All parts are of one version: each is asked for with the entity tag that was listed (`If-Match`), or, if it was
//! asked for before there was a listing (`early`), has come with that. They are written one after another, hence what
//! is there when it is interrupted can be gone on from.

use std::{
    collections::VecDeque,
    ops::Range,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use futures_util::{FutureExt, TryStreamExt, stream::FuturesOrdered};
use haul_http::Answer;
use http::{HeaderValue, StatusCode, header::IF_MATCH};
use http_body_util::BodyExt;
use tokio::{
    io::AsyncWriteExt,
    sync::{Notify, mpsc},
};

use super::{
    Download,
    attempt::{FetchError, cut, retry},
    hedge::Hedge,
    partial_file::PartialFile,
    prefetch::PrefetchedRange,
    range_request::{FAR, asking, is_far, is_of, is_part, options, told},
};
use crate::{
    ETag, Error, RemotePath,
    transfer::{Event, lock},
};

/// The largest part, and the smallest that is worth a request. While the narrowest connection brings two of them, the
/// others go on.
const LARGEST: u64 = 512 * 1024;
const SMALLEST: u64 = 64 * 1024;
/// So many parts of a file are asked for at a time, for each connection; what is small waits no longer than for them.
const EACH: usize = 16;
/// Where one connection carries all requests, which share what it brings and leave others the rest of its streams.
const EACH_STREAMS: usize = 4;
/// How far beyond what is written a file is asked for.
const AHEAD: u64 = 32 * 1024 * 1024;
/// How often a rest may break off in a row without having brought the bytes of the smallest part.
const FRUITLESS: usize = 5;
impl Download<'_> {
    /// Asks for all parts of one version, several at a time, and writes them one after another; none if the server does
    /// not send parts. The first ones may have been asked for already.
    pub(super) async fn fetch_parts(
        &self,
        path: &RemotePath,
        part: &PartialFile,
        length: u64,
        tag: &ETag,
        early: VecDeque<PrefetchedRange>,
    ) -> Result<Option<u64>, Error> {
        let lanes = self.options.connections.max(1);
        let facts = self.facts();
        let round_trip = facts.as_ref().map_or(FAR, |facts| facts.tcp.max(FAR));
        let far = facts.as_ref().is_some_and(is_far);
        let shared = self.shares();
        let most = lanes * if shared { EACH_STREAMS } else { EACH };
        // Kept until the file is there; nobody closes it.
        let _turn = if far { self.in_parts.acquire().await.ok() } else { None };
        if self.whole_only.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let written = |error| Error::local("write", &part.place, error);
        let file = part.open().map_err(written)?;
        if part.has > 0 {
            (self.watch)(Event::Moved { bytes: part.has });
        }
        let mut file = tokio::fs::File::from_std(file);
        let early = early.into_iter().filter(|asked| part.has == 0 && asked.range.start < length);
        let early = early.take(if far { lanes } else { 1 });
        let early: Vec<_> = early.map(|asked| (asked.range.start..asked.range.end.min(length), Some(asked))).collect();
        let start = early.last().map_or(part.has, |(range, _)| range.end);
        let cut = if far { length } else { start };
        let parts = RangePlan { at: start, length: cut, lanes: lanes as u64 }.map(|range| (range, None));
        let mut parts = early.into_iter().chain(parts).peekable();
        let (at, moved_on) = (AtomicU64::new(part.has), Notify::new());
        let (late, all_asked) = (Hedge::new(2 * lanes), AtomicBool::new(false));
        let (pass_on, mut in_order) = mpsc::unbounded_channel::<Vec<u8>>();
        let fetched = async {
            // Dropped with this, which ends the writing; what has come is written all the same.
            let pass_on = pass_on;
            let mut coming = FuturesOrdered::new();
            loop {
                let bound = at.load(Ordering::Relaxed) + AHEAD;
                while coming.len() < most
                    && let Some((range, asked)) = parts.next_if(|(range, _)| range.end <= bound)
                {
                    let late = &late;
                    coming.push_back(async move {
                        let (asked, size) = (Mutex::new(asked), range.end - range.start);
                        let fetch = || self.fetch_part(path, range.clone(), length, tag, lock(&asked).take());
                        late.either(retry(size, &fetch), || retry(size, &fetch)).boxed().await
                    });
                }
                all_asked.store(parts.peek().is_none(), Ordering::Relaxed);
                tokio::select! {
                    came = coming.try_next(), if !coming.is_empty() => match came? {
                        Some(Some(came)) => drop(pass_on.send(came)),
                        _ => return Ok::<_, Error>(false),
                    },
                    () = moved_on.notified(), if parts.peek().is_some() => {}
                    else => return Ok(true),
                }
            }
        };
        // Beside the fetching: a slow disk is no reason not to read what comes.
        let stored = async {
            while let Some(came) = in_order.recv().await {
                file.write_all(&came).await.map_err(written)?;
                at.fetch_add(came.len() as u64, Ordering::Relaxed);
                moved_on.notify_one();
            }
            Ok::<_, Error>(&mut file)
        };
        let before = async {
            let both = async { tokio::try_join!(async { Ok(fetched.await) }, stored) };
            let (apart, moved) = (far && !shared, || self.moved.load(Ordering::Relaxed));
            tokio::select! {
                both = both => both.and_then(|(all, file)| Ok(all?.then_some(file))),
                never = late.look(round_trip, moved, || apart && all_asked.load(Ordering::Relaxed)) => match never {},
            }
        };
        let rest = async { Ok(if cut < length { Some(self.ask_for(path, &(cut..length), tag).await) } else { None }) };
        let came = match tokio::try_join!(before, rest)? {
            (Some(file), Some(rest)) => self.fetch_rest(path, &part.place, file, cut..length, tag, rest).await?,
            (before, _) => before.is_some(),
        };
        if !came {
            self.whole_only.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        file.flush().await.map_err(written)?;
        Ok(Some(length))
    }

    /// Writes what is left of a file from one answer, and goes on where it breaks off; false if the server does not
    /// send parts.
    async fn fetch_rest(
        &self,
        path: &RemotePath,
        place: &Path,
        file: &mut tokio::fs::File,
        mut left: Range<u64>,
        tag: &ETag,
        mut answer: Result<Answer, Error>,
    ) -> Result<bool, Error> {
        let mut tries = FRUITLESS;
        loop {
            let begin = left.start;
            let Some(part) = part_of(path, answer?, &left, left.end)? else { return Ok(false) };
            let mut body = part.into_body();
            let broken = loop {
                let piece = match body.frame().await {
                    Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                    Some(Err(error)) => break error.into(),
                    None if left.is_empty() => return Ok(true),
                    None => {
                        break differs(
                            path,
                            format!("the server sent {} bytes less than it said", left.end - left.start),
                        );
                    }
                };
                if piece.len() as u64 > left.end - left.start {
                    return Err(differs(path, "the server sent more than was asked for".into()));
                }
                self.moves(piece.len());
                file.write_all(&piece).await.map_err(|error| Error::local("write", place, error))?;
                left.start += piece.len() as u64;
            };
            if left.is_empty() {
                return Ok(true);
            }
            tries = if left.start - begin < SMALLEST { tries - 1 } else { FRUITLESS };
            if tries == 0 {
                return Err(broken);
            }
            answer = self.ask_for(path, &left, tag).await;
        }
    }

    /// Asks for a range of this version.
    async fn ask_for(&self, path: &RemotePath, range: &Range<u64>, tag: &ETag) -> Result<Answer, Error> {
        let mut headers = asking(range);
        headers.extend(HeaderValue::from_str(&tag.to_string()).map(|tag| (IF_MATCH, tag)));
        self.dav.get(path, headers, options(Some(tag))).await
    }

    /// A part of a file that is `whole` bytes long; none if the server sends all of it instead.
    async fn fetch_part(
        &self,
        path: &RemotePath,
        range: Range<u64>,
        whole: u64,
        tag: &ETag,
        asked: Option<PrefetchedRange>,
    ) -> Result<Option<Vec<u8>>, FetchError> {
        let early = match asked {
            Some(asked) => asked.answer().await.filter(|answer| is_part(answer, &range, whole) && is_of(answer, tag)),
            None => None,
        };
        let answer = match early {
            Some(answer) => answer,
            None => self.ask_for(path, &range, tag).await?,
        };
        let (start, end) = (range.start, range.end);
        let Some(answer) = part_of(path, answer, &range, whole)? else { return Ok(None) };
        // Copied, since a piece keeps the whole of the buffer alive that it came in.
        let (mut body, mut came, mut length) = (answer.into_body(), Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.map_err(cut)?.into_data() else { continue };
            length += piece.len() as u64;
            if length > end - start {
                break;
            }
            self.moves(piece.len());
            if came.is_empty() {
                came.reserve_exact((end - start) as usize);
            }
            came.extend_from_slice(&piece);
        }
        if length == end - start {
            Ok(Some(came))
        } else {
            let why = format!("the server sent {length} of the {} bytes from {start}", end - start);
            Err(FetchError::Interrupted(differs(path, why)))
        }
    }
}

/// What is left of a file, cut for so many connections: each part is a sixteenth of what would be each one's share.
struct RangePlan {
    at: u64,
    length: u64,
    lanes: u64,
}

impl Iterator for RangePlan {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let left = self.length - self.at;
        let share = (AHEAD / (2 * self.lanes)).clamp(SMALLEST, LARGEST);
        let size = (left / (EACH as u64 * self.lanes)).clamp(SMALLEST, share);
        // No crumb is left.
        let size = if left < size + SMALLEST { left } else { size };
        let range = self.at..self.at + size;
        self.at = range.end;
        (size > 0).then_some(range)
    }
}

/// An answer that is this part of a file of so many bytes; none if it is all of it.
fn part_of(path: &RemotePath, answer: Answer, range: &Range<u64>, whole: u64) -> Result<Option<Answer>, Error> {
    if answer.status() == StatusCode::OK {
        return Ok(None);
    }
    if is_part(&answer, range, whole) {
        return match http_body::Body::size_hint(answer.body())
            .exact()
            .filter(|announced| *announced > range.end - range.start)
        {
            None => Ok(Some(answer)),
            // It would not end.
            Some(announced) => {
                let length = range.end - range.start;
                Err(differs(path, format!("{length} bytes were asked for, and the answer announces {announced}")))
            }
        };
    }
    let (start, last, told) = (range.start, range.end - 1, told(&answer));
    Err(differs(path, format!("bytes {start}-{last} of {whole} were asked for, and the server sends {told}")))
}

fn differs(path: &RemotePath, why: String) -> Error {
    Error::Differs { path: path.clone(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_file_and_become_smaller() {
        for (at, length, lanes) in
            [(0, 20 << 20, 6), (5 << 20, 20 << 20, 6), (7, 9_000_001, 1), (3, 3, 6), (0, 1 << 34, 64)]
        {
            let mut end = at;
            let mut last = LARGEST + SMALLEST;
            for Range { start, end: next } in (RangePlan { at, length, lanes }) {
                assert_eq!(start, end);
                let size = next - start;
                assert!(size <= last && (size >= SMALLEST || size == length - at), "{size} behind {last}");
                (end, last) = (next, size.max(2 * SMALLEST));
            }
            assert_eq!(end, length);
        }
        let sizes: Vec<u64> =
            RangePlan { at: 0, length: 20 << 20, lanes: 6 }.map(|part| part.end - part.start).collect();
        assert!(sizes[0] > 3 * SMALLEST && sizes.len() < 240, "{sizes:?}");
    }
}
