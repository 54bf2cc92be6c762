//! The offset of the server's clock.
//!
//! Each response has a `Date` (RFC 9110 §6.6.1) in whole seconds, made between the moment its request was sent and the moment
//! its head arrived. So each response bounds the offset to a round trip and a second, and all responses together bound it
//! better: the true offset lies within every one of the bounds. If bounds contradict each other, one of the clocks was set in
//! between, and the newest counts. Responses from a cache (`Age`) carry an old date and are ignored.

use std::time::{Duration, SystemTime};

use http::{
    HeaderMap,
    header::{AGE, DATE},
};

use crate::date;

/// The server's clock minus ours lies between these, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offset {
    low: i64,
    high: i64,
}

impl Offset {
    /// Converts the server's `time`, in whole seconds, to our clock: not before the first result, and before the
    /// second.
    pub(crate) fn ours(self, time: SystemTime) -> (SystemTime, SystemTime) {
        (shifted(time, -self.high), shifted(time + Duration::from_secs(1), -self.low))
    }

    fn both(self, other: Self) -> Option<Self> {
        let both = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }
}

/// The offset of a server's clock, as far as its responses show it.
#[derive(Debug, Default)]
pub(crate) struct ClockOffset(Option<Offset>);

impl ClockOffset {
    /// A response arrived at `received`, to a request that was sent at `sent` or later.
    pub(crate) fn hear(&mut self, headers: &HeaderMap, sent: SystemTime, received: SystemTime) {
        let header = headers.get(DATE).filter(|_| !headers.contains_key(AGE));
        let Some(date) = header.and_then(|date| date::parse(date.to_str().ok()?)) else { return };
        let heard = Offset { low: between(received, date), high: between(sent, date).saturating_add(1000) };
        if heard.low <= heard.high {
            self.0 = self.0.and_then(|known| known.both(heard)).or(Some(heard));
        }
    }

    /// The offset; none before the first response, or if the server sends no `Date`.
    pub(crate) fn offset(&self) -> Option<Offset> {
        self.0
    }
}

/// From one time to another, in milliseconds.
fn between(from: SystemTime, to: SystemTime) -> i64 {
    match to.duration_since(from) {
        Ok(later) => i64::try_from(later.as_millis()).unwrap_or(i64::MAX),
        Err(earlier) => -i64::try_from(earlier.duration().as_micros().div_ceil(1000)).unwrap_or(i64::MAX),
    }
}

fn shifted(time: SystemTime, by: i64) -> SystemTime {
    let span = Duration::from_millis(by.unsigned_abs());
    let shifted = if by < 0 { time.checked_sub(span) } else { time.checked_add(span) };
    shifted.unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_hours(500_000) + Duration::from_millis(millis)
    }

    /// An answer whose `Date` shows so many seconds, and when it was asked for and came by our clock.
    fn heard(clock: &mut ClockOffset, seconds: u64, sent: u64, received: u64) -> Option<(i64, i64)> {
        let date = date::http(at(seconds * 1000)).unwrap();
        let headers = HeaderMap::from_iter([(DATE, date.parse().unwrap())]);
        clock.hear(&headers, at(sent), at(received));
        clock.offset().map(|offset| (offset.low, offset.high))
    }

    #[test]
    fn each_response_bounds_the_offset_by_its_round_trip() {
        let mut clock = ClockOffset::default();
        assert_eq!(heard(&mut clock, 600, 100, 400), Some((599_600, 600_900)));
        assert_eq!(heard(&mut clock, 601, 900, 1300), Some((599_700, 600_900)));
        assert_eq!(heard(&mut clock, 601, 1050, 1450), Some((599_700, 600_900)));
        assert_eq!(heard(&mut clock, 601, 1150, 1250), Some((599_750, 600_850)));
        let (from, to) = clock.offset().unwrap().ours(at(700_000));
        assert_eq!((from, to), (at(99_150), at(101_250)));
    }

    #[test]
    fn clock_that_was_set_is_measured_again() {
        let mut clock = ClockOffset::default();
        heard(&mut clock, 600, 0, 100);
        assert_eq!(heard(&mut clock, 5, 5000, 5100), Some((-100, 1000)));
        // Ours was set back while the answer was under way: that tells nothing.
        assert_eq!(heard(&mut clock, 5, 9000, 100), Some((-100, 1000)));
    }

    #[test]
    fn cached_response_and_one_without_date_are_ignored() {
        let mut clock = ClockOffset::default();
        clock.hear(&HeaderMap::new(), at(0), at(100));
        clock.hear(&HeaderMap::from_iter([(DATE, "yesterday".parse().unwrap())]), at(0), at(100));
        let old = date::http(at(0)).unwrap().parse().unwrap();
        clock.hear(&HeaderMap::from_iter([(DATE, old), (AGE, "600".parse().unwrap())]), at(0), at(100));
        assert_eq!(clock.offset(), None);
    }
}
