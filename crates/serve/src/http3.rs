//! HTTP/3 (RFC 9114), with the crates `h3` and `quinn`.
//!
//! It listens on the UDP port with the number of the TLS listener's TCP port, which announces it in `Alt-Svc` (RFC
//! 7838). Requests are served from the client's first flight on: a resumed session's early data is response within the
//! handshake's round trip, as far as [`too_early`](crate::early_data::too_early) allows.

use std::{
    fmt::Display,
    io,
    net::UdpSocket,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use h3::{error::Code, server::RequestStream};
use http::{Request, Response, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use quinn::{
    Endpoint, EndpointConfig, IdleTimeout, TokioRuntime, TransportConfig, VarInt, crypto::rustls::QuicServerConfig,
};
use rustls::ServerConfig;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use transport::{
    content_length,
    h3_frame_limit::{self, FrameLimited},
};

use crate::early_data::HandshakeState;

/// Idle timeout of QUIC; a client with requests in flight is pinged meanwhile.
const QUIC_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a connection without requests.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);
/// Timeout of a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a request's head.
const HEAD_SIZE: u64 = 64 * 1024;
/// How long data may wait for the client's flow control.
const ACK_TIMEOUT: Duration = Duration::from_mins(2);
/// How long the client may take to acknowledge the last response before the connection is closed.
const LINGER_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of concurrent requests per connection, and the flow control windows: as for HTTP/2.
const MAX_STREAMS: u32 = 200;
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
/// Maximum size of a DATA frame, so that responses take turns.
const MAX_DATA_FRAME: usize = 64 * 1024;

/// Listens on a socket, on the current tokio runtime. `tls` comes from [`crate::early_data::configure`].
pub fn listen(socket: UdpSocket, tls: ServerConfig) -> io::Result<Endpoint> {
    let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(IdleTimeout::try_from(QUIC_IDLE_TIMEOUT).ok())
        .max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW));
    config.transport_config(Arc::new(transport));
    Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))
}

/// Serves one connection until the client or `closing` ends it. Requests in flight may complete; none outlives the
/// future. They run as tasks in `tasks`. One function, because its
/// tasks share the limits and the shutdown.
pub async fn serve<F, R, B>(
    incoming: quinn::Incoming,
    respond_to: F,
    closing: CancellationToken,
    tasks: TaskTracker,
) -> Result<(), String>
where
    F: Fn(Request<Incoming>, HandshakeState) -> R + Clone + Send + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Display + Send,
{
    let text = |error: &dyn Display| error.to_string();
    let mut connecting = incoming.accept().map_err(|error| text(&error))?;
    // A ClientHello with a post-quantum key share spans two packets. Until both have arrived the client's stream limit
    // is unknown, and quinn does not wake tasks that wait to open a stream when it becomes known.
    let hello = timeout(HEAD_TIMEOUT, connecting.handshake_data()).await;
    hello.map_err(|error| text(&error))?.map_err(|error| text(&error))?;
    let Ok((quic, accepted)) = connecting.into_0rtt() else { return Err("no handshake began".to_owned()) };
    let handshake = HandshakeState::quic(accepted);
    let mut http3 = h3::server::builder();
    http3.max_field_section_size(HEAD_SIZE).send_grease(false);
    let building = timeout(HEAD_TIMEOUT, http3.build::<_, Bytes>(FrameLimited::new(quic.clone())));
    let mut connection = building.await.map_err(|error| text(&error))?.map_err(|error| text(&error))?;
    let requests = TaskTracker::new();
    let stop = CancellationToken::new();
    let _stops = stop.clone().drop_guard();
    let mut leaving = false;
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Ok(Some(resolver)) => {
                    let (respond_to, handshake) = (respond_to.clone(), handshake.clone());
                    let request = async move {
                        let head = timeout(HEAD_TIMEOUT, resolver.resolve_request()).await;
                        let Ok(Ok((request, stream))) = head else { return };
                        let (mut up, down) = stream.split();
                        let length = match content_length(request.headers()) {
                            Ok(length) => length,
                            Err(wrong) => {
                                tracing::debug!("a request for {} is malformed: it {wrong}", request.uri().path());
                                return up.stop_stream(Code::H3_MESSAGE_ERROR);
                            }
                        };
                        let response = respond_to(request.map(|()| Incoming::new(down, length)), handshake).await;
                        respond(up, response).await;
                    };
                    tasks.spawn(requests.track_future(stop.clone().run_until_cancelled_owned(request)));
                }
                Ok(None) => break,
                Err(error) if error.is_h3_no_error() => return Ok(()),
                Err(error) => return Err(text(&error)),
            },
            () = closing.cancelled(), if !leaving => {
                leaving = true;
                requests.close();
                connection.shutdown(0).await.map_err(|error| text(&error))?;
            }
            () = requests.wait(), if leaving => break,
            () = tokio::time::sleep(IDLE_TIMEOUT), if !leaving => {
                if requests.is_empty() {
                    break;
                }
            }
        }
    }
    let _ = timeout(LINGER_TIMEOUT, quic.closed()).await;
    Ok(())
}

/// Sends a response. If it cannot be sent completely, the stream is reset, so that the client does not take it for
/// complete.
async fn respond<B>(mut stream: RequestStream<h3_quinn::SendStream<Bytes>, Bytes>, response: Response<B>)
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Display + Send,
{
    let (mut head, body) = response.into_parts();
    // Connection-specific fields are not allowed in HTTP/3 (RFC 9114 §4.2).
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE] {
        head.headers.remove(name);
    }
    if let (Some(length), None) = (body.size_hint().exact(), head.headers.get(header::CONTENT_LENGTH))
        && length > 0
    {
        head.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    let sent = async {
        timeout(ACK_TIMEOUT, stream.send_response(Response::from_parts(head, ()))).await.ok()?.ok()?;
        let mut body = std::pin::pin!(body);
        while let Some(frame) = body.frame().await {
            match frame.ok()?.into_data() {
                Ok(mut data) => {
                    while !data.is_empty() {
                        let chunk = data.split_to(data.len().min(MAX_DATA_FRAME));
                        timeout(ACK_TIMEOUT, stream.send_data(chunk)).await.ok()?.ok()?;
                    }
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().ok()?;
                    timeout(ACK_TIMEOUT, stream.send_trailers(trailers)).await.ok()?.ok()?;
                }
            }
        }
        stream.finish().await.ok()
    };
    if sent.await.is_none() {
        stream.stop_stream(Code::H3_INTERNAL_ERROR);
    }
}

type Downstream = RequestStream<h3_frame_limit::RecvStream<h3_quinn::RecvStream>, Bytes>;

/// A request body as it is received. A length other than `Content-Length` is an error (RFC 9114 §4.1.2).
pub struct Incoming {
    stream: Downstream,
    left: Option<u64>,
    ended: bool,
}

impl Incoming {
    fn new(stream: Downstream, length: Option<u64>) -> Self {
        Self { stream, left: length, ended: length == Some(0) }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let data = ready!(self.stream.poll_recv_data(context)).map_err(io::Error::other)?;
        let data = data.map(|mut data| data.copy_to_bytes(data.remaining()));
        let rest = match (self.left, &data) {
            (Some(left), Some(data)) => left.checked_sub(data.len() as u64).map(Some),
            (Some(left), None) if left > 0 => None,
            (left, _) => Some(left),
        };
        let Some(rest) = rest else {
            self.ended = true;
            let why = "the body is not as long as its head says";
            return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::InvalidData, why))));
        };
        self.left = rest;
        self.ended = data.is_none();
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
