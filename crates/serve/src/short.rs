//! The short way of a question whose answer lies ready: from the socket to a look into memory and back.
//!
//! A replayed page's answers are bytes that never change, and a server for them is measured by how many it can give in
//! a second. On the long way a request is taken apart into a map of fields, answered by a map of fields, and that is
//! put together again, each time anew. Here its head is read where it lies, and the answer's head was written when the
//! server began; head and body leave by one call.
//!
//! Only what is as simple as most are takes it: HTTP/1.1 in the clear, no body, nothing about the connection. Whatever
//! else comes, and all behind it, goes the long way from its first byte on ([`Rewound`]); so does what nobody has an
//! answer for.

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
use crate::activity::{Activity, Busy, Waiting};
use crate::connection::{HEAD, HEAD_SIZE};
use crate::other::{Answers, Question, Ready};

/// Read at a time.
const PIECE: usize = 16 * 1024;

/// Fields of a head; more go the long way.
const FIELDS: usize = 64;

/// What the bytes of a connection begin with.
enum Next {
    /// A question with this answer, so long.
    Asked(Ready, usize),
    /// Part of one.
    Part,
    /// Something else.
    Else,
}

/// Answers one question after another; what is left of the input, if the long way has to go on with it.
pub(crate) async fn serve(
    stream: &mut TcpStream,
    client: SocketAddr,
    answers: &dyn Answers,
    log: Option<&AccessLog>,
    activity: &Arc<Activity>,
    stopping: &CancellationToken,
) -> io::Result<Option<Bytes>> {
    let mut input = BytesMut::with_capacity(PIECE);
    let mut deadline = Instant::now() + HEAD;
    let (mut closing, mut late) = (pin!(stopping.cancelled()), pin!(sleep_until(deadline)));
    loop {
        match next(&input, answers, log.map(|log| (log, client))) {
            (Next::Asked(Ready { status, head, body }, length), entry) => {
                input.advance(length);
                let sent = body.len() as u64;
                let (_busy, _waiting) = (Busy::new(activity), Waiting::for_reader(activity));
                stream.write_all_buf(&mut head.chain(body)).await?;
                if let Some(mut entry) = entry {
                    (entry.status, entry.sent) = (Some(status), sent);
                }
                deadline = Instant::now() + HEAD;
                if stopping.is_cancelled() {
                    return Ok(None);
                }
                continue;
            }
            (Next::Part, _) => input.reserve(PIECE),
            (Next::Else, _) => return Ok(Some(input.freeze())),
        }
        tokio::select! {
            biased;
            read = stream.read_buf(&mut input) => if read? == 0 { return Ok(None) },
            () = &mut closing => return Ok(None),
            // It is set anew only here, since most requests come long before.
            () = &mut late => {
                if deadline <= Instant::now() {
                    return Ok(None);
                }
                late.as_mut().reset(deadline);
            }
        }
    }
}

/// Looks at what has come, and begins the line of the log if that is a question.
fn next(input: &[u8], answers: &dyn Answers, log: Option<(&AccessLog, SocketAddr)>) -> (Next, Option<Entry>) {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(input) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if input.len() < HEAD_SIZE => return (Next::Part, None),
        _ => return (Next::Else, None),
    };
    let Some(question) = question(&request) else { return (Next::Else, None) };
    let Some(ready) = answers.ready(&question) else { return (Next::Else, None) };
    let entry = log.map(|(log, client)| {
        let line = || format!("{} {} HTTP/1.1", question.method, question.target);
        Entry::of(Some(log.clone()), client, line)
    });
    (Next::Asked(ready, length), entry)
}

/// The question of a request, if it is a short one.
fn question<'a>(request: &'a httparse::Request<'_, '_>) -> Option<Question<'a>> {
    let (method, target) = (request.method?, request.path?);
    if request.version != Some(1) || !matches!(method, "GET" | "HEAD") || !target.starts_with('/') {
        return None;
    }
    // What could break out of its field of the log, or is no target at all (RFC 3986 §2).
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
    Some(Question { method, host: host?, target, fields: request.headers })
}

/// A connection of which some bytes were read already.
pub(crate) struct Rewound {
    pub(crate) first: Bytes,
    pub(crate) stream: TcpStream,
}

impl AsyncRead for Rewound {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, to);
        }
        let length = self.first.len().min(to.remaining());
        to.put_slice(&self.first.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
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
