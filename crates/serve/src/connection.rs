//! One client's connection, from handshake to goodbye.
//!
//! A client gets nothing by being slow: there is a bound on the TLS handshake, on reading a request's
//! head, on an idle connection, and on the size of heads and the number of streams. Of a request's body and of its
//! answer a client must move some bytes a second ([`Pace`], [`crate::body`]). And when there are too many connections,
//! slow ones are closed for new ones ([`crate::admission`]).

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use haul_http::connect::TcpInfo;
use http::header::ALT_SVC;
use http::{HeaderValue, Request};
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

use crate::activity::{Activity, Busy};
use crate::admission::Seat;
use crate::body::Incoming;
use crate::early::{self, Gate};
use crate::http3;
use crate::pace::Pace;
use crate::short::{self, Rewound};
use crate::site::Site;

const HANDSHAKE: Duration = Duration::from_secs(10);

/// For a request's head; over HTTP/1.1 also the longest pause between two requests.
pub(crate) const HEAD: Duration = Duration::from_secs(30);

/// How long a connection may be without any request.
const IDLE: Duration = Duration::from_mins(2);

/// How long sent data may go unacknowledged before the kernel gives the connection up, and how long a client may leave
/// an answer untaken.
const UNTAKEN: Duration = Duration::from_mins(2);

/// How often a look is taken at how much of its answers a client has acknowledged.
const LOOK: Duration = Duration::from_secs(10);

/// How long a client that is still sending is listened to after the goodbye.
const LINGER: Duration = Duration::from_secs(5);

/// Largest head of a request.
pub(crate) const HEAD_SIZE: usize = 64 * 1024;

/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 200;

/// HTTP/2 lets no more than a window be under way in each round trip. The protocol's own 64 KiB would
/// hold an upload over 100 ms to 0.65 MB/s; these allow 40 MB/s to one stream, and bound the memory that
/// a connection can claim.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

