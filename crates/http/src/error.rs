//! What can go wrong, in one sentence each.

use std::{fmt, io, sync::Arc};

use http::{Method, Request, Uri};
use transport::{Cause, ConnectError, UrlError};

use crate::{Stop, auth::GiveUp, digest};

/// Why there is no answer, or no whole one.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL cannot be requested.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// No connection could be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The exchange failed, and the request had no effect, or may safely be sent again by the caller.
    #[error("{asked}: {cause}")]
    Exchange {
        /// What was asked.
        asked: Asked,
        /// What came in the way.
        cause: Cause,
    },
    /// There was no answer, and the request may not be repeated, or is too much to be repeated while the server may
    /// still be at work on it: nobody here knows whether it took effect.
    #[error("{asked}: {cause}; outcome unknown, so it is not retried automatically: check the server before you retry")]
    Undecided {
        /// What was asked.
        asked: Asked,
        /// What came in the way.
        cause: Cause,
    },
    /// The body that was to be sent could not be read.
    #[error("{asked}: cannot read the request body: {source}")]
    Sending {
        /// What was asked.
        asked: Asked,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// The body that came is not the one that the server says it sent.
    #[error("{asked}: {mismatch}; discard it and retry")]
    Digest {
        /// What was asked.
        asked: Asked,
        /// Which digest differs, and how.
        mismatch: Box<digest::Mismatch>,
    },
    /// The server does not believe who asks.
    #[error("{asked}: {why}")]
    Credentials {
        /// What was asked.
        asked: Asked,
        /// What it wants.
        why: Box<GiveUp>,
    },
    /// The server points elsewhere, and there it is not followed.
    #[error(transparent)]
    Redirect(Box<Stop>),
    /// The client, or the part that serves this origin, has ended.
    #[error("the HTTP client was shut down")]
    Shutdown,
}

/// A request by its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked(Box<(Method, Uri)>);

impl Asked {
    /// The name of a request.
    pub fn of<B>(request: &Request<B>) -> Self {
        Self::new(request.method(), request.uri())
    }

    /// The name of the request with this method and URL. A user and password in the URL are left out.
    pub fn new(method: &Method, uri: &Uri) -> Self {
        let uri = crate::auth::take_userinfo(uri).map_or_else(|_| Uri::default(), |(uri, _)| uri);
        Self(Box::new((method.clone(), uri)))
    }

    /// Its method.
    pub fn method(&self) -> &Method {
        &self.0.0
    }

    /// Its URL.
    pub fn uri(&self) -> &Uri {
        &self.0.1
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.0, self.0.1)
    }
}
