//! TCP Fast Open's socket options: a SYN that waits for data, and a listening socket that accepts such SYNs.
//!
//! `TCP_FASTOPEN_CONNECT` (Linux 4.11) makes `connect` report whether the kernel holds a cookie for the server. If it
//! does, `connect` succeeds at once, nothing is sent, and the first write becomes the SYN's data. If it does not, the
//! SYN leaves as usual, with a request for a cookie. `sendto(MSG_FASTOPEN)` would do both in one call, but not tell
//! which of the two happened.

use std::{io, net::SocketAddr, os::fd::AsFd};

use nix::sys::socket::{
    setsockopt,
    sockopt::{SetStruct, TcpFastOpenConnect},
};
use socket2::Socket;
use tokio::net::TcpStream;

/// The maximum number of connections whose data was accepted before their handshake is done. It limits what SYNs from
/// forged addresses can cost a server (RFC 7413 §5.1); above it, handshakes are plain.
const PENDING: libc::c_int = 256;

/// `TCP_FASTOPEN`, which `nix` lacks.
#[derive(Clone)]
struct TcpFastOpen;

nix::setsockopt_impl!(TcpFastOpen, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, libc::c_int, SetStruct<libc::c_int>);

/// A connection attempt in progress.
pub(super) enum Begun {
    /// There is a cookie; nothing is sent before the first write.
    Deferred(TcpStream),
    /// There is none; the SYN has left and asks for one.
    Asking(TcpStream),
}

/// Starts to connect a socket whose options are set.
pub(super) fn begin(socket: Socket, to: SocketAddr) -> io::Result<Begun> {
    setsockopt(&socket, TcpFastOpenConnect, &true)?;
    let deferred = match socket.connect(&to.into()) {
        Ok(()) => true,
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => false,
        Err(error) => return Err(error),
    };
    let stream = TcpStream::from_std(socket.into())?;
    Ok(if deferred { Begun::Deferred(stream) } else { Begun::Asking(stream) })
}

/// Makes a listening socket, or one that will listen, accept data in a SYN. The kernel does so only if bit 2 of
/// `net.ipv4.tcp_fastopen` is set in the socket's network namespace.
pub fn listen_fast_open(socket: &impl AsFd) -> io::Result<()> {
    Ok(setsockopt(socket, TcpFastOpen, &PENDING)?)
}
