//! Byte streams that know their TCP connection.

use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream},
    net::TcpStream,
};

use crate::tcp_info::TcpInfo;

/// A byte stream to a server that can be asked about the TCP connection beneath.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {
    /// The kernel's view of the connection, if it gives one. Through a proxy, it is the connection to the proxy.
    fn tcp_info(&self) -> Option<TcpInfo>;

    /// Says whether the bytes written from now on may arrive twice, on this connection and on another. Only such bytes
    /// are put into a SYN; without a call, none are.
    fn repeatable(&mut self, _yes: bool) {}

    /// Makes the connection end with a reset when it is dropped (`SO_LINGER` of zero; RFC 9293 §3.10.4, ABORT). The
    /// kernel then discards what it has not sent yet; otherwise it would go on sending what the caller gave up.
    fn abort(&self);
}

impl Io for TcpStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        TcpInfo::of(self).ok()
    }

    fn abort(&self) {
        // If this fails, the connection ends as usual.
        let _ = self.set_zero_linger();
    }
}

impl Io for Box<dyn Io> {
    fn tcp_info(&self) -> Option<TcpInfo> {
        (**self).tcp_info()
    }

    fn repeatable(&mut self, yes: bool) {
        (**self).repeatable(yes);
    }

    fn abort(&self) {
        (**self).abort();
    }
}

/// A pipe in memory, for tests: there is no TCP connection beneath.
impl Io for DuplexStream {
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    fn abort(&self) {}
}
