//! Serving responses from memory in place of a folder, through the same listeners.
//!
//! A recorded page is served under many host names and at a high rate. So a responder has no passwords, no host name
//! checks and no files: a response is bytes in memory, sent by the fast path (`fast_path`) where the request allows it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::AccessLog;
use crate::access_log::Entry;
use crate::activity::RequestGuard;
use crate::body::{Incoming, ReceivedBody, ResponseBody};
use crate::early_data::{self, HandshakeState};

/// Produces responses from memory.
pub trait Responder: Send + Sync + 'static {
    /// Responds to a request by its head, without blocking; see [`Delay`]. The request's body has been read and discarded. Not called
    /// for bodies over 256 KiB (413) and for unsafe requests in early data (425, RFC 8470).
    fn respond(&self, request: &Parts) -> Response<Bytes>;

    /// The response in its HTTP/1.1 wire form, if it is prepared. It must equal that of [`Self::respond`], with the same
    /// delay.
    fn prepared(&self, _request: &SimpleRequest<'_>) -> Option<PreparedResponse> {
        None
    }
}

/// A GET or HEAD request without a body.
#[derive(Debug, Clone, Copy)]
pub struct SimpleRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// The value of the `Host` field.
    pub host: &'a str,
    /// The path and query.
    pub target: &'a str,
    pub(crate) fields: &'a [httparse::Header<'a>],
}

impl SimpleRequest<'_> {
    /// The value of a header field; the first one if it is repeated.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }
}

/// A response as HTTP/1.1 sends it.
#[derive(Debug, Clone)]
pub struct PreparedResponse {
    /// The status code.
    pub status: StatusCode,
    /// The status line and the header section, including the empty line.
    pub head: Bytes,
    /// The body; empty for HEAD.
    pub body: Bytes,
    /// The time that passes before it is sent.
    pub delay: Duration,
}

/// The time that passes before a response is sent: an extension of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay(pub Duration);

/// Handles requests with a [`Responder`].
pub(crate) struct ResponderHandler {
    responder: Arc<dyn Responder>,
    log: Option<AccessLog>,
}

impl ResponderHandler {
    pub(crate) fn new(responder: Arc<dyn Responder>, log: Option<AccessLog>) -> Self {
        ResponderHandler { responder, log }
    }

    /// The responder and the log, for the fast path.
    pub(crate) fn parts(&self) -> (&dyn Responder, Option<&AccessLog>) {
        (&*self.responder, self.log.as_ref())
    }

    pub(crate) async fn respond(
        &self,
        client: SocketAddr,
        request: Request<Incoming>,
        handshake: HandshakeState,
        guard: RequestGuard,
    ) -> Response<ResponseBody> {
        let early = early_data::too_early(&request, &handshake);
        let mut entry = Entry::new(self.log.clone(), client, &request);
        let (head, body) = request.into_parts();
        let whole = body.is_end_stream() || {
            let (arriving, rest) = ReceivedBody::new(body, Arc::default(), &guard);
            drop(arriving);
            rest.drain().await
        };
        let mut response = match (whole, early) {
            (true, false) => self.responder.respond(&head),
            (true, true) => refused(StatusCode::TOO_EARLY),
            (false, _) => refused(StatusCode::PAYLOAD_TOO_LARGE),
        };
        if let Some(Delay(time)) = response.extensions_mut().remove() {
            transport::sleep(time).await;
        }
        entry.status = Some(response.status());
        response.map(|body| ResponseBody::new(Pieces(body).boxed_unsync().into(), None, entry, guard))
    }
}

/// Maximum size of a DATA frame of HTTP/2. Many clients read a frame only once it is whole; one of 16 KiB, which they all
/// allow, is more than a connection's initial window of 10 segments holds, and costs a round trip.
const MAX_DATA_FRAME: usize = 4 * 1024;

/// The rest of a response body.
struct Pieces(Bytes);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let length = self.0.len().min(MAX_DATA_FRAME);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(self.0.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

fn refused(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}
