//! The embedded WebDAV server.
//!
//! A race needs a server that behaves the same everywhere, and people need one that they can start in a
//! folder and trust with their files. This is both: WebDAV classes 1 and 2 ([RFC 4918]) over HTTP/1.1 and
//! HTTP/2, in the clear (HTTP/2 by prior knowledge) or over TLS (HTTP/2 by ALPN, and HTTP/3 beside it). The protocols
//! are the work of the crates `dav-server`, `hyper` and `h3`; what is ours is what happens to the files, and with
//! requests that do not wait for a handshake (`early`).
//!
//! # The way of a request
//! `server` accepts, `connection` (or `http3`) speaks TLS and HTTP and bounds every wait, `site` asks who it is (`auth`)
//! and whether somebody else's page sent it (`origin`),
//! refuses what must not be tried and hands the rest to `dav-server`, which works on the files through
//! `store` and on the locks through `locks`. The line in the `access_log` is written when the answer has left.
//!
//! Whoever has answers of their own ([`Answers`]) gets the same doors for them: a page replayed, say.
//!
//! # What is promised
//! - **Uploads appear whole or not at all**, and are on disk when the client is told so. See `store/draft.rs`.
//!   Of two uploads to one file at once, the one that ends last is there, whole. One with a condition
//!   (`If-Match`, `If-None-Match`) is judged again when it takes effect: 412 if another came first.
//! - **Every upload changes the entity tag**, which is strong. See `store/meta.rs`.
//! - **`MOVE` and `COPY` over a file** replace it in one step. Over a collection they do not: WebDAV has no
//!   way to say so and file systems none to do it.
//! - **No request leaves the directory**: links are not followed and not shown. See `store/root.rs`.
//! - **Dead properties** live with the file, in an extended attribute; a large set in a hidden folder that the attribute
//!   refers to. See `store/properties.rs` and `store/large.rs`.
//! - An upload over a file keeps its permissions, its properties and, for a server run by root, its owner;
//!   other names of that file (hard links) keep the old content. New files get what the umask leaves.
//!
//! # What is refused
//! - **Partial uploads** (`PUT` with `Content-Range`: 400; `PATCH`: 405). Two parts sent at once by a client
//!   that splits a file could each be "whole" only by undoing the other.
//! - `PROPFIND` of unbounded depth (403, `propfind-finite-depth`), several ranges in one `GET` (the whole file
//!   is sent), XML bodies above 64 KiB, of `PROPPATCH` 256 KiB (413), with document types or nested beyond 64 elements (400).
//! - Passwords in the clear, except on loopback.
//! - What a browser asks for a page of another site (403), and, in the clear and without passwords, names that
//!   others could point here (421). See `origin.rs`.
//! - A `Destination` on another server (502), and a request over HTTP/1.1 without `Host` or with two (400).
//!
//! # What is bounded
//! No client can hold the server by being slow: `pace` bounds what is slow, and `admission` closes idle and slow
//! connections where newcomers need their place.
//! - `DELETE` and `MOVE` of the root, and a `COPY` or `MOVE` onto a collection that holds its source (403).
//!
//! # What is missing
//! Locks are forgotten when the server ends.
//!
//! [RFC 4918]: https://www.rfc-editor.org/rfc/rfc4918

mod access_log;
mod activity;
mod admission;
mod auth;
mod body;
mod conditions;
mod connection;
mod descriptors;
mod destination;
pub mod early;
mod error;
pub mod http3;
mod locks;
mod multistatus;
mod origin;
mod other;
mod pace;
mod server;
mod short;
mod site;
mod store;
mod tls;
mod xml;

pub use access_log::AccessLog;
pub use error::Error;
pub use other::{Answers, Question, Ready};
pub use server::{Config, Server};
pub use tls::{Certificate, Tls};
