//! What ends a connection, or keeps it from being made.

mod tls;

use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use http::StatusCode;

pub(crate) use self::tls::{explain, is_an_authority, rustls_error};
use crate::origin::Origin;

/// No connection could be made.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot connect to {origin}: {cause}")]
pub struct ConnectError {
    /// The server.
    pub origin: Origin,
    /// The reason.
    pub cause: Cause,
}

/// Why settings cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file of certificates, or of a key.
    #[error("cannot use {}: {why}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A variable of the environment. Its value is not told: it may hold a password.
    #[error("cannot use the environment's {variable}: {why}")]
    Variable {
        /// The variable's name.
        variable: &'static str,
        /// What is wrong with it.
        why: String,
    },
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
        match tls::rustls_error(&error) {
            Some(tls) => Self::Tls(tls::explain(tls)),
            None => Self::Io(Arc::new(error)),
        }
    }
}
