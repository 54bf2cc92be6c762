//! HTTP/3 for a server (RFC 9114), by the crates `h3` and `quinn`.
//!
//! It listens by UDP on the port that TLS listens on by TCP, and clients learn of it there (`Alt-Svc`, RFC 7838). A
//! connection is served from the client's first packet on: what a resumed session allows is answered within the round
//! trip of the handshake, behind the [`Gate`] that `early` explains.

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
use haul_http::{
    frame_guard::{self, Guarded},
    told_length,
};
use http::{Request, Response, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use quinn::{
    Endpoint, EndpointConfig, IdleTimeout, TokioRuntime, TransportConfig, VarInt, crypto::rustls::QuicServerConfig,
};
use rustls::ServerConfig;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::early::Gate;

/// How long a client may be silent that has nothing to do; one that has asks for a sign of life meanwhile.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a connection may be without any request.
const IDLE: Duration = Duration::from_mins(2);
/// For a request's head.
const HEAD: Duration = Duration::from_secs(30);
/// Largest head of a request.
const HEAD_SIZE: u64 = 64 * 1024;
/// How long data may wait for the client to take it.
const UNTAKEN: Duration = Duration::from_mins(2);
/// How long the client may take to acknowledge the last answer after the goodbye.
const LINGER: Duration = Duration::from_millis(500);
/// Requests at once on one connection, and what may be under way to us: as over HTTP/2.
const STREAMS: u32 = 200;
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
/// The most of an answer in one frame: answers take turns.
const PIECE: usize = 64 * 1024;

/// Listens on a socket, on the tokio runtime that it is called on. The settings are [`crate::early::configure`]'s.
pub fn listen(socket: UdpSocket, tls: ServerConfig) -> io::Result<Endpoint> {
    let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(IdleTimeout::try_from(SILENCE).ok())
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW));
    config.transport_config(Arc::new(transport));
    Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))
}

/// Serves one client until it or `closing` ends it; what was begun by then may finish, and nothing outlives the future.
/// Its requests are tasks among `tasks`.
pub async fn serve<F, R, B>(
    incoming: quinn::Incoming,
    answer: F,
    closing: CancellationToken,
    tasks: TaskTracker,
) -> Result<(), String>
where
    F: Fn(Request<Incoming>, Gate) -> R + Clone + Send + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Display + Send,
{
    let told = |error: &dyn Display| error.to_string();
    let mut connecting = incoming.accept().map_err(|error| told(&error))?;
    // A ClientHello with a key that no quantum computer breaks takes two packets. Until both are there, nobody knows
    // how many streams the client allows, and quinn does not wake those who wait to open one when it is known.
    let hello = timeout(HEAD, connecting.handshake_data()).await;
    hello.map_err(|error| told(&error))?.map_err(|error| told(&error))?;
    let Ok((quic, accepted)) = connecting.into_0rtt() else { return Err("no handshake began".to_owned()) };
    let gate = Gate::quic(accepted);
    let mut http3 = h3::server::builder();
    http3.max_field_section_size(HEAD_SIZE).send_grease(false);
    let building = timeout(HEAD, http3.build::<_, Bytes>(Guarded::new(quic.clone())));
    let mut connection = building.await.map_err(|error| told(&error))?.map_err(|error| told(&error))?;
    let requests = TaskTracker::new();
    let stop = CancellationToken::new();
    let _stops = stop.clone().drop_guard();
    let mut leaving = false;
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Ok(Some(coming)) => {
                    let (answer, gate) = (answer.clone(), gate.clone());
                    let request = async move {
                        let resolved = timeout(HEAD, coming.resolve_request()).await;
                        let Ok(Ok((request, stream))) = resolved else { return };
                        let (mut up, down) = stream.split();
                        let length = match told_length(request.headers()) {
                            Ok(length) => length,
                            Err(wrong) => {
                                tracing::debug!("a request for {} is malformed: it {wrong}", request.uri().path());
                                return up.stop_stream(Code::H3_MESSAGE_ERROR);
                            }
                        };
                        let answered = answer(request.map(|()| Incoming::new(down, length)), gate).await;
                        respond(up, answered).await;
                    };
                    tasks.spawn(requests.track_future(stop.clone().run_until_cancelled_owned(request)));
                }
                Ok(None) => break,
                Err(error) if error.is_h3_no_error() => return Ok(()),
                Err(error) => return Err(told(&error)),
            },
            () = closing.cancelled(), if !leaving => {
                leaving = true;
                requests.close();
                connection.shutdown(0).await.map_err(|error| told(&error))?;
            }
            () = requests.wait(), if leaving => break,
            () = tokio::time::sleep(IDLE), if !leaving => {
                if requests.is_empty() {
                    break;
                }
            }
        }
    }
    let _ = timeout(LINGER, quic.closed()).await;
    Ok(())
}

/// Sends an answer. One that cannot be sent whole is cut off, so that it is not taken for whole.
async fn respond<B>(mut stream: RequestStream<h3_quinn::SendStream<Bytes>, Bytes>, response: Response<B>)
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Display + Send,
{
    let (mut head, body) = response.into_parts();
    // What HTTP/1.1 says of the connection has no place here (RFC 9114 §4.2).
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE] {
        head.headers.remove(name);
    }
    if let (Some(length), None) = (body.size_hint().exact(), head.headers.get(header::CONTENT_LENGTH))
        && length > 0
    {
        head.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    let sent = async {
        timeout(UNTAKEN, stream.send_response(Response::from_parts(head, ()))).await.ok()?.ok()?;
        let mut body = std::pin::pin!(body);
        while let Some(frame) = body.frame().await {
            match frame.ok()?.into_data() {
                Ok(mut data) => {
                    while !data.is_empty() {
                        let piece = data.split_to(data.len().min(PIECE));
                        timeout(UNTAKEN, stream.send_data(piece)).await.ok()?.ok()?;
                    }
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().ok()?;
                    timeout(UNTAKEN, stream.send_trailers(trailers)).await.ok()?.ok()?;
                }
            }
        }
        stream.finish().await.ok()
    };
    if sent.await.is_none() {
        stream.stop_stream(Code::H3_INTERNAL_ERROR);
    }
}

type Downstream = RequestStream<frame_guard::RecvStream<h3_quinn::RecvStream>, Bytes>;

/// A request's body as it arrives. It is an error if it is not as long as its head says (RFC 9114 §4.1.2).
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
