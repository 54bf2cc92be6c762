//! Why a connection ended, or could not be made.

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

/// Unusable settings.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file of certificates, or of a key.
    #[error("cannot use {}: {why}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// An environment variable. The error does not contain its value, which may hold a password.
    #[error("cannot use the environment variable {variable}: {why}")]
    Variable {
        /// The variable's name.
        variable: &'static str,
        /// The reason.
        why: String,
    },
}

/// What ended a connection, or prevented it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Cause {
    /// An error of the operating system: refused, reset, no route.
    Io(Arc<io::Error>),
    /// An error of TLS: a certificate, a protocol, an alert.
    Tls(String),
    /// An error of the proxy.
    Proxy(String),
    /// A step took longer than its timeout.
    TimedOut(Step, Duration),
    /// The server closed the connection cleanly, but too early.
    Closed,
    /// A violation of the protocol, or a response that does not fit its request.
    Protocol(String),
    /// A response that may belong to another request: it differs from what the caller expects.
    Unexpected(&'static str),
    /// The server asks for the request on another connection or later, by a status (408, 421, 425) or by GOAWAY.
    Refused(StatusCode),
    /// RST_STREAM or GOAWAY from an HTTP/2 server.
    Http2 {
        /// The error code (RFC 9113 §7), such as 13, HTTP_1_1_REQUIRED.
        code: u32,
        /// What the server did, and the code's name.
        said: String,
    },
    /// An error from an HTTP/3 server, for a stream or for the connection.
    Http3 {
        /// The error code (RFC 9114 §8.1), such as 0x10b, H3_REQUEST_REJECTED.
        code: u64,
        /// What the server did, and the code's name.
        said: String,
    },
    /// We closed the connection, for this reason.
    Retired(&'static str),
}

/// A step that has a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The lookup of the host name.
    Resolve,
    /// The TCP handshake.
    Connect,
    /// The TLS handshake.
    Tls,
    /// The QUIC handshake.
    Quic,
    /// The proxy's response.
    Proxy,
    /// The first byte of a response.
    FirstByte,
    /// The next bytes of a response.
    Receive,
    /// The network accepts the next bytes of a request.
    Send,
    /// The server allows a request: SETTINGS_MAX_CONCURRENT_STREAMS over HTTP/2, MAX_STREAMS over HTTP/3.
    Streams,
}

impl Step {
    /// The error after this time.
    fn timed_out(self, after: Duration) -> String {
        let (what, seconds) = (
            match self {
                Self::Resolve => "the lookup of the host name took longer than",
                Self::Connect => "the TCP handshake took longer than",
                Self::Tls => "the TLS handshake took longer than",
                Self::Quic => "the QUIC handshake took longer than",
                Self::Proxy => "the proxy did not respond within",
                Self::FirstByte => "no response within",
                Self::Receive => "the response stalled for",
                Self::Send => "the request stalled for",
                Self::Streams => "the server allowed no request on the connection for",
            },
            after.as_secs_f64(),
        );
        format!("{what} {seconds} s")
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
            Self::TimedOut(step, after) => f.write_str(&step.timed_out(*after)),
            Self::Closed => f.write_str("the server closed the connection unexpectedly"),
            Self::Refused(status) => write!(f, "the server rejected the request on this connection ({status})"),
            Self::Unexpected(why) | Self::Retired(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for Cause {
    /// A TLS error inside a stream's error, such as a late rejection of the client certificate, counts as TLS's.
    fn from(error: io::Error) -> Self {
        match rustls_error(&error) {
            Some(error) => Self::Tls(explain(error)),
            None => Self::Io(Arc::new(error)),
        }
    }
}
