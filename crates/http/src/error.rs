//! Why a request failed.

use std::{io, sync::Arc};

use transport::{Cause, ConnectError, UrlError};

use crate::{RedirectError, RequestLine, auth::GiveUp, digest};

/// Why there is no response, or no complete one.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL cannot be requested.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// No connection could be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The request failed. It had no effect, or the caller may safely send it again.
    #[error("{asked}: {cause}")]
    Exchange {
        /// The request.
        asked: RequestLine,
        /// The reason.
        cause: Cause,
    },
    /// The outcome is unknown: there is no response, and the request is not idempotent, or is too large to be repeated
    /// while the server may still process it.
    #[error("{asked}: {cause}; outcome unknown, so it is not retried automatically: check the server before you retry")]
    OutcomeUnknown {
        /// The request.
        asked: RequestLine,
        /// The reason.
        cause: Cause,
    },
    /// The request body could not be read.
    #[error("{asked}: cannot read the request body: {source}")]
    Sending {
        /// The request.
        asked: RequestLine,
        /// The reason.
        source: Arc<io::Error>,
    },
    /// The received body does not match its digest.
    #[error("{asked}: {mismatch}; discard it and retry")]
    Digest {
        /// The request.
        asked: RequestLine,
        /// The differing digest.
        mismatch: Box<digest::Mismatch>,
    },
    /// The server rejected the credentials, or there are none.
    #[error("{asked}: {why}")]
    Credentials {
        /// The request.
        asked: RequestLine,
        /// The server's demand.
        why: Box<GiveUp>,
    },
    /// A redirect that is not followed.
    #[error(transparent)]
    Redirect(Box<RedirectError>),
    /// The client was shut down.
    #[error("the HTTP client was shut down")]
    Shutdown,
}

impl Error {
    /// Whether the server was silent, or could not be reached.
    pub fn is_silence(&self) -> bool {
        match self {
            Self::Connect(_) => true,
            Self::Exchange { cause, .. } | Self::OutcomeUnknown { cause, .. } => matches!(cause, Cause::TimedOut(..)),
            _ => false,
        }
    }
}
