//! Alt-Svc (RFC 7838): where an origin offers HTTP/3, and whether the path lets it through.
//!
//! A server announces HTTP/3 over TCP, with a lifetime. Whether UDP reaches it is unknown: some networks drop UDP, some
//! slow it down. So QUIC races against TCP, and after a failure it is not tried again for a pause that doubles each
//! time, from five minutes up to a day. One success resets it.
//!
//! The alternative must present a certificate for the origin's own name, as every connection to it must. So a forged
//! Alt-Svc can misdirect the connection, but not impersonate the origin (§2.1).

use std::time::Duration;

use http::HeaderValue;
use serde::{Deserialize, Serialize};

use crate::Origin;

/// The default lifetime of an announcement (RFC 7838 §3.1), and the longest that is accepted.
const FRESH: f64 = 24.0 * 3600.0;
const FRESHEST: f64 = 30.0 * FRESH;
/// The pause after a failure: the first, and the longest.
const AVOIDED: f64 = 300.0;
const MAX_PAUSE: f64 = 24.0 * 3600.0;

/// An origin's HTTP/3. Times are in seconds, of any clock that continues between runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AltSvc {
    /// The announced host and port; an empty host is the origin's own.
    at: Option<(String, u16)>,
    /// When the announcement expires.
    until: f64,
    /// Consecutive failures.
    failures: u32,
    /// When the pause ends.
    avoided_until: f64,
}

impl AltSvc {
    /// The server sent this header over TLS.
    pub(crate) fn record_header(&mut self, alt_svc: &HeaderValue, now: f64) {
        let Ok(alt_svc) = alt_svc.to_str() else { return };
        if alt_svc.trim() == "clear" {
            self.at = None;
            return;
        }
        // The first supported one: they are in the server's order of preference.
        let Some((at, fresh)) = elements(alt_svc, ',').find_map(http3) else { return };
        // Each response has this header; only changes are stored.
        let news = self.at.as_ref() != Some(&at) || self.until < now + fresh / 2.0 || self.until > now + fresh;
        if news {
            (self.at, self.until) = (Some(at), now + fresh);
        }
    }

    /// Whether the server announces HTTP/3 now.
    pub fn is_offered(&self, now: f64) -> bool {
        self.at.is_some() && now < self.until
    }

    /// Whether HTTP/3 is paused now because of a failure.
    pub fn is_paused(&self, now: f64) -> bool {
        now < self.avoided_until
    }

    /// The host and port to connect to, if they are not the origin's.
    pub fn alternative(&self, origin: &Origin, now: f64) -> Option<Origin> {
        let (host, port) = self.at.as_ref().filter(|_| self.is_offered(now))?;
        Some(origin.at(host, *port)).filter(|at| at != origin)
    }

    /// A connection was made.
    pub(crate) fn record_success(&mut self) {
        (self.failures, self.avoided_until) = (0, 0.0);
    }

    /// A connection failed, or TCP won although it started later.
    pub(crate) fn failed(&mut self, now: f64) {
        // Parallel attempts count as one.
        if self.is_paused(now) {
            return;
        }
        let avoided = AVOIDED * 2_f64.powi(self.failures.min(16) as i32);
        self.failures += 1;
        self.avoided_until = now + avoided.min(MAX_PAUSE);
    }

    /// How much longer the pause lasts.
    pub fn remaining_pause(&self, now: f64) -> Duration {
        Duration::try_from_secs_f64(self.avoided_until - now).unwrap_or_default()
    }
}

/// The elements of a list; separators in quotes do not count.
fn elements(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
    .map(str::trim)
}

/// Parses `h3="host:port"; ma=seconds` into the address and the lifetime.
fn http3(element: &str) -> Option<((String, u16), f64)> {
    let mut parts = elements(element, ';');
    let authority = parts.next()?.strip_prefix("h3=")?.trim_matches('"');
    let (host, port) = authority.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let age = parts.find_map(|part| part.strip_prefix("ma=")?.trim_matches('"').parse::<u32>().ok());
    Some(((host.to_ascii_lowercase(), port), age.map_or(FRESH, f64::from).min(FRESHEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &'static str) -> AltSvc {
        let mut known = AltSvc::default();
        known.record_header(&HeaderValue::from_static(text), 0.0);
        known
    }

    #[test]
    fn h3_alternative_is_found_among_other_protocols() {
        let origin = Origin::of(&"https://a.example/".parse().unwrap()).unwrap();
        for (text, elsewhere, fresh) in [
            ("h3=\":443\"", Some(None), 24.0 * 3600.0),
            (
                "h2=\"b,c;:1\", h3-29=\":5\" , h3=\":8443\"; persist=1; ma=60",
                Some(Some("https://a.example:8443")),
                60.0,
            ),
            ("h3=\"B.example:443\";ma=99999999", Some(Some("https://b.example")), FRESHEST),
            ("h3=\"[::1]:443\"; ma=\"7\"", Some(Some("https://[::1]")), 7.0),
            ("clear", None, 0.0),
            ("h3=\":0\"", None, 0.0),
            ("h3=\":70000\"", None, 0.0),
            ("h3=443, =, \"", None, 0.0),
        ] {
            let known = heard(text);
            assert_eq!(known.is_offered(0.0), elsewhere.is_some(), "{text}");
            let found = known.alternative(&origin, 0.0).map(|at| at.to_string());
            assert_eq!(found.as_deref(), elsewhere.flatten(), "{text}");
            assert!((known.until - fresh).abs() < 1e-6, "{text}");
            assert!(!known.is_offered(fresh), "{text}");
        }
    }

    #[test]
    fn clear_removes_the_alternative() {
        let mut known = heard("h3=\":443\"");
        known.record_header(&HeaderValue::from_static("h2=\":443\""), 1.0);
        assert!(known.is_offered(1.0));
        known.record_header(&HeaderValue::from_static("clear"), 1.0);
        assert!(!known.is_offered(1.0));
    }

    #[test]
    fn pause_doubles_with_each_failure_and_success_resets_it() {
        let (mut known, mut now) = (heard("h3=\":443\""), 0.0);
        let mut before = 0.0;
        for _ in 0..20 {
            known.failed(now);
            let avoided = known.remaining_pause(now).as_secs_f64();
            assert!(avoided > before || avoided == MAX_PAUSE, "{avoided} after {before}");
            assert!(known.is_paused(now + avoided - 1.0) && !known.is_paused(now + avoided));
            (before, now) = (avoided, now + avoided);
        }
        known.record_success();
        known.failed(now);
        assert!((known.remaining_pause(now).as_secs_f64() - AVOIDED).abs() < 1e-6);
    }
}
