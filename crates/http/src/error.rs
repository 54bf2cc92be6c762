//! What can go wrong, in one sentence each.

use std::{fmt, io, sync::Arc, time::Duration};

use http::{Method, Request, StatusCode, Uri};

use crate::{Origin, Stop, connect, credentials::GiveUp, digest};

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
    #[error("{asked}: {cause}")]
    Exchange {
        /// What was asked.
        asked: Asked,
        /// What came in the way.
        cause: Cause,
    },
    /// There was no answer, and the request may not be repeated, or is too much to be repeated while the server may
    /// still be at work on it: nobody here knows whether it took effect.
    #[error("{asked}: {cause}; it may have taken effect, and is not sent again unasked: look before trying again")]
    Undecided {
        /// What was asked.
        asked: Asked,
        /// What came in the way.
        cause: Cause,
    },
    /// The body that was to be sent could not be read.
    #[error("{asked}: cannot read what was to be sent: {source}")]
    Sending {
        /// What was asked.
        asked: Asked,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// The body that came is not the one that the server says it sent.
    #[error("{asked}: {mismatch}; nothing of it may be kept: try again")]
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
        let uri = crate::credentials::take_userinfo(uri).map_or_else(|_| Uri::default(), |(uri, _)| uri);
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
    /// What came may be the answer to another request: it is not what the caller expects.
    Unexpected(&'static str),
    /// The server asks for the request elsewhere or later, by a status (408, 421, 425) or by HTTP/2's GOAWAY.
    Refused(StatusCode),
    /// HTTP/2's RST_STREAM or GOAWAY came from the server.
    Http2 {
        /// The error code (RFC 9113 §7), such as 13, HTTP_1_1_REQUIRED.
        code: u32,
        /// What it did, and the code's name.
        said: String,
    },
    /// HTTP/3's error came from the server, for a stream or for the connection.
    Http3 {
        /// The error code (RFC 9114 §8.1), such as 0x10b, H3_REQUEST_REJECTED.
        code: u64,
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
    /// QUIC's handshake.
    Quic,
    /// A proxy's answer.
    Proxy,
    /// The first byte of an answer.
    FirstByte,
    /// The next byte of an answer.
    Receive,
    /// The network's taking of the next byte.
    Send,
    /// The server's leave to send a request: over HTTP/2 SETTINGS_MAX_CONCURRENT_STREAMS, over HTTP/3 MAX_STREAMS.
    Streams,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "the address of the host was not found",
            Self::Connect => "the TCP handshake did not end",
            Self::Tls => "the TLS handshake did not end",
            Self::Quic => "the QUIC handshake did not end",
            Self::Proxy => "the proxy did not answer",
            Self::FirstByte => "no answer began",
            Self::Receive => "the answer stood still",
            Self::Send => "nothing could be sent",
            Self::Streams => "the server allowed no request on the connection",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Tls(why)
            | Self::Proxy(why)
            | Self::Protocol(why)
            | Self::Http2 { said: why, .. }
            | Self::Http3 { said: why, .. } => f.write_str(why),
            Self::TimedOut(step, after) => write!(f, "{step} for {} s", after.as_secs_f64()),
            Self::Closed => f.write_str("the server closed the connection too early"),
            Self::Refused(status) => write!(f, "the server refused it on this connection ({status})"),
            Self::Unexpected(why) | Self::Retired(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for Cause {
    /// What TLS reports through a stream, such as a server's late refusal of our certificate, is told as TLS's.
    fn from(error: io::Error) -> Self {
        match connect::rustls_error(&error) {
            Some(tls) => Self::Tls(connect::explain(tls)),
            None => Self::Io(Arc::new(error)),
        }
    }
}
