//! Printed timestamps.

use std::time::Duration;

/// The timestamp at the beginning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timestamp {
    /// Since the epoch.
    SinceEpoch(Duration),
    /// Hours, minutes and seconds: of a day, or since another packet.
    Clock(Duration),
    /// Hours, minutes and seconds before another packet: a negative difference.
    Negative(Duration),
}

/// The timestamp at the beginning of `words`, and the number of its words.
pub(super) fn timestamp(words: &[&str]) -> Option<(Timestamp, usize)> {
    let first = *words.first()?;
    if let Some(time) = clock(first) {
        return Some((Timestamp::Clock(time), 1));
    }
    if let Some(time) = first.strip_prefix('-').and_then(clock) {
        return Some((Timestamp::Negative(time), 1));
    }
    if first.contains('.')
        && let Some(time) = seconds(first)
    {
        return Some((Timestamp::SinceEpoch(time), 1));
    }
    let (day, time) = (date(first)?, clock(words.get(1)?)?);
    Some((Timestamp::SinceEpoch(day + time), 2))
}

/// `12.000345` seconds, with at most nine digits after the point.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || fraction.len() > 9 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    Some(Duration::new(whole.parse().ok()?, nanos))
}

fn digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `HH:MM:SS.123456`.
fn clock(text: &str) -> Option<Duration> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, rest) = rest.split_once(':')?;
    let two_digits = |text: &str, limit| {
        text.parse::<u64>().ok().filter(|number| text.len() == 2 && digits(text) && *number < limit)
    };
    let seconds = seconds(rest).filter(|time| time.as_secs() < 61)?;
    Some(Duration::from_secs(two_digits(hours, 24)? * 3600 + two_digits(minutes, 60)? * 60) + seconds)
}

/// `YYYY-MM-DD`, from 1970 on, as the time since then.
fn date(text: &str) -> Option<Duration> {
    let mut parts = text.split('-').map(str::parse::<u64>);
    let (Some(Ok(year)), Some(Ok(month)), Some(Ok(day)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // If years begin in March, the leap day is their last. 719,468 days lie before 1970.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some(Duration::from_secs((days - 719_468) * 86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_timestamp_is_parsed() {
        let timestamp = |text: &str| timestamp(&text.split(' ').collect::<Vec<_>>());
        let micros = Duration::from_micros;
        assert_eq!(timestamp("00:00:01.000002 IP"), Some((Timestamp::Clock(micros(1_000_002)), 1)));
        assert_eq!(timestamp("-00:00:00.000002 IP"), Some((Timestamp::Negative(micros(2)), 1)));
        assert_eq!(timestamp("1767323045.123456 IP"), Some((Timestamp::SinceEpoch(micros(1_767_323_045_123_456)), 1)));
        assert_eq!(
            timestamp("2026-01-02 03:04:05.123456 IP"),
            Some((Timestamp::SinceEpoch(micros(1_767_323_045_123_456)), 2))
        );
        assert_eq!(timestamp("1970-01-01 00:00:00.5 IP"), Some((Timestamp::SinceEpoch(micros(500_000)), 2)));
        assert_eq!(
            timestamp("2024-02-29 00:00:00 IP"),
            Some((Timestamp::SinceEpoch(Duration::from_hours(19_782 * 24)), 2))
        );
        for invalid in
            ["", "12", "1.2.3", "25:00:00", "00:61:00", "0:0:0", "2026-13-01 00:00:00", "2026-01-02 IP", "+1:00:00"]
        {
            assert_eq!(timestamp(invalid), None, "{invalid}");
        }
        assert_eq!(seconds("0.0000000001"), None);
        assert_eq!(seconds("99999999999999999999"), None);
    }
}
