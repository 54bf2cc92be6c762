//! What a caller knows about a request, and what the engine tells about its journey.
//!
//! Both travel in the extensions of `http`'s types: [`Options`] in a request's, [`Journey`] in a response's.

use std::time::{Duration, SystemTime};

use http::Version;

/// How a request would like to travel. Without it, all fields are at their default.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// How much its exchange will move. Big ones are kept out of the pipelines of small ones.
    pub class: Class,
    /// The caller's consent to pipeline a method that changes something and may be repeated, such as `PUT`: the caller
    /// looks at the outcome itself, since on a pipeline one success looks like another. Safe methods need no consent;
    /// methods that may not be repeated are never pipelined.
    pub pipeline: bool,
    /// Never with other requests on its HTTP/1.1 connection, so that its answer can be no other's.
    pub alone: bool,
    /// The caller takes a refusal for a hint, and does not conclude anything from it alone: it is given as it comes,
    /// though on a pipeline it may be another request's. Otherwise a request that is refused there is sent again,
    /// alone.
    pub tentative: bool,
    /// What the answer should be if it is the right one.
    pub expected: Expected,
    /// Other bounds than the client's.
    pub timeouts: Option<Timeouts>,
    /// Not before a handshake is done, although its method is safe: whoever sees it twice may mind, or has.
    pub late: bool,
}

/// How much an exchange will move, in either direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Some hundred kilobytes at most, answered at once.
    #[default]
    Small,
    /// One of the ranges that a large file is asked for in: apart from what is small, and one behind another, so that a
    /// connection has the next one to send when it has sent the last.
    Part,
    /// Megabytes, or an answer that takes its time: a connection of its own while it lasts.
    Large,
}

/// What an answer to this request and no other must look like. Requests share a pipeline only if these tell their
/// answers apart; a success that differs there is taken for another request's answer: the connection is retired and the
/// request sent again, alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// The entity tag, as in the header `ETag`.
    pub etag: Option<String>,
    /// The length of the body of a 200, in bytes.
    pub length: Option<u64>,
    /// The time as in the header `Last-Modified`, in whole seconds.
    pub modified: Option<SystemTime>,
}

/// The bounds on an engine's waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the look-up of a name to the end of all handshakes.
    pub connect: Duration,
    /// From a request's last byte, and its being the first unanswered one, to its answer's first byte.
    pub first_byte: Duration,
    /// The same for a request that shares its connection with others: a box on the way that drops one of them is
    /// found out by this wait, and the rest is asked for elsewhere.
    pub pipelined: Duration,
    /// Between two movements while some are due, in either direction. Of an answer, half a kilobyte is one.
    pub stall: Duration,
    /// How long a connection is kept with nothing to do.
    pub idle: Duration,
}

impl Default for Timeouts {
    /// Patient enough for a phone in a tunnel: 20 s to connect, 60 s to answer (10 s on a pipeline), 30 s of stall, 60
    /// s idle.
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

/// How a response came about; in its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Journey {
    /// The number of its connection among the origin's, from 1.
    pub connection: u64,
    /// The protocol it came by.
    pub version: Version,
    /// How often the request was put on a wire. Above 1, an earlier sending may have taken effect: a `412` to a
    /// guarded `PUT` may then be the echo of its own success.
    pub sendings: u32,
    /// How many unanswered requests stood before it on its connection when it was sent.
    pub behind: u32,
}
