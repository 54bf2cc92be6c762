//! `--bwlimit`: a rate, or a timetable of rates, as rclone takes them.
//!
//! `10M`, `1M:off` (up:down), `08:00,512k 19:00,10M 23:00,off`, `Mon-08:00,512k Sat-00:00,off`. An entry is valid until the
//! next one; the last one of the week is valid until the first.

use std::{str::FromStr, sync::Arc};

use chrono::{Datelike, Local, Timelike, Weekday};
use haul_http::{BandwidthLimit, Rates};
use serde::{Deserialize, de};
use units::{Rate, Size};

const DAY: u32 = 24 * 60;

/// Rates by the minute of the week at which each begins, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timetable(Vec<(u32, Rates)>);

impl Timetable {
    /// The bandwidth budget, by the local clock.
    pub(crate) fn limit(&self) -> Arc<BandwidthLimit> {
        let table = self.clone();
        Arc::new(BandwidthLimit::new(move || {
            let now = Local::now();
            table.at(now.weekday().num_days_from_monday() * DAY + now.hour() * 60 + now.minute())
        }))
    }

    /// The rates at a minute of the week.
    fn at(&self, minute: u32) -> Rates {
        let begun = self.0.iter().rev().find(|(begin, _)| *begin <= minute);
        begun.or(self.0.last()).map(|(_, rates)| *rates).unwrap_or_default()
    }
}

impl FromStr for Timetable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains(',') {
            return Ok(Self(vec![(0, rates(text.trim())?)]));
        }
        let mut table = Vec::new();
        for entry in text.split_whitespace() {
            let wrong = || format!("invalid timetable entry `{entry}`; write it like 08:00,512k or Mon-08:00,off");
            let (time, rate) = entry.split_once(',').ok_or_else(wrong)?;
            let (days, time) = match time.split_once('-') {
                Some((day, time)) => {
                    let day = day.parse::<Weekday>().map_err(|_| wrong())?.num_days_from_monday();
                    (day..day + 1, time)
                }
                None => (0..7, time),
            };
            let (hour, minute) = time.split_once(':').ok_or_else(wrong)?;
            let (hour, minute): (u32, u32) =
                hour.parse().ok().zip(minute.parse().ok()).filter(|(h, m)| *h < 24 && *m < 60).ok_or_else(wrong)?;
            let rates = rates(rate)?;
            table.extend(days.map(|day| (day * DAY + hour * 60 + minute, rates)));
        }
        table.sort_by_key(|(begin, _)| *begin);
        if table.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err("two timetable entries have the same time".into());
        }
        Ok(Self(table))
    }
}

/// Parses one rate for both directions, or one for each.
fn rates(text: &str) -> Result<Rates, String> {
    let (up, down) = text.split_once(':').unwrap_or((text, text));
    Ok(Rates { up: rate(up)?, down: rate(down)? })
}

/// Parses bytes per second; `None` is unlimited.
fn rate(text: &str) -> Result<Option<u64>, String> {
    if matches!(text, "off" | "0") {
        return Ok(None);
    }
    let bytes = match text.parse::<Size>() {
        Ok(size) => size.as_bytes(),
        Err(_) if text.to_lowercase().trim_end_matches("/s").ends_with("bit") => {
            text.parse::<Rate>().map_err(|error| error.to_string())?.as_bits_per_second() / 8
        }
        Err(_) => {
            return Err(format!(
                "invalid rate `{text}`; write bytes per second like 512k or 10M, bits like 80mbit, or off"
            ));
        }
    };
    if bytes == 0 {
        Err(format!("`{text}` is less than a byte per second; use off for no limit"))
    } else {
        Ok(Some(bytes))
    }
}

impl<'de> Deserialize<'de> for Timetable {
    fn deserialize<D: de::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(rate: u64) -> Rates {
        Rates { up: Some(rate), down: Some(rate) }
    }

    #[test]
    fn rates_are_bytes_in_powers_of_1024_or_bits() {
        for (text, rates) in [
            ("10M", both(10 << 20)),
            ("512k", both(512 << 10)),
            ("1.5M", both(3 << 19)),
            ("8mbit", both(1_000_000)),
            ("8Mbit/s", both(1_000_000)),
            ("1M:off", Rates { up: Some(1 << 20), down: None }),
            ("off", Rates::default()),
        ] {
            assert_eq!(text.parse::<Timetable>().unwrap().at(77), rates, "{text}");
        }
        for text in ["", "10", "fast", "1M:", "-1M", "1bit"] {
            assert!(text.parse::<Timetable>().is_err(), "{text}");
        }
    }

    #[test]
    fn timetable_repeats_daily_and_weekly() {
        let table: Timetable = "08:00,512k 19:00,10M:1M 23:00,off".parse().unwrap();
        let evening = Rates { up: Some(10 << 20), down: Some(1 << 20) };
        for (minute, rates) in [
            (0, Rates::default()),
            (8 * 60 - 1, Rates::default()),
            (8 * 60, both(512 << 10)),
            (19 * 60, evening),
            (23 * 60, Rates::default()),
            (3 * DAY + 8 * 60, both(512 << 10)),
        ] {
            assert_eq!(table.at(minute), rates, "{minute}");
        }
        let week: Timetable = "Mon-08:00,1k Sat-00:00,off".parse().unwrap();
        assert_eq!((week.at(0), week.at(9 * 60), week.at(5 * DAY)), (Rates::default(), both(1024), Rates::default()));
        for text in ["8,1M", "25:00,1M", "08:00,1M 08:00,2M", "Moo-08:00,1M", "08:00,"] {
            assert!(text.parse::<Timetable>().is_err(), "{text}");
        }
    }
}
