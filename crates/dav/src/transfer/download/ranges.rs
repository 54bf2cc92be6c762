//! A large file in ranges of one version, over all connections at once.
//!
//! Each connection starts with a small congestion window of its own, so six of them carry six times as much per round trip
//! until the link is full. That gains most if all start together and none pauses before the end:
//! - a connection gets its next request while it is still sending ([`haul_http::Class::Part`]): otherwise it would be silent
//!   for a round trip between two ranges, and a paced sender does not make up for another's silence;
//! - ranges become smaller towards the end, so that all connections finish at about the same time;
//! - no connection waits for another: what arrives early is held in memory, up to a limit, because one of six connections may
//!   well be ten times as fast as another;
//! - what is missing at the end while the link is idle is requested a second time (`hedge`).
//!
//! On a short path there is little to gain, since a window opens soon, and more to lose, since the senders together overrun
//! the queue of the bottleneck. There a single answer brings everything that has not been requested yet, and when it breaks
//! off another one continues.
//!
//! All ranges belong to one version: each is requested with the entity tag of the listing (`If-Match`), or, if it was
//! requested before there was a listing (`prefetch`), its answer must have that tag. Ranges are written in order, so an
//! interrupted download can resume after what is there.

use std::{
    collections::VecDeque,
    ops::Range,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
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
    hedge::Hedge,
    partial_file::PartialFile,
    prefetch::PrefetchedRange,
    range_request::{FAR, asking, is_far, is_of, is_part, options, told},
    retry::{FetchError, cut, retry},
};
use crate::{
    ETag, Error, RemotePath,
    transfer::{Event, lock},
};

/// The largest range, and the smallest worth a request.
const LARGEST: u64 = 512 * 1024;
const SMALLEST: u64 = 64 * 1024;
/// Ranges of a file in flight per connection.
const EACH: usize = 16;
/// The same if one connection carries all requests, which leaves streams for others.
const EACH_STREAMS: usize = 4;
/// Maximum number of bytes requested ahead of what is written.
const AHEAD: u64 = 32 * 1024 * 1024;
/// How often the single answer may break off in a row with less progress than `SMALLEST`.
const FRUITLESS: usize = 5;

