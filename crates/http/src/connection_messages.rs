//! Messages between an origin's dispatcher and its connections.
//!
//! A connection is a task. It takes [`Job`]s in order, replies to each through the job's own channel, and sends events
//! to the dispatcher when a place becomes free and when it ends. Then every job without a response goes back with what
//! is known of its fate: only the dispatcher, which owns all connections, can decide where to retry.

use std::time::Duration;

use http::{Request, Response, Version};
use tokio::sync::oneshot;
use transport::TlsFacts;

use crate::{
    Body, Cause, Error, Incoming, Windows,
    pool::Window,
    response_marks::{Marks, Shown},
};

/// The maximum number of interim responses (1xx) to one request.
pub(crate) const MAX_INTERIM: u32 = 100;

/// The error beyond that.
pub(crate) const ENDLESS_INTERIM: &str = "the server sends interim responses (1xx) again and again, and no final one";

/// The number of bytes of a response that count as progress (`Timeouts::stall`): a byte now and then would keep a
/// request waiting forever.
pub(crate) const PROGRESS: usize = 512;

/// A request, and the channel for its response.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    /// With an absolute URL, and with every header but those of framing (`Host`, `Content-Length`,
    /// `Transfer-Encoding`, `Connection`), which the protocol adds.
    pub(crate) request: Request<Body>,
    pub(crate) reply: oneshot::Sender<Result<Response<Incoming>, Error>>,
    /// How often it was sent before.
    pub(crate) sendings: u32,
    /// Whether it is a follow-up: sent right behind the previous job, or not at all.
    pub(crate) is_follow_up: bool,
    /// The marks that its response must show while others are in flight on its connection; none if the caller controls
    /// the order.
    pub(crate) marks: Option<Marks>,
}

/// The number of a request among its origin's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobId(pub(crate) u64);

/// The number of a connection among its origin's, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// How much of a request without a response was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Nothing, or the server says that it did not process it (GOAWAY, REFUSED_STREAM).
    Nothing,
    /// Some or all of it: it may have taken effect.
    Something,
}

/// Recalls the requests behind one on its connection, if that is still the oldest there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recall {
    pub(crate) behind: JobId,
    /// Whether to recall also requests that were sent and may be sent twice.
    pub(crate) sent: bool,
}

/// An event on a connection.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// The header of a final response was delivered. From now on the job cannot be retried elsewhere.
    Head { connection: ConnectionId, job: JobId, head: ResponseHead },
    /// An exchange is complete, and its place is free.
    Done { connection: ConnectionId, job: JobId, sent: u64, received: u64, window: Option<Window> },
    /// An exchange ended early, and its place is free. The job is over: its reader is gone, or has got an error. The
    /// connection continues.
    Abandoned { connection: ConnectionId, job: JobId },
    /// A request got no response, and its place is free: HTTP/2 ended only its stream, or it never had one. The
    /// connection continues.
    Returned { connection: ConnectionId, job: Box<Job>, sent: Sent, cause: Cause },
    /// The maximum number of requests in flight on this connection (SETTINGS_MAX_CONCURRENT_STREAMS), and the server's
    /// windows.
    Streams { connection: ConnectionId, limit: usize, windows: Windows },
    /// A response lacks some of its marks; these are still believed to be shown.
    Unmarked(Shown),
    /// The handshake behind early data is done: any request may be sent now.
    Confirmed { connection: ConnectionId, tls: Box<TlsFacts> },
    /// The connection takes no more jobs, and ends when those in flight are done. The others have been returned.
    Draining { connection: ConnectionId, cause: Cause },
    /// The current response delays those behind it: it is large, or nothing of it has come for a while. Sent once per
    /// response.
    Stalled { connection: ConnectionId, job: JobId },
    /// The reader of the current response has taken nothing for a while, or takes it again.
    ReaderLags { connection: ConnectionId, is_lagging: bool },
    /// The connection has ended. The readers of incomplete responses have got an error; `unanswered` has only jobs
    /// without a response.
    Closed { connection: ConnectionId, cause: Cause, unanswered: Vec<(Job, Sent)> },
}

/// What a response header says about its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) version: Version,
    /// The length of the body.
    pub(crate) length: Option<u64>,
    pub(crate) keep: Option<KeepAlive>,
    /// The server accepts no more requests on it.
    pub(crate) last: bool,
}

/// The header `Keep-Alive` (RFC 2068 §19.7.1.1); Apache sends it on request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeepAlive {
    pub(crate) idle: Option<Duration>,
    /// The number of further requests that the server accepts.
    pub(crate) requests: Option<u32>,
}
