//! QUIC connections (RFC 9000), by the crate `quinn`.
//!
//! One handshake replaces TCP's and TLS's: one round trip before the first request, and none if a session is resumed
//! and the request may be repeated (0-RTT, RFC 9001 §4.6). A lost packet delays only the streams whose data it carried.
//!
//! Each connection has a UDP socket of its own. Sharing one would save a file descriptor, and tie all connections to
//! the runtime and the network of the first.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::{Duration, Instant},
};

use quinn::{
    ClientConfig, Connecting, ConnectionError, Endpoint, EndpointConfig, IdleTimeout, TokioRuntime, TransportConfig,
    VarInt, ZeroRttAccepted,
    congestion::CubicConfig,
    crypto::rustls::{HandshakeData, QuicClientConfig},
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    error::{Cause, Step},
    facts::{EarlyData, Facts, TlsFacts},
    happy_eyeballs,
    origin::Origin,
    tcp::Tcp,
    tls::{self, CountingVerifier},
};

/// The windows of QUIC connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicSettings {
    /// The receive window of a stream in bytes (RFC 9000 §4); rate × RTT or more.
    pub stream_window: u32,
    /// The receive window of a connection in bytes.
    pub connection_window: u32,
    /// The congestion window that a connection begins with, in bytes.
    pub initial_window: u64,
}

impl Default for QuicSettings {
    /// Receive windows of 4 MiB and 16 MiB, as over HTTP/2; ten packets of 1200 bytes (RFC 9002 §7.2).
    fn default() -> Self {
        Self { stream_window: 4 << 20, connection_window: 16 << 20, initial_window: 12_000 }
    }
}

/// `SO_RCVBUF` of the UDP socket; the kernel caps it at `net.core.rmem_max`.
const RECEIVE_BUFFER: usize = 2 << 20;
/// The idle timeout: without any packet for so long, despite PINGs, the other end is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// The interval of PINGs on a silent connection.
const PING: Duration = Duration::from_secs(10);

/// A QUIC connection, ready for its first request.
pub struct Quic {
    /// The connection.
    pub connection: quinn::Connection,
    /// It must outlive the connection.
    pub endpoint: Endpoint,
    /// How it was made.
    pub facts: Facts,
    /// The handshake, if it is still in progress.
    pub pending: Option<Pending>,
}

impl fmt::Debug for Quic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quic").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// A handshake in progress.
pub struct Pending {
    accepted: ZeroRttAccepted,
    begin: Instant,
}

impl Pending {
    /// Waits for the outcome.
    pub async fn end(&mut self) -> TlsFacts {
        let early = if (&mut self.accepted).await { EarlyData::Accepted } else { EarlyData::Rejected };
        facts(self.begin.elapsed(), early == EarlyData::Accepted, early)
    }
}

/// Makes QUIC connections.
pub(crate) struct QuicConnector<'a> {
    pub(crate) tls: &'a tls::Tls,
    pub(crate) tcp: &'a Tcp,
    pub(crate) settings: QuicSettings,
    /// Whether requests may leave before the handshake is done.
    pub(crate) early: bool,
}

