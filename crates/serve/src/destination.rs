//! The `Destination` of `COPY` and `MOVE` (RFC 4918 §10.3): a path, or a URL on this server.
//!
//! A URL on another server is refused with 502 (§9.8.5). Using only its path would change the wrong server's files.

use std::borrow::Cow;

use http::Uri;
use http::uri::Authority;

use crate::cross_site::{HostNames, plain};

/// Why a destination is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Neither a path nor a URL.
    Malformed,
    /// On this other server.
    Elsewhere(String),
}

/// The path of a destination, for a server that the request calls `host`.
pub(crate) fn path<'a>(destination: &'a str, host: Option<&str>, names: &HostNames) -> Result<Cow<'a, str>, Refused> {
    if destination.starts_with('/') && !destination.starts_with("//") {
        return Ok(Cow::Borrowed(destination));
    }
    let uri: Uri = destination.parse().map_err(|_| Refused::Malformed)?;
    let there = uri.scheme().and(uri.authority()).ok_or(Refused::Malformed)?;
    // HTTP/1.0 clients may omit `Host`.
    if let Some(here) = host
        && !names.gives(there.host())
        && !here.parse().is_ok_and(|here| is_same_authority(uri.scheme_str(), there, &here))
    {
        return Err(Refused::Elsewhere(there.host().to_owned()));
    }
    Ok(Cow::Owned(uri.path().to_owned()))
}

/// Whether two authorities of URLs with this scheme are equal. Behind a proxy that terminates TLS, only one of them may have
/// the scheme's default port.
pub fn is_same_authority(scheme: Option<&str>, there: &Authority, here: &Authority) -> bool {
    let default = if scheme == Some("http") { 80 } else { 443 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default);
    plain(there.host()) == plain(here.host()) && port(there) == port(here)
}

/// Explains to a person why a destination on another server is refused.
pub(crate) fn explain(there: &str) -> String {
    format!(
        "502: the Destination is on another server, {there}; COPY and MOVE work only within this server.\n\n\
         If {there} is a name of this server, configure its proxy to forward the Host header, or start the server with \
         --host {there}.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destination_is_on_this_server_or_refused() {
        let names = HostNames::new(true, &["dav.example".to_owned()]);
        for (destination, host) in [
            ("/a%20b", Some("box:8080")),
            ("http://box:8080/a%20b", Some("box:8080")),
            ("http://BOX.:8080/a%20b", Some("box:8080")),
            ("http://[::1]:8080/a%20b", Some("[::1]:8080")),
            ("https://box/a%20b", Some("box")),
            ("https://box/a%20b", Some("box:443")),
            ("https://box:443/a%20b", Some("box")),
            ("http://box:80/a%20b", Some("box")),
            ("https://dav.example/a%20b", Some("127.0.0.1:8080")),
            ("http://anybody/a%20b", None),
        ] {
            assert_eq!(path(destination, host, &names).as_deref(), Ok("/a%20b"), "{destination} {host:?}");
        }
        for (destination, host) in [
            ("http://other/a", "box"),
            ("http://box:8081/a", "box:8080"),
            ("http://box/a", "box:8080"),
            ("http://box/a", ""),
        ] {
            let refused = path(destination, Some(host), &names);
            assert!(matches!(refused, Err(Refused::Elsewhere(_))), "{destination} {host}: {refused:?}");
        }
        for destination in ["a", "", "//other/a", "http://", "mailto:a"] {
            assert_eq!(path(destination, Some("box"), &names), Err(Refused::Malformed), "{destination}");
        }
    }
}
