//! A way in which a server deviates from a good one, on every request or on one of many.
//!
//! A behaviour is one small file in `behaviours/`, and one line in its list. It decides what happens to a request, in
//! which order responses leave, and what names and validators are like; [`crate::verbs`] does the rest. A server may
//! have several. Random ones draw from a seed. Behaviours apply to requests only once the server is armed, so that a
//! test can upload its files first.

use std::time::{Duration, SystemTime};

use crate::message::Request;

/// In which order the requests of one connection are processed and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// One after the other.
    Sequential,
    /// Processed concurrently, answered in the order of the requests.
    ConcurrentInOrder,
    /// Processed concurrently, answered as they are completed. HTTP/1.1 forbids this.
    AsCompleted,
}

/// What happens to a request.
#[derive(Debug, Clone)]
pub enum Action {
    /// It is neither processed nor answered.
    DropRequest,
    /// It is processed and never answered.
    OmitResponse,
    /// It is processed, and answered after the next one.
    SwapResponses,
    /// It is processed once, and answered twice.
    RepeatResponse,
    /// It is processed; then the connection is reset.
    ResetAfterProcessing,
    /// It is not processed, and answered with this status and these header lines.
    Respond(u16, String),
}

/// A request as a behaviour sees it.
pub struct IncomingRequest<'a> {
    pub(crate) request: &'a Request,
    /// Whether another request is in flight on its connection.
    pub pipelined: bool,
}

impl IncomingRequest<'_> {
    /// The method.
    pub fn method(&self) -> &str {
        &self.request.method
    }

    /// A header's value, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.request.header(name)
    }
}

/// Where validators are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundIn {
    /// In the response to GET, HEAD or PUT.
    Response,
    /// In a listing.
    Listing,
}

/// A file's validators (RFC 9110 §8.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validators {
    /// `ETag`, with its quotes.
    pub etag: Option<String>,
    /// `Last-Modified`, by the server's clock.
    pub modified: Option<SystemTime>,
}

/// One deviation from a good server.
pub trait Behaviour: Send {
    /// In which order requests are processed and answered.
    fn order(&self) -> Order {
        Order::Sequential
    }

    /// How long the next request takes, if requests are processed concurrently.
    fn processing_time(&mut self) -> Duration {
        Duration::ZERO
    }

    /// What happens to a request; none: it is processed and answered.
    fn action(&mut self, _asked: &IncomingRequest<'_>) -> Option<Action> {
        None
    }

    /// The `Content-Length` of a response, if not its body's.
    fn content_length(&self, _asked: &IncomingRequest<'_>, _length: usize) -> Option<usize> {
        None
    }

    /// The body of a listing, if it is altered.
    fn alter_listing(&mut self, _whole: &str) -> Option<String> {
        None
    }

    /// How far the server's clock is ahead, in seconds.
    fn clock_offset(&self) -> i64 {
        0
    }

    /// The name under which a file is stored.
    fn stored_name(&self, name: String) -> String {
        name
    }

    /// A key that is equal for names that the server does not distinguish.
    fn name_key(&self, name: String) -> String {
        name
    }

    /// Whether listings show this name.
    fn is_listed(&self, _name: &str) -> bool {
        true
    }

    /// Alters the validators of a file of this length.
    fn alter_validators(&self, _shown: FoundIn, _length: usize, _validators: &mut Validators) {}
}
