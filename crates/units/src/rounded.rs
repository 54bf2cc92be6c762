//! Rounded quantities for tables and sentences: as many digits as mean something, with a space before the unit.
//!
//! Sizes come in three forms, since they answer different questions:
//!
//! | function | form | for |
//! |---|---|---|
//! | [`size`] | `8217 bytes`, `66 KB` | sentences about a transfer: bytes as they count on a link, in powers of 1000 |
//! | [`decimal_size`] | `355 B`, `91.4 kB` | columns of sizes of HTTP messages, as browsers show them |
//! | [`binary_size`] | `1023 B`, `2.0 MiB` | files and memory, as file managers and rclone show them |

use std::time::Duration;

/// A number and its noun: `1 request`, `8 requests`. The plural ends in `s`.
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// A time with two digits, or as many as stand before the point: `93 ms`, `1.2 s`, `245 s` as `4.1 min`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_nanos() as f64 / 1e9;
    match time.as_nanos() {
        0 => "0 s".to_owned(),
        nanos @ 1..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => two_digits(seconds * 1e6, "µs"),
        1_000_000..1_000_000_000 => two_digits(seconds * 1e3, "ms"),
        1_000_000_000..120_000_000_000 => two_digits(seconds, "s"),
        _ => two_digits(seconds / 60.0, "min"),
    }
}

/// A rate of `bits` per second: `9.5 Mbit/s`.
pub fn rate(bits: f64) -> String {
    match bits {
        ..1e3 => two_digits(bits, "bit/s"),
        1e3..1e6 => two_digits(bits / 1e3, "kbit/s"),
        1e6..1e9 => two_digits(bits / 1e6, "Mbit/s"),
        _ => two_digits(bits / 1e9, "Gbit/s"),
    }
}

/// A size in powers of 1000 for a sentence: `8217 bytes`, `66 KB`, `18 MB`. Below 10 kB it is exact.
pub fn size(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..10_000 => count(bytes, "byte"),
        10_000..1_000_000 => two_digits(value / 1e3, "KB"),
        1_000_000..1_000_000_000 => two_digits(value / 1e6, "MB"),
        _ => two_digits(value / 1e9, "GB"),
    }
}

/// A size in powers of 1000 with one decimal: `355 B`, `91.4 kB`.
pub fn decimal_size(bytes: u64) -> String {
    one_decimal(bytes, 1000, ["kB", "MB", "GB", "TB", "PB"])
}

/// A size in powers of 1024 with one decimal: `1023 B`, `2.0 MiB`.
pub fn binary_size(bytes: u64) -> String {
    one_decimal(bytes, 1024, ["KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Two digits, or as many as stand before the point.
fn two_digits(value: f64, unit: &str) -> String {
    if value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

fn one_decimal(bytes: u64, base: u16, units: [&str; 5]) -> String {
    if bytes < base.into() {
        return format!("{bytes} B");
    }
    let base = f64::from(base);
    let (mut value, mut unit) = (bytes as f64 / base, 0);
    // A value that would be printed as the base belongs to the next unit.
    while value >= base - 0.05 && unit + 1 < units.len() {
        (value, unit) = (value / base, unit + 1);
    }
    format!("{value:.1} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_a_plural_unless_one() {
        assert_eq!([0, 1, 8].map(|number| count(number, "request")), ["0 requests", "1 request", "8 requests"]);
    }

    #[test]
    fn times_and_rates_have_two_digits() {
        let times = [0, 999, 1_500, 93_110_000, 1_250_000, 119_900_000_000, 245_000_000_000];
        assert_eq!(
            times.map(|nanos| time(Duration::from_nanos(nanos))),
            ["0 s", "999 ns", "1.5 µs", "93 ms", "1.2 ms", "120 s", "4.1 min"]
        );
        assert_eq!([7.0, 9.5e6, 1e9].map(rate), ["7.0 bit/s", "9.5 Mbit/s", "1.0 Gbit/s"]);
    }

    #[test]
    fn sizes_move_to_the_next_unit_when_rounding_reaches_it() {
        assert_eq!([1, 8217, 65_536, 18_000_000].map(size), ["1 byte", "8217 bytes", "66 KB", "18 MB"]);
        assert_eq!([355, 91_400, 999_949, 999_950].map(decimal_size), ["355 B", "91.4 kB", "999.9 kB", "1.0 MB"]);
        assert_eq!(
            [0, 1023, 1024, 1 << 20, 1_048_575, u64::MAX].map(binary_size),
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.0 MiB", "16384.0 PiB"]
        );
    }
}
