//! Origins: scheme, host and port (RFC 9110 §4.3.1).

use std::{fmt, net::IpAddr};

use http::{Uri, uri::Scheme};

/// A URL that cannot be requested.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot request {url}: {why}")]
pub struct UrlError {
    /// The URL, without user and password.
    pub url: String,
    /// The reason.
    pub why: &'static str,
}

/// A scheme, a host in lower case and a port. Connections, credentials and what is known of a server belong to one
/// origin, and are never shared with another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    tls: bool,
    host: String,
    port: u16,
}

impl Origin {
    /// The origin of an absolute `http` or `https` URL.
    pub fn of(url: &Uri) -> Result<Self, UrlError> {
        let wrong = |why| UrlError { url: without_user(url), why };
        let tls = match url.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(_) => return Err(wrong("the scheme is neither http nor https")),
            None => return Err(wrong("it does not begin with http:// or https://")),
        };
        let host = url.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it has no host"))?;
        let port = url.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host: host.to_ascii_lowercase(), port })
    }

    /// Whether the scheme is `https`.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The host's name or address; an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is this machine: a loopback address, or a name that RFC 6761 §6.3 reserves for it. Connections to
    /// such a name go to loopback only, whatever a lookup says, and never through a proxy.
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            || host == "localhost"
            || host.ends_with(".localhost")
    }

    /// The same scheme at another port, and at another host unless that is empty.
    #[must_use]
    pub fn at(&self, host: &str, port: u16) -> Self {
        let host = if host.is_empty() { self.host.clone() } else { host.to_owned() };
        Self { tls: self.tls, host, port }
    }

    /// The value of the `Host` header (RFC 9112 §3.2), with the port only if it is not the scheme's default.
    pub fn authority(&self) -> String {
        let default = if self.tls { 443 } else { 80 };
        if self.port == default { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

/// The URL without user and password, for messages.
fn without_user(url: &Uri) -> String {
    let text = url.to_string();
    let Some((scheme, rest)) = text.split_once("://") else { return text };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Result<Origin, UrlError> {
        Origin::of(&url.parse().unwrap())
    }

    #[test]
    fn origins_compare_names_without_case_and_ports_by_number() {
        assert_eq!(of("https://Example.org/a").unwrap(), of("https://example.org:443/b?c").unwrap());
        assert_ne!(of("http://example.org").unwrap(), of("https://example.org").unwrap());
        assert_eq!(of("http://example.org:8080/").unwrap().to_string(), "http://example.org:8080");
    }

    #[test]
    fn ipv6_address_has_brackets_only_in_urls() {
        let origin = of("http://[2001:DB8::1]:80/").unwrap();
        assert_eq!((origin.host(), origin.authority().as_str()), ("2001:db8::1", "[2001:db8::1]"));
    }

    #[test]
    fn loopback_is_recognised_by_address_and_by_name() {
        for here in
            ["http://127.0.0.1/", "http://127.9.9.9:81/", "https://[::1]/", "http://LocalHost/", "http://a.localhost/"]
        {
            assert!(of(here).unwrap().is_loopback(), "{here}");
        }
        for there in
            ["http://128.0.0.1/", "http://[::2]/", "http://notlocalhost/", "http://localhost.org/", "http://0.0.0.0/"]
        {
            assert!(!of(there).unwrap().is_loopback(), "{there}");
        }
    }

    #[test]
    fn error_shows_url_without_password() {
        let told = of("ftp://me:secret@example.org/a").unwrap_err().to_string();
        assert!(told.contains("ftp://example.org/a") && !told.contains("secret"), "{told}");
        assert!(of("/path").is_err());
    }
}
