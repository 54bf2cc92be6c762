//! Answers that announce more than they bring, and answers that stand still.
//!
//! Some servers and gateways announce a longer body than they send: they count a byte order mark that they strip, or
//! line ends that they convert. Such an answer never ends by itself, and whoever waits for the rest waits for the whole
//! bound on a stall, as often as it is tried again. But the listing says how long the file is. When all of that has
//! come and more was announced, more comes soon or not at all. Then the answer is wrong, it is said so, and it is not
//! asked for again: it would be the same.
//!
//! The file is not taken for whole, although its length is as listed: an answer without its end is incomplete
//! (RFC 9112 §8), and which of the two lengths is right only the server knows.

use std::time::Duration;

use haul_http::Answer;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::attempt::FetchError;
use crate::{Error, RemotePath};

/// How long is waited for what was announced beyond what was listed.
const SOON: Duration = Duration::from_secs(2);

/// How far an answer may go.
pub(super) struct AnnouncedLength {
    /// The length that the answer announces.
    announced: Option<u64>,
    /// The length that is known from elsewhere.
    known: Option<u64>,
}

impl AnnouncedLength {
    pub(super) fn of(answer: &Answer, known: Option<u64>) -> Self {
        Self { announced: answer.body().size_hint().exact(), known }
    }

    /// Whether the answer does not tell its length.
    pub(super) fn is_blind(&self) -> bool {
        self.announced.is_none()
    }

    /// Whether this is all that is announced.
    pub(super) fn is_all(&self, length: u64) -> bool {
        self.announced == Some(length)
    }

    /// Waits for the next piece of the body, of which so many bytes have come.
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
            "the server lists {known} bytes and sent as many, but its answer announces {announced} (Content-Length) and \
             does not end: the server or a gateway counts wrongly"
        );
        Err(FetchError::Final(Error::Differs { path: path.clone(), why }))
    }
}
