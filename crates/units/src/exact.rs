//! Quantities that print and parse their unit: `18ms`, `100mbit`, `10KiB`, `0.1%`.
//!
//! The units are those of `tc(8)` where it has them; case does not matter.
//!
//! | quantity | units |
//! |---|---|
//! | rate | `bit`, `kbit`, `mbit`, `gbit` per second (powers of 1000); a following `/s` is accepted |
//! | size | `B`; `KB`, `MB`, `GB` (powers of 1000); `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024) |
//! | time | `ns`, `us`, `ms`, `s`, `min` |
//!
//! The sizes `K`, `M`, `G` and `T` are powers of 1024, as in rclone and rsync. `Mbps` is rejected: to `tc(8)` it is a
//! megabyte per second, to most people a megabit.

use std::{fmt, time::Duration};

use crate::text_form;

/// Splits `1.5ms` into its number and its unit, lower-cased.
fn split(text: &str) -> Option<(f64, String)> {
    let end = text.find(|c: char| c.is_ascii_alphabetic() || c == '%' || c == 'µ').unwrap_or(text.len());
    let number: f64 = text[..end].trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then(|| (number, text[end..].trim().to_lowercase()))
}

/// Prints `value` exactly, in the largest unit in which it is at least one and needs no more than three decimals.
/// The last unit has the factor one.
fn scaled(f: &mut fmt::Formatter<'_>, value: u128, units: &[(u128, &str)]) -> fmt::Result {
    let fits = |factor: u128| value >= factor && (value % factor * 1000).is_multiple_of(factor);
    let (factor, unit) = units.iter().find(|(factor, _)| fits(*factor)).or(units.last()).copied().unwrap_or((1, ""));
    let number = format!("{}.{:03}", value / factor, value % factor * 1000 / factor);
    write!(f, "{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// Bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// A rate in bits per second; `0` becomes `1`.
    pub const fn bits_per_second(bits: u64) -> Self {
        Self(if bits == 0 { 1 } else { bits })
    }

    /// Bits per second.
    pub fn as_bits_per_second(self) -> u64 {
        self.0
    }

    /// The time that `bytes` take at this rate.
    pub fn time_for(self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

text_form!(Rate, "a rate", "`100mbit`", |text| {
    let (number, unit) = split(text)?;
    let factor = match unit.trim_end_matches("/s") {
        "bit" => 1.0,
        "kbit" | "k" => 1e3,
        "mbit" | "m" => 1e6,
        "gbit" | "g" => 1e9,
        _ => return None,
    };
    let bits = (number * factor).round();
    (1.0..u64::MAX as f64).contains(&bits).then_some(Rate(bits as u64))
});

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0.into(), &[(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1000, "kbit"), (1, "bit")])
    }
}

/// A number of bytes. Any number is valid, so the field is public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Size(pub u64);

impl Size {
    /// A size in bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub fn as_bytes(self) -> u64 {
        self.0
    }
}

text_form!(Size, "a size", "`10KiB`", |text| {
    let (number, unit) = split(text)?;
    let factor = match &unit[..] {
        "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "" if number == 0.0 => 1.0,
        _ => return None,
    };
    let bytes = (number * factor).round();
    (bytes < u64::MAX as f64).then_some(Size(bytes as u64))
});

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The largest unit in which the number is whole, powers of 1024 first.
        let (factor, unit) = [
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
            (1_000_000_000, "GB"),
            (1_000_000, "MB"),
            (1000, "KB"),
        ]
        .into_iter()
        .find(|(factor, _)| self.0 >= *factor && self.0.is_multiple_of(*factor))
        .unwrap_or((1, "B"));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

/// A probability. It is stored in percent, so that it prints exactly as it was parsed.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Percent(f64);

impl Percent {
    /// A probability from 0 to 1; a value outside is clamped.
    pub fn from_fraction(fraction: f64) -> Self {
        Self(fraction.clamp(0.0, 1.0) * 100.0)
    }

    /// The probability, from 0 to 1.
    pub fn fraction(self) -> f64 {
        self.0 / 100.0
    }
}

text_form!(Percent, "a probability", "`0.1%`", |text| {
    let (number, unit) = split(text)?;
    match &unit[..] {
        "%" if number <= 100.0 => Some(Percent(number)),
        "" if number == 0.0 => Some(Percent(0.0)),
        _ => None,
    }
});

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// A length of time, as people write it. Only its text form needs this type; calculations use [`Duration`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span(pub Duration);

