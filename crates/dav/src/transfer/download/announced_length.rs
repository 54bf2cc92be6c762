//! Answers that announce more bytes than they send.
//!
//! Some servers and gateways announce a body that is too long: they count a byte order mark that they strip, or line ends
//! that they convert. Such an answer never ends by itself, and a client that waits for the rest runs into its timeout on each
//! attempt. But the listing says how long the file is. If all of that has arrived and more is announced, the rest either
//! arrives soon or never. In the latter case the answer is reported as wrong, and not retried.
//!
//! The file does not count as complete although its length is as listed: an answer without its end is incomplete (RFC 9112
//! §8), and only the server knows which of the two lengths is right.

use std::time::Duration;

use haul_http::Answer;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::retry::FetchError;
use crate::{Error, RemotePath};

/// How long to wait for bytes that are announced beyond the listed length.
const SOON: Duration = Duration::from_secs(2);

/// The announced and the listed length of an answer.
pub(super) struct AnnouncedLength {
    /// `Content-Length` of the answer.
    announced: Option<u64>,
    /// The length in the listing.
    known: Option<u64>,
}

impl AnnouncedLength {
    pub(super) fn of(answer: &Answer, known: Option<u64>) -> Self {
        Self { announced: answer.body().size_hint().exact(), known }
    }

    /// Whether the answer announces no length.
    pub(super) fn is_blind(&self) -> bool {
        self.announced.is_none()
    }

    /// Whether this is the announced length.
    pub(super) fn is_all(&self, length: u64) -> bool {
        self.announced == Some(length)
    }

    /// Reads the next piece of the body, of which `length` bytes have arrived.
    pub(super) async fn next<B: Body<Error = haul_http::Error> + Unpin>(
        &self,
        body: &mut B,
        length: u64,
        path: &RemotePath,
    ) -> Result<Option<http_body::Frame<B::Data>>, FetchError> {
        let amid = |error: haul_http::Error| FetchError::Interrupted(error.into());
        let (Some(announced), Some(known)) = (self.announced, self.known) else {
            return body.frame().await.transpose().map_err(amid);
        };
        if length != known || announced <= known {
            return body.frame().await.transpose().map_err(amid);
        }
        if let Ok(Some(Ok(frame))) = timeout(SOON, body.frame()).await {
            return Ok(Some(frame));
        }
        let why = format!(
            "the server lists {known} bytes and sent them all, but its answer announces {announced} (Content-Length) and \
             does not end; the server or a gateway computes the length wrongly"
        );
        Err(FetchError::Final(Error::Differs { path: path.clone(), why }))
    }
}
