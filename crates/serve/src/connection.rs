//! One client's connection, from handshake to goodbye.
//!
//! A client gets nothing by being slow: there is a bound on the TLS handshake, on reading a request's
//! head, on a silence within its body ([`crate::body`]), on an idle connection, on data that a client does
//! not take, and on the size of heads and the number of streams.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

use crate::body::Incoming;
use crate::early::{self, Gate};
use crate::http3;
use crate::short::{self, Rewound};
use crate::site::Site;

const HANDSHAKE: Duration = Duration::from_secs(10);

/// For a request's head; over HTTP/1.1 also the longest pause between two requests.
pub(crate) const HEAD: Duration = Duration::from_secs(30);

/// How long a connection may be without any request.
const IDLE: Duration = Duration::from_mins(2);

/// How long sent data may go unacknowledged or untaken before the kernel gives the connection up.
const UNTAKEN: Duration = Duration::from_mins(2);

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

/// How many requests a connection has, and since when it has none.
#[derive(Debug, Default)]
struct Activity(Mutex<(usize, Option<Instant>)>);

impl Activity {
    /// When the connection has been idle for too long; `None` while it is busy.
    fn deadline(&self) -> Option<Instant> {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            (0, since) => since.map(|since| since + IDLE),
            _ => None,
        }
    }
}

/// A request under way on a connection, until dropped.
pub(crate) struct Busy(Arc<Activity>);

impl Busy {
    /// One of a connection that counts them itself.
    fn elsewhere() -> Self {
        Self::new(&Arc::default())
    }

    fn new(activity: &Arc<Activity>) -> Self {
        activity.0.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        Busy(Arc::clone(activity))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut activity = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        *activity = (activity.0 - 1, Some(Instant::now()));
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
pub(crate) async fn serve_quic(incoming: quinn::Incoming, site: Arc<Site>, life: Life) {
    let client = incoming.remote_address();
    let answer = move |request: Request<http3::Incoming>, gate| {
        let site = Arc::clone(&site);
        async move { site.answer(client, request.map(BodyExt::boxed_unsync), gate, Busy::elsewhere()).await }
    };
    if let Err(error) = http3::serve(incoming, answer, life.closing, life.tasks).await {
        tracing::debug!("the QUIC connection from {client} ended: {error}");
    }
}

/// Serves one connection until it ends.
pub(crate) async fn serve(stream: TcpStream, manner: Manner, life: Life) {
    let Ok(client) = stream.peer_addr() else { return };
    // Answers are small and complete: waiting to fill a segment (RFC 896) would only delay them.
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_tcp_user_timeout(&stream, UNTAKEN.as_millis() as u32);
    let socket = stream.as_fd().try_clone_to_owned();
    let closing = life.closing.clone();
    let ended = match manner.tls.clone() {
        None => in_the_clear(stream, client, manner, life).await,
        Some(tls) => match tokio::time::timeout(HANDSHAKE, early::Stream::accept(stream, tls)).await {
            Ok(Ok(stream)) => {
                let gate = stream.gate();
                http(TokioIo::new(stream), client, manner, gate, life).await
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err("no TLS handshake came".into()),
        },
    };
    if let Err(error) = ended {
        tracing::debug!("the connection from {client} ended: {error}");
    }
    if let Ok(socket) = socket {
        closing.run_until_cancelled(linger(socket)).await;
    }
}

/// The short way as far as it leads, then the long one.
async fn in_the_clear(
    mut stream: TcpStream,
    client: std::net::SocketAddr,
    manner: Manner,
    life: Life,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Some((answers, log)) = manner.site.ready() else {
        return http(TokioIo::new(stream), client, manner, Gate::Open, life).await;
    };
    match short::serve(&mut stream, client, answers, log, &life.closing).await? {
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

async fn http(
    io: impl Read + Write + Unpin + Send + 'static,
    client: std::net::SocketAddr,
    manner: Manner,
    gate: Gate,
    life: Life,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let activity = Arc::new(Activity(Mutex::new((0, Some(Instant::now())))));
    let requests = Arc::clone(&activity);
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (manner, gate, busy) = (manner.clone(), gate.clone(), Busy::new(&requests));
        async move {
            let request = request.map(|body| Incoming::new(body.map_err(std::io::Error::other)));
            let mut response = manner.site.answer(client, request, gate, busy).await;
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
    let mut leaving = false;
    loop {
        let deadline = activity.deadline().unwrap_or_else(|| Instant::now() + IDLE);
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = life.closing.cancelled(), if !leaving => {
                leaving = true;
                connection.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep_until(deadline) => {
                if activity.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
                    return Ok(());
                }
            }
        }
    }
}
