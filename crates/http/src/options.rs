//! What a caller may set for a request, and what the engine reports about its response.
//!
//! Both are in the extensions of `http`'s types: [`Options`] in a request, [`ResponseInfo`] in a response.

use std::time::{Duration, SystemTime};

use http::Version;

/// Options of a request, in its extensions. A request without them uses the defaults.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The expected size of the exchange. Large ones are kept out of the pipelines of small ones.
    pub class: Class,
    /// Allows pipelining of an idempotent method that is not safe, such as `PUT`. The caller must verify the outcome
    /// itself, because one success looks like another on a pipeline. Safe methods need no permission; methods that are
    /// not idempotent are never pipelined.
    pub pipeline: bool,
    /// Never pipeline this request, so that the response cannot be another's.
    pub no_pipelining: bool,
    /// Deliver a refusal even if it may be another request's, because the caller treats it as a hint only. Otherwise a
    /// request that is refused on a pipeline is sent again, alone.
    pub accept_unverified_refusal: bool,
    /// What the caller knows about the right response.
    pub expected: Expected,
    /// Timeouts that replace the client's.
    pub timeouts: Option<Timeouts>,
    /// Send it only after the handshake, although the method is safe: early data can be replayed.
    pub no_early_data: bool,
    /// Do not send it again when the server was silent until the timeout, although the method is idempotent: the server
    /// may still carry out the first copy, however late, and undo what was stored since. A large unsafe request is never
    /// sent again then.
    pub no_repeat_after_silence: bool,
}

/// The expected size of an exchange, in either direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A few hundred kilobytes at most, with an immediate response.
    #[default]
    Small,
    /// One of the ranges of a large file. Ranges do not mix with small requests, but queue behind one another, so that
    /// the connection does not run dry between two.
    Part,
    /// Megabytes, or a slow response: it gets a connection of its own.
    Large,
}

/// What identifies the response to a request. Requests share a pipeline only if their responses differ in one of these.
/// A success that differs from what is expected counts as another request's response: the connection is closed and the
/// request sent again, alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// The header `ETag`.
    pub etag: Option<String>,
    /// The length of the body of a 200, in bytes.
    pub length: Option<u64>,
    /// The header `Last-Modified`, in whole seconds.
    pub modified: Option<SystemTime>,
}

/// Timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the lookup of the name to the end of all handshakes.
    pub connect: Duration,
    /// From the last byte of the oldest request in flight to the first byte of its response.
    pub first_byte: Duration,
    /// The same for a request on a pipeline: it detects a middlebox that drops one of the requests, and the others move
    /// to another connection.
    pub pipelined: Duration,
    /// Without progress while data is due, in either direction. 512 bytes of a response count as progress.
    pub stall: Duration,
    /// How long an idle connection is kept.
    pub idle: Duration,
}

impl Default for Timeouts {
    /// Long enough for a train in a tunnel: 20 s to connect, 60 s for a response (10 s on a pipeline), 30 s without
    /// progress, 60 s idle.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connect: seconds(20),
            first_byte: seconds(60),
            pipelined: seconds(10),
            stall: seconds(30),
            idle: seconds(60),
        }
    }
}

/// How a response was obtained; in its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseInfo {
    /// The number of its connection among the origin's, from 1.
    pub connection: u64,
    /// The HTTP version.
    pub version: Version,
    /// The number of times the request was sent. Above 1, an earlier sending may have taken effect: a `412` to a
    /// conditional `PUT` may then be caused by its own success.
    pub sendings: u32,
    /// The number of requests ahead of it on its connection when it was sent.
    pub behind: u32,
}
