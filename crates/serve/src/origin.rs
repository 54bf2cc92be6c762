//! Browsers that somebody else's page has led here.
//!
//! A server that asks for no password trusts whoever reaches it, on loopback often one person. But that
//! person's browser reaches it too, on behalf of any page it shows, and two doors must be closed:
//!
//! - **DNS rebinding.** A page of `evil.example` lets its own name point to 127.0.0.1; what it then asks
//!   this server is same-origin to the browser, which lets it read the answers. The name still stands in
//!   `Host`, so only names are taken that nobody else can point here: addresses, `localhost` and this
//!   machine's own. 421 (RFC 9110 section 15.5.20) is the answer to others. With a password the page has
//!   nothing to come in with, and under TLS no certificate for its name: then every name is taken.
//! - **Cross-site requests.** A page needs no answer to do harm with a `POST` or a form, and a browser adds
//!   a password that it knows. It says where the request is from, in `Sec-Fetch-Site` (Fetch Metadata) and
//!   `Origin` (RFC 6454 section 7): 403 for those from elsewhere. WebDAV clients send neither.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderName, Request, StatusCode};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// By which names this server may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Names {
    /// By any: something else keeps others' pages out.
    Any,
    /// By addresses, `localhost` and this name of the machine, also in mDNS (RFC 6762).
    Own(String),
}

impl Names {
    /// Those that are safe for a server in the clear without passwords.
    pub(crate) fn own() -> Self {
        Names::Own(rustix::system::uname().nodename().to_string_lossy().into_owned())
    }

    /// Refuses what a browser was made to ask by somebody else's page.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), StatusCode> {
        let headers = request.headers();
        // What an absolute request target says goes before Host (RFC 9112 section 3.2.2); HTTP/2 has only that.
        let host = match request.uri().authority() {
            Some(authority) => Some(authority.as_str()),
            None => headers.get(HOST).map(|host| host.to_str().unwrap_or_default()),
        };
        // No browser leaves it out.
        let Some(host) = host else { return Ok(()) };
        if !self.has(host) {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        let own = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host));
        let foreign = headers.get_all(ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(own));
        if foreign || headers.get_all(SEC_FETCH_SITE).iter().any(|site| site == "cross-site") {
            return Err(StatusCode::FORBIDDEN);
        }
        Ok(())
    }

    fn has(&self, host: &str) -> bool {
        let Names::Own(own) = self else { return true };
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host();
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        if address.parse::<IpAddr>().is_ok() {
            return true;
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let own = own.to_ascii_lowercase();
        name == "localhost" || name == own || name.strip_suffix(".local").is_some_and(|name| name == own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(names: &Names, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::put("/file");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        names.admit(&request.body(()).unwrap()).map_or_else(|status| status.as_u16(), |()| 200)
    }

    #[test]
    fn only_names_that_cannot_be_bent_are_taken() {
        let names = Names::Own("Box".to_owned());
        for host in [
            "127.0.0.1",
            "10.0.0.2:8080",
            "[::1]:8080",
            "localhost",
            "LOCALHOST:1",
            "localhost.",
            "box:80",
            "box.local",
        ] {
            assert_eq!(admitted(&names, &[("Host", host)]), 200, "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "box.evil.example", "", "a b"]
        {
            assert_eq!(admitted(&names, &[("Host", host)]), 421, "{host}");
            let status = admitted(&Names::Any, &[("Host", host)]);
            assert_eq!(status, 200, "{host}");
        }
        assert_eq!(admitted(&names, &[]), 200, "a client that names nobody is no browser");
        let absolute = Request::get("http://evil.example/").header("Host", "localhost").body(()).unwrap();
        assert_eq!(names.admit(&absolute), Err(StatusCode::MISDIRECTED_REQUEST));
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let host = ("Host", "localhost:8080");
        for names in [Names::Any, Names::own()] {
            for (name, value, status) in [
                ("Sec-Fetch-Site", "cross-site", 403),
                ("Sec-Fetch-Site", "same-origin", 200),
                ("Sec-Fetch-Site", "none", 200),
                ("Origin", "http://localhost:8080", 200),
                ("Origin", "http://localhost:3000", 403),
                ("Origin", "https://evil.example", 403),
                ("Origin", "null", 403),
            ] {
                assert_eq!(admitted(&names, &[host, (name, value)]), status, "{name}: {value}");
            }
        }
    }
}
