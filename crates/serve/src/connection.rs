//! One TCP or QUIC connection, from handshake to close.
//!
//! Slow clients gain nothing: the TLS handshake, the request head, idle periods, head sizes and streams all have
//! limits. Request and response bodies have a minimum rate ([`MinRateTimer`], [`crate::body`]). At the connection
//! limit, slow connections are evicted ([`crate::admission`]).

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::header::ALT_SVC;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::rt::{Executor, Read, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustix::net::sockopt;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use transport::TcpInfo;

use crate::activity::{Activity, RequestGuard};
use crate::admission::{Admission, ConnectionGuard};
use crate::body::{Incoming, ResponseBody};
use crate::budget::HEAD_SIZE;
use crate::early_data::{self, HandshakeState};
use crate::fast_path::{self, Replayed};
use crate::framing;
use crate::handler::Handler;
use crate::http3;
use crate::min_rate::MinRateTimer;
use crate::service::ConnectionData;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a request's head, and of the pause between two requests over HTTP/1.1.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of a connection without requests.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// How long sent data may stay unacknowledged (`TCP_USER_TIMEOUT`), and how long a client may leave a response unread.
const ACK_TIMEOUT: Duration = Duration::from_mins(2);

/// Interval between checks of the bytes that the client has acknowledged.
const ACK_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// How long a connection without any request is kept at shutdown: a client that has just connected sends one.
const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(500);

/// How long a client that still sends is read from after the server has closed its side.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of concurrent streams per HTTP/2 connection.
const MAX_STREAMS: u32 = 200;

/// HTTP/2 flow control allows one window per round trip. The default of 64 KiB would limit an upload over 100 ms to
/// 0.65 MB/s; these windows allow 40 MB/s per stream, and bound the memory of a connection.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

/// The tasks of all connections, and how they are stopped.
#[derive(Clone)]
pub(crate) struct TaskGroup {
    /// Graceful shutdown: no new requests, requests in flight complete.
    pub(crate) closing: CancellationToken,
    /// Abort.
    pub(crate) abort: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl TaskGroup {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // Boxed, here and below: each future that moves into another would have room in it twice, and a connection of HTTP
        // is large.
        self.tasks.spawn(self.abort.clone().run_until_cancelled_owned(Box::pin(task)).map(drop));
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for TaskGroup {
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

/// What the connections of one listener share.
#[derive(Clone)]
pub(crate) struct ListenerConfig {
    pub(crate) handler: Arc<Handler>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// The `Alt-Svc` value that announces HTTP/3, if it is offered.
    pub(crate) alt_svc: Option<HeaderValue>,
    pub(crate) admission: Arc<Admission>,
}

impl ListenerConfig {
    /// Responds to a request. Browsers need the announcement over HTTP/3 as well: without it, Chromium takes a host whose
    /// HTTP/3 it was told to use for one without priorities, and sends it at most six less important requests at a time.
    async fn respond(
        self,
        client: SocketAddr,
        request: Request<Incoming>,
        handshake: HandshakeState,
        guard: RequestGuard,
    ) -> Response<ResponseBody> {
        let refused = if self.admission.admits_request(&guard.0) {
            framing::refusal(&request)
        } else {
            guard.0.budget.refuse();
            Some(StatusCode::SERVICE_UNAVAILABLE)
        };
        let mut response = match refused {
            Some(status) => self.handler.refuse(client, &request, status, guard),
            None => self.handler.respond(client, request, handshake, guard).await,
        };
        response.headers_mut().extend(self.alt_svc.map(|alt_svc| (ALT_SVC, alt_svc)));
        response
    }
}

/// Serves one QUIC connection until it ends.
pub(crate) async fn serve_quic(
    incoming: quinn::Incoming,
    config: ListenerConfig,
    group: TaskGroup,
    guard: ConnectionGuard,
) {
    let client = incoming.remote_address();
    let activity = Arc::clone(&guard.activity);
    let data = ConnectionData::default();
    let respond = move |mut request: Request<http3::Incoming>, handshake_state| {
        request.extensions_mut().insert(data.clone());
        let guard = RequestGuard::of(&activity, request.headers());
        config.clone().respond(client, request.map(BodyExt::boxed_unsync), handshake_state, guard)
    };
    let serving = http3::serve(incoming, respond, group.closing, group.tasks);
    if let Some(Err(error)) = guard.evicted.run_until_cancelled(serving).await {
        tracing::debug!("QUIC connection from {client} failed: {error}");
    }
}

/// Serves one connection until it ends or is evicted.
pub(crate) async fn serve(
    stream: TcpStream,
    address: SocketAddr,
    config: ListenerConfig,
    group: TaskGroup,
    guard: ConnectionGuard,
) {
    let socket = stream.as_fd().try_clone_to_owned().ok();
    let serving = async {
        let closing = group.closing.clone();
        let client = Client { address, activity: &guard.activity, socket: socket.as_ref() };
        if let Err(error) = Box::pin(start(stream, client, config, group)).await {
            tracing::debug!("connection from {address} failed: {error}");
        }
        if let Some(socket) = socket.as_ref().and_then(|socket| socket.try_clone().ok()) {
            closing.run_until_cancelled(linger(socket)).await;
        }
    };
    guard.evicted.run_until_cancelled(serving).await;
}

/// The peer of a connection.
#[derive(Clone, Copy)]
struct Client<'a> {
    address: SocketAddr,
    activity: &'a Arc<Activity>,
    /// For `TCP_INFO`.
    socket: Option<&'a OwnedFd>,
}

type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

async fn start(stream: TcpStream, client: Client<'_>, config: ListenerConfig, group: TaskGroup) -> Ended {
    // Responses are small and complete; Nagle's algorithm (RFC 896) would only delay them.
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_tcp_user_timeout(&stream, ACK_TIMEOUT.as_millis() as u32);
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(client.activity.budget.unsent() as u32);
    let Some(tls) = config.tls.clone() else { return serve_cleartext(stream, client, config, group).await };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, early_data::Stream::accept(stream, tls)).await {
        Ok(stream) => {
            let stream = stream?.counted(client.activity);
            let handshake_state = stream.handshake();
            Box::pin(http(TokioIo::new(stream), client, config, handshake_state, group)).await
        }
        Err(_) => Err("timeout during the TLS handshake".into()),
    }
}

/// Serves requests by the fast path, then by hyper.
async fn serve_cleartext(mut stream: TcpStream, client: Client<'_>, config: ListenerConfig, group: TaskGroup) -> Ended {
    let Some((responder, log)) = config.handler.responder() else {
        return Box::pin(http(TokioIo::new(stream), client, config, HandshakeState::Complete, group)).await;
    };
    match fast_path::serve(&mut stream, client.address, responder, log, client.activity, &group.closing).await? {
        Some(first) => {
            let io = TokioIo::new(Replayed { first, stream });
            Box::pin(http(io, client, config, HandshakeState::Complete, group)).await
        }
        None => Ok(()),
    }
}

/// Closes the sending side and reads until the client closes its side. Closing the socket while the client still sends,
/// a refused upload for example, would reset the connection, and the reset can destroy the response (RFC 9112 §9.6).
async fn linger(socket: OwnedFd) {
    let Ok(mut stream) = TcpStream::from_std(socket.into()) else { return };
    let _ = stream.shutdown().await;
    let mut discarded = vec![0; 8 * 1024];
    let listen = async { while stream.read(&mut discarded).await.is_ok_and(|read| read > 0) {} };
    let _ = tokio::time::timeout(LINGER_TIMEOUT, listen).await;
}

/// Checks that a client reads its responses, by the bytes it has acknowledged: data accepted by the kernel may wait in
/// the send buffer for long.
struct AckProgress<'a> {
    socket: Option<&'a OwnedFd>,
    acknowledged: u64,
    pace: MinRateTimer,
}

impl<'a> AckProgress<'a> {
    fn new(socket: Option<&'a OwnedFd>) -> Self {
        AckProgress { socket, acknowledged: 0, pace: MinRateTimer::new(ACK_TIMEOUT, ACK_TIMEOUT) }
    }

    /// Checks the bytes acknowledged, and returns whether the client is below the minimum rate.
    fn is_too_slow(&mut self, sending: bool) -> bool {
        let info = self.socket.and_then(|socket| TcpInfo::of(socket).ok());
        let Some(acknowledged) = info.and_then(|info| info.bytes_acked) else { return false };
        let now = Instant::now();
        self.pace.moved(acknowledged.saturating_sub(self.acknowledged), now);
        self.acknowledged = acknowledged;
        sending && self.pace.wait(now) <= now
    }
}

async fn http(
    io: impl Read + Write + Unpin + Send + 'static,
    client: Client<'_>,
    config: ListenerConfig,
    handshake_state: HandshakeState,
    group: TaskGroup,
) -> Ended {
    let Client { address, activity, socket } = client;
    let requests = Arc::clone(activity);
    let streams = MAX_STREAMS.min(u32::try_from(config.admission.requests_of_address()).unwrap_or(MAX_STREAMS));
    let data = ConnectionData::default();
    let service = service_fn(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(data.clone());
        let guard = RequestGuard::of(&requests, request.headers());
        let (config, handshake_state) = (config.clone(), handshake_state.clone());
        async move {
            let request = request.map(|body| Incoming::new(body.map_err(std::io::Error::other)));
            // Boxed: hyper keeps the room of this future as long as the response is sent.
            let response = Box::pin(config.respond(address, request, handshake_state, guard)).await;
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = auto::Builder::new(group.clone());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(activity.budget.buffer());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_header_list_size(HEAD_SIZE as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(IDLE_TIMEOUT / 4)
        .keep_alive_timeout(IDLE_TIMEOUT / 4);
    let connection = builder.serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let mut ack_progress = AckProgress::new(socket);
    let mut check = tokio::time::interval_at(Instant::now() + ACK_CHECK_INTERVAL, ACK_CHECK_INTERVAL);
    // A first request has the same timeout as any other head, which also bounds the time to detect HTTP/1.1 or HTTP/2.
    let deadline = || activity.idle().map(|(since, asked)| since + if asked { IDLE_TIMEOUT } else { HEAD_TIMEOUT });
    let mut closing_sent = false;
    let closing = async {
        group.closing.cancelled().await;
        let until = Instant::now() + FIRST_REQUEST_GRACE;
        while activity.idle().is_some_and(|(_, asked)| !asked) && Instant::now() < until {
            tokio::time::sleep(FIRST_REQUEST_GRACE / 50).await;
        }
    };
    let mut closing = std::pin::pin!(closing);
    loop {
        let end = deadline().unwrap_or_else(|| Instant::now() + IDLE_TIMEOUT);
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = closing.as_mut(), if !closing_sent => {
                closing_sent = true;
                connection.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep_until(end) => {
                if deadline().is_some_and(|end| end <= Instant::now()) {
                    return Ok(());
                }
            }
            _ = check.tick() => {
                if ack_progress.is_too_slow(activity.is_sending()) {
                    return Err("the client does not read its response".into());
                }
            }
        }
    }
}
