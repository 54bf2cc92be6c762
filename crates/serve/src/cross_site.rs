//! Protection against requests that another site's page makes a browser send.
//!
//! A server without passwords trusts everyone who can connect; on loopback that is often one person. But that person's
//! browser can connect too, on behalf of any page it shows. Two attacks must be prevented:
//!
//! - **DNS rebinding.** A page of `evil.example` points its own name at 127.0.0.1. Its requests to this server are then
//!   same-origin to the browser, and it can read the responses. `Host` still holds that name, so only names are
//!   accepted that nobody else can point here: IP addresses, `localhost`, this machine's names (its own, and those that
//!   hosts(5) gives to its addresses, as in `haul link`) and those that the operator gives. Other names get 421
//!   (RFC 9110 §15.5.20). With passwords the page cannot authenticate, and with TLS
//!   it has no certificate for its name: then every name is accepted.
//! - **Cross-site requests.** A page can do harm with a `POST` or a form without reading the response, and the browser
//!   adds cached credentials. Browsers send the origin in `Sec-Fetch-Site` (Fetch Metadata) and `Origin` (RFC 6454 §7):
//!   foreign origins get 403. WebDAV clients send neither.

use std::{
    fs,
    net::{IpAddr, UdpSocket},
};

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderName, Request, StatusCode};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The host names that this server accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostNames {
    /// Any name: TLS or passwords protect against rebinding.
    any: bool,
    /// The machine's name, also with mDNS's `.local` (RFC 6762).
    machine: String,
    /// The machine's names in hosts(5).
    listed: Vec<String>,
    /// Names that the operator gives.
    given: Vec<String>,
}

/// The host that a request names.
pub(crate) fn host<B>(request: &Request<B>) -> Option<&str> {
    // An absolute request target takes precedence over `Host` (RFC 9112 §3.2.2); HTTP/2 sends only the former.
    match request.uri().authority() {
        Some(authority) => Some(authority.as_str()),
        None => request.headers().get(HOST).map(|host| host.to_str().unwrap_or_default()),
    }
}

impl HostNames {
    /// All names if something else protects the server; otherwise the safe ones and those in `given`.
    pub(crate) fn new(any: bool, given: &[String]) -> Self {
        let machine = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
        let listed = names_of(&fs::read_to_string("/etc/hosts").unwrap_or_default(), is_own);
        HostNames { any, machine, listed, given: given.iter().map(|name| plain(name)).collect() }
    }

    /// Whether the operator has given this name.
    pub(crate) fn gives(&self, name: &str) -> bool {
        self.given.contains(&plain(name))
    }

    /// Refuses requests that another site's page has caused.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), StatusCode> {
        let headers = request.headers();
        // Every browser sends it.
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
            || self.listed.contains(&name)
            || self.given.contains(&name)
    }
}

/// The names that a hosts(5) file gives to addresses of this machine.
fn names_of(hosts: &str, is_own: impl Fn(IpAddr) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    for line in hosts.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        if words.next().and_then(|address| address.parse().ok()).is_some_and(&is_own) {
            names.extend(words.map(plain));
        }
    }
    names
}

/// Whether this machine has the address in a network. Not on loopback: lists that block advertising give foreign names
/// 127.0.0.1, which other machines resolve otherwise.
fn is_own(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let is_any = address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_broadcast;
    // Only an own address can be bound.
    !is_any && UdpSocket::bind((address, 0)).is_ok()
}

/// Normalizes a name for comparison.
pub(crate) fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Explains 421 to a person, and how to avoid it.
pub(crate) fn explain(host: Option<&str>) -> String {
    // Quote nothing but a valid name.
    let name = host.and_then(|host| host.parse::<Authority>().ok()).map(|authority| plain(authority.host()));
    let name = name.filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)));
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "NAME".to_owned());
    format!(
        "421: this server does not accept the host name {name}; start it with --host {name}, or use its IP address\n\n\
         DNS rebinding: any web page could point its own name at this server and read the files through a visitor's \
         browser. Without TLS and passwords, the server therefore accepts only IP addresses, localhost, the machine's \
         own name and the names of its addresses in /etc/hosts. With --tls or --auth it accepts every name.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(names: &HostNames, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::put("/file");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        names.admit(&request.body(()).unwrap()).map_or_else(|status| status.as_u16(), |()| 200)
    }

    #[test]
    fn only_names_safe_from_dns_rebinding_are_accepted() {
        let mut names = HostNames::new(false, &["Dav.Example.".to_owned()]);
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
            let status = admitted(&HostNames::new(true, &[]), &[("Host", host)]);
            assert_eq!(status, 200, "{host}");
        }
        assert_eq!(admitted(&names, &[]), 200, "a client that names nobody is no browser");
        let absolute = Request::get("http://evil.example/").header("Host", "localhost").body(()).unwrap();
        assert_eq!(names.admit(&absolute), Err(StatusCode::MISDIRECTED_REQUEST));
    }

    #[test]
    fn names_of_the_machines_addresses_are_accepted_and_other_entries_of_the_hosts_file_are_not() {
        let hosts = "127.0.0.1 localhost blocked.example\n0.0.0.0 ads.example\n255.255.255.255 x.example\n# 10.0.0.2 old\n\
                     10.0.0.2 Server server.example. # ours\n10.0.0.3 other\nfd00::2 six\nbad line\n";
        let is_ours = |address: IpAddr| ["10.0.0.2", "fd00::2"].contains(&&*address.to_string());
        let mut names = HostNames::new(false, &[]);
        names.listed = names_of(hosts, is_ours);
        assert_eq!(names.listed, ["server", "server.example", "six"]);
        assert_eq!(admitted(&names, &[("Host", "SERVER:8080")]), 200);
        assert_eq!(admitted(&names, &[("Host", "other")]), 421);
        for address in ["127.0.0.1", "::1", "0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "192.0.2.1"] {
            assert!(!is_own(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn explanation_repeats_nothing_but_a_name() {
        assert!(explain(Some("dav.example:80")).contains("--host dav.example,"));
        for host in [None, Some(""), Some("<script>"), Some("a b")] {
            assert!(explain(host).contains("--host NAME,"), "{host:?}");
        }
    }

    #[test]
    fn cross_site_requests_are_refused() {
        let host = ("Host", "localhost:8080");
        for names in [HostNames::new(true, &[]), HostNames::new(false, &[])] {
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
