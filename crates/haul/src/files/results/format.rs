//! Names, times and numbers, as a terminal shows them.

use std::{
    fmt::Write,
    time::{Duration, SystemTime},
};

use chrono::{DateTime, Local, SecondsFormat, Utc};
use console::measure_text_width;
pub(crate) use units::rounded::{binary_size as size, count};

/// A name with nothing in it that a terminal would obey.
pub(crate) fn name(bytes: &[u8]) -> String {
    dav::terminal_safe(bytes).to_string()
}

/// A time here, to the minute.
pub(crate) fn minute(time: SystemTime) -> String {
    DateTime::<Local>::from(time).format("%Y-%m-%d %H:%M").to_string()
}

/// A time here, to the second, with its zone.
pub(crate) fn second(time: SystemTime) -> String {
    DateTime::<Local>::from(time).format("%Y-%m-%d %H:%M:%S %z").to_string()
}

/// A time for programs (RFC 3339, UTC).
pub(crate) fn rfc3339(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// The same, to the millisecond.
pub(crate) fn millisecond(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// How long something took.
pub(crate) fn took(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match time.as_secs() {
        0..10 => format!("{seconds:.2} s"),
        10..600 => format!("{seconds:.0} s"),
        minutes => format!("{} min", minutes / 60),
    }
}

/// How long something may yet take.
pub(crate) fn roughly(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{} s", seconds + 1),
        seconds @ 100..6000 => format!("{} min", seconds.div_ceil(60)),
        seconds @ 6000..172_800 => format!("{} h", seconds.div_ceil(3600)),
        seconds => format!("{} days", seconds.div_ceil(86_400)),
    }
}

/// Names in columns, downwards as ls(1) has them, in as few lines as fit into `width` columns of a terminal.
pub(crate) fn columns(names: &[String], width: usize) -> String {
    const GAP: usize = 2;
    if width == 0 {
        return names.iter().flat_map(|name| [name, "\n"]).collect();
    }
    let widths: Vec<usize> = names.iter().map(|name| measure_text_width(name)).collect();
    let layout = |lines: usize| -> Vec<usize> {
        widths.chunks(lines).map(|column| column.iter().max().copied().unwrap_or_default()).collect()
    };
    let fits = |lines: &usize| {
        let columns = layout(*lines);
        columns.iter().sum::<usize>() + GAP * columns.len().saturating_sub(1) <= width
    };
    let lines = layouts(names.len(), (width + GAP) / (1 + GAP)).find(fits).unwrap_or(names.len()).max(1);
    let columns = layout(lines);
    let mut text = String::new();
    for line in 0..lines.min(names.len()) {
        for (column, room) in columns.iter().enumerate() {
            let Some(name) = names.get(column * lines + line) else { break };
            text.push_str(name);
            if names.len() > (column + 1) * lines + line {
                let pad = room + GAP - widths[column * lines + line];
                let _ = write!(text, "{:pad$}", "");
            }
        }
        text.push('\n');
    }
    text
}

/// The numbers of lines that are worth trying for so many names in at most so many columns, the fewest first. They are
/// as few as the columns: each try looks at all names, of which there may be a million.
fn layouts(names: usize, most: usize) -> impl Iterator<Item = usize> {
    (1..=most.min(names)).rev().map(move |columns| names.div_ceil(columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fill_columns_downwards() {
        let names: Vec<String> = ["a", "bb", "ccc", "d", "eé"].map(str::to_owned).into();
        assert_eq!(columns(&names, 80), "a  bb  ccc  d  eé\n");
        assert_eq!(columns(&names, 9), "a    d\nbb   eé\nccc\n");
        assert_eq!(columns(&names, 1), "a\nbb\nccc\nd\neé\n");
        assert_eq!(columns(&[], 80), "");
    }

    #[test]
    fn columns_of_a_million_names_take_bounded_time() {
        assert!(layouts(1_000_000, 80).count() <= 80);
        let names: Vec<String> = (0..1_000_000).map(|number| number.to_string()).collect();
        assert_eq!(columns(&names, 0).lines().count(), names.len());
        assert_eq!(columns(&names, 80).lines().count(), 100_000);
    }

    #[test]
    fn control_characters_in_names_are_escaped() {
        assert_eq!(name(b"a\x1b[2J\nb\xff\xc3\xa9"), "a\\u{1b}[2J\\nb\u{fffd}é");
        assert_eq!(name("\u{9b}31m".as_bytes()), "\\u{9b}31m");
    }

    #[test]
    fn numbers_are_formatted_for_people() {
        assert_eq!((took(Duration::from_millis(182)), took(Duration::from_secs(61))), ("0.18 s".into(), "61 s".into()));
    }
}
