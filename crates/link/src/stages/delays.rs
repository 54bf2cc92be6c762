//! Measured one-way delays, from a file.
//!
//! Each line is a time with its unit, as in `18.3ms`, optionally followed by a whole number: how often the time occurs. So
//! a list of samples is such a file, and so is a histogram:
//!
//! ```text
//! # one-way delay in ms, 2026-11-03
//! 18.3ms
//! 18.9ms
//! 20ms 40
//! ```
//!
//! Each packet draws one of the times, independently of the packets before it. The tables of `tc-netem(8)` are not read:
//! they are normalised to a mean and a deviation that the file does not contain.

use std::time::Duration;

use rand::RngExt;
use units::Span;

use super::lines::{LineError, entries, quote};

/// A distribution of delays; see the module documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delays {
    times: Vec<Duration>,
    /// For each time, the sum of the weights up to and including its own; the last one is not zero.
    sums: Vec<u64>,
}

impl Delays {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        let (mut times, mut sums, mut sum) = (Vec::new(), Vec::new(), 0u64);
        for (line, entry) in entries(text) {
            let (time, weight) = parse_entry(entry).ok_or_else(|| {
                let found = quote(entry);
                LineError::new(
                    line,
                    format!("`{found}` is not a delay; write it like `18ms`, or `18ms 40` if it occurs 40 times"),
                )
            })?;
            sum = sum.checked_add(u64::from(weight)).ok_or_else(|| LineError::new(line, "the counts are too large"))?;
            times.push(time);
            sums.push(sum);
        }
        if times.is_empty() {
            return Err(LineError::new(1, "the file contains no delay; write one per line, like `18ms`"));
        }
        Ok(Self { times, sums })
    }

    /// One of the delays.
    pub(super) fn draw(&self, random: &mut impl rand::Rng) -> Duration {
        let place = random.random_range(0..self.sums[self.sums.len() - 1]);
        self.times[self.sums.partition_point(|sum| *sum <= place)]
    }
}

/// A time, which may contain a blank before its unit, and a count, which is not zero.
fn parse_entry(entry: &str) -> Option<(Duration, u32)> {
    if let Ok(Span(time)) = entry.parse() {
        return Some((time, 1));
    }
    let (time, weight) = entry.rsplit_once(char::is_whitespace)?;
    let (Span(time), weight) = (time.parse().ok()?, weight.parse().ok()?);
    (weight > 0).then_some((time, weight))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        stage::Direction,
        stages::{Effect, Rng},
    };

    #[test]
    fn delays_are_drawn_as_often_as_the_file_says() {
        let delays = Delays::parse("# measured\n10ms\n\n20 ms 3 # a peak\n").unwrap();
        let draw = |seed| {
            let mut rng = Rng::new(seed, Effect::Jitter, Direction::Up);
            (0..40_000).map(|_| delays.draw(rng.source())).collect::<Vec<_>>()
        };
        let drawn = draw(1);
        let short = drawn.iter().filter(|time| **time == Duration::from_millis(10)).count();
        assert!((9500..10_500).contains(&short), "{short}");
        assert!(drawn.iter().all(|time| [10, 20].contains(&time.as_millis())));
        assert!(drawn == draw(1) && drawn != draw(2), "the seed decides");
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text| Delays::parse(text).unwrap_err().to_string();
        assert!(error("10ms\n\n18\n").starts_with("3: `18` is not a delay; write it like `18ms`"));
        for bad in ["10ms 0", "10ms -1", "10ms 1.5", "fast", "-1ms", "10ms 99999999999"] {
            assert!(error(bad).starts_with(&format!("1: `{bad}`")), "{bad}");
        }
        assert!(error("# nothing\n").contains("no delay"));
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused(text in "([0-9]{0,3}(ms|us| ms)?( [0-9]{1,10})?(#.*)?\n){0,9}|(?s:.*)") {
            if let Ok(delays) = Delays::parse(&text) {
                let mut rng = Rng::new(1, Effect::Jitter, Direction::Up);
                let drawn = delays.draw(rng.source());
                prop_assert!(delays.times.contains(&drawn));
            }
        }
    }
}
