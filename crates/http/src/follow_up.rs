//! Follow-ups: checking the outcome of a request in the same round trip.
//!
//! A client that uploads a file and then asks whether it has arrived waits two round trips. On one HTTP/1.1 connection
//! the question can go right behind the upload: a server processes a request that is not safe before the next one (RFC
//! 9112 §9.3.2), so the second response describes the state after it. Only a connection guarantees this order. So a
//! follow-up goes on that connection or nowhere, and once. Over HTTP/2, to a server that does not pipeline, or from a
//! connection that broke, it comes back without a response, and the caller asks in the usual way.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::oneshot;

use crate::{Answer, Error, Incoming, Origin, RequestLine, digest::Checked, method::is_multi_status};

/// A request to send right behind another one on its connection; in the other's extensions. It accompanies each sending
/// that the caller can know of, such as after a 401, but not the engine's own retries.
#[derive(Debug, Clone)]
pub struct FollowUp(pub(crate) Request<Bytes>);

/// The response to a [`FollowUp`]; in the extensions of the response to the request that it follows.
#[derive(Debug, Clone)]
pub struct FollowUpResponse(Arc<Mutex<Option<(RequestLine, Reply)>>>);

type Reply = oneshot::Receiver<Result<Response<Incoming>, Error>>;

impl FollowUp {
    /// Only a method that is answered by `207 Multi-Status`, such as `PROPFIND`: its answer differs from an upload's by
    /// the status, should a box on the path drop one of the two.
    pub fn new(request: Request<Bytes>) -> Option<Self> {
        is_multi_status(request.method()).then_some(Self(request))
    }

    /// Whether it may be sent to this origin.
    pub(crate) fn is_at(&self, origin: &Origin) -> bool {
        Origin::of(self.0.uri()).is_ok_and(|own| own == *origin)
    }
}

impl FollowUpResponse {
    pub(crate) fn by(asked: RequestLine, answer: Reply) -> Self {
        Self(Arc::new(Mutex::new(Some((asked, answer)))))
    }

    /// Waits for the response; `None` if there is none, or if it was taken before.
    pub async fn answer(&self) -> Option<Answer> {
        let (asked, answer) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Checked::response(asked, answer.await.ok()?.ok()?))
    }
}