impl Download<'_> {
    /// Downloads one version in ranges, several at a time, and writes them in order; none if the server does not send
    /// ranges. The first ones may have been requested already.
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
        let far = facts.as_ref().is_some_and(is_far);
        // Held until the file is complete; nobody closes the semaphore.
        let _slot = if far { self.ranges.slots.acquire().await.ok() } else { None };
        if self.ranges.unsupported.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let write_error = |error| Error::local("write", &part.path, error);
        let file = part.open().map_err(write_error)?;
        if part.has > 0 {
            (self.watch)(Event::Moved { bytes: part.has });
        }
        let mut file = tokio::fs::File::from_std(file);
        let early = early.into_iter().filter(|asked| part.has == 0 && asked.range.start < length);
        let early = early.take(if far { lanes } else { 1 });
        let early: Vec<_> = early.map(|asked| (asked.range.start..asked.range.end.min(length), Some(asked))).collect();
        let start = early.last().map_or(part.has, |(range, _)| range.end);
        let cut = if far { length } else { start };
        let planned = RangePlan { at: start, length: cut, lanes: lanes as u64 }.map(|range| (range, None));
        let round_trip = facts.map_or(FAR, |facts| facts.tcp.max(FAR));
        let job = RangeJob { path, length, tag, lanes, round_trip, far };
        let ranges = early.into_iter().chain(planned);
        let concurrent = self.fetch_concurrently(&job, ranges, part, &mut file);
        let rest = async { Ok(if cut < length { Some(self.ask_for(path, &(cut..length), tag).await) } else { None }) };
        let is_complete = match tokio::try_join!(concurrent, rest)? {
            (true, Some(rest)) => self.fetch_rest(path, &part.path, &mut file, cut..length, tag, rest).await?,
            (all, _) => all,
        };
        if !is_complete {
            self.ranges.unsupported.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        file.flush().await.map_err(write_error)?;
        Ok(Some(length))
    }

    /// Requests ranges, several at a time, and writes them in order; false if the server does not send ranges.
    async fn fetch_concurrently(
        &self,
        job: &RangeJob<'_>,
        ranges: impl Iterator<Item = (Range<u64>, Option<PrefetchedRange>)>,
        part: &PartialFile,
        file: &mut tokio::fs::File,
    ) -> Result<bool, Error> {
        let shared = self.shares_one_connection();
        let most = job.lanes * if shared { EACH_STREAMS } else { EACH };
        let mut ranges = ranges.peekable();
        let (written, advanced) = (AtomicU64::new(part.has), Notify::new());
        let (hedge, all_requested) = (Hedge::new(2 * job.lanes), AtomicBool::new(false));
        let (sender, mut received_in_order) = mpsc::unbounded_channel::<Vec<u8>>();
        let fetched = async {
            // Dropped at the end of this block, which ends the writer; it writes what has arrived all the same.
            let sender = sender;
            let mut in_flight = FuturesOrdered::new();
            loop {
                let bound = written.load(Ordering::Relaxed) + AHEAD;
                while in_flight.len() < most
                    && let Some((range, asked)) = ranges.next_if(|(range, _)| range.end <= bound)
                {
                    let hedge = &hedge;
                    in_flight.push_back(async move {
                        let (asked, size) = (Mutex::new(asked), range.end - range.start);
                        let fetch = || self.fetch_part(job, range.clone(), lock(&asked).take());
                        hedge.race(retry(size, &fetch), || retry(size, &fetch)).boxed().await
                    });
                }
                all_requested.store(ranges.peek().is_none(), Ordering::Relaxed);
                tokio::select! {
                    received = in_flight.try_next(), if !in_flight.is_empty() => match received? {
                        Some(Some(received)) => drop(sender.send(received)),
                        _ => return Ok::<_, Error>(false),
                    },
                    () = advanced.notified(), if ranges.peek().is_some() => {}
                    else => return Ok(true),
                }
            }
        };
        // Concurrent with the requests: a slow disk must not keep the connections from being read.
        let stored = async {
            while let Some(received) = received_in_order.recv().await {
                file.write_all(&received).await.map_err(|error| Error::local("write", &part.path, error))?;
                written.fetch_add(received.len() as u64, Ordering::Relaxed);
                advanced.notify_one();
            }
            Ok::<_, Error>(())
        };
        let both = async { tokio::try_join!(async { Ok(fetched.await) }, stored) };
        let may_stall = || job.far && !shared && all_requested.load(Ordering::Relaxed);
        let received = || self.progress.received.load(Ordering::Relaxed);
        tokio::select! {
            both = both => both.and_then(|(all, ())| all),
            never = hedge.monitor(job.round_trip, received, may_stall) => match never {},
        }
    }

    /// Writes the rest of a file from a single answer, and requests what is left when it breaks off; false if the
    /// server does not send ranges.
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
                            format!("the server sent {} bytes less than it announced", left.end - left.start),
                        );
                    }
                };
                if piece.len() as u64 > left.end - left.start {
                    return Err(differs(path, "the server sent more than was requested".into()));
                }
                self.add_received(piece.len());
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

    /// Requests a range of this version.
    async fn ask_for(&self, path: &RemotePath, range: &Range<u64>, tag: &ETag) -> Result<Answer, Error> {
        let mut headers = asking(range);
        headers.extend(HeaderValue::from_str(&tag.to_string()).map(|tag| (IF_MATCH, tag)));
        self.dav.get(path, headers, options(Some(tag))).await
    }

    /// One range of a file; none if the server sends all of the file instead.
    async fn fetch_part(
        &self,
        job: &RangeJob<'_>,
        range: Range<u64>,
        asked: Option<PrefetchedRange>,
    ) -> Result<Option<Vec<u8>>, FetchError> {
        let RangeJob { path, length: whole, tag, .. } = *job;
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
        // Copied, since a piece keeps the whole buffer alive in which it arrived.
        let (mut body, mut received, mut length) = (answer.into_body(), Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.map_err(cut)?.into_data() else { continue };
            length += piece.len() as u64;
            if length > end - start {
                break;
            }
            self.add_received(piece.len());
            if received.is_empty() {
                received.reserve_exact((end - start) as usize);
            }
            received.extend_from_slice(&piece);
        }
        if length == end - start {
            Ok(Some(received))
        } else {
            let why = format!("the server sent only {length} of {} bytes from offset {start}", end - start);
            Err(FetchError::Interrupted(differs(path, why)))
        }
    }
}

/// One version of a file that is downloaded in ranges.
struct RangeJob<'a> {
    path: &'a RemotePath,
    length: u64,
    tag: &'a ETag,
    /// How many connections carry it.
    lanes: usize,
    round_trip: Duration,
    /// Whether the round trip is a long one.
    far: bool,
}

/// The rest of a file, cut into ranges for this many connections: each range is a sixteenth of a connection's share of
/// what is left.
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
        // No tiny last range.
        let size = if left < size + SMALLEST { left } else { size };
        let range = self.at..self.at + size;
        self.at = range.end;
        (size > 0).then_some(range)
    }
}

/// Checks that an answer is this range; none if it is the whole file.
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
            // It would never end.
            Some(announced) => {
                let length = range.end - range.start;
                Err(differs(path, format!("{length} bytes were requested, but the answer announces {announced}")))
            }
        };
    }
    let (start, last, told) = (range.start, range.end - 1, told(&answer));
    Err(differs(path, format!("bytes {start}-{last}/{whole} were requested, but the server sends {told}")))
}

fn differs(path: &RemotePath, why: String) -> Error {
    Error::Differs { path: path.clone(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_the_file_and_become_smaller() {
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
