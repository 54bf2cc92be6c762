//! From a host name to a TCP connection: the lookup, then Happy Eyeballs.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use tokio::net::{TcpStream, lookup_host};

use crate::{error::Cause, happy_eyeballs, origin::Origin, tcp::Tcp};

/// The maximum number of failed addresses in a message.
const NAMED: usize = 4;

/// A host's addresses, limited to the family of the local address if one is set, and how long the lookup took. It takes
/// no time for an address in place of a name, and for [`Tcp::instead`].
///
/// `localhost` and all names below it are this machine (RFC 6761 §6.3), so passwords may go to them unencrypted. Some
/// resolvers ask the network for these names all the same; only loopback addresses count in their answers.
///
/// The resolver is the system's (`getaddrinfo` on a thread of its own). Dropping the future does not stop that thread,
/// which ends with the resolver's own timeout.
pub(crate) async fn look_up(server: &Origin, tcp: &Tcp) -> Result<(Vec<SocketAddr>, Duration), Cause> {
    let literal = || server.host().parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, server.port()));
    if let Some(address) = tcp.instead.or_else(literal) {
        return Ok((reachable([address], tcp)?, Duration::ZERO));
    }
    let begin = Instant::now();
    let found = lookup_host((server.host(), server.port()))
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("no address for {}: {error}", server.host())))?;
    Ok((reachable(loopback_only(server, found)?, tcp)?, begin.elapsed()))
}

/// For a name of this machine, keeps only loopback addresses.
fn loopback_only(server: &Origin, found: impl Iterator<Item = SocketAddr>) -> io::Result<Vec<SocketAddr>> {
    let mut found: Vec<_> = found.collect();
    let elsewhere = found.first().copied().filter(|_| server.is_loopback());
    found.retain(|to| elsewhere.is_none() || to.ip().is_loopback());
    match elsewhere {
        Some(to) if found.is_empty() => {
            let why = format!("{} must be a loopback address (RFC 6761), but resolves to {}", server.host(), to.ip());
            Err(io::Error::new(io::ErrorKind::AddrNotAvailable, why))
        }
        _ => Ok(found),
    }
}

fn reachable(found: impl IntoIterator<Item = SocketAddr>, tcp: &Tcp) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<_> = found.into_iter().filter(|to| tcp.reaches(*to)).collect();
    match tcp.local {
        _ if !addresses.is_empty() => Ok(addresses),
        Some(local) => {
            let family = if local.is_ipv4() { "IPv4" } else { "IPv6" };
            let why = format!("the host has no {family} address, but the local address {local} needs one");
            Err(io::Error::new(io::ErrorKind::AddrNotAvailable, why))
        }
        None => Err(io::Error::new(io::ErrorKind::NotFound, "the host name has no address")),
    }
}

/// Connects to the first address that responds, and returns how long its own handshake took.
pub(crate) async fn connect(addresses: Vec<SocketAddr>, tcp: &Tcp) -> Result<(SocketAddr, TcpStream, Duration), Cause> {
    happy_eyeballs::run(addresses, |to| tcp.connect(to)).await.map_err(|failures| combined_error(&failures).into())
}

/// All failures in one error.
pub(crate) fn combined_error(failures: &[(SocketAddr, io::Error)]) -> io::Error {
    let kind = failures.last().map_or(io::ErrorKind::NotFound, |(_, error)| error.kind());
    let mut told: Vec<_> = failures.iter().take(NAMED).map(|(to, error)| format!("{to}: {error}")).collect();
    if failures.len() > NAMED {
        told.push(format!("and {} more addresses", failures.len() - NAMED));
    }
    io::Error::new(kind, told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_failures_are_one_bounded_sentence() {
        let failure = |n: u8| (SocketAddr::from(([10, 0, 0, n], 80)), io::Error::from(io::ErrorKind::TimedOut));
        let told = combined_error(&(1..=6).map(failure).collect::<Vec<_>>()).to_string();
        assert!(
            told.starts_with("10.0.0.1:80: timed out; 10.0.0.2:80") && told.ends_with("; and 2 more addresses"),
            "{told}"
        );
    }

    #[test]
    fn localhost_is_always_loopback() {
        let all: [SocketAddr; 3] = ["192.0.2.1:80", "127.0.0.1:80", "[::1]:80"].map(|address| address.parse().unwrap());
        let found = |name: &str, found: &[SocketAddr]| {
            loopback_only(&Origin::of(&name.parse().unwrap()).unwrap(), found.iter().copied())
        };
        assert_eq!(found("http://dev.localhost/", &all).unwrap(), all[1..]);
        assert_eq!(found("http://localhost.example.org/", &all).unwrap(), all);
        let told = found("https://dev.localhost/", &all[..1]).unwrap_err().to_string();
        assert!(told.contains("dev.localhost must be a loopback address") && told.contains("192.0.2.1"), "{told}");
    }

    #[tokio::test]
    async fn address_literal_needs_no_lookup_and_bind_address_selects_the_family() {
        let origin = Origin::of(&"http://[::1]:81/".parse().unwrap()).unwrap();
        let (found, took) = look_up(&origin, &Tcp::default()).await.unwrap();
        assert_eq!((found, took), (vec!["[::1]:81".parse().unwrap()], Duration::ZERO));
        let instead = "127.0.0.1:8443".parse().unwrap();
        let named = Origin::of(&"https://no.such.host.invalid/".parse().unwrap()).unwrap();
        let (found, _) = look_up(&named, &Tcp { instead: Some(instead), ..Tcp::default() }).await.unwrap();
        assert_eq!(found, vec![instead]);
        let tcp = Tcp { local: Some([127, 0, 0, 1].into()), ..Tcp::default() };
        let told = look_up(&origin, &tcp).await.unwrap_err().to_string();
        assert!(told.contains("no IPv4 address") && told.contains("127.0.0.1"), "{told}");
    }
}
