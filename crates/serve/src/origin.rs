//! Browsers that somebody else's page has led here.
//!
//! A server that asks for no password trusts whoever reaches it, on loopback often one person. But that
//! person's browser reaches it too, on behalf of any page it shows, and two doors must be closed:
//!
//! - **DNS rebinding.** A page of `evil.example` lets its own name point to 127.0.0.1; what it then asks
//!   this server is same-origin to the browser, which lets it read the answers. The name still stands in
//!   `Host`, so only names are taken that nobody else can point here: addresses, `localhost`, this
//!   machine's own and those that the operator gives. 421 (RFC 9110 section 15.5.20) is the answer to others. With a
//!   password the page has nothing to come in with, and under TLS no certificate for its name: then every name is taken.
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
pub(crate) struct Names {
    /// By any: something else keeps others' pages out.
    any: bool,
    /// By this name of the machine, also in mDNS (RFC 6762).
    machine: String,
    /// By what the operator gives.
    given: Vec<String>,
}

/// Whom a request is for, as far as it says.
pub(crate) fn host<B>(request: &Request<B>) -> Option<&str> {
    // What an absolute request target says goes before Host (RFC 9112 section 3.2.2); HTTP/2 has only that.
    match request.uri().authority() {
        Some(authority) => Some(authority.as_str()),
        None => request.headers().get(HOST).map(|host| host.to_str().unwrap_or_default()),
    }
}

impl Names {
    /// Any for a server that something else protects; otherwise those that are safe, and those that the operator gives.
    pub(crate) fn new(any: bool, given: &[String]) -> Self {
        let machine = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
        Names { any, machine, given: given.iter().map(|name| plain(name)).collect() }
    }

    /// Whether the operator gives this name of the server.
    pub(crate) fn gives(&self, name: &str) -> bool {
        self.given.contains(&plain(name))
    }

    /// Refuses what a browser was made to ask by somebody else's page.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), StatusCode> {
        let headers = request.headers();
        // No browser leaves it out.
        let Some(host) = host(request) else { return Ok(()) };
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
        if self.any {
            return true;
        }
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host();
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        if address.parse::<IpAddr>().is_ok() {
            return true;
        }
        let name = plain(name);
        let machine = &self.machine;
        name == "localhost"
            || name == *machine
            || name.strip_suffix(".local").is_some_and(|name| name == machine)
            || self.given.contains(&name)
    }
}

/// A name as it is compared.
pub(crate) fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Tells a person why a name is not taken (421), and what to do.
pub(crate) fn explain(host: Option<&str>) -> String {
    // Only what is a name is repeated.
    let name = host.and_then(|host| host.parse::<Authority>().ok()).map(|authority| plain(authority.host()));
    let name = name.filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)));
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "NAME".to_owned());
    format!(
        "421: this server does not answer to the name {name}.\n\n\
         Any web page could let a name of its own lead here and read these files through a visitor's browser (DNS \
         rebinding). A server without TLS and without passwords therefore answers only to addresses, to localhost and to \
         the name of its machine.\n\n\
         To allow this name, start the server with --host {name}. With --tls or --auth every name is allowed.\n"
    )
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
        let mut names = Names::new(false, &["Dav.Example.".to_owned()]);
        names.machine = "box".to_owned();
        for host in [
            "127.0.0.1",
            "10.0.0.2:8080",
            "[::1]:8080",
            "localhost",
            "LOCALHOST:1",
            "localhost.",
            "box:80",
            "box.local",
            "dav.example:8080",
            "DAV.example.",
        ] {
            assert_eq!(admitted(&names, &[("Host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "x.dav.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "box.evil.example",
            "",
            "a b",
        ] {
            assert_eq!(admitted(&names, &[("Host", host)]), 421, "{host}");
            let status = admitted(&Names::new(true, &[]), &[("Host", host)]);
            assert_eq!(status, 200, "{host}");
        }
        assert_eq!(admitted(&names, &[]), 200, "a client that names nobody is no browser");
        let absolute = Request::get("http://evil.example/").header("Host", "localhost").body(()).unwrap();
        assert_eq!(names.admit(&absolute), Err(StatusCode::MISDIRECTED_REQUEST));
    }

    #[test]
    fn explanation_repeats_nothing_but_a_name() {
        assert!(explain(Some("dav.example:80")).contains("--host dav.example."));
        for host in [None, Some(""), Some("<script>"), Some("a b")] {
            assert!(explain(host).contains("--host NAME."), "{host:?}");
        }
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let host = ("Host", "localhost:8080");
        for names in [Names::new(true, &[]), Names::new(false, &[])] {
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
