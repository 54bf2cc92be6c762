//! The fast path: simple HTTP/1.1 requests answered with prepared responses, without hyper.
//!
//! The responses of a replayed page never change, and its server is measured in requests per second. hyper parses a
//! request into a header map and serializes a header map for the response, each time. Here the request is parsed in
//! place, the response's head was serialized at start-up, and head and body leave in one system call.
//!
//! Only simple requests take the fast path: HTTP/1.1 in cleartext, no body, no `Connection` options. At the first other
//! request, or one without a prepared response, hyper takes over the connection from that request's first byte
//! ([`Replayed`]).

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::access_log::{AccessLog, Entry};
use crate::activity::{Activity, RequestGuard, WaitingForClient};
use crate::budget::HEAD_SIZE;
use crate::connection::HEAD_TIMEOUT;
use crate::responder::{PreparedResponse, Responder, SimpleRequest};

/// Bytes per read.
const PIECE: usize = 16 * 1024;

/// Maximum number of header fields; requests with more leave the fast path.
const FIELDS: usize = 64;

/// What the input begins with.
enum Next {
    /// A simple request of this length, and its response.
    Complete(PreparedResponse, usize),
    /// The beginning of a request.
    Partial,
    /// Anything else.
    NotSimple,
}

/// Serves requests until the connection ends. Returns the unread input if hyper has to continue.
pub(crate) async fn serve(
    stream: &mut TcpStream,
    client: SocketAddr,
    responder: &dyn Responder,
    log: Option<&AccessLog>,
    activity: &Arc<Activity>,
    stopping: &CancellationToken,
) -> io::Result<Option<Bytes>> {
    let mut input = BytesMut::with_capacity(PIECE);
    let mut deadline = Instant::now() + HEAD_TIMEOUT;
    let (mut closing, mut late) = (pin!(stopping.cancelled()), pin!(sleep_until(deadline)));
    loop {
        match next(&input, responder, log.map(|log| (log, client))) {
            (Next::Complete(PreparedResponse { status, head, body, delay }, length), entry) => {
                input.advance(length);
                let sent = body.len() as u64;
                if !delay.is_zero() {
                    transport::sleep(delay).await;
                }
                let (_busy, _waiting) = (RequestGuard::new(activity), WaitingForClient::for_reader(activity));
                stream.write_all_buf(&mut head.chain(body)).await?;
                if let Some(mut entry) = entry {
                    (entry.status, entry.sent) = (Some(status), sent);
                }
                deadline = Instant::now() + HEAD_TIMEOUT;
                if stopping.is_cancelled() {
                    return Ok(None);
                }
                continue;
            }
            (Next::Partial, _) => input.reserve(PIECE),
            (Next::NotSimple, _) => return Ok(Some(input.freeze())),
        }
        tokio::select! {
            biased;
            read = stream.read_buf(&mut input) => if read? == 0 { return Ok(None) },
            () = &mut closing => return Ok(None),
            // Reset only here: most requests arrive long before it expires.
            () = &mut late => {
                if deadline <= Instant::now() {
                    return Ok(None);
                }
                late.as_mut().reset(deadline);
            }
        }
    }
}

/// Parses the input, and begins the log entry of a simple request.
fn next(input: &[u8], responder: &dyn Responder, log: Option<(&AccessLog, SocketAddr)>) -> (Next, Option<Entry>) {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(input) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if input.len() < HEAD_SIZE => return (Next::Partial, None),
        _ => return (Next::NotSimple, None),
    };
    let Some(simple) = simple_request(&request) else { return (Next::NotSimple, None) };
    let Some(ready) = responder.prepared(&simple) else { return (Next::NotSimple, None) };
    let entry = log.map(|(log, client)| {
        let line = || format!("{} {} HTTP/1.1", simple.method, simple.target);
        Entry::of(Some(log.clone()), client, line)
    });
    (Next::Complete(ready, length), entry)
}

/// The request, if it is simple.
fn simple_request<'a>(request: &'a httparse::Request<'_, '_>) -> Option<SimpleRequest<'a>> {
    let (method, target) = (request.method?, request.path?);
    if request.version != Some(1) || !matches!(method, "GET" | "HEAD") || !target.starts_with('/') {
        return None;
    }
    // Bytes that could break out of the log's field, or that no URI contains (RFC 3986 §2).
    if !target.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\')) {
        return None;
    }
    let mut host = None;
    for field in request.headers.iter() {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("host") {
            if host.is_some() {
                return None;
            }
            host = str::from_utf8(field.value).ok();
        } else if is("connection") {
            if !field.value.eq_ignore_ascii_case(b"keep-alive") {
                return None;
            }
        } else if ["content-length", "transfer-encoding", "expect", "upgrade"].into_iter().any(is) {
            return None;
        }
    }
    Some(SimpleRequest { method, host: host?, target, fields: request.headers })
}

/// A connection whose first bytes have been read already.
pub(crate) struct Replayed {
    pub(crate) first: Bytes,
    pub(crate) stream: TcpStream,
}

impl AsyncRead for Replayed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, to);
        }
        let length = self.first.len().min(to.remaining());
        to.put_slice(&self.first.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Replayed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
