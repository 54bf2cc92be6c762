//! Decides whether a file of equal length on both sides is unchanged.
//!
//! The two sides have different clocks, and most servers set a file's time themselves at its upload. So a remote time
//! after the local one proves little: a server whose clock is ahead shows every copy as newer than its original, which
//! hides changes; one whose clock is behind shows every copy as older.
//!
//! - The record of the last run ([`SyncedVersion`]) decides if both sides are as they were then. It compares each side
//!   with itself, and no clock with another.
//! - Otherwise the server's time is corrected by the offset of its clock (`clock`). A copy that was certainly made
//!   after the last local change is unchanged; one that was certainly made before is not.
//! - If the server keeps source times, and for downloads, which get the server's time, equal times mean unchanged, as
//!   in rsync.
//!
//! A doubtful file counts as changed, unless its content or a digest is equal.

use std::time::{Duration, SystemTime};

use crate::{ETag, client::clock_offset::Offset};

/// The verdict from lengths, times and entity tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    Changed,
    Doubtful,
}

/// The source file of an upload, or the local file of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Here<'a> {
    pub(crate) length: u64,
    pub(crate) modified: Option<SystemTime>,
    /// Its entity tag, if it is on another server.
    pub(crate) etag: Option<&'a ETag>,
}

/// A file on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version<'a> {
    pub(crate) length: Option<u64>,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) etag: Option<&'a ETag>,
}

/// Both sides of a file when they were last equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyncedVersion {
    pub(crate) length: u64,
    /// The local file's time.
    pub(crate) modified: SystemTime,
    /// The version on the server.
    pub(crate) etag: Option<ETag>,
    pub(crate) stored: Option<SystemTime>,
    /// The source file's entity tag, if it is on another server.
    pub(crate) source: Option<ETag>,
}

impl SyncedVersion {
    /// The record of an equal pair; none if it could not detect changes.
    pub(crate) fn of(here: Here<'_>, there: Version<'_>) -> Option<Self> {
        let (etag, stored) = (there.etag.cloned(), there.modified);
        let modified = here.modified.filter(|_| etag.is_some() || stored.is_some())?;
        Some(Self { length: here.length, modified, etag, stored, source: here.etag.cloned() })
    }

    fn is_of(&self, here: Here<'_>, window: Duration) -> bool {
        let tags = self.source.as_ref().zip(here.etag);
        self.length == here.length
            && here.modified.is_some_and(|time| apart(self.modified, time) <= window)
            && tags.is_none_or(|(then, now)| then.resembles(now))
    }

    fn is_of_version(&self, there: Version<'_>) -> bool {
        match (&self.etag, there.etag) {
            (Some(then), Some(now)) => then.resembles(now),
            _ => self.stored.is_some() && self.stored == there.modified,
        }
    }
}

/// The clock by which the source files have their times.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum SourceClock {
    #[default]
    Local,
    /// A server's, with its offset if known.
    Server(Option<Offset>),
}

impl SourceClock {
    /// The bounds of a source file's time by the local clock.
    fn ours(self, time: SystemTime) -> Option<(SystemTime, SystemTime)> {
        match self {
            Self::Local => Some((time, time)),
            Self::Server(clock) => clock.map(|clock| clock.ours(time)),
        }
    }
}

/// How times are compared.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    /// Times that differ by no more than this are equal.
    pub(crate) window: Duration,
    /// The clock of the source files.
    pub(crate) source: SourceClock,
    /// The server's clock.
    pub(crate) clock: Option<Offset>,
    /// Whether the server keeps the times of source files, if known.
    pub(crate) keeps: Option<bool>,
}

impl Times {
    /// Whether the server has the file.
    pub(crate) fn of_upload(&self, here: Here<'_>, there: Version<'_>, last: Option<&SyncedVersion>) -> Verdict {
        if there.length != Some(here.length) {
            return Verdict::Changed;
        }
        if let Some(last) = last {
            return match (last.is_of(here, self.window), last.is_of_version(there)) {
                (true, true) => Verdict::Same,
                (false, true) => Verdict::Changed,
                (_, false) => Verdict::Doubtful,
            };
        }
        let Some((ours, theirs)) = here.modified.zip(there.modified) else { return Verdict::Changed };
        if self.are_equal(ours, theirs) {
            // With other servers it is chance, or a change in the second of the copy.
            return if self.keeps == Some(true) { Verdict::Same } else { Verdict::Doubtful };
        }
        if self.keeps == Some(true) {
            return if theirs < ours { Verdict::Changed } else { Verdict::Doubtful };
        }
        let known = self.source.ours(ours).zip(self.clock.map(|clock| clock.ours(theirs)));
        match known {
            Some(((_, changed), (copied, _))) if changed + self.window <= copied => {
                // If times may be kept, an older one may be that of an older version.
                let is_older = self.keeps.is_none() && theirs < ours;
                if is_older { Verdict::Doubtful } else { Verdict::Same }
            }
            Some(((changed, _), (_, copied))) if copied <= changed => Verdict::Changed,
            _ => Verdict::Doubtful,
        }
    }

