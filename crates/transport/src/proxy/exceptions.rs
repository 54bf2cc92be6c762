//! `NO_PROXY`: hosts that are reached without a proxy.

use std::{net::IpAddr, str::FromStr};

use ipnet::IpNet;

/// The hosts that are reached without a proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Exceptions(Vec<Exception>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Exception {
    All,
    Network(IpNet),
    Address(IpAddr, Option<u16>),
    /// A name and its subdomains; in lower case, without leading and trailing dots.
    Name(String, Option<u16>),
}

impl Exceptions {
    /// Whether this host is an exception. Names are compared as text, without a lookup.
    pub(crate) fn contain(&self, host: &str, port: u16) -> bool {
        let address = host.parse::<IpAddr>().ok();
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let same = |wanted: &Option<u16>| wanted.is_none_or(|wanted| wanted == port);
        self.0.iter().any(|exception| match exception {
            Exception::All => true,
            Exception::Network(network) => address.is_some_and(|address| network.contains(&address)),
            Exception::Address(wanted, port) => address == Some(*wanted) && same(port),
            Exception::Name(name, port) => {
                address.is_none()
                    && same(port)
                    && host.strip_suffix(name.as_str()).is_some_and(|above| above.is_empty() || above.ends_with('.'))
            }
        })
    }
}

impl FromStr for Exceptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entries = text.split([',', ' ', '\t']).filter(|entry| !entry.is_empty());
        entries.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Exception {
    type Err = String;

    fn from_str(entry: &str) -> Result<Self, String> {
        if entry == "*" {
            return Ok(Self::All);
        }
        if entry.contains('/') {
            return entry
                .parse()
                .map(Self::Network)
                .map_err(|_| format!("{entry} is not a network, such as 10.0.0.0/8"));
        }
        if let Ok(address) = entry.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(Self::Address(address, None));
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) => {
                (host, Some(port.parse().map_err(|_| format!("{entry} is neither HOST nor HOST:PORT"))?))
            }
            None => (entry, None),
        };
        if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(Self::Address(address, port));
        }
        let name = host.strip_prefix('*').unwrap_or(host).trim_matches('.');
        if name.is_empty() || name.contains(['*', '[', ']']) {
            return Err(format!("{entry} is neither a host nor a network"));
        }
        Ok(Self::Name(name.to_ascii_lowercase(), port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_match_names_addresses_networks_and_ports() {
        for (exceptions, host, port, contained) in [
            ("example.org", "example.org", 80, true),
            ("example.org", "www.Example.org.", 80, true),
            ("example.org", "badexample.org", 80, false),
            ("example.org", "example.org.evil", 80, false),
            (".example.org", "example.org", 80, true),
            ("*.example.org", "a.b.example.org", 80, true),
            ("a b,c\td", "c", 80, true),
            ("example.org:8443", "example.org", 8443, true),
            ("example.org:8443", "example.org", 443, false),
            ("0.0.1", "127.0.0.1", 80, false),
            ("127.0.0.1", "127.0.0.1", 80, true),
            ("127.0.0.1:81", "127.0.0.1", 80, false),
            ("10.0.0.0/8", "10.255.0.1", 80, true),
            ("10.0.0.0/8", "11.0.0.1", 80, false),
            ("10.0.0.0/8", "10.example.org", 80, false),
            ("::1", "::1", 80, true),
            ("[::1]", "::1", 80, true),
            ("[::1]:80", "::1", 81, false),
            ("fe80::/10", "fe80::1", 80, true),
            ("a, *", "anything", 80, true),
            ("", "anything", 80, false),
        ] {
            let parsed: Exceptions = exceptions.parse().unwrap();
            assert_eq!(parsed.contain(host, port), contained, "{exceptions} and {host}:{port}");
        }
    }

    #[test]
    fn entry_that_matches_nothing_is_an_error() {
        for (text, named) in [("a,10.0.0.0/99", "10.0.0.0/99"), ("host:port", "host:port"), ("*a*", "*a*"), (".", ".")]
        {
            assert!(text.parse::<Exceptions>().unwrap_err().contains(named));
        }
    }
}