text_form!(Span, "a time", "`18ms`", |text| {
    let (number, unit) = split(text)?;
    let factor = match &unit[..] {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "" if number == 0.0 => 0.0,
        _ => return None,
    };
    // Rounded to the nanosecond, so that 0.1ms is 100 µs exactly.
    let nanos = (number * factor).round();
    (nanos < u64::MAX as f64).then(|| Span(Duration::from_nanos(nanos as u64)))
});

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() {
            return write!(f, "0ms");
        }
        scaled(f, self.0.as_nanos(), &[(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us"), (1, "ns")])
    }
}

impl From<Duration> for Span {
    fn from(time: Duration) -> Self {
        Self(time)
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_parse_with_the_units_of_tc_rclone_and_si() {
        assert_eq!("100mbit".parse(), Ok(Rate(100_000_000)));
        assert_eq!("2.5 Gbit/s".parse(), Ok(Rate(2_500_000_000)));
        assert_eq!("10KiB".parse(), Ok(Size(10240)));
        assert_eq!("0".parse(), Ok(Size(0)));
        assert_eq!("18MB".parse(), Ok(Size(18_000_000)));
        assert_eq!("1.5M".parse(), Ok(Size(3 << 19)));
        assert_eq!(
            [0, 1500, 64 << 10, 1500 << 10, 3_000_000].map(|bytes| Size(bytes).to_string()),
            ["0B", "1500B", "64KiB", "1500KiB", "3MB"]
        );
        assert_eq!("0.1ms".parse(), Ok(Span(Duration::from_micros(100))));
        assert_eq!("0.1%".parse(), Ok(Percent::from_fraction(0.001)));
    }

    #[test]
    fn values_print_exactly_in_the_largest_unit_with_three_decimals() {
        let spans = [0, 1, 1500, 500_000, 18_000_000, 1_234_567, 90_000_000_000, 1_000_000_001];
        assert_eq!(
            spans.map(|nanos| Span(Duration::from_nanos(nanos)).to_string()),
            ["0ms", "1ns", "1.5us", "500us", "18ms", "1234.567us", "90s", "1000000.001us"]
        );
        let rates = [999, 1500, 100_000_000, 1_234_567, 2_500_000_000, 100_000_001];
        assert_eq!(
            rates.map(|bits| Rate(bits).to_string()),
            ["999bit", "1.5kbit", "100mbit", "1234.567kbit", "2.5gbit", "100000.001kbit"]
        );
    }

    #[test]
    fn wrong_text_is_rejected_with_an_example() {
        assert_eq!("18".parse::<Span>().unwrap_err().to_string(), "`18` is not a time; write it like `18ms`");
        for bad in ["", "fast", "-1mbit", "nanmbit", "0mbit", "1mbyte", "20Mbps", "101%", "1e300GB"] {
            assert!(bad.parse::<Rate>().is_err() && bad.parse::<Percent>().is_err(), "{bad}");
            assert!(bad.parse::<Size>().is_err() && bad.parse::<Span>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn printed_sizes_parse_to_the_same_size(
            number in 0u64..1 << 20,
            unit in proptest::sample::select(vec![1, 1000, 1 << 10, 1_000_000, 1 << 20, 1_000_000_000, 1 << 30]),
        ) {
            let bytes = number * unit;
            prop_assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }
        #[test]
        fn printed_times_parse_to_the_same_time(digits in 0u64..1 << 50, zeros in 0u32..10) {
            let time = Span(Duration::from_nanos(digits / 10u64.pow(zeros) * 10u64.pow(zeros)));
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
        #[test]
        fn printed_rates_parse_to_the_same_rate(digits in 1u64..1 << 50, zeros in 0u32..10) {
            let rate = Rate::bits_per_second(digits / 10u64.pow(zeros) * 10u64.pow(zeros));
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        #[test]
        fn printed_probabilities_parse_to_the_same_probability(fraction in 0.0..=1.0f64, percent in 0u32..=1_000_000) {
            for share in [Percent::from_fraction(fraction), format!("{}%", f64::from(percent) / 1e4).parse().unwrap()] {
                prop_assert_eq!(share.to_string().parse(), Ok(share));
            }
        }
        #[test]
        fn no_text_makes_parsing_panic(text in ".*") {
            let _ = (text.parse::<Rate>(), text.parse::<Size>(), text.parse::<Span>(), text.parse::<Percent>());
        }
    }
}
