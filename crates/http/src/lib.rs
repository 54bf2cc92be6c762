//! An HTTP client engine that minds the wire.
//!
//! On a long link nearly all time goes into waiting for round trips that carry nothing. This engine exists to
//! not wait: it sends requests back to back on one connection (pipelining, RFC 9112 §9.3.2) where the server is
//! known to take it, chooses the idle connection whose congestion window is widest, knows what a lost
//! connection means for every request that was on it, and bounds every wait.
//!
//! # The way of a request
//! [`Client`] is a `tower` service from `http::Request<Body>` to [`Answer`]. It adds what the
//! origin is owed (`auth`), turns the request into a `messages::Job` and hands it to the origin's `dispatch`,
//! which asks the `scheduler` (no sockets, no clocks) where it goes: onto an idle connection that the `pool`
//! chooses, behind others in a pipeline, onto a new connection made by the crate `transport`, or into the queue. `h1`,
//! `http2` and `http3` speak the protocol. What comes back is checked (`digest`) and streamed to the caller.
//!
//! # What decides, and what moves bytes
//! `scheduler`, `pool`, `pipelining_history`, `alt_svc` and `h1::exchange` are state machines: events and a time go in,
//! actions come out. They are tested by themselves, and all together in `tests/model`, against random faults.
//! `dispatch`, `h1::driver`, `http2` and `http3` do the I/O.

mod alt_svc;
pub mod auth;
mod body;
mod budget;
mod client;
mod cookies;
pub mod digest;
mod dispatch;
mod error;
mod follow_up;
mod h1;
mod http2;
mod http3;
mod identity;
mod messages;
mod method;
mod options;
mod pipelining_history;
mod pool;
mod redirect;
mod scheduler;
mod single_connection;
mod streams;

pub use alt_svc::AltSvc;
pub use body::{Body, Chunks, Incoming};
pub use budget::{Budget, Rates};
pub use client::{Answer, Client, Settings, Versions};
pub use cookies::Cookies;
pub use error::{Asked, Error};
pub use follow_up::{Followed, Follower};
pub use http2::{Http2Settings, Windows};
pub use method::{is_idempotent, is_safe};
pub use options::{Class, Expected, Journey, Options, Timeouts};
pub use pipelining_history::{Pipelining, PipeliningHistory};
pub use pool::Choice;
pub use redirect::{Follow, MOST_REDIRECTS, Stop, redirect};
pub use single_connection::SingleConnection;
// In this crate's own interface; their home is `transport`.
pub use transport::{Cause, Origin, Step};
