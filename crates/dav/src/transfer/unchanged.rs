//! Whether a file of equal length on both sides is unchanged.
//!
//! Two sides have two clocks, and most servers set a file's time themselves, when it is uploaded. So a time there that
//! is not before the time here says little: a server whose clock is ahead shows every copy as newer than its original,
//! and hides a change; one whose clock is behind shows every copy as older.
//!
//! - What was last seen of a file ([`SyncedVersion`]) decides, if both sides are as they were then. It compares each side with
//!   itself, and no clock with another.
//! - Otherwise the server's time is corrected by the offset of its clock (`clock`). A copy that was certainly made after
//!   the last change here is a copy of it; one that was certainly made before is not.
//! - Where a server keeps the times of the originals, and in a copy here, which gets the server's time, equal times
//!   mean the same file, as for rsync.
//!
//! What is in doubt then counts as changed, unless its bytes or a digest show that it is not.

use std::time::{Duration, SystemTime};

use crate::{ETag, client::clock_offset::Offset};

/// What is known without a look at the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    Changed,
    Doubtful,
}

/// A file here, or on the server that is copied from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Here<'a> {
    pub(crate) length: u64,
    pub(crate) modified: Option<SystemTime>,
    /// Its version, if it is on another server.
    pub(crate) etag: Option<&'a ETag>,
}

/// A file on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version<'a> {
    pub(crate) length: Option<u64>,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) etag: Option<&'a ETag>,
}

/// Both sides of a file when they were last seen to be the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyncedVersion {
    pub(crate) length: u64,
    /// The time of the file here.
    pub(crate) modified: SystemTime,
    /// The version on the server.
    pub(crate) etag: Option<ETag>,
    pub(crate) stored: Option<SystemTime>,
    /// The version of the source file, if it is on another server.
    pub(crate) source: Option<ETag>,
}

impl SyncedVersion {
    /// What is to be remembered; none if nothing could be told by it.
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
    /// Of a server, as far as it is known.
    Server(Option<Offset>),
}

impl SourceClock {
    /// A source file's time, by the local clock: not before the first, and not after the second.
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
    /// Whether the server keeps the times of the source files; none if nobody knows.
    pub(crate) keeps: Option<bool>,
}

impl Times {
    /// Whether the server has the file already.
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
            // Elsewhere it is chance, or a change in the second of the copy.
            return if self.keeps == Some(true) { Verdict::Same } else { Verdict::Doubtful };
        }
        if self.keeps == Some(true) {
            return if theirs < ours { Verdict::Changed } else { Verdict::Doubtful };
        }
        let known = self.source.ours(ours).zip(self.clock.map(|clock| clock.ours(theirs)));
        match known {
            Some(((_, changed), (copied, _))) if changed + self.window <= copied => {
                // Where times may be kept, an older one is that of an older version, whatever the clock shows.
                let is_older = self.keeps.is_none() && theirs < ours;
                if is_older { Verdict::Doubtful } else { Verdict::Same }
            }
            Some(((changed, _), (_, copied))) if copied <= changed => Verdict::Changed,
            _ => Verdict::Doubtful,
        }
    }

    /// Whether the file is here already, given that a copy here gets the server's time. What is in doubt is as soon
    /// fetched as compared.
    pub(crate) fn of_download(&self, here: Here<'_>, there: Version<'_>, last: Option<&SyncedVersion>) -> bool {
        there.length == Some(here.length)
            && match last {
                Some(last) => last.is_of(here, self.window) && last.is_of_version(there),
                None => here.modified.zip(there.modified).is_some_and(|(ours, theirs)| self.are_equal(ours, theirs)),
            }
    }

    /// In whole seconds, which is what servers tell.
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
    fn without_a_record_the_servers_time_is_corrected_by_its_clock() {
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
    fn between_two_servers_both_clocks_count() {
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
    fn what_may_keep_times_is_believed_only_as_far_as_it_matters_not() {
        let unknown = |ahead| Times { keeps: None, ..times(ahead) };
        // Its own clock is behind, so this may be a later copy, or the time of an earlier version.
        assert_eq!(unknown(-600).of_upload(here(100_000), there(0, None), None), Verdict::Doubtful);
        assert_eq!(unknown(-600).of_upload(here(100_000), there(200_000, None), None), Verdict::Same);
        assert_eq!(unknown(600).of_upload(here(100_000), there(0, None), None), Verdict::Changed);
        assert_eq!(unknown(600).of_upload(here(100_000), there(100_000, None), None), Verdict::Doubtful);
    }

    #[test]
    fn a_server_that_keeps_times_is_compared_as_by_rsync() {
        let keeps = Times { keeps: Some(true), ..times(600) };
        assert_eq!(keeps.of_upload(here(5999), there(5000, None), None), Verdict::Same);
        assert_eq!(keeps.of_upload(here(7000), there(5000, None), None), Verdict::Changed);
        assert_eq!(keeps.of_upload(here(3000), there(5000, None), None), Verdict::Doubtful);
        let wide = Times { window: Duration::from_secs(2), ..keeps };
        assert_eq!(wide.of_upload(here(7000), there(5000, None), None), Verdict::Same);
    }

    #[test]
    fn a_record_decides_whatever_the_clocks_show() {
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
    fn a_record_knows_the_version_of_a_source_on_a_server() {
        let (first, second) = (ETag::parse("\"1\"").unwrap(), ETag::parse("\"2\"").unwrap());
        let source = |etag| Here { etag: Some(etag), ..here(0) };
        let last = SyncedVersion::of(source(&first), there(0, Some(&first)));
        let judged = |etag| times(0).of_upload(source(etag), there(0, Some(&first)), last.as_ref());
        assert_eq!((judged(&first), judged(&second)), (Verdict::Same, Verdict::Changed));
    }

    #[test]
    fn a_copy_here_has_the_servers_time_or_is_known_by_its_record() {
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
