//! What passes between an origin's driver and its connections.
//!
//! A connection is a task. It takes [`Job`]s in the order it is given them, answers each through the job's own
//! `reply`, and reports to the driver when a place becomes free and when it ends. When it ends, every job that got
//! no answer goes back with what is known of its fate: only who owns all connections can decide where to try next.

use std::time::Duration;

use http::{Request, Response, Version};
use tokio::sync::oneshot;
use transport::TlsFacts;

use crate::{
    Body, Cause, Error, Incoming, Windows,
    identity::{Marks, Shown},
    pool::Window,
};

/// More interim answers (1xx) than this to one request are noise.
pub(crate) const MOST_INTERIM: u32 = 100;

/// What is said of such a server.
pub(crate) const NOISE: &str = "the server sends interim responses (1xx) again and again, and no final one";

/// So many bytes of an answer count as a movement (`Timeouts::stall`): a byte now and then would keep a request waiting
/// for ever.
pub(crate) const MOVEMENT: usize = 512;

/// A request on its way, and where its answer goes.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    /// With an absolute URL, and with every header but those of framing (`Host`, `Content-Length`,
    /// `Transfer-Encoding`, `Connection`), which the protocol adds.
    pub(crate) request: Request<Body>,
    pub(crate) reply: oneshot::Sender<Result<Response<Incoming>, Error>>,
    /// How often it was put on a wire before.
    pub(crate) sendings: u32,
    /// Whether it goes right behind the one before it, or not at all.
    pub(crate) follows: bool,
    /// What its answer must show while others are in flight on its connection; none where the caller answers for the
    /// order.
    pub(crate) marks: Option<Marks>,
}

/// The number of a request among its origin's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobId(pub(crate) u64);

/// The number of a connection among its origin's, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// How far a request without an answer had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// No byte of it left, or the server said that it did nothing with it (a GOAWAY, REFUSED_STREAM).
    Nothing,
    /// Some or all of it left: it may have taken effect.
    Something,
}

/// The wish to have back what stands behind a request on its connection, if that is still the oldest there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallBack {
    pub(crate) behind: JobId,
    /// With what has left and may be asked for twice, not only what has not left.
    pub(crate) sent: bool,
}

/// What a connection tells the driver of its origin.
#[derive(Debug)]
pub(crate) enum Report {
    /// The head of a final answer came, and was handed on. By then the job is the connection's and the reader's
    /// matter: it cannot be tried elsewhere any more.
    Head { connection: ConnectionId, job: JobId, told: Told },
    /// An exchange ended: its request was sent whole, its answer received whole, and its place is free.
    Done { connection: ConnectionId, job: JobId, sent: u64, received: u64, window: Option<Window> },
    /// An exchange ended early and its place is free, but its job has nothing to come any more: its reader went
    /// away, or has been told why there is no answer, or no whole one. The connection goes on.
    Abandoned { connection: ConnectionId, job: JobId },
    /// A request got no answer, and its place is free: HTTP/2 ended its stream alone, or it never had one. The
    /// connection goes on.
    Returned { connection: ConnectionId, job: Box<Job>, sent: Sent, cause: Cause },
    /// How many requests may be under way at once on this connection (HTTP/2's SETTINGS_MAX_CONCURRENT_STREAMS),
    /// and how much of their bodies.
    Streams { connection: ConnectionId, limit: usize, windows: Windows },
    /// An answer lacks some of its marks: those that the server's answers are still believed to show.
    Unmarked(Shown),
    /// The handshake is over that early data did not wait for: any request may be sent now.
    Confirmed { connection: ConnectionId, tls: Box<TlsFacts> },
    /// The connection takes no more jobs, and ends when those it has begun are done; those it had not begun have
    /// been returned.
    Draining { connection: ConnectionId, cause: Cause },
    /// The answer that the connection owes next, or is giving, keeps whatever stands behind it waiting: it is large, or
    /// nothing of it has come for a while. Told once of each.
    Stalled { connection: ConnectionId, job: JobId },
    /// The connection has ended and takes no more. Jobs with an answer begun are not among the unanswered: their
    /// readers have been told.
    Closed { connection: ConnectionId, cause: Cause, unanswered: Vec<(Job, Sent)> },
}

/// What an answer's head tells of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) version: Version,
    /// The length of the body.
    pub(crate) length: Option<u64>,
    pub(crate) keep: Option<Keep>,
    /// The server takes no more requests on it.
    pub(crate) last: bool,
}

/// How long the server keeps the connection (the header `Keep-Alive`, as in RFC 2068 §19.7.1.1; Apache sends it to
/// those who ask).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Keep {
    pub(crate) idle: Option<Duration>,
    /// Further requests that it takes.
    pub(crate) requests: Option<u32>,
}
