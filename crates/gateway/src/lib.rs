//! The middle box: clients on a LAN in front, a WebDAV server behind a long link.
//!
//! A box that speaks to the server with one credential makes all its users the same person there. This one has no
//! credentials: each request goes to the server with its client's own `Authorization`, and what is kept for it (so far:
//! connections, and what they have learned) is kept for this credential alone.
//!
//! # The path of a request
//! The crate `serve` accepts connections, speaks TLS and HTTP, bounds every wait and writes the access log. `gateway`
//! gets the request: `head` checks its path and translates its header fields (a `Destination` here becomes one at the
//! server), `credential` tells whose it is, `accounts` has the HTTP client of this credential, and the answer streams
//! back as it arrives.
//!
//! # Guarantees
//! - **A credential reaches one server**: the one the gateway was started for. It is neither stored nor logged; accounts
//!   are found by a digest with a key of this process.
//! - **No request leaves the folder** that the gateway was started for: dot segments and encoded slashes are refused.
//! - **One request here is at most one request there** for methods that are not safe: an unsafe request without an answer
//!   is answered 504, and not repeated unless HTTP allows it (RFC 9110 §9.2.2).

mod accounts;
mod credential;
mod gateway;
mod head;

pub use gateway::{Error, Gateway, Settings};
