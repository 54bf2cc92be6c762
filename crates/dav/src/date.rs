//! Times as servers write them.
//!
//! A property prescribes one format (RFC 1123 for `getlastmodified`, RFC 3339 for `creationdate`: RFC 4918 §15), but servers
//! mix them with older ones of HTTP (RFC 9110 §5.6.7). All are tried. The name of a weekday is ignored, because some servers
//! get it wrong.

use std::time::SystemTime;

use chrono::{DateTime, NaiveDateTime};

/// Parses a time in any of these formats. Without a zone it is UTC.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    let bare = text.split_once(", ").map_or(text, |(_weekday, rest)| rest);
    let naive = |text, format| NaiveDateTime::parse_from_str(text, format).map(|time| time.and_utc().fixed_offset());
    let time = DateTime::parse_from_rfc2822(bare)
        .or_else(|_| DateTime::parse_from_rfc3339(text))
        .or_else(|_| naive(text, "%Y-%m-%dT%H:%M:%S%.f"))
        .or_else(|_| naive(bare, "%d %b %Y %H:%M:%S UTC"))
        .or_else(|_| naive(bare, "%d-%b-%y %H:%M:%S GMT"))
        .or_else(|_| naive(text.split_once(' ').map_or("", |(_weekday, rest)| rest), "%b %e %H:%M:%S %Y"));
    time.ok().map(SystemTime::from)
}

/// Formats a time for HTTP, to the second; none if the year does not fit.
#[cfg(test)]
pub(crate) fn http(time: SystemTime) -> Option<String> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let time = DateTime::<chrono::Utc>::from_timestamp(i64::try_from(since.as_secs()).ok()?, 0)?;
    let text = time.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    (text.len() == "Sun, 06 Nov 1994 08:49:37 GMT".len()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_date_format_of_servers_is_parsed() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 +0000",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "sun, 06 nov 1994 08:49:37 gmt",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "1994-11-06T08:49:37Z",
            "1994-11-06t08:49:37.000z",
            "1994-11-06T09:49:37+01:00",
            " 1994-11-06T08:49:37\n",
        ] {
            assert_eq!(parse(text), Some(time), "{text}");
        }
        assert_eq!(http(time).unwrap(), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn invalid_date_is_none() {
        for text in ["", "yesterday", "Sun, 99 Nov 1994 08:49:37 GMT", "0", ", ", "1994-11-06"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(parse("1601-01-01T00:00:00Z").unwrap() < SystemTime::UNIX_EPOCH);
        assert_eq!(http(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 60)), None);
        assert_eq!(http(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), None);
    }
}
