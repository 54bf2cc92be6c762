//! QUIC connections (RFC 9000), by the crate `quinn`.
//!
//! One handshake in place of TCP's and TLS's: a round trip before the first request, and none at all when a session is
//! resumed and the request may be repeated (0-RTT, RFC 9001 §4.6). What is lost holds up only the stream it belongs to.
//!
//! Each connection has a UDP socket of its own. Sharing one would spare a descriptor, and tie all connections to the
//! runtime and the network that the first was made in.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::{Duration, Instant},
};

use quinn::{
    ClientConfig, Connecting, ConnectionError, Endpoint, EndpointConfig, IdleTimeout, TokioRuntime, TransportConfig,
    VarInt, ZeroRttAccepted,
    crypto::rustls::{HandshakeData, QuicClientConfig},
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    error::{Cause, Step},
    facts::{EarlyData, Facts, TlsFacts},
    happy_eyeballs,
    origin::Origin,
    tcp::Tcp,
    tls::{self, Counted},
};

/// How QUIC connections are set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicSettings {
    /// The bytes that may be under way to each stream (RFC 9000 §4): rate × RTT or more.
    pub stream_window: u32,
    /// The same for all streams of a connection together.
    pub connection_window: u32,
}

impl Default for QuicSettings {
    /// 4 MiB and 16 MiB, as over HTTP/2.
    fn default() -> Self {
        Self { stream_window: 4 << 20, connection_window: 16 << 20 }
    }
}

/// The kernel's buffer for what comes in between two turns of ours, if it allows as much (`net.core.rmem_max`).
const RECEIVE_BUFFER: usize = 2 << 20;
/// When nothing has come for so long although it was asked for, the other end is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// How often a silent one is asked.
const PING: Duration = Duration::from_secs(10);

/// A QUIC connection, ready for its first request.
pub struct Quic {
    /// The connection.
    pub connection: quinn::Connection,
    /// It must outlive the connection.
    pub endpoint: Endpoint,
    /// How it was made.
    pub facts: Facts,
    /// The end of the handshake, if that was not waited for.
    pub pending: Option<Pending>,
}

impl fmt::Debug for Quic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quic").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// A handshake under way.
pub struct Pending {
    accepted: ZeroRttAccepted,
    begin: Instant,
}

impl Pending {
    /// How it came out.
    pub async fn end(&mut self) -> TlsFacts {
        let early = if (&mut self.accepted).await { EarlyData::Accepted } else { EarlyData::Rejected };
        facts(self.begin.elapsed(), early == EarlyData::Accepted, early)
    }
}

/// What QUIC connections are made with.
pub(crate) struct How<'a> {
    pub(crate) tls: &'a tls::Tls,
    pub(crate) tcp: &'a Tcp,
    pub(crate) settings: QuicSettings,
    /// Whether requests may go before the handshake is done.
    pub(crate) early: bool,
}

impl How<'_> {
    /// Connects to the first of these addresses that answers, or, with early data, to the first.
    pub(crate) async fn connect(
        &self,
        origin: &Origin,
        addresses: Vec<SocketAddr>,
        look_up: Duration,
    ) -> Result<Quic, Cause> {
        let (tls, counted) = self.tls.over_quic(origin, self.early).await?;
        let crypto = QuicClientConfig::try_from(tls).map_err(|error| Cause::Tls(error.to_string()))?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(self.transport()));
        let attempt = async |to: SocketAddr| {
            self.attempt(origin, to, config.clone(), look_up, &counted).await.map_err(io::Error::other)
        };
        let failed = |failures: Vec<(SocketAddr, io::Error)>| {
            let cause = failures.into_iter().find_map(|(_, error)| error.downcast::<Failure>().ok());
            cause.map_or(Cause::TimedOut(Step::Quic, SILENCE), |Failure(cause)| cause)
        };
        happy_eyeballs::run(addresses, attempt).await.map(|(_, quic, _)| quic).map_err(failed)
    }

    fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(VarInt::from_u32(self.settings.stream_window))
            .receive_window(VarInt::from_u32(self.settings.connection_window))
            .max_idle_timeout(IdleTimeout::try_from(SILENCE).ok())
            .keep_alive_interval(Some(PING))
            // HTTP/3 gives the server no use for any (RFC 9114 §6.1).
            .max_concurrent_bidi_streams(VarInt::from_u32(0));
        transport
    }

    async fn attempt(
        &self,
        origin: &Origin,
        to: SocketAddr,
        config: ClientConfig,
        look_up: Duration,
        counted: &Counted,
    ) -> Result<Quic, Failure> {
        let endpoint = endpoint(to, self.tcp.local)?;
        let (begin, before) = (Instant::now(), counted.checks());
        let connecting = endpoint.connect_with(config, to, origin.host()).map_err(|_| tls::nameless(origin))?;
        let quic = |connection, tcp, told, pending| {
            let facts = Facts { peer: to, proxy: None, look_up, tcp, tunnel: None, tls: Some(told), quic: true };
            Quic { connection, endpoint, facts, pending }
        };
        let connecting = match self.zero_rtt(connecting) {
            Ok((connection, accepted)) => {
                let told = facts(Duration::ZERO, true, EarlyData::Pending);
                return Ok(quic(connection, Duration::ZERO, told, Some(Pending { accepted, begin })));
            }
            Err(connecting) => connecting,
        };
        let connection = connecting.await.map_err(|error| connection_error(&error, Step::Quic))?;
        let protocol = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok()?.protocol);
        if protocol.as_deref() != Some(b"h3") {
            return Err(Cause::Tls("the server does not speak HTTP/3".into()).into());
        }
        let took = begin.elapsed();
        let told = facts(took, counted.checks() == before, EarlyData::None);
        Ok(quic(connection, took, told, None))
    }

    fn zero_rtt(&self, connecting: Connecting) -> Result<(quinn::Connection, ZeroRttAccepted), Connecting> {
        if self.early { connecting.into_0rtt() } else { Err(connecting) }
    }
}

/// Why an attempt failed, as the race carries it.
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
        // `quinn` does not tell which was agreed upon.
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

/// What the end of a QUIC connection says; `waiting` is what a silence kept from happening.
pub fn connection_error(error: &ConnectionError, waiting: Step) -> Cause {
    use h3::error::Code;
    match error {
        ConnectionError::TimedOut => Cause::TimedOut(waiting, SILENCE),
        ConnectionError::ApplicationClosed(close) => match close.error_code.into_inner() {
            code if code == Code::H3_NO_ERROR.value() || code == 0 => Cause::Closed,
            code => Cause::Http3 { code, said: format!("the server closed the connection ({})", Code::from(code)) },
        },
        ConnectionError::Reset => io::Error::from(io::ErrorKind::ConnectionReset).into(),
        ConnectionError::LocallyClosed => Cause::Retired("the connection was not needed any more"),
        // TLS's alerts have the codes from 0x100 on (RFC 9001 §4.8).
        ConnectionError::TransportError(error) if is_alert(error.code.into()) => Cause::Tls(error.reason.clone()),
        ConnectionError::ConnectionClosed(close) if is_alert(close.error_code.into()) => {
            Cause::Tls(format!("the server refused the handshake ({})", close.error_code))
        }
        ConnectionError::ConnectionClosed(close) => {
            Cause::Protocol(format!("the server closed the connection ({})", close.error_code))
        }
        other => Cause::Protocol(format!("what the server sent is not QUIC: {other}")),
    }
}

fn is_alert(code: u64) -> bool {
    (0x100..0x200).contains(&code)
}
