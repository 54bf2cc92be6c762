//! An HTTP client engine for long links.
//!
//! On a long link nearly all time is spent waiting for round trips that carry nothing. This engine avoids these waits:
//! it sends requests back to back on one connection (pipelining, RFC 9112 §9.3.2) where the server is known to support
//! it, chooses the idle connection with the widest congestion window, knows what a broken connection means for every
//! request on it, and puts a timeout on every wait.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use haul_http::{Body, Client, Settings, auth::Authenticator};
//! use http::Request;
//! use http_body_util::BodyExt;
//!
//! let client = Client::new(Settings::default(), Authenticator::default())?;
//! let response = client.send(Request::get("https://example.org/").body(Body::empty())?).await?;
//! println!("{}, {} bytes", response.status(), response.into_body().collect().await?.to_bytes().len());
//! # Ok(())
//! # }
//! ```
//!
//! `examples/pipelined_download.rs` shows what pipelining needs to know of the responses.
//!
//! # The path of a request
//! [`Client`] is a `tower` service from `http::Request<Body>` to [`Answer`]. It adds the origin's credentials (`auth`)
//! and cookies, turns the request into a `connection_messages::Job` and passes it to the origin's `dispatch`. This asks
//! the `scheduler` (no sockets, no clocks) where to send it: on an idle connection that the `pool` chooses, behind
//! others in a pipeline, on a new connection from the crate `transport`, or into the queue. `http1`, `http2` and
//! `http3` speak the protocol. The response is checked (`digest`) and streamed to the caller.
//!
//! # Decisions and I/O
//! `scheduler`, `pool`, `pipelining_history`, `alt_svc` and `http1::exchange` are state machines: events and a time go
//! in, actions come out. They are tested by themselves, and together in `tests/model`, against random faults.
//! `dispatch`, `http1::driver`, `http2` and `http3` do the I/O.

/// The examples of the README are compiled with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod alt_svc;
pub mod auth;
mod bandwidth_limit;
mod body;
mod client;
mod connection_messages;
mod cookies;
pub mod digest;
mod dispatch;
mod error;
mod follow_up;
mod http1;
mod http2;
mod http3;
mod method;
mod options;
mod pipelining_history;
mod pool;
mod redirect;
mod request_line;
mod response_marks;
mod scheduler;
mod single_connection;
mod streams;

pub use alt_svc::AltSvc;
pub use bandwidth_limit::{BandwidthLimit, Rates};
pub use body::{Body, Chunks, Incoming};
pub use client::{Answer, Client, Settings, Versions};
pub use cookies::Cookies;
pub use error::Error;
pub use follow_up::{FollowUp, FollowUpResponse};
pub use http2::{Http2Settings, Windows};
pub use method::{is_idempotent, is_safe};
pub use options::{Class, Expected, Options, ResponseInfo, Timeouts};
pub use pipelining_history::{Pipelining, PipeliningHistory};
pub use pool::IdleChoice;
pub use redirect::{MAX_REDIRECTS, Redirect, RedirectError, redirect};
pub use request_line::RequestLine;
pub use single_connection::SingleConnection;
// In this crate's own interface; their home is `transport`.
pub use transport::{Cause, Origin, Step};
