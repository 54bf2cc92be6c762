//! The machine's resolvers on its loopback, for a host of a network.
//!
//! Programs on the host read the machine's /etc/resolv.conf. They can reach most resolvers there, but not one on the
//! machine's loopback, such as systemd-resolved or dnsmasq: on the host, 127.0.0.53 is the host itself. So a proxy
//! listens on the same address on the host, and forwards queries over UDP and TCP (RFC 7766). No file has to change. It
//! forwards to a second proxy on the gateway, which forwards to the resolver, so that queries cross the link like everything
//! else.
//!
//! Rejected: passt's own forwarding. In Debian 12 it forwards only to 127.0.0.1 and only UDP.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream, UdpSocket},
    sync::oneshot,
    task::JoinSet,
    time::timeout,
};

use crate::host::Host;

const PORT: u16 = 53;

/// Maximum time for an answer; longer than programs wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The proxies for the machine's resolvers; dropping them ends them.
#[derive(Debug)]
pub(super) struct Resolvers {
    _at_client: Proxy,
    _at_gateway: Proxy,
}

impl Resolvers {
    /// Lets `client` use the machine's resolvers on loopback, over the gateway's `address`; `None` if there are none.
    pub(super) fn start(client: &Host, gateway: &Host, address: IpAddr) -> io::Result<Option<Self>> {
        let machine = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for ip in on_loopback(&machine) {
            let resolver = SocketAddr::new(ip, PORT);
            let at_gateway = Relay::bind(gateway, SocketAddr::new(address, 0), [resolver; 2])?;
            let next = [at_gateway.udp.local_addr()?, at_gateway.tcp.local_addr()?];
            near.push(Relay::bind(client, resolver, next)?);
            far.push(at_gateway);
        }
        if near.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { _at_client: Proxy::start(near, Some(client))?, _at_gateway: Proxy::start(far, None)? }))
    }
}

/// Sockets, and where queries continue: those over UDP and those over TCP.
struct Relay {
    udp: std::net::UdpSocket,
    tcp: std::net::TcpListener,
    next: [SocketAddr; 2],
}

impl Relay {
    fn bind(host: &Host, address: SocketAddr, next: [SocketAddr; 2]) -> io::Result<Self> {
        let bind = move || Ok((std::net::UdpSocket::bind(address)?, std::net::TcpListener::bind(address)?));
        let (udp, tcp) = host.run(bind).and_then(|bound: io::Result<_>| bound)?;
        udp.set_nonblocking(true)?;
        tcp.set_nonblocking(true)?;
        Ok(Self { udp, tcp, next })
    }
}

/// A thread that forwards queries; dropping it ends it.
#[derive(Debug)]
struct Proxy {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Forwards from the network of a host, or from the machine's.
    fn start(relays: Vec<Relay>, from: Option<&Host>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let forward = move || {
            runtime.block_on(async move {
                let mut all = JoinSet::new();
                for Relay { udp, tcp, next: [to_udp, to_tcp] } in relays {
                    all.spawn(datagrams(udp, to_udp));
                    all.spawn(connections(tcp, to_tcp));
                }
                let _ = stopped.await;
            });
        };
        let thread = match from {
            Some(host) => host.thread("outside names", forward)?,
            None => std::thread::Builder::new().name("outside names".into()).spawn(forward)?,
        };
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The resolvers on loopback in a resolv.conf(5).
fn on_loopback(resolv_conf: &str) -> Vec<IpAddr> {
    let mut named: Vec<_> = resolv_conf.lines().filter_map(nameserver).collect();
    if named.is_empty() {
        named.push("127.0.0.1");
    }
    let mut found = Vec::new();
    for ip in named.into_iter().filter_map(|name| name.parse().ok()).filter(IpAddr::is_loopback) {
        if !found.contains(&ip) {
            found.push(ip);
        }
    }
    found
}

fn nameserver(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    if words.next()? == "nameserver" { words.next() } else { None }
}

/// Forwards queries and answers over UDP.
async fn datagrams(socket: std::net::UdpSocket, resolver: SocketAddr) -> io::Result<()> {
    let socket = Arc::new(UdpSocket::from_std(socket)?);
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let (length, client) = socket.recv_from(&mut buffer).await?;
        let (query, socket) = (buffer[..length].to_vec(), socket.clone());
        tokio::spawn(async move {
            if let Ok(Ok(answer)) = timeout(ANSWER_TIMEOUT, ask(&query, resolver)).await {
                let _ = socket.send_to(&answer, client).await;
            }
        });
    }
}

async fn ask(query: &[u8], resolver: SocketAddr) -> io::Result<Vec<u8>> {
    let any: IpAddr = if resolver.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(resolver).await?;
    socket.send(query).await?;
    let mut answer = vec![0; usize::from(u16::MAX)];
    let length = socket.recv(&mut answer).await?;
    answer.truncate(length);
    Ok(answer)
}

/// Forwards TCP connections.
async fn connections(listener: std::net::TcpListener, resolver: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (mut client, _) = listener.accept().await?;
        tokio::spawn(timeout(ANSWER_TIMEOUT, async move {
            copy_bidirectional(&mut client, &mut TcpStream::connect(resolver).await?).await
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(resolv_conf: &str) -> Vec<String> {
        on_loopback(resolv_conf).iter().map(IpAddr::to_string).collect()
    }

    #[test]
    fn resolvers_on_loopback_are_found_once_each() {
        let text = "search lan\nnameserver 127.0.0.53\n nameserver\t::1 \nnameserver 9.9.9.9\nnameserver 127.0.0.53\n";
        assert_eq!(found(text), ["127.0.0.53", "::1"]);
    }

    #[test]
    fn resolvers_on_other_machines_need_no_proxy() {
        assert!(found("nameserver 192.168.1.1\nnameserver 2001:db8::53\nnameserver fe80::1%eth0\n").is_empty());
    }

    #[test]
    fn without_a_resolver_the_default_is_loopback() {
        assert_eq!(found(""), ["127.0.0.1"]);
        assert_eq!(found("# nameserver 9.9.9.9\noptions edns0\nnameserver\n"), ["127.0.0.1"]);
    }
}
