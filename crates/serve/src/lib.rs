//! The embedded WebDAV server.
//!
//! A race needs a server that behaves the same on every machine, and people need one that they can start in a folder and
//! trust with their files. This is both: WebDAV classes 1 and 2 ([RFC 4918]) over HTTP/1.1 and HTTP/2, in cleartext
//! (HTTP/2 with prior knowledge) or over TLS (HTTP/2 by ALPN, and HTTP/3 on the same port). The crates `dav-server`,
//! `hyper` and `h3` implement the protocols; this crate implements the file store, early data and the limits.
//!
//! ```no_run
//! # async fn example() -> Result<(), serve::Error> {
//! let server = serve::Server::bind(serve::Config {
//!     root: "/srv/files".into(),
//!     listen: vec![([127, 0, 0, 1], 8080).into()],
//!     ..serve::Config::default()
//! })?;
//! server.run(std::future::pending()).await
//! # }
//! ```
//!
//! # How a request is served
//! `server` accepts connections. `connection` (or `http3`) speaks TLS and HTTP, and bounds every wait. `handler`
//! authenticates the user (`auth`), refuses cross-site requests (`cross_site`) and requests that are never allowed, and
//! passes the rest to `dav-server`, which reaches files through `store` and locks through `locks`. The `access_log` line
//! is written when the response has been sent.
//!
//! A [`Responder`] takes the place of the folder: a replayed page, for example, is served through the same listeners.
//!
//! # Guarantees
//! - **Uploads are atomic**, and on disk before the server responds. See `store/staged_upload.rs`. Of two concurrent
//!   uploads to one file, the last to finish wins, whole. A precondition (`If-Match`, `If-None-Match`) is evaluated again
//!   when the upload takes effect: 412 if another upload came first.
//! - **Every upload changes the entity tag**, which is strong. See `store/metadata.rs`.
//! - **`MOVE` and `COPY` over a file** replace it atomically. Over a collection they cannot: file systems have no call
//!   for it.
//! - **No request leaves the directory**: symbolic links are neither followed nor listed. See `store/root.rs`.
//! - **Dead properties** are stored with the file, in an extended attribute; a large set in a hidden folder that the
//!   attribute refers to. See `store/properties.rs` and `store/property_files.rs`.
//! - **Modification times** that clients set are kept: `X-OC-Mtime` of an upload, and `PROPPATCH`. See `modified.rs`.
//! - **Digests** of files are sent on request. See `digest.rs`.
//! - An upload over a file keeps its permissions, its properties and, for a server run by root, its owner; other hard
//!   links to the file keep the old content. New files get the umask's permissions.
//!
//! # Refused requests
//! - **Partial uploads** (`PUT` with `Content-Range`: 400; `PATCH`: 405). They cannot be atomic: of two parts sent
//!   concurrently, each would undo the other.
//! - `PROPFIND` with `Depth: infinity` (403, `propfind-finite-depth`), several ranges in one `GET` (the whole file is
//!   sent), XML bodies above 64 KiB, of `PROPPATCH` 256 KiB (413), with document types or nested beyond 64 elements (400).
//! - Passwords in cleartext, except on loopback.
//! - A browser's requests on behalf of another site's page (403), and, in cleartext without passwords, host names that
//!   others could point at this machine (421). See `cross_site.rs`.
//! - A `Destination` on another server (502), and an HTTP/1.1 request without `Host` or with two (400).
//! - `DELETE` and `MOVE` of the root, and a `COPY` or `MOVE` onto a collection that contains its source (403).
//!
//! # Limits
//! Slow clients cannot occupy the server: `min_rate` enforces a minimum transfer rate, and `admission` closes idle and
//! slow connections when the connection limit is reached. `budget` bounds what clients make the server hold, and `status`
//! shows it.
//!
//! # Limitations
//! Locks are kept in memory, and lost when the server exits.
//!
//! [RFC 4918]: https://www.rfc-editor.org/rfc/rfc4918

mod access_log;
mod activity;
mod admission;
mod auth;
mod body;
mod budget;
mod connection;
mod cross_site;
mod destination;
mod digest;
pub mod early_data;
mod error;
mod fast_path;
mod fd_limit;
mod framing;
mod handler;
pub mod http3;
mod locks;
mod memory;
mod min_rate;
mod modified;
mod multistatus;
mod preconditions;
mod responder;
mod server;
mod service;
mod status;
mod store;
mod tls;
mod xml;

pub use access_log::AccessLog;
pub use destination::is_same_authority;
pub use error::Error;
pub use responder::{Delay, PreparedResponse, Responder, SimpleRequest};
pub use server::{Config, Quirks, Server};
pub use service::{AnswerBody, Answered, ConnectionData, RequestStream, Service, whole};
pub use status::{Metric, Status, Watched};
pub use tls::{Certificate, Tls};
