//! TCP sockets and their options.
//!
//! Nagle's algorithm is always off: the engine fills its segments itself, and a small request must not wait for the
//! acknowledgement of the previous one. Everything else is left to the kernel unless set. All options are set before
//! the handshake: the SYN fixes the window scale (RFC 7323 §2.2), so a receive buffer set later cannot widen the window
//! beyond it. TCP Fast Open needs more than an option: see [`crate::fast_open`].
//!
//! Congestion control by name exists on Linux and FreeBSD; everything else works wherever `socket2` does.

use std::{
    fmt::Display,
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::net::{TcpSocket, TcpStream};

/// Socket options. The kernel decides where they are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tcp {
    /// The maximum number of unsent bytes in the kernel while a socket is writable (`TCP_NOTSENT_LOWAT`). Such bytes
    /// cannot be taken back when the connection breaks, nor overtaken.
    pub notsent_lowat: Option<u32>,
    /// The congestion control's name in the kernel, such as `bbr`; see
    /// `/proc/sys/net/ipv4/tcp_allowed_congestion_control`.
    pub congestion_control: Option<String>,
    /// `SO_SNDBUF` in bytes. Linux doubles it, caps it silently at `net.core.wmem_max`, and stops autotuning.
    pub send_buffer: Option<usize>,
    /// `SO_RCVBUF` in bytes, with the same consequences (`net.core.rmem_max`).
    pub receive_buffer: Option<usize>,
    /// TCP keepalive.
    pub keepalive: Option<Keepalive>,
    /// The local address. Only remote addresses of its family are used then.
    pub local: Option<IpAddr>,
    /// Connect to this address instead of any host, without a lookup. For a server that stands in for many.
    pub instead: Option<SocketAddr>,
}

/// TCP keepalive (RFC 9293 §3.8.4): probes a silent peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle time before the first probe, in whole seconds.
    pub after: Duration,
    /// Interval of the probes, in whole seconds.
    pub every: Duration,
    /// Number of unanswered probes that end the connection.
    pub probes: u32,
}

impl Tcp {
    /// Connects one socket. Dropping the future closes it.
    pub(crate) async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        TcpSocket::from_std_stream(self.socket(to)?.into()).connect(to).await
    }

    /// Whether the local address, if set, has this address's family.
    pub(crate) fn reaches(&self, to: SocketAddr) -> bool {
        self.local.is_none_or(|local| local.is_ipv4() == to.is_ipv4())
    }

    /// A socket with all options set.
    pub(crate) fn socket(&self, to: SocketAddr) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(bytes) = self.notsent_lowat {
            named("TCP_NOTSENT_LOWAT", bytes, socket.set_tcp_notsent_lowat(bytes))?;
        }
        if let Some(name) = &self.congestion_control {
            named("the congestion control", name, socket.set_tcp_congestion(name.as_bytes()))?;
        }
        if let Some(bytes) = self.send_buffer {
            named("SO_SNDBUF", bytes, socket.set_send_buffer_size(bytes))?;
        }
        if let Some(bytes) = self.receive_buffer {
            named("SO_RCVBUF", bytes, socket.set_recv_buffer_size(bytes))?;
        }
        if let Some(Keepalive { after, every, probes }) = self.keepalive {
            let keepalive = TcpKeepalive::new().with_time(after).with_interval(every).with_retries(probes);
            named(
                "TCP keepalive",
                format_args!("{after:?}, {every:?}, {probes}"),
                socket.set_tcp_keepalive(&keepalive),
            )?;
        }
        if let Some(local) = self.local {
            named("the local address", local, socket.bind(&SocketAddr::new(local, 0).into()))?;
        }
        Ok(socket)
    }
}

/// Adds the option's name and value to an error.
fn named(option: &str, value: impl Display, result: io::Result<()>) -> io::Result<()> {
    result.map_err(|error| io::Error::new(error.kind(), format!("cannot set {option} to {value}: {error}")))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use socket2::SockRef;
    use tokio::net::TcpListener;

    use super::*;

    const LOOPBACK: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

    #[tokio::test]
    async fn socket_has_every_option_that_is_set() {
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let tcp = Tcp {
            notsent_lowat: Some(16_384),
            congestion_control: Some("reno".into()),
            send_buffer: Some(30_000),
            receive_buffer: Some(40_000),
            keepalive: Some(Keepalive { after: Duration::from_secs(7), every: Duration::from_secs(3), probes: 2 }),
            local: Some(Ipv4Addr::new(127, 0, 0, 2).into()),
            instead: None,
        };
        let stream = tcp.connect(listener.local_addr().unwrap()).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), 16_384);
        assert!(socket.tcp_congestion().unwrap().starts_with(b"reno\0"));
        assert_eq!(socket.send_buffer_size().unwrap(), 60_000);
        assert_eq!(socket.recv_buffer_size().unwrap(), 80_000);
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(7));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(3));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 2);
        assert_eq!(stream.local_addr().unwrap().ip(), Ipv4Addr::new(127, 0, 0, 2));
    }

    #[tokio::test]
    async fn error_names_the_option_that_cannot_be_set() {
        let listener = TcpListener::bind(LOOPBACK).await.unwrap();
        let tcp = Tcp { congestion_control: Some("warp".into()), ..Tcp::default() };
        let told = tcp.connect(listener.local_addr().unwrap()).await.unwrap_err().to_string();
        assert!(told.contains("congestion control to warp"), "{told}");
    }
}
