//! Where else an origin can be reached: HTTP/3, as the server says by `Alt-Svc` (RFC 7838), and whether the path lets
//! it through.
//!
//! A server that speaks HTTP/3 says so over TCP, and for how long that may be relied on. Whether UDP reaches it nobody
//! can say: some networks swallow it, some only slow it down. So a path is tried beside TCP, and what failed is not
//! tried again for a while that doubles each time: five minutes, and a day at most. One success, and all is forgotten.
//!
//! The alternative must show a certificate for the origin's own name, as any connection to it must: who says
//! `Alt-Svc` can send us astray, and no further (§2.1).

use std::time::Duration;

use http::HeaderValue;
use serde::{Deserialize, Serialize};

use crate::Origin;

/// How long an advertisement holds that does not say (RFC 7838 §3.1), and how long at most, whatever it says.
const FRESH: f64 = 24.0 * 3600.0;
const FRESHEST: f64 = 30.0 * FRESH;
/// How long a path that failed is left alone, the first time and at most.
const AVOIDED: f64 = 300.0;
const AVOIDED_MOST: f64 = 24.0 * 3600.0;

/// What is known of an origin's HTTP/3. Times are seconds of any clock that goes on between runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AltSvc {
    /// Where, if the server said so: a host, empty for the origin's own, and a port.
    at: Option<(String, u16)>,
    /// Until when that holds.
    until: f64,
    /// How often in a row no connection came about.
    failures: u32,
    /// Until when none is tried.
    avoided_until: f64,
}

impl AltSvc {
    /// The server sent this header over TLS.
    pub(crate) fn heard(&mut self, alt_svc: &HeaderValue, now: f64) {
        let Ok(alt_svc) = alt_svc.to_str() else { return };
        if alt_svc.trim() == "clear" {
            self.at = None;
            return;
        }
        // The first that we speak: they stand in the server's order.
        let Some((at, fresh)) = elements(alt_svc, ',').find_map(http3) else { return };
        // What is worth remembering changes seldom: each answer has this header.
        let news = self.at.as_ref() != Some(&at) || self.until < now + fresh / 2.0 || self.until > now + fresh;
        if news {
            (self.at, self.until) = (Some(at), now + fresh);
        }
    }

    /// Whether the server says now that it speaks HTTP/3.
    pub fn is_offered(&self, now: f64) -> bool {
        self.at.is_some() && now < self.until
    }

    /// Whether the path is not to be tried now, because it failed.
    pub fn is_avoided(&self, now: f64) -> bool {
        now < self.avoided_until
    }

    /// Where to connect to, if elsewhere than to the origin.
    pub(crate) fn elsewhere(&self, origin: &Origin, now: f64) -> Option<Origin> {
        let (host, port) = self.at.as_ref().filter(|_| self.is_offered(now))?;
        Some(origin.at(host, *port)).filter(|at| at != origin)
    }

    /// A connection came about.
    pub(crate) fn worked(&mut self) {
        (self.failures, self.avoided_until) = (0, 0.0);
    }

    /// None came about, or TCP was there first although it began later.
    pub(crate) fn failed(&mut self, now: f64) {
        // Several attempts at once are one.
        if self.is_avoided(now) {
            return;
        }
        let avoided = AVOIDED * 2_f64.powi(self.failures.min(16) as i32);
        self.failures += 1;
        self.avoided_until = now + avoided.min(AVOIDED_MOST);
    }

    /// For how long the path is left alone from now on.
    pub fn avoided_for(&self, now: f64) -> Duration {
        Duration::try_from_secs_f64(self.avoided_until - now).unwrap_or_default()
    }
}

/// The elements of a list, as far as they are not quoted.
fn elements(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
    .map(str::trim)
}

/// `h3="host:port"; ma=seconds`: where, and for how long.
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
        known.heard(&HeaderValue::from_static(text), 0.0);
        known
    }

    #[test]
    fn what_is_offered_is_found_among_what_is_not_ours() {
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
            let found = known.elsewhere(&origin, 0.0).map(|at| at.to_string());
            assert_eq!(found.as_deref(), elsewhere.flatten(), "{text}");
            assert!((known.until - fresh).abs() < 1e-6, "{text}");
            assert!(!known.is_offered(fresh), "{text}");
        }
    }

    #[test]
    fn a_server_may_take_it_back() {
        let mut known = heard("h3=\":443\"");
        known.heard(&HeaderValue::from_static("h2=\":443\""), 1.0);
        assert!(known.is_offered(1.0));
        known.heard(&HeaderValue::from_static("clear"), 1.0);
        assert!(!known.is_offered(1.0));
    }

    #[test]
    fn a_path_that_fails_is_left_alone_for_longer_each_time_and_forgiven_at_once() {
        let (mut known, mut now) = (heard("h3=\":443\""), 0.0);
        let mut before = 0.0;
        for _ in 0..20 {
            known.failed(now);
            let avoided = known.avoided_for(now).as_secs_f64();
            assert!(avoided > before || avoided == AVOIDED_MOST, "{avoided} after {before}");
            assert!(known.is_avoided(now + avoided - 1.0) && !known.is_avoided(now + avoided));
            (before, now) = (avoided, now + avoided);
        }
        known.worked();
        known.failed(now);
        assert!((known.avoided_for(now).as_secs_f64() - AVOIDED).abs() < 1e-6);
    }
}
