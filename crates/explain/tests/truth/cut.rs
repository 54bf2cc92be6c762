//! Parts of captures, which must be explained like the whole: headers only, and captures that begin late.
//!
//! The truth is what the whole capture shows. A part is compared only if the cause that dominates the whole must dominate it
//! too, whatever it lacks.

use std::{error::Error, path::Path, time::Duration};

use capture::{Packet, Source, pcapng::Reader};
use explain::{Cause, CauseTimes, Explanation};

use crate::{
    runs::Outcome,
    testbed::{Recorded, VANTAGE_POINTS},
};

/// The names of the parts, the share of the packets at the beginning that they lack, and whether they have only the headers
/// without the options of TCP.
const PARTS: [(&str, f64, bool); 3] =
    [("headers", 0.0, true), ("begun late", 0.25, false), ("headers, begun late", 0.25, true)];

/// The causes that only the content of packets, or their options, can show.
const BY_CONTENT: [Cause; 3] = [Cause::NameLookup, Cause::Tls, Cause::Pacing];

/// The smallest share of the time of a part that its dominant cause must have taken.
const MIN_SHARE: f64 = 0.5;

/// The dominant cause of a part of a capture, and of the whole.
#[derive(Debug, Clone)]
pub(crate) struct CutVerdict {
    pub(crate) scenario: String,
    pub(crate) subject: String,
    pub(crate) expected: &'static str,
    pub(crate) found: &'static str,
    pub(crate) shares: String,
}

impl Outcome for CutVerdict {
    fn subject(&self) -> &str {
        &self.subject
    }

    fn error(&self) -> f64 {
        if self.is_right() { 0.0 } else { 1.0 }
    }

    fn is_right(&self) -> bool {
        self.expected == self.found
    }
}

/// A part of a capture, in a format that does not say which packets its host sent.
struct Part<S> {
    source: S,
    skipped: u64,
    has_headers_only: bool,
}

impl<S: Source> Source for Part<S> {
    fn next(&mut self) -> Result<Option<Packet<'_>>, capture::Error> {
        while self.skipped > 0 {
            self.skipped -= 1;
            self.source.next()?;
        }
        let has_headers_only = self.has_headers_only;
        Ok(self.source.next()?.map(|packet| {
            let headers = if packet.bytes.first().is_some_and(|first| first >> 4 == 6) { 60 } else { 40 };
            let kept = if has_headers_only { packet.bytes.len().min(headers) } else { packet.bytes.len() };
            Packet { direction: None, bytes: &packet.bytes[..kept], ..packet }
        }))
    }
}

fn explained(capture: &Path, skipped: u64, has_headers_only: bool) -> Result<Explanation, Box<dyn Error>> {
    let (explanation, broken) =
        explain::explain(&mut Part { source: Reader::open(capture)?, skipped, has_headers_only });
    broken.map_or(Ok(explanation), |error| Err(error.into()))
}

/// The time of all transfers by cause, and its sum in nanoseconds.
fn times(explanation: &Explanation) -> (CauseTimes, u64) {
    let mut times = CauseTimes::default();
    for transfer in explanation.connections.iter().flat_map(|connection| &connection.transfers) {
        for (cause, time) in transfer.times.ranked() {
            times[cause] += time;
        }
    }
    (times, times.sum())
}

/// The cause that took most time, apart from the distance.
fn dominant(times: &CauseTimes) -> Option<(Cause, u64)> {
    times.ranked().into_iter().find(|(cause, _)| *cause != Cause::Propagation)
}

/// Compares the parts of the captures at both ends with the whole.
pub(crate) fn compare(scenario: &str, recorded: &Recorded) -> Result<Vec<CutVerdict>, Box<dyn Error>> {
    let mut verdicts = Vec::new();
    for (vantage, capture) in VANTAGE_POINTS.into_iter().zip(&recorded.captures).filter(|(name, _)| *name != "middle") {
        let whole = explained(capture, 0, false)?;
        let (all, total) = times(&whole);
        let Some((cause, time)) = dominant(&all) else { continue };
        for (name, lacks, has_headers_only) in PARTS {
            let skipped = (whole.packets as f64 * lacks) as u64;
            let part = explained(capture, skipped, has_headers_only)?;
            let lost = part.start.saturating_sub(whole.start).max(Duration::ZERO).as_nanos() as u64;
            // The part that is missing may all be of this cause.
            let is_certain = (time.saturating_sub(lost)) as f64 >= MIN_SHARE * total.saturating_sub(lost) as f64;
            let is_hidden = has_headers_only && BY_CONTENT.contains(&cause);
            if !is_certain || is_hidden || lost * 5 > total * 2 {
                continue;
            }
            let (times, sum) = times(&part);
            let shown = times.ranked().into_iter().filter(|(_, time)| time * 50 > sum);
            let shown = shown.map(|(cause, time)| format!("{} {:.2}", cause.name(), time as f64 / sum as f64));
            verdicts.push(CutVerdict {
                scenario: scenario.to_owned(),
                subject: format!("{vantage}, {name}"),
                expected: cause.name(),
                found: dominant(&times).map_or("propagation", |(cause, _)| cause.name()),
                shares: shown.collect::<Vec<_>>().join(", "),
            });
        }
    }
    Ok(verdicts)
}
