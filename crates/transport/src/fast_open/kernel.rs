//! What the kernel is asked for: a SYN that waits for data, and a listening socket that takes such SYNs.
//!
//! `TCP_FASTOPEN_CONNECT` (Linux 4.11) makes `connect` tell us whether the kernel holds a cookie for the server. If
//! it does, `connect` succeeds at once, nothing is sent, and the first write becomes the SYN's data. If it does not,
//! the SYN leaves as ever, with a request for a cookie in it. `sendto(MSG_FASTOPEN)` would do the same in one call,
//! but leave us to guess which of the two it was.

#![expect(unsafe_code, reason = "setsockopt(TCP_FASTOPEN…) has a safe wrapper in neither socket2 nor rustix")]

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd},
};

use socket2::Socket;
use tokio::net::TcpStream;

/// How many connections may wait for the end of their handshake with their data accepted. It bounds what SYNs from
/// forged addresses can cost a server (RFC 7413 §5.1); above it, TCP is as it was.
const PENDING: libc::c_int = 256;

/// A connection that has begun.
pub(super) enum Begun {
    /// There is a cookie; nothing is sent before the first write.
    Deferred(TcpStream),
    /// There is none; the SYN has left and asks for one.
    Asking(TcpStream),
}

/// Begins a connection on a socket whose knobs are turned.
pub(super) fn begin(socket: Socket, to: SocketAddr) -> io::Result<Begun> {
    set(&socket, libc::TCP_FASTOPEN_CONNECT, 1)?;
    let deferred = match socket.connect(&to.into()) {
        Ok(()) => true,
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => false,
        Err(error) => return Err(error),
    };
    let stream = TcpStream::from_std(socket.into())?;
    Ok(if deferred { Begun::Deferred(stream) } else { Begun::Asking(stream) })
}

/// Has a listening socket, or one that will listen, answer the data in a SYN before the handshake ends. The kernel
/// does so only where bit 2 of `net.ipv4.tcp_fastopen` is set in the socket's network namespace.
pub fn listen_fast_open(socket: &impl AsFd) -> io::Result<()> {
    set(socket, libc::TCP_FASTOPEN, PENDING)
}

fn set(socket: &impl AsFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads an int from behind the pointer, which outlives the call.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
