//! Quantities that a model is made of, as people write them.
//!
//! The forms are those of the cable's description (`link::units`, after `tc(8)`): this room must not stand on
//! that one, and needs three of its forms, to read and to print.

use std::{fmt, str::FromStr, time::Duration};

/// A text that is no quantity of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}; write it like {example}")]
pub struct UnitError {
    text: String,
    what: &'static str,
    example: &'static str,
}

/// `1.5ms` as its number times the factor of its unit, which is written in lower case.
fn quantity(
    text: &str,
    what: &'static str,
    example: &'static str,
    factor: impl Fn(&str) -> Option<f64>,
) -> Result<f64, UnitError> {
    let parse = || {
        let end = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').unwrap_or(text.len());
        let number: f64 = text[..end].trim().parse().ok().filter(|number: &f64| *number >= 0.0)?;
        let value = (number * factor(&text[end..].trim().to_lowercase())?).round();
        // What a float holds exactly is enough for every quantity here.
        (value < 9e15).then_some(value)
    };
    parse().ok_or_else(|| UnitError { text: text.to_owned(), what, example })
}

/// A number of bytes; what it counts (payload, or whole IP packets) is said where it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let factor = |unit: &str| match unit {
            "" | "b" => Some(1.0),
            "kb" => Some(1e3),
            "mb" => Some(1e6),
            "gb" => Some(1e9),
            "kib" => Some(1024.0),
            "mib" => Some(1024.0 * 1024.0),
            "gib" => Some(1024.0 * 1024.0 * 1024.0),
            _ => None,
        };
        quantity(text, "a size", "`64KiB`", factor).map(|bytes| Self(bytes as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1_000_000, "MB"), (1000, "KB")];
        let whole = |(factor, _): &(u64, &str)| self.0 >= *factor && self.0.is_multiple_of(*factor);
        let (factor, unit) = units.into_iter().find(whole).unwrap_or((1, "B"));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

/// Bits per second, of whole IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let factor = |unit: &str| match unit.trim_end_matches("/s") {
            "bit" => Some(1.0),
            "kbit" => Some(1e3),
            "mbit" => Some(1e6),
            "gbit" => Some(1e9),
            _ => None,
        };
        quantity(text, "a rate", "`100mbit`", factor).map(|bits| Self(bits as u64))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1e9, "gbit"), (1e6, "mbit"), (1e3, "kbit")];
        let bits = self.0 as f64;
        match units.into_iter().find(|(factor, _)| bits >= *factor) {
            Some((factor, unit)) => write!(f, "{}{unit}", (bits / factor * 1000.0).round() / 1000.0),
            None => write!(f, "{}bit", self.0),
        }
    }
}

/// A time as people write it: `18ms`.
pub(super) fn time(text: &str) -> Result<Duration, UnitError> {
    let factor = |unit: &str| match unit {
        "ns" => Some(1.0),
        "us" | "µs" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        "min" => Some(60e9),
        _ => None,
    };
    quantity(text, "a time", "`18ms`", factor).map(|nanos| Duration::from_nanos(nanos as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_what_people_write() {
        let sizes: [Bytes; 3] = ["64KiB", "18 MB", "8217"].map(|text| text.parse().unwrap());
        assert_eq!(sizes, [65536, 18_000_000, 8217].map(Bytes));
        assert_eq!([65536, 18_000_000, 8217].map(|n| Bytes(n).to_string()), ["64KiB", "18MB", "8217B"]);
        let rates: [Rate; 2] = ["100mbit", "1.5 Mbit/s"].map(|text| text.parse().unwrap());
        assert_eq!(rates, [100_000_000, 1_500_000].map(Rate));
        assert_eq!([100_000_000, 1_500_000, 7].map(|n| Rate(n).to_string()), ["100mbit", "1.5mbit", "7bit"]);
        assert_eq!(time("0.1ms"), Ok(Duration::from_micros(100)));
    }

    #[test]
    fn says_what_it_wanted() {
        for bad in ["", "fast", "-1ms", "18", "nans", "1e99s", "µ", "1µ"] {
            assert_eq!(time(bad).unwrap_err().to_string(), format!("`{bad}` is not a time; write it like `18ms`"));
            assert!(bad.parse::<Rate>().is_err());
        }
        assert!("1e300GB".parse::<Bytes>().is_err());
    }
}
