//! A look at what has become of a request, in the same round trip.
//!
//! Who uploads a file and then asks whether it has arrived waits a round trip for the answer to the upload, and another
//! for the answer to the question. On one HTTP/1.1 connection the question can go right behind the upload: a server
//! does one after the other what is not safe (RFC 9112 §9.3.2), so its answer is of the state after it. Nothing but a
//! connection gives this order, so a follower goes there or nowhere, and once: over HTTP/2, to a server that does not
//! pipeline, or from a connection that broke it comes back without an answer, and is asked in the usual way.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::oneshot;

use crate::{Answer, Asked, Error, Incoming, Origin, digest::Checked, method::is_multi_status};

/// A request that goes right behind another on its connection; in the other's extensions. It goes with each sending of
/// the other on its caller's behalf, such as after a 401, but not when the engine has to send that again.
#[derive(Debug, Clone)]
pub struct Follower(pub(crate) Request<Bytes>);

/// Where the answer to a [`Follower`] comes; in the extensions of the answer to what it followed.
#[derive(Debug, Clone)]
pub struct Followed(Arc<Mutex<Option<(Asked, Reply)>>>);

type Reply = oneshot::Receiver<Result<Response<Incoming>, Error>>;

impl Follower {
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

impl Followed {
    pub(crate) fn by(asked: Asked, answer: Reply) -> Self {
        Self(Arc::new(Mutex::new(Some((asked, answer)))))
    }

    /// The answer, once; none if there is none.
    pub async fn answer(&self) -> Option<Answer> {
        let (asked, answer) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Checked::response(asked, answer.await.ok()?.ok()?))
    }
}
