//! How a connection was made, and what each step cost.

use std::{net::SocketAddr, time::Duration};

use crate::origin::Origin;

/// How a connection was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The other end of the TCP connection: the origin, or the proxy.
    pub peer: SocketAddr,
    /// The proxy, if there is one; without credentials.
    pub proxy: Option<Origin>,
    /// How long the lookup of the name took; zero for an address.
    pub lookup: Duration,
    /// How long the successful TCP handshake took, about one RTT, without the attempts that it overtook. Zero if the
    /// handshake begins with the first write ([`FastOpen`](crate::FastOpen)). Over QUIC, the one handshake that is both
    /// TCP's and TLS's; zero until it is done.
    pub tcp: Duration,
    /// How long the proxy took to open the tunnel, its own TLS handshake included.
    pub tunnel: Option<Duration>,
    /// The TLS handshake with the origin.
    pub tls: Option<TlsFacts>,
    /// Whether it runs over QUIC instead of TCP.
    pub quic: bool,
}

impl Facts {
    /// The number of round trips before the first request could leave, without those of the lookup and of a proxy. TCP
    /// takes one. TLS takes two before 1.3, one for a resumed session or since 1.3, none with early data. QUIC takes
    /// one or none.
    pub fn round_trips(&self) -> u32 {
        let tls = self.tls.as_ref().map_or(0, |tls| match (tls.early, tls.version, tls.resumed) {
            (EarlyData::Pending | EarlyData::Accepted, ..) => 0,
            (_, "1.2", false) => 2,
            _ => 1,
        });
        tls + u32::from(!self.quic)
    }
}

/// The outcome of a TLS handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// How long it took.
    pub handshake: Duration,
    /// `1.3` or `1.2`.
    pub version: &'static str,
    /// Its name in IANA's registry, such as `TLS_AES_128_GCM_SHA256`.
    pub cipher_suite: String,
    /// Whether an earlier session was resumed: the server sent no certificate, as it was checked then. Over QUIC, a
    /// resumed handshake counts as a full one if another connection made a full one at the same time.
    pub resumed: bool,
    /// The protocol agreed upon by ALPN (RFC 7301), such as `h2`.
    pub alpn: Option<String>,
    /// The fate of early data.
    pub early: EarlyData,
}

/// The fate of early data: requests sent before the handshake was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EarlyData {
    /// None was sent: the handshake came first.
    #[default]
    None,
    /// It may be sent now; the handshake is still in progress.
    Pending,
    /// The server accepted it.
    Accepted,
    /// The server rejected it; it was sent again after the handshake.
    Rejected,
}