    /// Whether the local file is unchanged. A download sets the server's time. A doubtful file is downloaded, which is
    /// no slower than comparing it.
    pub(crate) fn of_download(&self, here: Here<'_>, there: Version<'_>, last: Option<&SyncedVersion>) -> bool {
        there.length == Some(here.length)
            && match last {
                Some(last) => last.is_of(here, self.window) && last.is_of_version(there),
                None => here.modified.zip(there.modified).is_some_and(|(ours, theirs)| self.are_equal(ours, theirs)),
            }
    }

    /// In whole seconds, the resolution of servers.
    pub(crate) fn are_equal(&self, ours: SystemTime, theirs: SystemTime) -> bool {
        apart(floor(ours), floor(theirs)) <= self.window
    }
}

fn apart(one: SystemTime, other: SystemTime) -> Duration {
    one.duration_since(other).unwrap_or_else(|before| before.duration())
}

fn floor(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, header::DATE};

    use super::*;
    use crate::{client::clock_offset::ClockOffset, date};

    /// Some time, in milliseconds.
    fn at(millis: i64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis((1_800_000_000_000 + millis) as u64)
    }

    fn here(millis: i64) -> Here<'static> {
        Here { length: 5, modified: Some(at(millis)), etag: None }
    }

    fn there(millis: i64, etag: Option<&ETag>) -> Version<'_> {
        Version { length: Some(5), modified: Some(at(millis)), etag }
    }

    /// A server's clock so many seconds ahead, known to a round trip of 200 ms.
    fn times(ahead: i64) -> Times {
        let mut clock = ClockOffset::default();
        let date = date::http(at(ahead * 1000)).unwrap().parse().unwrap();
        clock.hear(&HeaderMap::from_iter([(DATE, date)]), at(0), at(200));
        Times { clock: clock.offset(), keeps: Some(false), ..Times::default() }
    }

    #[test]
    fn server_time_is_corrected_by_the_clock_offset_without_a_record() {
        for ahead in [0, 600, -600, 86_400] {
            let judged = |copied: i64, changed: i64| {
                times(ahead).of_upload(here(changed), there((copied + ahead) * 1000, None), None)
            };
            assert_eq!(judged(1000, 0), Verdict::Same, "{ahead}");
            assert_eq!(judged(1000, 998_000), Verdict::Same, "{ahead}");
            assert_eq!(judged(1000, 999_500), Verdict::Doubtful, "{ahead}");
            assert_eq!(judged(1000, 1_001_000), Verdict::Doubtful, "{ahead}");
            assert_eq!(judged(1000, 1_003_000), Verdict::Changed, "{ahead}");
        }
        // By chance the times are equal, and a change lies between.
        assert_eq!(times(600).of_upload(here(600_500), there(600_000, None), None), Verdict::Doubtful);
        assert_eq!(Times::default().of_upload(here(0), there(9_000_000, None), None), Verdict::Doubtful);
        let nameless = Version { length: Some(5), modified: None, etag: None };
        assert_eq!(times(0).of_upload(here(0), nameless, None), Verdict::Changed);
    }

    #[test]
    fn clock_offsets_of_both_servers_count() {
        for (source, target) in [(0, 0), (600, -600), (-86_400, 600), (600, 600)] {
            let both = Times { source: SourceClock::Server(times(source).clock), ..times(target) };
            let judged = |copied: i64, changed: i64| {
                let source = Here { length: 5, modified: Some(at((changed + source) * 1000)), etag: None };
                both.of_upload(source, there((copied + target) * 1000, None), None)
            };
            assert_eq!(judged(1000, 0), Verdict::Same, "{source} {target}");
            assert_eq!(judged(1000, 997), Verdict::Same, "{source} {target}");
            assert_eq!(judged(1000, 999), Verdict::Doubtful, "{source} {target}");
            assert_eq!(judged(1000, 1001), Verdict::Doubtful, "{source} {target}");
            assert_eq!(judged(1000, 1003), Verdict::Changed, "{source} {target}");
        }
        let unknown = Times { source: SourceClock::Server(None), ..times(0) };
        assert_eq!(unknown.of_upload(here(0), there(9_000_000, None), None), Verdict::Doubtful);
    }

    #[test]
    fn verdict_is_in_doubt_if_it_depends_on_whether_times_are_kept() {
        let unknown = |ahead| Times { keeps: None, ..times(ahead) };
        // Its own clock is behind, so this may be a later copy, or the time of an earlier version.
        assert_eq!(unknown(-600).of_upload(here(100_000), there(0, None), None), Verdict::Doubtful);
        assert_eq!(unknown(-600).of_upload(here(100_000), there(200_000, None), None), Verdict::Same);
        assert_eq!(unknown(600).of_upload(here(100_000), there(0, None), None), Verdict::Changed);
        assert_eq!(unknown(600).of_upload(here(100_000), there(100_000, None), None), Verdict::Doubtful);
    }

    #[test]
    fn equal_times_mean_unchanged_if_the_server_keeps_times() {
        let keeps = Times { keeps: Some(true), ..times(600) };
        assert_eq!(keeps.of_upload(here(5999), there(5000, None), None), Verdict::Same);
        assert_eq!(keeps.of_upload(here(7000), there(5000, None), None), Verdict::Changed);
        assert_eq!(keeps.of_upload(here(3000), there(5000, None), None), Verdict::Doubtful);
        let wide = Times { window: Duration::from_secs(2), ..keeps };
        assert_eq!(wide.of_upload(here(7000), there(5000, None), None), Verdict::Same);
    }

    #[test]
    fn record_takes_precedence_over_clocks() {
        let (first, second) = (ETag::parse("\"1\"").unwrap(), ETag::parse("\"2\"").unwrap());
        for ahead in [0, 600, -86_400] {
            let (times, copied) = (times(ahead), ahead * 1000);
            let last = SyncedVersion::of(here(0), there(copied, Some(&first)));
            let judged = |here, there| times.of_upload(here, there, last.as_ref());
            assert_eq!(judged(here(0), there(copied, Some(&first))), Verdict::Same);
            assert_eq!(judged(here(1), there(copied, Some(&first))), Verdict::Changed);
            assert_eq!(judged(here(-1), there(copied, Some(&first))), Verdict::Changed);
            assert_eq!(judged(here(0), there(copied, Some(&second))), Verdict::Doubtful);
            assert_eq!(judged(Here { length: 6, ..here(0) }, there(copied, Some(&first))), Verdict::Changed);
            let nameless = SyncedVersion::of(here(0), there(copied, None));
            let judged = |there| times.of_upload(here(0), there, nameless.as_ref());
            assert_eq!(judged(there(copied, None)), Verdict::Same);
            assert_eq!(judged(there(copied + 1000, None)), Verdict::Doubtful);
        }
        assert_eq!(SyncedVersion::of(here(0), Version { length: Some(5), modified: None, etag: None }), None);
    }

    #[test]
    fn record_compares_the_source_servers_entity_tag() {
        let (first, second) = (ETag::parse("\"1\"").unwrap(), ETag::parse("\"2\"").unwrap());
        let source = |etag| Here { etag: Some(etag), ..here(0) };
        let last = SyncedVersion::of(source(&first), there(0, Some(&first)));
        let judged = |etag| times(0).of_upload(source(etag), there(0, Some(&first)), last.as_ref());
        assert_eq!((judged(&first), judged(&second)), (Verdict::Same, Verdict::Changed));
    }

    #[test]
    fn local_copy_is_recognised_by_server_time_or_record() {
        let (first, second) = (ETag::parse("\"1\"").unwrap(), ETag::parse("W/\"2\"").unwrap());
        let times = Times::default();
        assert!(times.of_download(here(0), there(0, Some(&first)), None));
        assert!(!times.of_download(here(0), there(1000, Some(&first)), None));
        let last = SyncedVersion::of(here(0), there(0, Some(&first)));
        // In the same second the server's file was changed.
        assert!(!times.of_download(here(0), there(0, Some(&second)), last.as_ref()));
        assert!(times.of_download(here(0), there(0, Some(&first)), last.as_ref()));
        // A file system that keeps no times.
        let last = SyncedVersion::of(here(777_777), there(0, Some(&second)));
        assert!(times.of_download(here(777_777), there(0, Some(&second)), last.as_ref()));
    }
}
