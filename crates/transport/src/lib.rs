//! Connections for HTTP: the name lookup, TCP or QUIC, a proxy if there is one, TLS, and the choice of protocol.
//!
//! On a long link, connecting is the most expensive thing a client does: one lookup, one round trip for TCP, one or two
//! for TLS, one for a proxy, and only then the first request. This crate makes each step as cheap as it can be, and
//! reports what each step cost ([`Facts`]):
//!
//! - sessions are resumed, and safe requests may leave with the first flight ([`EarlyData`]);
//! - a SYN carries data where the path is known to allow it ([`fast_open`]);
//! - an address that does not answer costs 250 ms, not a timeout (Happy Eyeballs, RFC 8305);
//! - QUIC starts first and TCP runs beside it ([`quic_race`](mod@quic_race)), so a path that drops UDP costs a quarter of a second.
//!
//! ```text
//! origin → proxy? → lookup → Happy Eyeballs: TCP → [TLS to the proxy → CONNECT] → TLS: session, ALPN → Connected
//!                            Happy Eyeballs: QUIC, TLS 1.3 within ─────────────────────────────────→ Quic
//! ```
//!
//! [`Connector`] runs these steps under one timeout, and its error names the step that the timeout hit. The result is a
//! byte stream ([`Io`]) that still knows its TCP connection: the kernel's view of it ([`TcpInfo`]) is what a pool
//! decides by. Dropping the future leaves nothing behind except a lookup that ends by itself.
//!
//! Nothing here sends an HTTP request, except `CONNECT` to a proxy. Two small things that both ends of HTTP need are
//! here too, so that a server need not import a client: [`content_length`](mod@content_length) and [`h3_frame_limit`];
//! and [`stable_hash`](fn@stable_hash), since this is the lowest crate whose names are stored.
//!
//! ```
//! # use std::time::Duration;
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use transport::{ConnectSettings, Connector, Offer, Origin};
//!
//! let connector = Connector::new(ConnectSettings::default())?;
//! let origin = Origin::of(&"https://example.org/".parse()?)?;
//! let connected = connector.connect(&origin, Offer::Both, Duration::from_secs(10)).await?;
//! println!("{:?} after {} round trips", connected.version, connected.facts.round_trips());
//! # Ok(())
//! # }
//! ```

/// The examples of the README are compiled with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod connector;
mod content_length;
mod error;
mod facts;
pub mod fast_open;
pub mod h3_frame_limit;
mod happy_eyeballs;
mod io;
mod offer;
mod origin;
mod proxy;
mod quic;
mod quic_race;
mod resolve;
mod sleep;
mod stable_hash;
mod tcp;
mod tcp_info;
mod tls;

pub use connector::{ConnectSettings, Connected, Connector};
pub use content_length::content_length;
pub use error::{Cause, ConnectError, SettingsError, Step};
pub use facts::{EarlyData, Facts, TlsFacts};
pub use fast_open::{FastOpen, Paths, listen_fast_open};
pub use io::Io;
pub use offer::Offer;
pub use origin::{Origin, UrlError};
pub use proxy::Proxies;
pub use quic::{Pending, Quic, QuicSettings, connection_error};
pub use quic_race::{Dial, Dialed, race};
pub use sleep::sleep;
pub use stable_hash::stable_hash;
pub use tcp::{Keepalive, Tcp};
pub use tcp_info::{FastOpenFailure, TcpInfo};
pub use tls::{Confirmation, Identity, TlsSettings};
