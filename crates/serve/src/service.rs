//! Answering requests in place of a folder, through the same listeners: for a gateway, whose answers come from another
//! server.
//!
//! Unlike a [`Responder`](crate::Responder), a service may take its time, reads the request's body as it arrives, and
//! streams its answer.

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{EXPECT, HOST};
use http::{Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

use crate::AccessLog;
use crate::access_log::Entry;
use crate::activity::RequestGuard;
use crate::body::{Incoming, ReceivedBody, ResponseBody};
use crate::early_data::{self, HandshakeState};

/// The body of an answer.
pub type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;

/// Answers requests.
pub trait Service: Send + Sync + 'static {
    /// Answers one request. Not called for unsafe requests in early data (425, RFC 8470), nor without exactly one `Host`
    /// over HTTP/1.1 (400). Dropped when the client disconnects.
    fn answer(&self, client: SocketAddr, request: Request<RequestStream>) -> BoxFuture<'_, Answered>;

    /// Ends what goes on behind the answers. Called when the server stops, after the last answer; dropped after a while.
    fn finish(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What a service keeps for one of its clients' connections, in the extensions of each request on it. Dropped when the
/// connection has ended.
#[derive(Clone, Default)]
pub struct ConnectionData(Arc<OnceLock<Arc<dyn Any + Send + Sync>>>);

impl ConnectionData {
    /// What is kept; at the connection's first call, made by `new`. None if it is of another type.
    pub fn get_or_init<T: Any + Send + Sync>(&self, new: impl FnOnce() -> T) -> Option<Arc<T>> {
        self.0.get_or_init(|| Arc::new(new())).clone().downcast().ok()
    }
}

/// An answer.
pub struct Answered {
    /// The response.
    pub response: Response<AnswerBody>,
    /// The user's name for the access log, if known.
    pub user: Option<String>,
}

impl Answered {
    /// An answer without a body.
    pub fn status(status: StatusCode) -> Self {
        let mut response = Response::new(AnswerBody::default());
        *response.status_mut() = status;
        Self { response, user: None }
    }
}

/// A request's body as it arrives; it fails if the client is slower than the minimum rate.
pub struct RequestStream(ReceivedBody);

impl Body for RequestStream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// Handles requests with a [`Service`].
pub(crate) struct ServiceHandler {
    service: Arc<dyn Service>,
    log: Option<AccessLog>,
}

impl ServiceHandler {
    pub(crate) fn new(service: Arc<dyn Service>, log: Option<AccessLog>) -> Self {
        Self { service, log }
    }

    pub(crate) fn log(&self) -> Option<&AccessLog> {
        self.log.as_ref()
    }

    pub(crate) async fn finish(&self) {
        self.service.finish().await;
    }

    pub(crate) async fn respond(
        &self,
        client: SocketAddr,
        request: Request<Incoming>,
        handshake: HandshakeState,
        guard: RequestGuard,
    ) -> Response<ResponseBody> {
        let mut entry = Entry::new(self.log.clone(), client, &request);
        let early = early_data::too_early(&request, &handshake);
        // Exactly one `Host` (RFC 9112 §3.2).
        let is_ambiguous = request.version() == Version::HTTP_11 && request.headers().get_all(HOST).iter().count() != 1;
        let expects = request.headers().contains_key(EXPECT);
        let (head, body) = request.into_parts();
        let (body, rest) = ReceivedBody::new(body, Arc::clone(&entry.received), &guard);
        let Answered { response, user } = if early {
            Answered::status(StatusCode::TOO_EARLY)
        } else if is_ambiguous {
            Answered::status(StatusCode::BAD_REQUEST)
        } else {
            self.service.answer(client, Request::from_parts(head, RequestStream(body))).await
        };
        // A client that waits for `100 Continue` has sent no body unless the server asked for it.
        if response.status().as_u16() >= 400 && (!expects || entry.received.load(Ordering::Relaxed) > 0) {
            rest.drain().await;
        }
        entry.status = Some(response.status());
        entry.user = user;
        response.map(|body| ResponseBody::new(body.into(), None, entry, guard))
    }
}

/// An answer's body in memory.
pub fn whole(body: impl Into<Bytes>) -> AnswerBody {
    http_body_util::Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}
