//! Rounded numbers in the text of an explanation.

use std::time::Duration;

pub use units::rounded::{rate as rate_text, size as bytes, time as time_text};

/// `1 round trip`, `3 round trips`; `once`, `twice`.
pub(crate) fn plural(number: u64, what: &str) -> String {
    match (number, what) {
        (1, "time") => "once".to_owned(),
        (2, "time") => "twice".to_owned(),
        _ => units::rounded::count(number, what),
    }
}

/// A time in nanoseconds, rounded: `93 ms`, `1.2 s`, `4.1 min`.
pub(crate) fn ms(nanos: u64) -> String {
    time_text(Duration::from_nanos(nanos))
}

/// A part of a time in whole per cent, as it is printed.
pub(crate) fn percent(part: u64, all: u64) -> u64 {
    (100.0 * part as f64 / all.max(1) as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::plural;

    #[test]
    fn plural_writes_once_and_twice_for_times() {
        assert_eq!([(1, "time"), (3, "round trip")].map(|(n, what)| plural(n, what)), ["once", "3 round trips"]);
    }
}
