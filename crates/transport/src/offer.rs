//! The HTTP versions offered to a server (ALPN, RFC 7301).

use http::Version;

use crate::{error::Cause, facts::TlsFacts};

/// What to speak with an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Offer {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; without TLS, by prior knowledge (RFC 9113 §3.3).
    Http2,
    /// HTTP/2 or HTTP/1.1, as the server chooses by ALPN. Without TLS there is no such choice, and it is HTTP/1.1.
    Both,
    /// HTTP/3 (RFC 9114), over QUIC: no byte stream, so [`Connector::connect`](crate::Connector::connect) makes none.
    Http3,
}

impl Offer {
    /// The ALPN protocol names (RFC 7301; RFC 9113 §3.2).
    pub(crate) fn alpn(self) -> &'static [&'static [u8]] {
        match self {
            Self::Http1 => &[b"http/1.1"],
            Self::Http2 => &[b"h2"],
            Self::Both => &[b"h2", b"http/1.1"],
            Self::Http3 => &[b"h3"],
        }
    }

    /// The version in use once the server has answered. HTTP/2 over TLS needs its consent; HTTP/1.1 does not.
    pub(crate) fn agreed(self, tls: Option<&TlsFacts>) -> Result<Version, Cause> {
        match (self, tls.map(|tls| tls.alpn.as_deref())) {
            (_, Some(Some("h2"))) | (Self::Http2, None) => Ok(Version::HTTP_2),
            (Self::Http2, Some(_)) => Err(Cause::Tls("the server does not speak HTTP/2".into())),
            _ => Ok(Version::HTTP_11),
        }
    }
}
