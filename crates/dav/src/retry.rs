//! Whether a refused request may be sent again, and when: one table for all who send requests. They differ only in how long
//! they are willing to wait.

use std::time::Duration;

use http::StatusCode;

/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The pause after a refusal that time alone will not change.
const REFUSED_PAUSE: Duration = Duration::from_mins(5);
/// The longest pause that a server may ask for.
const LONGEST_NAMED: Duration = Duration::from_hours(1);

/// When the same request may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// In a moment, by itself.
    Soon,
    /// When something has changed at the server, which may take long.
    Later,
    /// Only if somebody changes the server's mind.
    Refused,
}

impl Retry {
    /// After a response with this status.
    pub fn after(status: StatusCode) -> Self {
        match status.as_u16() {
            // The connection was idle for too long (RFC 9110 §15.5.9); early data (RFC 8470 §5.2); too many requests
            // (RFC 6585 §4); a proxy without a server, and a busy server (RFC 9110 §15.6.3 to §15.6.5).
            408 | 425 | 429 | 502..=504 => Self::Soon,
            // A lock ends (RFC 4918 §11.3), space is freed (RFC 4918 §11.5), a server is repaired.
            423 | 500 | 506..=599 => Self::Later,
            // The server cannot do this (501), or not in this version of HTTP (505), or does not want to.
            _ => Self::Refused,
        }
    }

    /// The pause before something is sent again that has failed so often in a row, for as long as it takes; `named` by the
    /// server (`Retry-After`).
    pub fn pause(self, failures: u32, named: Option<Duration>) -> Duration {
        let ours = match self {
            Self::Refused => REFUSED_PAUSE,
            Self::Soon | Self::Later => LONGEST_PAUSE.min(FIRST_PAUSE * 2_u32.pow(failures.clamp(1, 10) - 1)),
        };
        ours.max(named.unwrap_or_default().min(LONGEST_NAMED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_never_shorter_than_the_server_asks() {
        let pauses = |retry: Retry| [1, 2, 3, 7, 1000].map(|failures| retry.pause(failures, None).as_secs());
        assert_eq!(pauses(Retry::Soon), [1, 2, 4, 60, 60]);
        assert_eq!(pauses(Retry::Refused), [300; 5]);
        let named = |seconds| Retry::Later.pause(3, Some(Duration::from_secs(seconds))).as_secs();
        assert_eq!((named(1), named(90), named(1_000_000)), (4, 90, 3600));
    }

    #[test]
    fn each_status_has_its_time() {
        let after = |status| Retry::after(StatusCode::from_u16(status).unwrap());
        for status in [408, 425, 429, 502, 503, 504] {
            assert_eq!(after(status), Retry::Soon, "{status}");
        }
        for status in [423, 500, 507, 508, 599] {
            assert_eq!(after(status), Retry::Later, "{status}");
        }
        for status in [400, 401, 403, 404, 409, 412, 413, 501, 505] {
            assert_eq!(after(status), Retry::Refused, "{status}");
        }
    }
}
