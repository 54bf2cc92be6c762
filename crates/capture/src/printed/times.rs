//! Times as they are printed.

use std::time::Duration;

/// A time as a line begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamp {
    /// Since the epoch.
    Since1970(Duration),
    /// Hours, minutes and seconds: of a day, or since another packet.
    Clock(Duration),
    /// The same, before that packet.
    Back(Duration),
}

/// The time that `words` begin with, and how many of them it takes.
pub(super) fn stamp(words: &[&str]) -> Option<(Stamp, usize)> {
    let first = *words.first()?;
    if let Some(time) = clock(first) {
        return Some((Stamp::Clock(time), 1));
    }
    if let Some(time) = first.strip_prefix('-').and_then(clock) {
        return Some((Stamp::Back(time), 1));
    }
    if first.contains('.')
        && let Some(time) = seconds(first)
    {
        return Some((Stamp::Since1970(time), 1));
    }
    let (day, time) = (date(first)?, clock(words.get(1)?)?);
    Some((Stamp::Since1970(day + time), 2))
}

/// `12.000345` seconds, with nine digits behind the point at the most.
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
    let two =
        |text: &str, most| text.parse::<u64>().ok().filter(|number| text.len() == 2 && digits(text) && *number < most);
    let seconds = seconds(rest).filter(|time| time.as_secs() < 61)?;
    Some(Duration::from_secs(two(hours, 24)? * 3600 + two(minutes, 60)? * 60) + seconds)
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
    // Years that begin in March have their leap day at the end; 719,468 days lie before 1970.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some(Duration::from_secs((days - 719_468) * 86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form() {
        let stamp = |text: &str| stamp(&text.split(' ').collect::<Vec<_>>());
        let micros = Duration::from_micros;
        assert_eq!(stamp("00:00:01.000002 IP"), Some((Stamp::Clock(micros(1_000_002)), 1)));
        assert_eq!(stamp("-00:00:00.000002 IP"), Some((Stamp::Back(micros(2)), 1)));
        assert_eq!(stamp("1767323045.123456 IP"), Some((Stamp::Since1970(micros(1_767_323_045_123_456)), 1)));
        assert_eq!(stamp("2026-01-02 03:04:05.123456 IP"), Some((Stamp::Since1970(micros(1_767_323_045_123_456)), 2)));
        assert_eq!(stamp("1970-01-01 00:00:00.5 IP"), Some((Stamp::Since1970(micros(500_000)), 2)));
        assert_eq!(stamp("2024-02-29 00:00:00 IP"), Some((Stamp::Since1970(Duration::from_hours(19_782 * 24)), 2)));
        for no_time in
            ["", "12", "1.2.3", "25:00:00", "00:61:00", "0:0:0", "2026-13-01 00:00:00", "2026-01-02 IP", "+1:00:00"]
        {
            assert_eq!(stamp(no_time), None, "{no_time}");
        }
        assert_eq!(seconds("0.0000000001"), None);
        assert_eq!(seconds("99999999999999999999"), None);
    }
}