impl QuicConnector<'_> {
    /// Connects to the first of these addresses that responds; with early data, to the first in order.
    pub(crate) async fn connect(
        &self,
        origin: &Origin,
        addresses: Vec<SocketAddr>,
        lookup: Duration,
    ) -> Result<Quic, Cause> {
        let (tls, counting) = self.tls.quic_config(origin, self.early).await?;
        let crypto = QuicClientConfig::try_from(tls).map_err(|error| Cause::Tls(error.to_string()))?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(self.transport()));
        let attempt = async |to: SocketAddr| {
            self.attempt(origin, to, config.clone(), lookup, &counting).await.map_err(io::Error::other)
        };
        let failed = |failures: Vec<(SocketAddr, io::Error)>| {
            let cause = failures.into_iter().find_map(|(_, error)| error.downcast::<Failure>().ok());
            cause.map_or(Cause::TimedOut(Step::Quic, SILENCE), |Failure(cause)| cause)
        };
        happy_eyeballs::run(addresses, attempt).await.map(|(_, quic, _)| quic).map_err(failed)
    }

    fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        let mut congestion = CubicConfig::default();
        congestion.initial_window(self.settings.initial_window);
        transport
            .congestion_controller_factory(Arc::new(congestion))
            .stream_receive_window(VarInt::from_u32(self.settings.stream_window))
            .receive_window(VarInt::from_u32(self.settings.connection_window))
            .max_idle_timeout(IdleTimeout::try_from(SILENCE).ok())
            .keep_alive_interval(Some(PING))
            // HTTP/3 servers must not open any (RFC 9114 §6.1).
            .max_concurrent_bidi_streams(VarInt::from_u32(0));
        transport
    }

    async fn attempt(
        &self,
        origin: &Origin,
        to: SocketAddr,
        config: ClientConfig,
        lookup: Duration,
        counting: &CountingVerifier,
    ) -> Result<Quic, Failure> {
        let endpoint = endpoint(to, self.tcp.local)?;
        let (begin, before) = (Instant::now(), counting.verified_certificates());
        let connecting = endpoint.connect_with(config, to, origin.host()).map_err(|_| tls::invalid_name(origin))?;
        let quic = |connection, tcp, tls, pending| {
            let facts = Facts { peer: to, proxy: None, lookup, tcp, tunnel: None, tls: Some(tls), quic: true };
            Quic { connection, endpoint, facts, pending }
        };
        let connecting = match self.zero_rtt(connecting) {
            Ok((connection, accepted)) => {
                let tls_facts = facts(Duration::ZERO, true, EarlyData::Pending);
                return Ok(quic(connection, Duration::ZERO, tls_facts, Some(Pending { accepted, begin })));
            }
            Err(connecting) => connecting,
        };
        let connection = connecting.await.map_err(|error| connection_error(&error, Step::Quic))?;
        let protocol = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok()?.protocol);
        if protocol.as_deref() != Some(b"h3") {
            return Err(Cause::Tls("the server does not speak HTTP/3".into()).into());
        }
        let took = begin.elapsed();
        let tls_facts = facts(took, counting.verified_certificates() == before, EarlyData::None);
        Ok(quic(connection, took, tls_facts, None))
    }

    fn zero_rtt(&self, connecting: Connecting) -> Result<(quinn::Connection, ZeroRttAccepted), Connecting> {
        if self.early { connecting.into_0rtt() } else { Err(connecting) }
    }
}

/// Why an attempt failed, wrapped for `happy_eyeballs`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failure(Cause);

impl<T: Into<Cause>> From<T> for Failure {
    fn from(cause: T) -> Self {
        Self(cause.into())
    }
}

fn facts(handshake: Duration, resumed: bool, early: EarlyData) -> TlsFacts {
    TlsFacts {
        handshake,
        version: "1.3",
        // `quinn` does not report it.
        cipher_suite: "unknown".into(),
        resumed,
        alpn: Some("h3".into()),
        early,
    }
}

/// A socket for one connection.
fn endpoint(to: SocketAddr, local: Option<IpAddr>) -> io::Result<Endpoint> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.bind(&SocketAddr::new(local.unwrap_or(any), 0).into())?;
    Endpoint::new(EndpointConfig::default(), None, UdpSocket::from(socket), Arc::new(TokioRuntime))
}

/// The cause of a QUIC connection's end; `waiting` is the step that an idle timeout interrupted.
pub fn connection_error(error: &ConnectionError, waiting: Step) -> Cause {
    use h3::error::Code;
    match error {
        ConnectionError::TimedOut => Cause::TimedOut(waiting, SILENCE),
        ConnectionError::ApplicationClosed(close) => match close.error_code.into_inner() {
            code if code == Code::H3_NO_ERROR.value() || code == 0 => Cause::Closed,
            code => Cause::Http3 { code, said: format!("the server closed the connection ({})", Code::from(code)) },
        },
        ConnectionError::Reset => io::Error::from(io::ErrorKind::ConnectionReset).into(),
        ConnectionError::LocallyClosed => Cause::Retired("the connection is no longer needed"),
        // TLS's alerts have the codes from 0x100 on (RFC 9001 §4.8).
        ConnectionError::TransportError(error) if is_alert(error.code.into()) => Cause::Tls(error.reason.clone()),
        ConnectionError::ConnectionClosed(close) if is_alert(close.error_code.into()) => {
            Cause::Tls(format!("the server refused the handshake ({})", close.error_code))
        }
        ConnectionError::ConnectionClosed(close) => {
            Cause::Protocol(format!("the server closed the connection ({})", close.error_code))
        }
        other => Cause::Protocol(format!("the server violated the QUIC protocol: {other}")),
    }
}

fn is_alert(code: u64) -> bool {
    (0x100..0x200).contains(&code)
}