/// What all connections of a server share to live and to end by.
#[derive(Clone)]
pub(crate) struct Life {
    /// No new requests; what is under way may finish.
    pub(crate) closing: CancellationToken,
    /// Stop at once.
    pub(crate) abort: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Life {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let abort = self.abort.clone();
        self.tasks.spawn(async move { abort.run_until_cancelled_owned(task).await });
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Life {
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

/// How a listener serves its connections.
#[derive(Clone)]
pub(crate) struct Manner {
    pub(crate) site: Arc<Site>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// What clients are told of its HTTP/3, if it has that.
    pub(crate) alt_svc: Option<HeaderValue>,
}

/// Serves one QUIC connection until it ends.
pub(crate) async fn serve_quic(incoming: quinn::Incoming, site: Arc<Site>, life: Life, seat: Seat) {
    let client = incoming.remote_address();
    let activity = Arc::clone(&seat.activity);
    let answer = move |request: Request<http3::Incoming>, gate| {
        let (site, busy) = (Arc::clone(&site), Busy::new(&activity));
        async move { site.answer(client, request.map(BodyExt::boxed_unsync), gate, busy).await }
    };
    let serving = http3::serve(incoming, answer, life.closing, life.tasks);
    if let Some(Err(error)) = seat.evicted.run_until_cancelled(serving).await {
        tracing::debug!("the QUIC connection from {client} ended: {error}");
    }
}

/// Serves one connection until it ends, or has to make room for another.
pub(crate) async fn serve(stream: TcpStream, address: SocketAddr, manner: Manner, life: Life, seat: Seat) {
    let socket = stream.as_fd().try_clone_to_owned().ok();
    let serving = async {
        let closing = life.closing.clone();
        let client = Client { address, activity: &seat.activity, socket: socket.as_ref() };
        if let Err(error) = handshake(stream, client, manner, life).await {
            tracing::debug!("the connection from {address} ended: {error}");
        }
        if let Some(socket) = socket.as_ref().and_then(|socket| socket.try_clone().ok()) {
            closing.run_until_cancelled(linger(socket)).await;
        }
    };
    seat.evicted.run_until_cancelled(serving).await;
}

/// Whom a connection is with.
#[derive(Clone, Copy)]
struct Client<'a> {
    address: SocketAddr,
    activity: &'a Arc<Activity>,
    /// To ask the kernel about the connection.
    socket: Option<&'a OwnedFd>,
}

type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

async fn handshake(stream: TcpStream, client: Client<'_>, manner: Manner, life: Life) -> Ended {
    // Answers are small and complete: waiting to fill a segment (RFC 896) would only delay them.
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_tcp_user_timeout(&stream, UNTAKEN.as_millis() as u32);
    let Some(tls) = manner.tls.clone() else { return in_the_clear(stream, client, manner, life).await };
    match tokio::time::timeout(HANDSHAKE, early::Stream::accept(stream, tls)).await {
        Ok(stream) => {
            let stream = stream?;
            let gate = stream.gate();
            http(TokioIo::new(stream), client, manner, gate, life).await
        }
        Err(_) => Err("no TLS handshake came".into()),
    }
}

/// The short way as far as it leads, then the long one.
async fn in_the_clear(mut stream: TcpStream, client: Client<'_>, manner: Manner, life: Life) -> Ended {
    let Some((answers, log)) = manner.site.ready() else {
        return http(TokioIo::new(stream), client, manner, Gate::Open, life).await;
    };
    match short::serve(&mut stream, client.address, answers, log, client.activity, &life.closing).await? {
        Some(first) => http(TokioIo::new(Rewound { first, stream }), client, manner, Gate::Open, life).await,
        None => Ok(()),
    }
}

/// Says goodbye and listens until the client does. Closing while it is still sending, a refused upload
/// say, would reset the connection, and a reset can overtake the answer that explains the refusal (RFC
/// 9112 section 9.6).
async fn linger(socket: OwnedFd) {
    let Ok(mut stream) = TcpStream::from_std(socket.into()) else { return };
    let _ = stream.shutdown().await;
    let mut heap = vec![0; 8 * 1024];
    let listen = async { while stream.read(&mut heap).await.is_ok_and(|read| read > 0) {} };
    let _ = tokio::time::timeout(LINGER, listen).await;
}

/// Whether a client takes its answers, by what it acknowledges to the kernel: what the kernel takes from us may lie there
/// for long.
struct Taking<'a> {
    socket: Option<&'a OwnedFd>,
    acknowledged: u64,
    pace: Pace,
}

impl<'a> Taking<'a> {
    fn new(socket: Option<&'a OwnedFd>) -> Self {
        Taking { socket, acknowledged: 0, pace: Pace::new(UNTAKEN, UNTAKEN) }
    }

    /// Takes a look, and returns whether the client is too slow.
    fn is_over(&mut self, sending: bool) -> bool {
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
    manner: Manner,
    gate: Gate,
    life: Life,
) -> Ended {
    let Client { address, activity, socket } = client;
    let requests = Arc::clone(activity);
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (manner, gate, busy) = (manner.clone(), gate.clone(), Busy::new(&requests));
        async move {
            let request = request.map(|body| Incoming::new(body.map_err(std::io::Error::other)));
            let mut response = manner.site.answer(address, request, gate, busy).await;
            response.headers_mut().extend(manner.alt_svc.map(|alt_svc| (ALT_SVC, alt_svc)));
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = auto::Builder::new(life.clone());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_SIZE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD_SIZE as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(IDLE / 4)
        .keep_alive_timeout(IDLE / 4);
    let connection = builder.serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let mut taking = Taking::new(socket);
    let mut look = tokio::time::interval_at(Instant::now() + LOOK, LOOK);
    // A first request has as long as any other's head: that also bounds the time to tell HTTP/1.1 from HTTP/2.
    let deadline = || activity.idle().map(|(since, asked)| since + if asked { IDLE } else { HEAD });
    let mut leaving = false;
    loop {
        let end = deadline().unwrap_or_else(|| Instant::now() + IDLE);
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = life.closing.cancelled(), if !leaving => {
                leaving = true;
                connection.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep_until(end) => {
                if deadline().is_some_and(|end| end <= Instant::now()) {
                    return Ok(());
                }
            }
            _ = look.tick() => {
                if taking.is_over(activity.is_sending()) {
                    return Err("the client does not take its answer".into());
                }
            }
        }
    }
}
