//! The protocols to load a page over, by their names: `h1`, `h1x6+pipelining`, `h2+tls+tfo`, `h3+early`, `h1+serial`.

use std::{fmt, str::FromStr};

/// How a page is loaded: HTTP version, TLS, and extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// The version of HTTP, and over which connections.
    pub http: Http,
    /// The TLS handshake; none: plain text.
    pub tls: Option<Session>,
    /// Whether requests are pipelined if allowed (HTTP/1.1).
    pub pipelining: bool,
    /// Whether the first bytes are in the SYN (TCP Fast Open, RFC 7413).
    pub fast_open: bool,
    /// Whether connections are opened one after another, as by a program with blocking sockets: while one is opened,
    /// nothing is sent on the others.
    pub serial: bool,
}

/// The version of HTTP, and over which connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Http {
    /// HTTP/1.1 over the recorded connections; requests without one share six per host.
    Recorded,
    /// HTTP/1.1 over up to six connections per host, as browsers do.
    Six,
    /// HTTP/2 over one connection to a host; without TLS by prior knowledge.
    Two,
    /// HTTP/3 over one connection to a host.
    Three,
}

/// The handshake of TLS 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Session {
    /// With a full handshake, as on a first visit.
    Full,
    /// By resuming a session of an earlier visit (RFC 8446 §2.2): no certificate, but the same round trip.
    Resumed,
    /// The same, with idempotent requests as early data (RFC 8446 §2.3, RFC 8470).
    Early,
}

/// An unknown or contradictory name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid protocol `{name}`: {why}")]
pub struct UnknownProtocol {
    name: String,
    why: &'static str,
}

impl Protocol {
    /// All valid combinations.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for http in [Http::Recorded, Http::Six, Http::Two, Http::Three] {
            for tls in [None, Some(Session::Full), Some(Session::Resumed), Some(Session::Early)] {
                for [pipelining, fast_open] in [[false, false], [true, false], [false, true], [true, true]] {
                    let over = Self { http, tls, pipelining, fast_open, serial: false };
                    all.extend([over, Self { serial: true, ..over }]);
                }
            }
        }
        all.retain(|over| over.complaint().is_none());
        all
    }

    /// Plain HTTP/1.1 over the recorded connections: the baseline.
    pub const PLAIN: Self =
        Self { http: Http::Recorded, tls: None, pipelining: false, fast_open: false, serial: false };

    /// Round trips before the first request on a recorded connection; none for protocols over other connections, for
    /// pipelining, and for connections that wait for one another.
    pub fn handshakes(self) -> Option<u32> {
        let tcp = u32::from(!self.fast_open);
        let tls = u32::from(matches!(self.tls, Some(Session::Full | Session::Resumed)));
        (self.http == Http::Recorded && !self.pipelining && !self.serial).then_some(tcp + tls)
    }

    /// Whether a load resumes its own TLS sessions, with early data, but none of an earlier load: over QUIC, as Chromium does
    /// when it needs a second connection to a host.
    pub(super) fn resumes_own_sessions(self) -> bool {
        self.http == Http::Three && self.tls == Some(Session::Full)
    }

    /// Whether it uses TLS.
    pub fn is_tls(self) -> bool {
        self.tls.is_some()
    }

    fn complaint(self) -> Option<&'static str> {
        let one_at_a_time = matches!(self.http, Http::Recorded | Http::Six);
        match self.http {
            Http::Three if self.fast_open => Some("HTTP/3 runs over QUIC, which has no TCP Fast Open"),
            // The engine sends the preface alone, without a request.
            Http::Two if self.fast_open && self.tls.is_none() => {
                Some("HTTP/2 without TLS could only send its preface in the SYN")
            }
            Http::Three if self.tls.is_none() => Some("HTTP/3 always uses TLS"),
            _ if self.serial && (self.http != Http::Recorded || self.tls.is_some() || self.pipelining) => {
                Some("only plain h1 opens its connections one after another, with or without tfo")
            }
            _ if self.pipelining && !one_at_a_time => {
                Some("only HTTP/1.1 has pipelining; HTTP/2 and HTTP/3 have streams")
            }
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.http {
            Http::Recorded => "h1",
            Http::Six => "h1x6",
            Http::Two => "h2",
            Http::Three => "h3",
        })?;
        if self.pipelining {
            f.write_str("+pipelining")?;
        }
        match self.tls {
            // HTTP/3 always uses TLS.
            Some(Session::Full) if self.http == Http::Three => {}
            Some(Session::Full) => f.write_str("+tls")?,
            Some(Session::Resumed) => f.write_str("+resumed")?,
            Some(Session::Early) => f.write_str("+early")?,
            None => {}
        }
        f.write_str(if self.serial { "+serial" } else { "" })?;
        f.write_str(if self.fast_open { "+tfo" } else { "" })
    }
}

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(name: &str) -> Result<Self, UnknownProtocol> {
        let unknown = |why| UnknownProtocol { name: name.to_owned(), why };
        let mut words = name.split('+');
        let http = match words.next() {
            Some("h1") => Http::Recorded,
            Some("h1x6") => Http::Six,
            Some("h2") => Http::Two,
            Some("h3") => Http::Three,
            _ => return Err(unknown("begins with h1, h1x6, h2 or h3")),
        };
        let tls = (http == Http::Three).then_some(Session::Full);
        let mut over = Self { http, tls, pipelining: false, fast_open: false, serial: false };
        for word in words {
            let before = over;
            match word {
                "tls" => over.tls = Some(Session::Full),
                "resumed" => over.tls = Some(Session::Resumed),
                "early" => over.tls = Some(Session::Early),
                "pipelining" => over.pipelining = true,
                "tfo" => over.fast_open = true,
                "serial" => over.serial = true,
                _ => return Err(unknown("after a + follows pipelining, tls, resumed, early, serial or tfo")),
            }
            let another = before.tls.is_some() && before.tls != over.tls && before.tls != tls;
            if before == over || another {
                return Err(unknown("takes one of tls, resumed and early, and each word once"));
            }
        }
        over.complaint().map_or(Ok(over), |why| Err(unknown(why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_names_are_parsed_as_printed() {
        let all = Protocol::all();
        assert_eq!(all.len(), 16 + 16 + 7 + 3 + 2);
        for over in all {
            assert_eq!(over.to_string().parse(), Ok(over));
        }
    }

    #[test]
    fn words_are_parsed_in_any_order_and_invalid_names_rejected() {
        assert_eq!("h1+tfo+pipelining".parse::<Protocol>().unwrap().to_string(), "h1+pipelining+tfo");
        for (name, part) in [
            ("h3+tfo", "QUIC"),
            ("h2+pipelining", "streams"),
            ("h2+tfo", "preface"),
            ("h4", "begins with"),
            ("h1+fast", "follows"),
            ("h1+tls+early", "takes one"),
            ("h1+tfo+tfo", "once"),
            ("h1x6+serial", "one after another"),
            ("h1+tls+serial", "one after another"),
            ("h3+serial", "one after another"),
        ] {
            let told = name.parse::<Protocol>().unwrap_err().to_string();
            assert!(told.contains(part), "{told}");
        }
    }
}
