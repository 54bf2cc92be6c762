//! What can go wrong, in one sentence each.

use std::{fmt, io, sync::Arc, time::Duration};

use http::{Method, StatusCode, Uri};

use crate::Origin;

/// Why there is no answer, or no whole one.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL cannot be asked for.
    #[error("cannot ask for {url}: {why}")]
    Url {
        /// The URL, without user and password.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No connection came about.
    #[error("cannot connect to {origin}: {cause}")]
    Connect {
        /// Whom to.
        origin: Origin,
        /// What came in the way.
        cause: Cause,
    },
    /// The exchange failed, and the request had no effect, or may safely be sent again by the caller.
    #[error("{method} {uri}: {cause}")]
    Exchange {
        /// The request's method.
        method: Method,
        /// The request's URL.
        uri: Uri,
        /// What came in the way.
        cause: Cause,
    },
    /// The connection failed before an answer, and the request may not be repeated: nobody here knows whether it
    /// took effect.
    #[error(
        "{method} {uri}: {cause}; it may have taken effect, and {method} may not be repeated: look before trying again"
    )]
    Undecided {
        /// The request's method.
        method: Method,
        /// The request's URL.
        uri: Uri,
        /// What came in the way.
        cause: Cause,
    },
    /// The body that was to be sent could not be read.
    #[error("{method} {uri}: cannot read what was to be sent: {source}")]
    Sending {
        /// The request's method.
        method: Method,
        /// The request's URL.
        uri: Uri,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// The client, or the part that serves this origin, has ended.
    #[error("the HTTP client was shut down")]
    Shutdown,
}

/// What ended a connection, or kept it from beginning.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Cause {
    /// The operating system said so: a refusal, a reset, no route.
    Io(Arc<io::Error>),
    /// TLS said so: a certificate, a protocol, an alert.
    Tls(String),
    /// The proxy said so.
    Proxy(String),
    /// A wait exceeded its bound.
    TimedOut(Step, Duration),
    /// The server closed the connection in good order, but too early.
    Closed,
    /// What came is not HTTP, or not an answer to what was asked.
    Protocol(String),
    /// The server asks for the request elsewhere or later, by a status (408, 421, 425) or by HTTP/2's GOAWAY.
    Refused(StatusCode),
    /// HTTP/2's RST_STREAM or GOAWAY came from the server.
    Http2 {
        /// The error code (RFC 9113 §7), such as 13, HTTP_1_1_REQUIRED.
        code: u32,
        /// What it did, and the code's name.
        said: String,
    },
    /// Our own doing: the connection was given up for the reason told.
    Retired(&'static str),
}

/// What was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The address of a name.
    Resolve,
    /// The TCP handshake.
    Connect,
    /// The TLS handshake.
    Tls,
    /// A proxy's answer.
    Proxy,
    /// The first byte of an answer.
    FirstByte,
    /// The next byte of an answer.
    Receive,
    /// The network's taking of the next byte.
    Send,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "the address of the host was not found",
            Self::Connect => "the TCP handshake did not end",
            Self::Tls => "the TLS handshake did not end",
            Self::Proxy => "the proxy did not answer",
            Self::FirstByte => "no answer began",
            Self::Receive => "the answer stood still",
            Self::Send => "nothing could be sent",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Tls(why) | Self::Proxy(why) | Self::Protocol(why) | Self::Http2 { said: why, .. } => f.write_str(why),
            Self::TimedOut(step, after) => write!(f, "{step} for {} s", after.as_secs_f64()),
            Self::Closed => f.write_str("the server closed the connection too early"),
            Self::Refused(status) => write!(f, "the server refused it on this connection ({status})"),
            Self::Retired(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}
