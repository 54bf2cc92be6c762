//! The middle box: clients on a LAN in front, a WebDAV server behind a long link.
//!
//! A box that speaks to the server with one credential makes all its users the same person there. This one has no
//! credentials: each request goes to the server with its client's own `Authorization`, and what is kept for it is kept for this credential alone.
//!
//! # The path of a request
//! The crate `serve` accepts connections, speaks TLS and HTTP, bounds every wait and writes the access log. `gateway`
//! gets the request: `head` checks its path and translates its header fields (a `Destination` here becomes one at the
//! server), `credential` tells whose it is, `accounts` has what is kept for it (`account`), and the answer streams back as
//! it arrives.
//!
//! # Round trips
//! A client of the Windows kind waits for each of eight answers per file. Some of them are known here: `listings` knows for
//! a few seconds what the folders contain (`document` cuts their listings into answers), and `redirector` decides which
//! requests of a save decide something. The others are acknowledged, and `later` keeps what depends on them waiting;
//! `lingering` keeps the lock of an edited file for its next save.
//! `prefetch` decides which small files (`files`) are fetched before a client reads them, and `contents` keeps them.
//!
//! # Guarantees
//! - **A credential reaches one server**: the one the gateway was started for. It is neither stored nor logged; accounts
//!   are found by a digest with a key of this process.
//! - **No request leaves the folder** that the gateway was started for: dot segments and encoded slashes are refused.
//! - **One request here is at most one request there** for methods that are not safe: an unsafe request without an answer
//!   is answered 504, and not repeated unless HTTP allows it (RFC 9110 §9.2.2). Acknowledged requests, which have the same
//!   effect twice, are repeated.
//! - **Content is acknowledged by the server**, or, if the gateway was told to write back, once it is in the `journal` on
//!   the local disk, and then uploaded until the server has it.

mod account;
mod accounts;
mod answers;
mod contents;
mod credential;
mod document;
mod file_answer;
mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod head;
mod journal;
mod large_contents;
mod later;
mod lingering;
mod listings;
mod metrics;
mod own_connection;
mod passing;
mod prefetch;
mod redirector;
#[cfg(test)]
mod simulation;
pub mod smb;
mod start_check;
pub mod vault;
mod win32;

pub use gateway::{Error, Gateway, Settings, WriteBack};
pub use journal::{JournalError, Pending, Report, pending};
pub use large_contents::DiskCache;
